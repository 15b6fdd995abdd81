"""The partitions of a broker follow the image."""

import gc
import shutil
from functools import partial
from pathlib import Path

import pytest

from headgate.gateway.app.broker import Broker
from headgate.gateway.app.composition import Seams
from headgate.gateway.maintenance import log_loading
from headgate.gateway.metadata.image import Image
from headgate.gateway.replication.append_queue import DiskMonitor
from headgate.gateway.replication.events import ReplicationEvents
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.tasks import run
from headgate.gateway.tests.builders import HandlerBroker, led_elsewhere, records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.disk.layout import replace_topic_id
from headgate.storage.errors import StorageError
from headgate.storage.files import Files
from headgate.storage.log.log import Log

pytestmark = pytest.mark.every_metadata_store

NOW_MS = 1_700_000_000_000


def code_of(partitions: ReplicaManager, topic: str, index: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        partitions.get(topic, index)
    return error.value.code


def test_topics_come_grow_and_go(node: HandlerBroker) -> None:
    metadata, partitions = node.services.metadata, node.services.partitions
    topic = metadata.create_topic("t", 2).image.topics["t"]
    assert partitions.topic_name(topic.topic_id) == "t"
    kept = partitions.get("t", 1)
    metadata.create_partitions("t", 3)
    assert partitions.get("t", 1) is kept
    assert len(partitions) == 3
    metadata.delete_topic("t")
    assert code_of(partitions, "t") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError) as error:
        partitions.topic_name(topic.topic_id)
    assert error.value.code == ErrorCode.UNKNOWN_TOPIC_ID
    directory = Path(node.config.log_directories[0])
    assert all(path.name.endswith("-delete") for path in directory.glob("t-*"))
    node.log_manager.remove_deleted()
    assert not list(directory.glob("t-*"))


def test_a_deleted_partition_needs_no_garbage_collector(node: HandlerBroker) -> None:
    metadata = node.services.metadata
    gc.freeze()  # What other tests left is not walked
    gc.disable()
    try:
        metadata.create_topic("deleted-without-a-collector", 3)
        assert logs_of("deleted-without-a-collector") == 3
        metadata.delete_topic("deleted-without-a-collector")
        assert logs_of("deleted-without-a-collector") == 0
    finally:
        gc.enable()


def logs_of(topic: str) -> int:
    """Logs in the memory, whether anybody can reach them or not."""
    return sum(isinstance(one, Log) and one.topic == topic for one in gc.get_objects())


