"""`headgate metadata` over the model: a stopped broker's directory is carried there and back, or stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.records import scram_records
from headgate.gateway.runtime.clock import SystemClock
from headgate.gateway.tests.builders import HandlerBroker
from headgate.gateway.zookeeper import metadata_command
from headgate.gateway.zookeeper.membership.connection import ZooKeeperConnection
from headgate.gateway.zookeeper.metadata.metadata_transfer import TransferRefused
from headgate.gateway.zookeeper.metadata_command import TransferParts, to_embedded, to_zookeeper
from headgate.gateway.zookeeper.requests import multi
from headgate.gateway.zookeeper.session import Create, Operation
from headgate.gateway.zookeeper.tests.model import Fault, ZooKeeperModel
from headgate.gateway.zookeeper.tests.opening import connector
from headgate.protocol.security.quotas import QuotaEntity
from headgate.protocol.security.sasl.scram_keys import ScramCredential
from headgate.storage.directory import kafka_directory
from headgate.storage.directory.kafka_directory import CARRIED_METADATA, OWN_METADATA
from headgate.storage.errors import DirectoryLocked, StorageError
from headgate.storage.files import Files


class Carrier:
    """A data directory, a ZooKeeper, and the command over both."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.keeper = ZooKeeperModel()
        self.config = BrokerConfig.load(
            "", {"log.dirs": str(directory), "zookeeper.connect": "zk:2181/kafka", "listeners": "PLAINTEXT://h:9092"}
        )
        self.keeper.transact(0, [Create("/kafka")])

    @contextmanager
    def connection(self) -> Iterator[ZooKeeperConnection]:
        connection = connector(self.keeper)(self.config, SystemClock())
        assert connection is not None
        try:
            yield connection
        finally:
            connection.close()

    def run(self, command: Callable[..., list[str]], *, execute: bool = True) -> list[str]:
        with self.connection() as connection:
            return command(
                self.config, connection, TransferParts(Files(), Random(0), 1_700_000_000_000), execute=execute
            )

    def names(self) -> set[str]:
        return {path.name for path in self.directory.iterdir() if path.name.startswith("__headgate")}

    def written(self) -> list[str]:
        return [path for path in self.keeper.tree.nodes if path.startswith("/kafka/")]

    def put(self, *operations: Operation) -> None:
        self.keeper.transact(7, operations)


@pytest.fixture
def carrier(tmp_path: Path) -> Carrier:
    """A stopped broker with two topics and configs."""
    node = HandlerBroker(tmp_path)
    node.services.metadata.create_topic("a", 3, configs={"retention.ms": "1000"})
    node.services.metadata.create_topic("b", 1)
    node.close()
    return Carrier(tmp_path)


def image_of(directory: Path) -> Image:
    """The metadata as a broker reads them."""
    node = HandlerBroker(directory)
    found = node.services.metadata.image
    node.close()
    return found


def test_metadata_go_there_and_come_back(carrier: Carrier) -> None:
    before = image_of(carrier.directory)
    lines = carrier.run(to_zookeeper)
    assert lines[0].startswith("a: 3 partitions, id ")
    assert "are in ZooKeeper at zk:2181/kafka" in lines[-1]
    assert carrier.names() == {CARRIED_METADATA}
    assert "/kafka/brokers/topics/a/partitions/2/state" in carrier.written()
    carrier.run(to_embedded)
    assert carrier.names() == {OWN_METADATA}
    after = image_of(carrier.directory)
    assert {name: (topic.topic_id, topic.configs) for name, topic in after.topics.items()} == {
        name: (topic.topic_id, topic.configs) for name, topic in before.topics.items()
    }
    epochs = [(old.partitions[0].leader_epoch, after.topics[name].partitions[0].leader_epoch)
              for name, old in before.topics.items()]  # fmt: skip
    assert all(new > old for old, new in epochs)


def test_quotas_and_credentials_of_a_user_go_there_and_come_back(carrier: Carrier) -> None:
    pair = QuotaEntity.of({"user": "ann", "client-id": None})
    ann, credential = QuotaEntity.of({"user": "ann"}), ScramCredential(b"salt", b"s" * 32, b"k" * 32, 4096)
    node = HandlerBroker(carrier.directory)
    node.services.metadata.change_quotas(pair, {"producer_byte_rate": 5.0})
    node.services.metadata.change_quotas(ann, {"consumer_byte_rate": 6.0})
    node.services.metadata.submit(scram_records("ann", {1: credential}))
    node.close()
    lines = carrier.run(to_zookeeper)
    assert "quotas of client-id (default) of user 'ann': producer_byte_rate=5" in lines
    assert "/kafka/config/users/ann/clients/<default>" in carrier.written()
    carrier.put(Create("/kafka/config/users/bob", b'{"version":1,"config":{"SCRAM-SHA-256":"salt=x"}}'))
    assert "the configs of users/bob stay in ZooKeeper alone" in carrier.run(to_embedded)
    found = image_of(carrier.directory)
    assert found.quotas == {pair: {"producer_byte_rate": 5.0}, ann: {"consumer_byte_rate": 6.0}}
    assert found.scram_credentials == {"ann": {1: credential}}


