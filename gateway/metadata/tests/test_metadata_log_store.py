"""The metadata of a single node: operations, errors by Kafka's codes, and what a restart or a kill leaves."""

import logging
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from random import Random
from unittest.mock import Mock

import pytest

from headgate.gateway.app.metadata_sources import EmbeddedSource, Foundation
from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.metadata_log_store import MetadataLogStore
from headgate.gateway.metadata.new_topics import METADATA_TOPIC
from headgate.gateway.metadata.planning.producer_ids import BLOCK_SIZE
from headgate.gateway.metadata.store import Prepare, prepare_nothing
from headgate.gateway.runtime.tasks import Ask, Task
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import FeatureLevelRecord
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.files import File, Files
from headgate.storage.tests.builders import repair


class Opened:
    """Metadata on a directory."""

    def __init__(self, directory: Path, settings: str = "", seed: int = 0) -> None:
        self.config = BrokerConfig.load(settings)
        self.store = LogManager.take(
            [str(directory)],
            files=Files(),
            node_id=self.config.node_id,
            config=self.config.log_config({}),
            random=Random(seed),
        ).claim()
        self.prepare: Prepare = prepare_nothing
        self.touched: list[object] = []
        time = ManualTime()
        source = EmbeddedSource(Foundation(self.config, time.clock, Random(seed), time.scheduler, self.store))
        self.metadata = source.build(self._prepare, self.touched.append)

    def _prepare(self, old: Image, new: Image, names: Collection[str]) -> Task[None]:
        yield from self.prepare(old, new, names)

    def take_producer_ids(self) -> int:
        """The first id of another block."""
        return self.metadata.take_producer_ids()[0].start


def waiting(ask: Ask) -> Task[None]:
    yield ask


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    opened = Opened(tmp_path / "data")
    yield opened
    opened.store.close()


@pytest.fixture
def metadata(opened: Opened) -> MetadataLogStore:
    return opened.metadata


def code_of(call: object) -> ErrorCode:
    assert callable(call)
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def test_the_image_of_a_new_node(opened: Opened) -> None:
    image = opened.metadata.image
    assert (image.cluster_id, image.controller_id) == (opened.store.cluster_id, 0)
    assert list(image.brokers) == [0]
    assert not image.topics


def test_a_created_topic_is_in_the_image(metadata: MetadataLogStore) -> None:
    topic = metadata.create_topic("a", 3, 1, {"retention.ms": "5"}).image.topics["a"]
    assert metadata.image.topics == {"a": topic}
    assert metadata.image.topic_by_id(topic.topic_id) is topic
    assert [state.leader for state in topic.partitions] == [0, 0, 0]
    assert topic.configs == {"retention.ms": "5"}


def test_a_restart_finds_what_was_there(tmp_path: Path) -> None:
    before = Opened(tmp_path)
    before.metadata.create_topic("a", 2, configs={"retention.ms": "5"})
    before.metadata.create_topic("b")
    before.metadata.delete_topic("b")
    before.metadata.create_partitions("a", 4)
    before.metadata.submit([FeatureLevelRecord(name="group.version", feature_level=1)])
    before.take_producer_ids()
    before.store.close()
    after = Opened(tmp_path, seed=1)
    assert after.metadata.image == before.metadata.image
    assert code_of(lambda: after.metadata.create_topic("a")) is ErrorCode.TOPIC_ALREADY_EXISTS
    after.store.close()


def test_what_a_kill_leaves_has_every_change(tmp_path: Path) -> None:
    """A copy of the directory, taken while the store is open, is what SIGKILL leaves."""
    running = Opened(tmp_path / "running")
    running.metadata.create_topic("a", 2)
    running.take_producer_ids()
    shutil.copytree(tmp_path / "running", tmp_path / "killed", ignore=shutil.ignore_patterns(".lock"))
    killed = Opened(tmp_path / "killed")
    assert killed.metadata.image == running.metadata.image
    running.store.close()
    killed.store.close()


def test_no_producer_id_is_handed_out_twice(tmp_path: Path) -> None:
    """Blocks follow each other over stops and kills; the directory is copied behind the running store's back."""
    seen: list[int] = []
    directory = tmp_path / "0"
    for number in range(5):
        opened = Opened(directory, seed=number)
        seen += [opened.take_producer_ids() for _ in range(3)]
        if number % 2:
            directory = shutil.copytree(directory, tmp_path / str(number), ignore=shutil.ignore_patterns(".lock"))
        opened.store.close()
    assert seen == [number * BLOCK_SIZE for number in range(15)]


def test_defaults_are_the_brokers(tmp_path: Path) -> None:
    opened = Opened(tmp_path, "num.partitions=3\ndefault.replication.factor=3")
    topic = opened.metadata.create_topic("a").image.topics["a"]
    assert [state.replicas for state in topic.partitions] == [(0,)] * 3, "a node that stands alone has one replica"
    opened.store.close()