def test_what_another_broker_leads_is_not_served_and_its_log_stays(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    partitions = node.services.partitions
    partitions.get("t", 0).append(records(b"a"), 1, NOW_MS)
    led_elsewhere(node, 5, "t")
    assert code_of(partitions, "t") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    run(partitions.retry())
    assert code_of(partitions, "t") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not partitions.offline
    led_elsewhere(node, node.config.node_id, "t")
    assert (partitions.get("t", 0).high_watermark, partitions.get("t", 0).leader_epoch) == (1, 7)


def test_a_topic_deleted_under_another_leader_goes_here_too(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    before = node.services.metadata.image
    led_elsewhere(node, 5, "t")
    node.services.partitions.follow(node.services.metadata.image, Image.empty(), ["t"])
    assert code_of(node.services.partitions, "t") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ("t", 0) not in node.log_manager.logs
    node.services.partitions.follow(Image.empty(), before, ["t"])
    assert node.services.partitions.get("t", 0).high_watermark == 0


def test_changed_configs_reach_the_log(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    node.services.metadata.change_topic_configs("t", {"max.message.bytes": "1000"})
    assert node.services.partitions.get("t", 0).log.config.max_message_bytes == 1000


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path / "data")
    node.services.metadata.create_topic("t", 2, configs={"max.message.bytes": "1000"})
    node.services.partitions.get("t", 1).append(records(b"a"), 1, NOW_MS)
    node.close()
    again = HandlerBroker(tmp_path / "data")
    replica = again.services.partitions.get("t", 1)
    assert (replica.high_watermark, replica.log.config.max_message_bytes) == (1, 1000)
    again.close()


def test_a_deleted_topics_log_does_not_come_back_under_its_name(tmp_path: Path) -> None:
    """The broker died after the deletion was written down and before the directory was renamed."""
    node = HandlerBroker(tmp_path / "data")
    node.services.metadata.create_topic("t", 1)
    node.services.partitions.get("t", 0).append(records(b"old"), 1, NOW_MS)
    log, before = tmp_path / "data" / "t-0", tmp_path / "before"
    shutil.copytree(log, before)
    node.services.metadata.delete_topic("t")
    node.services.metadata.create_topic("t", 1)
    node.close()
    shutil.rmtree(log)
    before.rename(log)
    again = HandlerBroker(tmp_path / "data")
    assert again.services.partitions.get("t", 0).log.end_offset == 0
    again.close()


def test_a_damaged_partition_stops_no_other(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path / "data")
    node.services.metadata.create_topic("t", 2)
    for index in (0, 1):
        node.services.partitions.get("t", index).append(records(b"a"), 1, NOW_MS)
    node.close()
    log = tmp_path / "data" / "t-0" / "00000000000000000000.log"
    log.write_bytes(b"\xff" * log.stat().st_size)
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink()
    again = HandlerBroker(tmp_path / "data")
    assert code_of(again.services.partitions, "t", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert again.services.partitions.get("t", 1).high_watermark == 1
    again.services.metadata.delete_topic("t")
    assert code_of(again.services.partitions, "t", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    again.close()


@pytest.mark.embedded_metadata
def test_a_directory_whose_metadata_log_is_gone_is_refused(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path / "data")
    node.services.metadata.create_topic("t", 1)
    node.close()
    (tmp_path / "data" / "__headgate_metadata-0").rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="which knows their topics"):
        HandlerBroker(tmp_path / "data")


def test_an_image_that_did_not_change_changes_nothing(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    partition = node.services.partitions.get("t", 0)
    image = node.services.metadata.image
    node.services.partitions.follow(image, image, image.topics)
    node.services.partitions.follow(Image.empty(), image, image.topics)
    assert node.services.partitions.get("t", 0) is partition


def test_a_log_that_cannot_be_deleted_does_not_come_back(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    node.services.metadata.create_topic("t", 2)
    node.services.partitions.get("t", 0).append(records(b"old"), 1, NOW_MS)
    with monkeypatch.context() as broken:
        broken.setattr(node.log_manager.files, "rename", _fail)
        node.services.metadata.delete_topic("t")
    assert [code_of(node.services.partitions, "t", index) for index in (0, 1)] == [3, 3]
    node.services.metadata.create_topic("t", 2)
    assert node.services.partitions.get("t", 0).log.end_offset == 0


def test_a_partition_that_could_not_be_opened_is_tried_again(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(node.log_manager, "begin_creation", _refuse)
        node.services.metadata.create_topic("t", 1)
    assert code_of(node.services.partitions, "t") == ErrorCode.KAFKA_STORAGE_ERROR
    run(node.services.partitions.retry())
    assert node.services.partitions.get("t", 0).high_watermark == 0


def _fail(*_: object) -> None:
    raise OSError(24, "Too many open files")


def _refuse(*_: object) -> None:
    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "there is no descriptor left")


@pytest.mark.embedded_metadata
def test_recovery_makes_indexes_as_the_topic_wants_them(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path / "data")
    node.services.metadata.create_topic("t", 1, configs={"index.interval.bytes": "100"})
    for _ in range(50):
        node.services.partitions.get("t", 0).append(records(bytes(90)), 1, NOW_MS)
    node.close()
    index = tmp_path / "data" / "t-0" / "00000000000000000000.index"
    written = index.read_bytes()
    index.unlink()
    Broker(node.config).parts.log_manager.close()
    assert index.read_bytes() == written


@pytest.mark.embedded_metadata
def test_what_is_left_of_a_deleted_topic_goes_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = HandlerBroker(tmp_path / "data")
    for name in ("t", "kept"):
        node.services.metadata.create_topic(name, 1)
        node.services.partitions.get(name, 0).append(records(b"v"), 1, NOW_MS)
    with monkeypatch.context() as broken:
        broken.setattr(node.log_manager.files, "rename", _fail)
        node.services.metadata.delete_topic("t")
    node.close()
    assert (tmp_path / "data" / "t-0").exists()
    again = HandlerBroker(tmp_path / "data")
    assert "t-0 belongs to a deleted topic; removing the log" in caplog.text
    assert not (tmp_path / "data" / "t-0").exists()
    assert again.services.partitions.get("kept", 0).high_watermark == 1
    again.close()


@pytest.mark.embedded_metadata
@pytest.mark.parametrize("names", ["a", "a,b"])
def test_an_older_metadata_log_costs_a_recreated_topic_no_records(
    names: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It knows the first topic of that name; nothing in it says that the second one, whose records these are, went."""
    log_dirs = ",".join(f"{tmp_path}/{name}" for name in names.split(","))
    node = HandlerBroker(tmp_path, log_dirs=log_dirs)
    node.services.metadata.create_topic("t", 4)
    node.close()
    shutil.copytree(tmp_path / "a" / "__headgate_metadata-0", tmp_path / "copy")
    node = HandlerBroker(tmp_path, log_dirs=log_dirs)
    node.services.metadata.delete_topic("t")
    node.services.metadata.create_topic("t", 4)
    for index in range(4):
        node.services.partitions.get("t", index).append(records(b"v%d" % index), 1, NOW_MS)
    node.log_manager.remove_deleted()
    node.close()
    written = {path.parent.name: path.read_bytes() for path in tmp_path.glob(f"?/t-*/{0:020d}.log")}
    shutil.rmtree(tmp_path / "a" / "__headgate_metadata-0")
    (tmp_path / "copy").rename(tmp_path / "a" / "__headgate_metadata-0")
    (tmp_path / "a" / "recovery-point-offset-checkpoint").unlink()  # it promises what the copy does not have
    node = HandlerBroker(tmp_path, log_dirs=log_dirs)
    kept = {path.parent.name.split(".")[0]: path.read_bytes() for path in tmp_path.glob(f"?/t-*-stray/{0:020d}.log")}
    assert len(written) == 4
    assert kept == written
    assert caplog.text.count("is in the way of another topic of that name") == 4
    assert "starts empty" not in caplog.text, "where its records are was told"
    assert [node.services.partitions.get("t", index).high_watermark for index in range(4)] == [0] * 4
    node.close()


@pytest.mark.embedded_metadata
def test_a_deletion_takes_no_log_of_another_topic_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As above, and the topic is deleted before its logs are opened, or while a thread opens them."""
    node = HandlerBroker(tmp_path / "data")
    node.services.metadata.create_topic("t", 3)
    for index in range(3):
        node.services.partitions.get("t", index).append(records(b"v"), 1, NOW_MS)
    node.close()
    for index in range(3):
        replace_topic_id(Files(), f"{tmp_path}/data/t-{index}", b"of another topic")
    monkeypatch.setattr(log_loading, "FEW_PARTITIONS", 0)
    broker = Broker(node.config, Seams(node.time.clock))
    (store,), partitions = broker.parts.log_manager, broker.services.partitions
    begun = store.begin_opening(("t", 0), store.config, 0)
    before = broker.services.metadata.image
    partitions.follow(before, before._replace(topics={}), ["t"])
    begun.run()
    store.end_opening(begun)
    partitions.opened([("t", 0)])
    assert caplog.text.count("belongs to another topic than the deleted one; the directory stays") == 3
    assert len(list((tmp_path / "data").glob("t-?"))) == 3
    broker.parts.log_manager.close()


@pytest.mark.embedded_metadata
@pytest.mark.parametrize("has_id", [True, False])
def test_a_log_of_a_topic_unknown_to_the_metadata_is_never_removed(
    has_id: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As after an older copy of the metadata log was brought back."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    node = HandlerBroker(data)
    node.services.metadata.create_topic("other", 1)
    node.close()
    shutil.copytree(data / "__headgate_metadata-0", copy)
    node = HandlerBroker(data)
    node.services.metadata.create_topic("t", 1)
    node.services.partitions.get("t", 0).append(records(b"v"), 1, NOW_MS)
    node.close()
    written = (data / "t-0" / f"{0:020d}.log").read_bytes()
    if not has_id:
        (data / "t-0" / "partition.metadata").unlink()
    shutil.rmtree(data / "__headgate_metadata-0")
    copy.rename(data / "__headgate_metadata-0")
    (data / "recovery-point-offset-checkpoint").unlink()
    node = HandlerBroker(data)
    assert "t-0 belongs to no topic in the metadata; the log is not served, and stays" in caplog.text
    node.close()
    assert (data / "t-0" / f"{0:020d}.log").read_bytes() == written
    node = HandlerBroker(data)
    node.services.metadata.create_topic("t", 1)
    node.time.advance()  # without an id the log has an epoch already, and the topic needs a higher one
    found = node.services.partitions.get("t", 0).high_watermark
    assert node.services.partitions.get("t", 0).leader_epoch == (0 if has_id else 1)
    assert found == (0 if has_id else 1), "without an id it is the topic's of that name"
    if has_id:
        assert [path.read_bytes() for path in data.glob(f"t-0.*-stray/{0:020d}.log")] == [written]
        assert "t-0, with the topic id" in caplog.text
        assert "kept in" in caplog.text
        node.services.metadata.delete_topic("t")
        node.services.metadata.create_topic("t", 1)
        assert len(list(data.glob("t-0.*-stray"))) == 1, "the new one is no stray"
        assert len(list(data.glob("t-0.*-delete"))) == 1
    node.close()


@pytest.mark.embedded_metadata
def test_a_log_with_a_later_epoch_than_the_metadata_gets_the_next(tmp_path: Path) -> None:
    """As after an older copy of the metadata log was brought back: the log has another history in that epoch."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    node = HandlerBroker(data)
    node.services.metadata.create_topic("t", 1)
    node.close()
    shutil.copytree(data / "__headgate_metadata-0", copy)
    for _ in range(3):
        node = HandlerBroker(data)
        node.services.partitions.get("t", 0).append(records(b"v"), 1, NOW_MS)
        node.close()
    shutil.rmtree(data / "__headgate_metadata-0")
    copy.rename(data / "__headgate_metadata-0")
    (data / "recovery-point-offset-checkpoint").unlink()
    node = HandlerBroker(data)
    with pytest.raises(KafkaError) as caught:
        node.services.partitions.get("t", 0)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.time.advance()
    replica = node.services.partitions.get("t", 0)
    assert (replica.leader_epoch, replica.log.epochs.entries) == (4, [(1, 0), (2, 1), (3, 2)])
    node.restart()
    assert node.services.partitions.get("t", 0).leader_epoch == 5
    node.close()


def test_an_unregistered_start_keeps_the_epoch_of_a_log(tmp_path: Path) -> None:
    """As after a clean stop on a full disk: nothing was lost, and nothing could be written."""
    node = HandlerBroker(tmp_path / "data")
    node.services.metadata.create_topic("t", 1)
    node.services.partitions.get("t", 0).append(records(b"v"), 1, NOW_MS)
    services = node.services
    for are_raised, expected in ((False, {}), (True, {("t", 0): 0})):
        disk = partial(DiskMonitor, services.clock, services.scheduler)
        again = ReplicaManager(
            node.log_manager,
            node.config,
            services.tasks,
            disk,
            services.scheduler,
            ReplicationEvents(),
            node.parts.fetchers,
        )
        again.start(services.metadata.image, epochs_are_raised=are_raised)
        assert again.leadership.awaiting_epoch == expected
    node.close()
