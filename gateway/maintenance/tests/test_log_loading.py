"""Logs come online one by one: order, progress, what clients are told meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api.context import Client
from headgate.gateway.app.broker import Broker
from headgate.gateway.app.composition import Seams
from headgate.gateway.config import BrokerConfig
from headgate.gateway.maintenance import log_loading
from headgate.gateway.maintenance.log_loading import LoadingProgress, LogLoader, in_order
from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.gateway.runtime.scheduler import StoppedError
from headgate.gateway.runtime.tasks import run
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.tests.builders import HandlerBroker, records
from headgate.gateway.tests.harness import MemoryBroker, run_broker
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.metadata import MetadataRequest
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest
from headgate.storage.directory.log_opening import LogOpening
from headgate.storage.recovery import recovery_steps
from headgate.storage.recovery.recovery_input import RecoveryInput

NOW_MS = 1_700_000_000_000
CLEAN = ".kafka_cleanshutdown"


class Late:
    """A broker's services that have not opened their logs yet, over a directory that another one has left."""

    def __init__(self, config: BrokerConfig, time: ManualTime) -> None:
        self.broker = Broker(config, Seams(time.clock, make_scheduler=time.make_scheduler))
        self.time = time
        self.slices = time.scheduler.hold_slices()
        self.services = self.broker.services
        self.services.partitions.go_on_in_threads()
        self.services.groups.start()

    def start(self) -> None:
        self.broker.parts.log_loader.start()

    def code(self, topic: str, index: int = 0) -> ErrorCode:
        try:
            self.services.partitions.get(topic, index)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def advance(self, milliseconds: float = 0.0) -> None:
        self.time.advance(milliseconds)

    def close(self) -> None:
        self.broker.parts.log_manager.close()


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Late]:
    """Makes brokers that open nothing before they are started."""
    monkeypatch.setattr(log_loading, "FEW_PARTITIONS", 0)

    def make(*, clean: bool = True, **settings: str) -> Late:
        if not clean:
            (tmp_path / "data" / CLEAN).unlink()
        overrides = {name.replace("_", "."): value for name, value in settings.items()}
        return Late(BrokerConfig.load("", {"log.dirs": f"{tmp_path}/data", **overrides}), ManualTime())

    return make


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The directory of a broker with the topics t (two partitions) and large, and offsets of a group."""
    node = HandlerBroker(tmp_path / "data", offsets_topic_num_partitions="1")
    metadata, partitions = node.services.metadata, node.services.partitions
    metadata.create_topic("t", 2)
    metadata.create_topic("large", 1)
    node.services.groups.prepare()
    for name, index, count in (("large", 0, 30), ("t", 0, 2), ("t", 1, 1)):
        for _ in range(count):
            partitions.get(name, index).append(records(bytes(1000)), 1, NOW_MS)
    node.close()
    return tmp_path / "data"


def test_a_small_store_is_open_before_the_broker_listens(left: Path) -> None:
    (left / CLEAN).unlink()
    broker = Broker(BrokerConfig.load("", {"log.dirs": str(left)}))
    assert not broker.services.partitions.opening
    assert len(broker.services.partitions) == 4
    broker.parts.log_manager.close()


@pytest.mark.parametrize("limit", ["FEW_BYTES", "FEW_MS"])
def test_what_takes_longer_is_left_for_later(left: Path, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_loading, limit, {"FEW_BYTES": 5_000, "FEW_MS": -1}[limit])
    (left / CLEAN).unlink()
    broker = Broker(BrokerConfig.load("", {"log.dirs": str(left)}))
    opened = {(partition.topic, partition.index) for partition in broker.services.partitions}
    by_limit = {"FEW_BYTES": {(CONSUMER_OFFSETS, 0), ("t", 0), ("t", 1)}, "FEW_MS": set()}
    assert opened == by_limit[limit]
    broker.parts.log_manager.close()


def test_partitions_come_online_one_by_one(
    left: Path, late: Callable[..., Late], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_loading, "BATCH_PARTITIONS", 1)
    caplog.set_level(logging.INFO)
    broker = late(clean=False, num_recovery_threads_per_data_dir="1")
    assert {broker.code(name) for name in ("t", "large")} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    broker.start()
    order: list[tuple[str, int]] = []
    while broker.slices.waiting:
        broker.slices.run_one()
        online = [(p.topic, p.index) for p in broker.services.partitions]
        order += [key for key in online if key not in order]
        assert sorted([*online, *broker.services.partitions.opening]) == [
            (CONSUMER_OFFSETS, 0), ("large", 0), ("t", 0), ("t", 1),
        ]  # fmt: skip
    assert order == [(CONSUMER_OFFSETS, 0), ("t", 1), ("t", 0), ("large", 0)]
    assert broker.code("large") == ErrorCode.NONE
    assert broker.services.partitions.get("large", 0).high_watermark == 30
    assert "opening 4 partitions while the broker serves" in caplog.text
    assert "all 4 partitions are open after" in caplog.text
    broker.close()


def test_metadata_shows_no_leader_until_the_log_is_open(left: Path, late: Callable[..., Late]) -> None:
    broker = late()

    node = HandlerBroker.__new__(HandlerBroker)
    node.services, node.client = broker.services, Client("192.0.2.9", 50_000, "192.0.2.1", 9092)

    def rows() -> list[tuple[int, int, int, list[int]]]:
        answer = node.ask(MetadataRequest(topics=None), 9)
        (topic,) = (topic for topic in answer.topics if topic.name == "t")
        return [(row.partition_index, row.error_code, row.leader_id, row.offline_replicas) for row in topic.partitions]

    none = ErrorCode.LEADER_NOT_AVAILABLE, -1, list[int]()
    assert rows() == [(0, *none), (1, *none)]
    broker.start()
    broker.slices.run_all()
    assert rows() == [(0, 0, 0, []), (1, 0, 0, [])]
    broker.close()


def test_groups_are_being_loaded_until_their_log_is_open(left: Path, late: Callable[..., Late]) -> None:
    broker = late()
    with pytest.raises(KafkaError) as caught:
        broker.services.groups.submit("g", lambda *_: None)  # type: ignore[arg-type]
    assert caught.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(KafkaError) as caught:
        list(broker.services.groups.shards())
    assert caught.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.start()
    broker.slices.run_all()
    broker.advance()
    assert len(list(broker.services.groups.shards())) == 1
    broker.close()


def test_topics_that_change_while_logs_are_opened(left: Path, late: Callable[..., Late]) -> None:
    """One goes, one goes and comes again, one gets a setting and a partition."""
    broker = late(clean=False, num_recovery_threads_per_data_dir="8")
    metadata, partitions = broker.services.metadata, broker.services.partitions
    broker.start()
    broker.slices.run_one()  # the survey: now all are in the hands of threads
    metadata.delete_topic("large")
    assert broker.code("large") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    metadata.create_topic("large", 1)
    assert broker.code("large") == ErrorCode.NOT_LEADER_OR_FOLLOWER, "the old log is still being opened"
    metadata.change_topic_configs("t", {"max.message.bytes": "1000"})
    metadata.create_partitions("t", 3)
    broker.slices.run_one(number=-1)  # its files are made by a thread, and nobody sees it before
    assert [broker.code("t", index) for index in range(3)] == [6, 6, 0]
    broker.slices.run_all()
    broker.advance()
    broker.slices.run_all()
    assert partitions.get("large", 0).log.end_offset == 0
    assert partitions.get("t", 0).log.config.max_message_bytes == 1000
    assert [partitions.get("t", index).high_watermark for index in range(3)] == [2, 1, 0]
    assert not partitions.opening
    broker.close()


def test_a_topic_that_is_deleted_before_its_turn(left: Path, late: Callable[..., Late]) -> None:
    broker = late()
    broker.services.metadata.delete_topic("t")
    broker.start()
    broker.services.metadata.delete_topic("large")
    broker.slices.run_all()
    broker.advance()
    broker.slices.run_all()
    assert [p.topic for p in broker.services.partitions] == [CONSUMER_OFFSETS]
    assert broker.broker.parts.log_loader.progress.left == 0
    broker.broker.parts.log_manager.remove_deleted()
    assert not list(left.glob("t-*")) + list(left.glob("large-*"))
    broker.close()


def test_a_damaged_partition_is_told_and_stops_no_other(
    left: Path, late: Callable[..., Late], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    log = left / "t-0" / "00000000000000000000.log"
    log.write_bytes(b"\xff" * log.stat().st_size)
    broker = late(clean=False)
    broker.start()
    broker.slices.run_all()
    assert [broker.code("t", index) for index in (0, 1)] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert list(broker.services.partitions.offline) == [("t", 0)]
    assert "1 of them stay closed" in caplog.text
    (error,) = (record.getMessage() for record in caplog.records if record.levelno == logging.ERROR)
    assert error.startswith("partition t-0 stays closed: ")
    broker.close()


def test_a_thread_that_fails_leaves_its_partitions_offline(
    left: Path, late: Callable[..., Late], caplog: pytest.LogCaptureFixture
) -> None:
    broker = late(num_recovery_threads_per_data_dir="2")
    broker.start()
    while broker.slices.waiting:
        work, done = broker.slices.waiting.pop()
        done(work() if "_survey" in repr(work) else ValueError("a fault of ours"))
    assert not broker.services.partitions.opening
    assert {broker.code("t"), broker.code("large")} == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert caplog.text.count("partition large-0 stays closed: ValueError('a fault of ours')") == 1
    broker.close()
    assert not (left / CLEAN).exists()


def test_what_the_system_refused_is_tried_again_ever_more_rarely(
    left: Path, late: Callable[..., Late], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = late()
    steps, tries = recovery_steps.open_log_steps, list[float]()

    def refuse(pool: Any, partition: RecoveryInput, *others: Any) -> Any:
        if partition.topic != "large":
            return (yield from steps(pool, partition, *others))
        tries.append(broker.time.clock.elapsed_ms)
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as few_descriptors:
        few_descriptors.setattr(recovery_steps, "open_log_steps", refuse)
        broker.start()
        broker.slices.run_all()
        assert broker.code("large") == ErrorCode.KAFKA_STORAGE_ERROR
        for _ in range(10):
            broker.advance(1_000)
            run(broker.services.partitions.retry())
            broker.slices.run_all()
    assert [later - earlier for earlier, later in pairwise(tries)] == [1_000, 1_000, 2_000, 4_000]
    assert (broker.code("large"), broker.code("t")) == (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)
    for _ in range(8):
        broker.advance(1_000)
        broker.slices.run_all()
    assert broker.services.partitions.get("large", 0).high_watermark == 30
    assert not broker.services.partitions.offline
    broker.close()
    assert (left / CLEAN).exists()


def test_a_stop_in_the_middle(left: Path, late: Callable[..., Late]) -> None:
    """Threads are told that nobody waits for them; what they had not begun is as it was."""
    broker = late()
    broker.start()
    for _, done in broker.slices.waiting:
        done(StoppedError("stopped"))
    broker.close()
    assert (left / CLEAN).exists()
    again = Broker(BrokerConfig.load("", {"log.dirs": str(left)}))
    for store in again.parts.log_manager:
        assert {store.bytes_to_scan(key) for key in store.unopened} == {0}
    assert len(again.parts.log_manager) == 5
    again.parts.log_manager.close()


def test_progress_is_in_the_log_and_in_the_metrics(
    left: Path, late: Callable[..., Late], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(log_loading, "BATCH_PARTITIONS", 1)
    broker = late(clean=False, num_recovery_threads_per_data_dir="1")
    size = sum(path.stat().st_size for path in left.glob("[tl]*/*.log"))
    broker.start()
    broker.slices.run_one()
    broker.slices.run_one()
    measured = broker.services.metrics.snapshot()
    assert (measured["opening.partitions"], measured["opening.partitions.left"]) == (4, 3)
    assert (measured["opening.bytes"], measured["opening.bytes.left"]) == (size, size)
    broker.advance(log_loading.PROGRESS_LOG_MS)
    assert f"1 of 4 partitions are open, 0 of {size / 1e6:.0f} MB are scanned" in caplog.text
    broker.slices.run_all()
    measured = broker.services.metrics.snapshot()
    assert {measured[f"opening.{what}.left"] for what in ("partitions", "bytes", "seconds")} == {0}
    caplog.clear()
    broker.advance(log_loading.PROGRESS_LOG_MS)
    assert "partitions are open" not in caplog.text
    broker.close()


def test_the_time_that_is_left() -> None:
    progress = LoadingProgress(partitions=10, bytes=100 << 20, began_ms=1000.0)
    assert progress.seconds_left(9000.0) == 0, "there is nothing to go by yet"
    progress.opened, progress.bytes_ended = 5, 50 << 20
    assert progress.seconds_left(9000.0) == pytest.approx(8.0)
    running = LogOpening.__new__(LogOpening)
    running.recovery = RecoveryInput("t", 0, "d", bytes_scanned=40 << 20)
    progress.running.append(running)
    assert 0 < progress.seconds_left(9000.0) < 2.0
    progress.opened, progress.bytes_ended = 10, 100 << 20
    assert (progress.seconds_left(9000.0), progress.bytes_scanned) == (0, 100 << 20)


def test_internal_topics_come_first_then_the_least_work() -> None:
    work = {("b", 0): 5, ("a", 0): 7, ("a", 1): 0, (CONSUMER_OFFSETS, 3): 9}
    assert in_order(list(work), work) == [(CONSUMER_OFFSETS, 3), ("a", 1), ("b", 0), ("a", 0)]


@pytest.mark.slow
def test_clients_of_a_broker_that_is_still_opening(left: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real threads and the real slices: in the end everything is there."""
    monkeypatch.setattr(log_loading, "FEW_PARTITIONS", 0)
    (left / CLEAN).unlink()

    async def scenario(memory: MemoryBroker) -> None:
        client = memory.connect()
        while True:
            answer = await client.ask(MetadataRequest(topics=None), 9)
            rows = [row for topic in answer.topics for row in topic.partitions]
            if all(row.leader_id == 0 for row in rows):
                break
            assert {row.error_code for row in rows} <= {ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE}
        assert len(rows) == 4
        while True:
            answer = await client.ask(OffsetFetchRequest(group_id="g", topics=None), 5)
            if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                break
        assert answer.error_code == ErrorCode.NONE
        assert memory.broker.services.partitions.get("large", 0).high_watermark == 30

    run_broker(left, scenario)