def test_what_cannot_be_created(metadata: MetadataLogStore) -> None:
    metadata.create_topic("a.b")
    end = metadata.image
    assert code_of(lambda: metadata.create_topic("a.b")) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert code_of(lambda: metadata.create_topic("a_b")) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert code_of(lambda: metadata.create_topic("a b")) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert code_of(lambda: metadata.create_topic("c", 0)) is ErrorCode.INVALID_PARTITIONS
    assert code_of(lambda: metadata.create_topic("c", 1, 2)) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert code_of(lambda: metadata.create_topic("c", configs={"x": "1"})) is ErrorCode.INVALID_CONFIG
    assert code_of(lambda: metadata.create_topic("c", assignments={0: [7]})) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code_of(lambda: metadata.create_topic("c", 1, assignments={0: [0]})) is ErrorCode.INVALID_REQUEST
    assert metadata.image is end


def test_replicas_may_be_assigned(metadata: MetadataLogStore) -> None:
    assert len(metadata.create_topic("a", assignments={1: [0], 0: [0]}).image.topics["a"].partitions) == 2


def test_validation_alone_changes_nothing(metadata: MetadataLogStore) -> None:
    assert len(metadata.create_topic("a", 5, validate_only=True).image.topics["a"].partitions) == 5
    assert not metadata.image.topics
    metadata.create_topic("a", 1)
    assert len(metadata.create_partitions("a", 2, validate_only=True).image.topics["a"].partitions) == 2
    assert len(metadata.image.topics["a"].partitions) == 1