def test_a_dry_run_changes_nothing(carrier: Carrier) -> None:
    assert carrier.run(to_zookeeper, execute=False)[-1] == "would be written to ZooKeeper at zk:2181/kafka"
    assert (carrier.names(), carrier.written()) == ({OWN_METADATA}, [])
    carrier.run(to_zookeeper)
    assert "would be written to" in carrier.run(to_embedded, execute=False)[-1]
    assert carrier.names() == {CARRIED_METADATA}


def test_a_missing_chroot_is_created_by_the_transfer_alone(carrier: Carrier) -> None:
    carrier.keeper = ZooKeeperModel()
    carrier.run(to_zookeeper, execute=False)
    assert "/kafka" not in carrier.keeper.tree.nodes


def test_a_carried_directory_is_not_served_from_its_old_log(carrier: Carrier) -> None:
    carrier.run(to_zookeeper)
    with pytest.raises(StorageError, match="in ZooKeeper since `headgate metadata to-zookeeper`"):
        kafka_directory.refuse(Files(), [str(carrier.directory)])


def test_a_running_broker_is_named(carrier: Carrier) -> None:
    node = HandlerBroker(carrier.directory)
    with pytest.raises(DirectoryLocked):
        carrier.run(to_zookeeper)
    node.close()


def test_what_is_there_already_is_told(carrier: Carrier) -> None:
    with pytest.raises(TransferRefused, match="has its metadata in __headgate_metadata-0 already"):
        carrier.run(to_embedded)
    carrier.run(to_zookeeper)
    with pytest.raises(TransferRefused, match="has no __headgate_metadata-0: nothing is to be carried"):
        carrier.run(to_zookeeper)


def test_a_wrong_directory_is_told(carrier: Carrier, tmp_path: Path) -> None:
    overrides = {"zookeeper.connect": "zk", "listeners": "PLAINTEXT://h:9092"}
    carrier.config = BrokerConfig.load("", {"log.dirs": str(tmp_path / "none"), **overrides})
    with pytest.raises(TransferRefused, match="is no data directory"):
        carrier.run(to_zookeeper)
    carrier.config = BrokerConfig.load("", {"log.dirs": str(tmp_path), "node.id": "5", **overrides})
    with pytest.raises(TransferRefused, match=r"belongs to node\.id=0, not 5"):
        carrier.run(to_zookeeper)


def test_an_empty_zookeeper_has_nothing_to_carry(carrier: Carrier) -> None:
    carrier.run(to_zookeeper)
    carrier.keeper = ZooKeeperModel()
    with pytest.raises(TransferRefused, match="has no cluster; correct"):
        carrier.run(to_embedded)


def test_groups_in_both_stores_do_not_go_to_an_own_log(carrier: Carrier) -> None:
    carrier.run(to_zookeeper)
    carrier.put(Create("/kafka/headgate/offsets"), Create("/kafka/headgate/offsets/g"))
    with pytest.raises(TransferRefused, match="group g has its offsets in both stores"):
        carrier.run(to_embedded)
    assert carrier.names() == {CARRIED_METADATA}


def test_an_old_mark_of_both_stores_is_deleted_on_the_way_to_zookeeper(carrier: Carrier) -> None:
    """ZooKeeper's offsets are older than the coordinator's, which went on without ZooKeeper."""
    for path in ("/kafka/headgate", "/kafka/headgate/offsets", "/kafka/headgate/offsets/g"):
        carrier.put(Create(path))
    carrier.run(to_zookeeper)
    assert "/kafka/headgate/offsets/g" not in carrier.written()


def test_somebody_else_who_writes_is_noticed(carrier: Carrier, monkeypatch: pytest.MonkeyPatch) -> None:

    def beside(session: object, operations: object) -> object:
        if "/kafka/brokers/topics/a" not in carrier.keeper.tree.nodes and "/kafka/brokers/topics" in carrier.written():
            carrier.put(Create("/kafka/brokers/topics/a", b"{}"))
        return multi(session, operations)  # type: ignore[arg-type]

    monkeypatch.setattr(metadata_command, "multi", beside)
    with pytest.raises(TransferRefused):
        carrier.run(to_zookeeper)
    assert carrier.names() == {OWN_METADATA}


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
@pytest.mark.parametrize("place", [3, 20, 40, 60])
def test_a_lost_connection_is_no_end(carrier: Carrier, fault: Fault, place: int) -> None:
    with carrier.connection() as connection:
        (session,) = [one for one in carrier.keeper.sessions if one.is_connected]
        session.faults.extend([None] * place + [fault])
        reconnect = carrier.keeper.cut

        def cut(lost: object) -> None:
            reconnect(lost)  # type: ignore[arg-type]
            carrier.keeper.connect(lost)  # type: ignore[arg-type]

        carrier.keeper.cut = cut  # type: ignore[method-assign, assignment]
        to_zookeeper(carrier.config, connection, TransferParts(Files(), Random(0), 1), execute=True)
        carrier.keeper.cut = reconnect  # type: ignore[method-assign]
    assert carrier.names() == {CARRIED_METADATA}