def test_openings_without_anything_to_open(tmp_path: Path) -> None:
    broker = Broker(BrokerConfig.load("", {"log.dirs": f"{tmp_path}/data"}))
    done: list[bool] = []
    broker.parts.log_loader.when_done(lambda: done.append(True))
    assert isinstance(broker.parts.log_loader, LogLoader)
    broker.parts.log_loader.start()
    broker.parts.log_loader.when_done(lambda: done.append(True))
    assert done == [True, True]
    broker.parts.log_manager.close()


def test_a_topic_that_is_deleted_while_its_log_is_tried_again_goes(
    left: Path, late: Callable[..., Late], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = late(clean=False)

    def refuse(*_: Any) -> Generator[None, None, None]:
        raise OSError(5, "Input/output error")
        yield

    with monkeypatch.context() as broken:
        broken.setattr(recovery_steps, "open_log_steps", refuse)
        broker.start()
        broker.slices.run_all()
    assert ("large", 0) in broker.services.partitions.offline
    broker.advance(log_loading.RETRY_MS)
    assert broker.slices.waiting, "a thread has it now"
    metadata = broker.services.metadata
    metadata.delete_topic("large")
    assert metadata.planned is metadata.image
    assert broker.code("large") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.slices.run_all()
    assert ("large", 0) not in broker.broker.parts.log_manager
    assert not (left / "large-0").exists()
    assert broker.services.partitions.get("t", 0).high_watermark == 2
    broker.close()


def test_what_goes_wrong_with_one_try_is_not_the_last_try(
    left: Path, late: Callable[..., Late], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = late(clean=False)

    def refuse(*_: Any) -> Generator[None, None, None]:
        raise OSError(24, "Too many open files")
        yield

    with monkeypatch.context() as broken:
        broken.setattr(recovery_steps, "open_log_steps", refuse)
        broker.start()
        broker.slices.run_all()
    with monkeypatch.context() as broken:
        broken.setattr(broker.broker.parts.log_loader, "_open_queued", refuse_at_once)
        broker.advance(log_loading.RETRY_MS)
    for _ in range(3):
        broker.advance(log_loading.RETRY_MS)
        broker.slices.run_all()
    assert not broker.services.partitions.offline
    assert broker.code("large") == ErrorCode.NONE
    broker.close()


def refuse_at_once(*_: Any) -> None:
    raise RuntimeError("whatever it is")


def test_what_is_left_of_a_deleted_topic_is_not_opened(
    left: Path, late: Callable[..., Late], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = HandlerBroker(left, offsets_topic_num_partitions="1")
    with monkeypatch.context() as broken:
        broken.setattr(node.log_manager.files, "rename", refuse_to_rename)
        node.services.metadata.delete_topic("t")
    node.close()
    assert {path.name for path in left.glob("t-*")} == {"t-0", "t-1"}
    broker = late()
    assert all(path.name.endswith("-delete") for path in left.glob("t-*"))
    broker.start()
    broker.slices.run_all()
    assert {key[0] for key in broker.broker.parts.log_manager.logs} == {
        "large",
        CONSUMER_OFFSETS,
        "__headgate_metadata",
    }
    broker.close()


def refuse_to_rename(*_: Any) -> None:
    raise OSError(5, "Input/output error")