def test_a_deleted_name_can_be_used_again(metadata: MetadataLogStore) -> None:
    first = metadata.create_topic("a.b").image.topics["a.b"]
    metadata.delete_topic("a.b")
    assert not metadata.image.topics
    assert metadata.create_topic("a_b").image.topics["a_b"].topic_id != first.topic_id
    assert code_of(lambda: metadata.delete_topic("a.b")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deletion_may_be_off(tmp_path: Path) -> None:
    opened = Opened(tmp_path, "delete.topic.enable=false")
    opened.metadata.create_topic("a")
    assert code_of(lambda: opened.metadata.delete_topic("a")) is ErrorCode.TOPIC_DELETION_DISABLED
    opened.store.close()


def test_partitions_are_added(metadata: MetadataLogStore) -> None:
    metadata.create_topic("a", 2)
    assert len(metadata.create_partitions("a", 5).image.topics["a"].partitions) == 5
    assert len(metadata.create_partitions("a", 7, {5: [0], 6: [0]}).image.topics["a"].partitions) == 7
    assert code_of(lambda: metadata.create_partitions("a", 7)) is ErrorCode.INVALID_PARTITIONS
    assert code_of(lambda: metadata.create_partitions("a", 3)) is ErrorCode.INVALID_PARTITIONS
    assert code_of(lambda: metadata.create_partitions("a", 9, {7: [0]})) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code_of(lambda: metadata.create_partitions("a", 8, {7: [3]})) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code_of(lambda: metadata.create_partitions("b", 8)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_configs_are_changed(metadata: MetadataLogStore) -> None:
    metadata.create_topic("a", configs={"retention.ms": "5", "min.compaction.lag.ms": "7"})
    change = metadata.change_topic_configs("a", {"retention.ms": None, "segment.ms": "9"})
    topic = change.image.topics["a"]
    assert topic.configs == {"min.compaction.lag.ms": "7", "segment.ms": "9"}
    assert code_of(lambda: metadata.change_topic_configs("a", {"retention.ms": "x"})) is ErrorCode.INVALID_CONFIG
    both = {"max.compaction.lag.ms": "6"}
    assert code_of(lambda: metadata.change_topic_configs("a", both)) is ErrorCode.INVALID_CONFIG, (
        "it contradicts the other"
    )
    assert code_of(lambda: metadata.change_topic_configs("b", {})) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_listeners_hear_of_every_change_once(metadata: MetadataLogStore) -> None:
    heard: list[tuple[Image, Image, set[str]]] = []
    metadata.on_change(lambda old, new, names: heard.append((old, new, set(names))))
    before = metadata.image
    metadata.create_topic("a", 10)
    metadata.create_topic("b", validate_only=True)
    assert heard == [(before, metadata.image, {"a"})]
    assert heard[0][1] is metadata.image


def test_a_change_is_seen_when_it_was_prepared_and_all_before_it(opened: Opened) -> None:
    """That takes as long as files take; another change is written meanwhile."""
    metadata = opened.metadata
    prepared: list[tuple[set[str], Callable[[None], None]]] = []
    opened.prepare = lambda old, new, _names: waiting(
        lambda resume: prepared.append((set(new.topics) - set(old.topics), resume))
    )
    first = metadata.create_topic("a")
    second = metadata.create_topic("b")
    assert [names for names, _ in prepared] == [{"a"}], "one after another"
    assert code_of(lambda: metadata.create_topic("a")) is ErrorCode.TOPIC_ALREADY_EXISTS
    prepared[0][1](None)
    assert (first.is_settled, second.is_settled, set(metadata.image.topics)) == (True, False, {"a"})
    assert [names for names, _ in prepared] == [{"a"}, {"b"}]
    prepared[1][1](None)
    assert (second.is_settled, metadata.planned is metadata.image) == (True, True)
    assert opened.touched == [metadata.waiters] * 2
    assert set(metadata.image.topics) == {"a", "b"}


def test_the_log_tells_of_changes_and_of_no_secrets(
    metadata: MetadataLogStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.metadata")
    metadata.create_topic("a", 1, configs={"retention.ms": "1000"})
    metadata.change_topic_configs("a", {"cleanup.policy": "compact", "retention.ms": None})
    metadata.change_broker_configs(None, {"log.retention.ms": "5000"})
    metadata.delete_topic("a")
    assert [record.getMessage() for record in caplog.records] == [
        "created topic a",
        "retention.ms of topic a was set to '1000'",
        "cleanup.policy of topic a was set to 'compact'",
        "retention.ms of topic a was removed",
        "log.retention.ms of broker (all) was set",
        "deleted topic a",
    ]


def test_a_change_that_cannot_be_prepared_keeps_no_other_waiting(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    metadata = opened.metadata
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opened, "prepare", Mock(side_effect=ValueError("a fault of ours")))
        metadata.create_topic("a", 1)
    metadata.create_topic("b", 1)
    assert list(metadata.image.topics) == ["a", "b"]
    assert metadata.planned is metadata.image
    assert "a fault of ours" in caplog.text


def test_a_listener_that_fails_keeps_no_later_change_waiting(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    metadata = opened.metadata
    prepared: list[Callable[[None], None]] = []
    opened.prepare = lambda *_: waiting(prepared.append)
    metadata.on_change(Mock(side_effect=[ValueError("a fault of ours"), None]))
    metadata.create_topic("a", 1)
    metadata.create_topic("b", 1)
    prepared[0](None)
    assert len(prepared) == 2, "the next one is begun"
    prepared[1](None)
    assert list(metadata.image.topics) == ["a", "b"]
    assert metadata.planned is metadata.image
    assert "a fault of ours" in caplog.text


def test_a_failed_change_leaves_a_prepared_one_before_it_alone(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = opened.metadata
    prepared: list[Callable[[None], None]] = []
    opened.prepare = lambda *_: waiting(prepared.append)
    first = metadata.create_topic("a.b")
    with monkeypatch.context() as full:
        full.setattr(File, "write_at", _refuse_to_write)
        assert code_of(lambda: metadata.create_topic("c")) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not first.is_settled
    assert set(metadata.planned.topics) == {"a.b"}
    assert code_of(lambda: metadata.create_topic("a_b")) is ErrorCode.INVALID_TOPIC_EXCEPTION, "it collides"
    prepared[0](None)
    assert set(metadata.image.topics) == {"a.b"}
    metadata.create_topic("c")


def _refuse_to_write(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_topic_ids_are_random_and_of_version_4(metadata: MetadataLogStore) -> None:
    names = [f"t{number}" for number in range(50)]
    ids = [metadata.create_topic(name).image.topics[name].topic_id for name in names]
    assert len(set(ids)) == 50
    assert all(topic_id[6] >> 4 == 4 and topic_id[8] >> 6 == 2 for topic_id in ids)


def test_a_full_disk_changes_nothing(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    def append(*arguments: object, **named: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left on device")

    before = opened.metadata.image
    with monkeypatch.context() as patch:
        patch.setattr("headgate.storage.log.appending.stage", append)
        assert code_of(lambda: opened.metadata.create_topic("a")) is ErrorCode.KAFKA_STORAGE_ERROR
    assert opened.metadata.image is before
    opened.metadata.create_topic("a")


@pytest.mark.parametrize("is_mended", [False, True])
def test_a_deletion_that_was_refused_is_not_done_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_mended: bool
) -> None:
    before = Opened(tmp_path)
    before.metadata.create_topic("a")
    with monkeypatch.context() as patch:
        patch.setattr(File, "sync", lambda _: (_ for _ in ()).throw(OSError(5, "I/O error")))
        assert code_of(lambda: before.metadata.delete_topic("a")) is ErrorCode.KAFKA_STORAGE_ERROR
        assert code_of(lambda: before.metadata.create_topic("b")) is ErrorCode.KAFKA_STORAGE_ERROR
    log = before.store.logs[METADATA_TOPIC, 0]
    if is_mended:
        assert repair(log)
    assert list(before.metadata.image.topics) == ["a"]
    before.store.close()
    after = Opened(tmp_path)
    assert list(after.metadata.image.topics) == ["a"]
    after.store.close()
