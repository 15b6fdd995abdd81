"""Room on the disk: when producers are refused and when no more, and what goes on meanwhile."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from headgate.gateway.maintenance.disk_space import (
    CHECK_MS,
    QUICK_CHECK_MS,
    DiskSpace,
    is_low,
    least_free,
    next_check_ms,
)
from headgate.gateway.tests.builders import HandlerBroker
from headgate.gateway.tests.requests import commit_request, produce_request
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headgate.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from headgate.protocol.messages.produce import (
    PartitionProduceResponse,
)
from headgate.protocol.records.batch import Record, build
from headgate.protocol.records.legacy import build as build_set

MIB = 1 << 20
NOW_MS = 1_700_000_000_000


def test_the_least() -> None:
    assert least_free(64 * MIB, False, 10_000 * MIB) == 64 * MIB
    assert least_free(64 * MIB, False, 100 * MIB) == 10 * MIB
    assert least_free(64 * MIB, True, 100 * MIB) == 64 * MIB


def test_a_quarter_more_has_to_be_free_before_it_ends() -> None:
    assert not is_low(100, 100, was_low=False)
    assert is_low(99, 100, was_low=False)
    assert is_low(124, 100, was_low=True)
    assert not is_low(125, 100, was_low=True)
    assert not is_low(0, 0, was_low=True), "0 is never"


def test_a_disk_that_fills_quickly_is_checked_more_often() -> None:
    assert next_check_ms(1_100, 100, 100, 1_000) == CHECK_MS
    assert next_check_ms(1_100, 100, 1_000, 1_000) == 500
    assert next_check_ms(1_100, 100, 1_000, 100) == QUICK_CHECK_MS
    assert next_check_ms(1_100, 100, -500, 1_000) == CHECK_MS
    assert next_check_ms(50, 100, 10, 1_000) == CHECK_MS


def test_a_quick_writer_leaves_most_of_what_is_to_stay_free() -> None:
    """800 MB a second onto a disk with 10 GB, of which 64 MiB are to stay free."""
    free, least, now_ms, taken, elapsed_ms = 10_000.0, 64.0, 0.0, 0, 0.0
    while not is_low(int(free), int(least), was_low=False):
        elapsed_ms = next_check_ms(int(free), int(least), taken, elapsed_ms)
        taken = int(0.8 * elapsed_ms)
        free -= taken
        now_ms += elapsed_ms
    assert free > 0.3 * least
    assert now_ms > 10_000


class Room:
    """How much is free, as the system tells."""

    def __init__(self, node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free: int | OSError = 1_000 * MIB
        monkeypatch.setattr(node.log_manager.files, "space", self._space)

    def _space(self, path: str) -> tuple[int, int]:
        if isinstance(self.free, OSError):
            raise self.free
        return 10_000 * MIB, self.free


@pytest.fixture
def room(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> Room:
    room = Room(node, monkeypatch)
    services = node.services
    work = node.parts.maintenance
    work.measure(services.metrics)
    work.start()
    services.metadata.create_topic("t", 1, configs={"segment.bytes": "300", "file.delete.delay.ms": "600000"})
    return room


def refresh(node: HandlerBroker) -> None:
    node.time.advance(CHECK_MS)


def produce(node: HandlerBroker, version: int, topic: str = "t", acks: int = 1) -> PartitionProduceResponse:
    batch = build([Record(timestamp=NOW_MS, value=bytes(100))])
    data = build_set([Record(timestamp=NOW_MS, value=bytes(100))], 1, codec=0) if version < 3 else batch
    request = produce_request(bytearray(data), topic, acks=acks, timeout_ms=1_000)
    row = node.ask(request, version).responses[0].partition_responses[0]
    assert isinstance(row, PartitionProduceResponse)
    return row


@pytest.mark.parametrize("version", [3, 4, 7, 8, 9, 11])
def test_producers_are_told_why_as_their_version_can(node: HandlerBroker, room: Room, version: int) -> None:
    assert produce(node, version).error_code == ErrorCode.NONE
    room.free = 63 * MIB
    refresh(node)
    row = produce(node, version)
    assert row.error_code == (ErrorCode.KAFKA_STORAGE_ERROR if version > 3 else ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if version > 7:
        assert "nearly full: less than log.min.free.bytes=67108864" in (row.error_message or "")
        assert "retention" in (row.error_message or "")
    assert node.services.partitions.get("t", 0).log.end_offset == 1


def test_it_ends_by_itself(node: HandlerBroker, room: Room, caplog: pytest.LogCaptureFixture) -> None:
    room.free = 63 * MIB
    refresh(node)
    room.free = 79 * MIB
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            refresh(node)
        assert produce(node, 9).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert ": producers are served again" not in caplog.text
        room.free = 80 * MIB
        refresh(node)
    assert produce(node, 9).error_code == ErrorCode.NONE
    assert caplog.text.count(": producers are served again") == 1
    assert node.services.partitions.get("t", 0).stores_verbatim, "nothing is asked of the healthy"


@pytest.mark.parametrize("limit", ["0", str(64 * MIB)])
def test_a_disk_that_refuses_a_write_has_failed_until_it_has_room(node: HandlerBroker, room: Room, limit: str) -> None:
    (status,) = node.services.partitions.directories.values()
    node.config.change({}, {"log.min.free.bytes": limit})
    disk = node.services.partitions.get("t", 0).disk
    disk.failed(OSError(errno.EIO, "input/output error"))
    refresh(node)
    assert not status.is_failed
    error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "refused")
    error.__cause__ = OSError(errno.ENOSPC, "no space left on device")
    room.free = 0
    disk.failed(error)
    refresh(node)
    assert status.is_failed
    room.free = MIB - 1
    refresh(node)
    assert status.is_failed
    room.free = 80 * MIB
    refresh(node)
    assert not status.is_failed


def test_the_setting_is_followed_while_the_broker_runs(node: HandlerBroker, room: Room) -> None:
    room.free = 63 * MIB
    refresh(node)
    assert produce(node, 9).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    node.config.change({}, {"log.min.free.bytes": "1000"})
    refresh(node)
    assert produce(node, 9).error_code == ErrorCode.NONE
    node.config.change({"log.min.free.bytes": str(64 * MIB)}, {})
    refresh(node)
    assert produce(node, 9).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_all_else_goes_on(node: HandlerBroker, room: Room) -> None:
    for _ in range(4):
        produce(node, 9)
    replica = node.services.partitions.get("t", 0)
    room.free = 63 * MIB
    refresh(node)
    piece = replica.read(0, 10_000, 0, at_least_one=True)
    assert piece is not None
    piece.release()
    assert commit(node) == ErrorCode.NONE
    node.services.metadata.create_topic("new", 1)
    assert produce(node, 9, "new").error_code == ErrorCode.KAFKA_STORAGE_ERROR, "a new one is there, and read-only"
    request = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 4)])], timeout_ms=1000)
    assert node.ask(request, 2).topics[0].partitions[0].error_code == ErrorCode.NONE
    for _ in range(12):
        refresh(node)
    log = replica.log
    assert log.segments[0].base_offset == 4, "retention looks more often"
    metrics = node.services.metrics.snapshot()
    shown = {
        name: metrics[name]
        for name in metrics
        if name.startswith("disk.") and not name.endswith((".read.bytes", ".written.bytes"))
    }
    assert shown == {
        "disk.deleted.files": 0,
        "disk.free.bytes": 63 * MIB,
        "disk.full.directories": 1,
        "disk.hung.directories": 0,
        "disk.offline.directories": 0,
        "disk.unsynced.logs": 0,
    }
    names = node.log_manager.files.list(log.directory)
    assert not [name for name in names if name.endswith(".deleted")], "the delay is not waited for"
    node.services.metadata.delete_topic("t")


def commit(node: HandlerBroker) -> int:
    """The error of a commit; the first one has the topic made."""
    request = commit_request("g", {0: 1})
    node.ask(request, 7)
    refresh(node)
    code: int = node.ask(request, 7).topics[0].partitions[0].error_code
    return code


def test_a_disk_that_cannot_be_asked_changes_nothing(
    node: HandlerBroker, room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room.free = OSError(5, "Input/output error")
    for _ in range(3):
        refresh(node)
    assert produce(node, 9).error_code == ErrorCode.NONE
    assert caplog.text.count("cannot read the free space of") == 1
    room.free = 1 * MIB
    refresh(node)
    room.free = OSError(5, "Input/output error")
    refresh(node)
    assert produce(node, 9).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_decoding_topics_and_converted_sets_are_refused_too(node: HandlerBroker, room: Room) -> None:
    node.services.metadata.create_topic("zstd", 1, configs={"compression.type": "zstd"})
    room.free = 1 * MIB
    refresh(node)
    assert produce(node, 9, "zstd").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError, match="nearly full"):
        node.services.partitions.get("t", 0).append(memoryview(bytearray(b"x")), 1, NOW_MS)
    row = produce(node, 2)
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_disks_are_checked_again_after_a_fault_of_the_callback(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = node.services
    free = [0]

    def changed(directory: str, is_low: bool) -> None:
        raise RuntimeError(f"as of {directory}")

    disk_space = DiskSpace(services.partitions, node.config, services.clock, services.scheduler, changed)
    monkeypatch.setattr(services.partitions, "space", lambda _: (1 << 40, free[0]))
    services.scheduler.call_soon(disk_space.refresh)
    node.time.advance()
    assert all(status.is_full for status in services.partitions.directories.values())
    free[0] = 1 << 39
    node.time.advance(CHECK_MS)
    assert not any(status.is_full for status in services.partitions.directories.values())


def directories_of_new(node: HandlerBroker, name: str) -> set[str]:
    node.services.metadata.create_topic(name, 3)
    partitions = [node.services.partitions.get(name, index) for index in range(3)]
    return {Path(replica.log.directory).parent.name for replica in partitions}


def test_a_disk_that_hangs_holds_up_no_other_and_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = HandlerBroker(tmp_path, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    services, threads, asked = node.services, node.time.scheduler.hold(), list[str]()

    def space(directory: str) -> tuple[int, int]:
        asked.append(directory[-1])
        return 1 << 40, 1 << 39

    monkeypatch.setattr(services.partitions, "space", space)
    disk_space = DiskSpace(services.partitions, node.config, services.clock, services.scheduler, lambda _, __: None)
    disk_space.refresh()
    for _ in range(30):
        threads.run_one(number=1)
        node.time.advance(CHECK_MS)
    assert asked == ["b"] * 30
    directories = services.partitions.directories.values()
    assert [status.path for status in directories if status.is_hung] == [f"{tmp_path}/a"]
    assert directories_of_new(node, "meanwhile") == {"b"}
    described = node.ask(DescribeLogDirsRequest(topics=[]), 4).results
    assert [(row.total_bytes, row.usable_bytes) for row in described][1] == (1 << 40, 1 << 39)
    assert asked == ["b"] * 30 + ["a"], "only of the one that never told anything"
    threads.run_one()
    node.time.advance(CHECK_MS)
    assert not any(status.is_hung for status in directories)
    assert directories_of_new(node, "afterwards") == {"a"}, "which has fewer"
    assert [record.getMessage() for record in caplog.records if "/a " in record.getMessage()] == [
        f"the disk of {tmp_path}/a hangs: no answer about its free space for 10 s",
        f"the disk of {tmp_path}/a answers again",
    ]
    node.close()
