"""ListOffsets."""

import os
from dataclasses import replace
from typing import Any

import pytest

from headgate.gateway.api.conversion import BYTES_PER_ROW
from headgate.gateway.api.handlers import list_offsets
from headgate.gateway.api.handlers.list_offsets import AT_ONCE, DEADLINE_MS
from headgate.gateway.runtime.tests.fake_scheduler import HeldThreads
from headgate.gateway.runtime.workers import MAX_THREADS_PER_EXECUTOR
from headgate.gateway.tests.builders import HandlerBroker, parked
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.records.batch import Record, build
from headgate.protocol.records.compression import ZSTD
from headgate.storage.files import File, Files, WouldBlock, parent
from headgate.storage.log import rolling

NOW_MS = 1_700_000_000_000
NOTHING = (0, -1, -1)


def append(node: HandlerBroker, *timestamps: int) -> None:
    batch = build([Record(timestamp=timestamp, value=b"x") for timestamp in timestamps])
    node.services.partitions.get("t", 0).append(memoryview(batch), 1, NOW_MS)


def find(
    node: HandlerBroker, version: int, timestamp: int, name: str = "t", index: int = 0, **options: Any
) -> tuple[int, ...]:
    partition = ListOffsetsPartition(partition_index=index, timestamp=timestamp, **options)
    topic = ListOffsetsTopic(name=name, partitions=[partition])
    response = node.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), version)
    row = response.topics[0].partitions[0]
    return row.error_code, row.offset, row.timestamp


@pytest.mark.parametrize("version", range(1, 12))
def test_the_ends_and_a_time(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 1)
    append(node, NOW_MS, NOW_MS + 10)
    append(node, NOW_MS + 20)
    assert find(node, version, -1) == (0, 3, -1)
    assert find(node, version, -2) == (0, 0, -1)
    assert find(node, version, NOW_MS + 5) == (0, 1, NOW_MS + 10)
    assert find(node, version, NOW_MS + 20) == (0, 2, NOW_MS + 20)
    assert find(node, version, 0) == (0, 0, NOW_MS)


@pytest.mark.parametrize("timestamp", [NOW_MS + 21, 1 << 62])
def test_no_match_is_minus_one(node: HandlerBroker, timestamp: int) -> None:
    node.services.metadata.create_topic("t", 1)
    assert find(node, 7, timestamp) == NOTHING
    append(node, NOW_MS + 20)
    assert find(node, 7, timestamp) == NOTHING


def test_special_times(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    assert find(node, 7, -3) == NOTHING
    append(node, NOW_MS, NOW_MS + 50, NOW_MS + 10)
    assert find(node, 7, -3) == (0, 1, NOW_MS + 50)
    assert find(node, 8, -4) == (0, 0, -1)
    assert find(node, 9, -5) == NOTHING
    assert find(node, 11, -6) == NOTHING


@pytest.mark.parametrize("version, timestamp", [(6, -3), (7, -4), (8, -5), (10, -6), (11, -7), (1, -(1 << 63))])
def test_special_times_of_later_versions_are_refused(node: HandlerBroker, version: int, timestamp: int) -> None:
    node.services.metadata.create_topic("t", 1)
    assert find(node, version, timestamp) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)


def test_nothing_above_the_high_watermark_is_found(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    append(node, NOW_MS)
    append(node, NOW_MS + 10)
    node.services.partitions.get("t", 0).high_watermark = 1
    assert find(node, 7, -1) == (0, 1, -1)
    assert find(node, 7, NOW_MS + 5) == NOTHING


def segments(node: HandlerBroker, *, values: int = 5) -> list[int]:
    """A segment for each record; its files' times are 1, 2, ... seconds after the epoch. Gives where they begin."""
    node.services.metadata.create_topic("t", 1, configs={"segment.bytes": "100"})
    for _ in range(values):
        append(node, NOW_MS)
    log = node.services.partitions.get("t", 0).log
    for number, segment in enumerate(log.segments, 1):
        os.utime(segment.path, (number, number))
    return [segment.base_offset for segment in log.segments]


def find_old(node: HandlerBroker, timestamp: int, most: int = 100, replica_id: int = -1, name: str = "t") -> list[int]:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=most)
    topic = ListOffsetsTopic(name=name, partitions=[partition])
    response = node.ask(ListOffsetsRequest(replica_id=replica_id, topics=[topic]), 0)
    row = response.topics[0].partitions[0]
    assert bool(row.error_code) == (name != "t")
    return list(row.old_style_offsets)


def test_version_0_lists_where_segments_begin_newest_first(node: HandlerBroker) -> None:
    assert segments(node) == [0, 1, 2, 3, 4]
    assert find_old(node, -1) == [5, 4, 3, 2, 1, 0]
    assert find_old(node, -1, most=2) == [5, 4]
    assert find_old(node, -1, most=-1) == []
    assert find_old(node, -2) == [0]
    assert find_old(node, 999) == []
    assert find_old(node, 3_000) == [2, 1, 0]
    assert find_old(node, 3_999, most=2) == [2, 1]
    assert find_old(node, node.services.clock.now_ms()) == [5, 4, 3, 2, 1, 0]
    assert find_old(node, -3) == []
    assert find_old(node, -1, name="nowhere") == []


def test_version_0_up_to_the_last_file_of_a_time(node: HandlerBroker) -> None:
    segments(node)
    log = node.services.partitions.get("t", 0).log
    for segment, seconds in zip(log.segments, (9, 2, 7, 4, 8), strict=True):
        os.utime(segment.path, (seconds, seconds))
    assert [find_old(node, seconds * 1_000) for seconds in (1, 2, 4, 7, 8)] == [
        [],
        [1, 0],
        [3, 2, 1, 0],
        [3, 2, 1, 0],
        [4, 3, 2, 1, 0],
    ]


class Looked:
    """The files of which someone wanted to know when they were written to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[str] = []
        monkeypatch.setattr(Files, "modified_ms", lambda _, path: self._look(path))

    def _look(self, path: str) -> int:
        self.paths.append(path)
        return 1_000


def test_version_0_looks_at_files_only_for_a_time_and_once(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request may name a partition 100,000 times."""
    segments(node)
    looked = Looked(monkeypatch)
    ends = [ListOffsetsPartition(partition_index=0, timestamp=timestamp) for timestamp in (-1, -2, -3)]
    node.ask(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("t", ends)]), 0)
    assert not looked.paths
    times = [ListOffsetsPartition(partition_index=0, timestamp=timestamp) for timestamp in range(1_000)]
    node.ask(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("t", times)]), 0)
    paths = [segment.path for segment in node.services.partitions.get("t", 0).log.segments]
    assert looked.paths == paths
    assert find_old(node, 1_000) == [4, 3, 2, 1, 0]
    assert looked.paths == [*paths, paths[-1]]  # nothing changes in those before


def test_version_0_has_only_so_many_offsets_in_a_reply(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    segments(node)
    monkeypatch.setattr(list_offsets, "MAX_SEGMENT_OFFSETS", 9)
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=-1, max_num_offsets=6) for _ in range(4)]
    response = node.ask(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("t", partitions)]), 0)
    found = [row.old_style_offsets for row in response.topics[0].partitions]
    assert found == [[5, 4, 3, 2, 1, 0], [5, 4, 3], [5], [5]]


def test_version_0_of_an_empty_log_is_where_it_begins(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    assert find_old(node, -1) == find_old(node, -2) == [0]


def test_version_0_begins_where_the_log_does(node: HandlerBroker) -> None:
    segments(node)
    node.services.partitions.get("t", 0).log.advance_start(2)
    assert find_old(node, -2) == [2]


def test_version_0_shows_consumers_nothing_above_the_high_watermark(node: HandlerBroker) -> None:
    segments(node)
    node.services.partitions.get("t", 0).high_watermark = 3
    assert find_old(node, -1) == [3, 3, 2, 1, 0]
    assert find_old(node, -1, most=1) == [3]
    assert find_old(node, -1, replica_id=1) == [5, 4, 3, 2, 1, 0]


def test_errors_are_told_of_their_partition(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    assert find(node, 7, -1, name="nowhere") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert find(node, 7, -1, index=1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert find(node, 7, -1, current_leader_epoch=5) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)


# ------------------------------------------------------------------------------------------------- what may take long


def seek(node: HandlerBroker, *wanted: tuple[int, int]) -> Any:
    """What the handler makes of a request for times in partitions of t."""
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index, timestamp in wanted]
    return node.handle(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("t", partitions)]), 7)


def rows(response: Any) -> list[tuple[int, ...]]:
    return [(row.error_code, row.offset, row.timestamp) for row in response.topics[0].partitions]


@pytest.fixture
def thread(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> HeldThreads:
    """Partitions with a compressed batch each, and a thread to look into them."""
    node.services.metadata.create_topic("t", AT_ONCE + 1)
    for index in range(AT_ONCE + 1):
        records = [Record(timestamp=NOW_MS + index), Record(timestamp=NOW_MS + 100)]
        node.services.partitions.get("t", index).append(memoryview(build(records, compression=ZSTD)), 1, NOW_MS)
    return node.time.scheduler.hold_slices()


def test_records_are_looked_at_by_a_thread(node: HandlerBroker, thread: HeldThreads) -> None:
    answers = parked(node, seek(node, (0, NOW_MS), (1, -1), (0, NOW_MS + 50), (0, NOW_MS + 101), (99, 5)))
    assert not answers
    thread.run_one()
    found = [(0, 0, NOW_MS), (0, 2, -1), (0, 1, NOW_MS + 100), NOTHING, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)]
    assert rows(answers[0]) == found
    assert not thread.waiting


def test_a_time_that_is_sought_often_is_looked_for_once(node: HandlerBroker, thread: HeldThreads) -> None:
    answers = parked(node, seek(node, *[(0, NOW_MS)] * 1_000))
    thread.run_one()
    assert not thread.waiting
    assert rows(answers[0]) == [(0, 0, NOW_MS)] * 1_000


def test_so_many_searches_are_under_way_at_once(node: HandlerBroker, thread: HeldThreads) -> None:
    """Each holds files open."""
    answers = parked(node, seek(node, *[(index, NOW_MS) for index in range(AT_ONCE + 1)]))
    assert node.services.conversions.waiting_bytes == AT_ONCE * BYTES_PER_ROW
    thread.run_one()
    assert not answers
    thread.run_one()
    assert rows(answers[0]) == [(0, 0, NOW_MS + index) for index in range(AT_ONCE + 1)]


def test_what_is_plain_and_short_needs_no_thread(node: HandlerBroker, thread: HeldThreads) -> None:
    node.services.partitions.get("t", 0).append(memoryview(build([Record(timestamp=NOW_MS + 200)])), 1, NOW_MS)
    assert rows(seek(node, (0, NOW_MS + 150))) == [(0, 2, NOW_MS + 200)]


def test_a_disk_that_fails_and_one_that_does_not_answer(
    node: HandlerBroker, thread: HeldThreads, caplog: pytest.LogCaptureFixture
) -> None:
    answers = parked(node, seek(node, (0, NOW_MS)))
    thread.run_one([OSError(5, "Input/output error")])
    assert caplog.messages == ["the store failed (t-0)"]
    assert rows(answers[0]) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)]
    answers = parked(node, seek(node, (0, NOW_MS)))
    node.time.advance(30_000)
    assert answers[0].code == ErrorCode.REQUEST_TIMED_OUT


def test_one_partition_that_is_refused_stops_no_other(
    node: HandlerBroker, thread: HeldThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk of t-0 refuses")

    monkeypatch.setattr(type(node.services.partitions.get("t", 0).log), "max_timestamp", refuse)
    answers = parked(node, seek(node, (0, -3), (1, NOW_MS)))
    thread.run_one()
    assert rows(answers[0]) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1), (0, 0, NOW_MS + 1)]


class ColdDisk(HeldThreads):
    """What is read of it is not in memory before a thread has read it; and not even then, if it `forgets`."""

    def __init__(self) -> None:
        super().__init__()
        self.forgets = False
        self.brought: set[int] = set()


@pytest.fixture
def cold(node: HandlerBroker, thread: HeldThreads, monkeypatch: pytest.MonkeyPatch) -> ColdDisk:
    """Partition 0 has indexes of some batches, which nobody holds in memory."""
    log = node.services.partitions.get("t", 0).log
    log.configure(replace(log.config, index_interval_bytes=0))
    append(node, NOW_MS + 200)
    append(node, NOW_MS + 300)
    rolling.roll(log, NOW_MS)
    log.close_files()
    disk = ColdDisk()

    def read_cached(file: File, length: int, position: int) -> bytes | None:
        is_there = os.fstat(file.fileno).st_ino in disk.brought and not disk.forgets
        return file.read_at(length, position) if is_there else None

    def warm(file: File, _: int, __: int) -> None:
        disk.brought.add(os.fstat(file.fileno).st_ino)

    monkeypatch.setattr(File, "read_cached", read_cached)
    monkeypatch.setattr(File, "warm", warm)
    node.time.scheduler.threads = disk
    return disk


def brought(node: HandlerBroker, cold: ColdDisk) -> None:
    """One thing was read."""
    assert len(cold.waiting) == 1
    cold.run_one()
    node.time.advance()


@pytest.mark.parametrize(
    "timestamp,found,reads", [(NOW_MS + 150, (0, 2, NOW_MS + 200), 2), (-3, (0, 3, NOW_MS + 300), 1)]
)
def test_indexes_on_a_cold_disk_are_read_by_a_thread(
    node: HandlerBroker, thread: HeldThreads, cold: ColdDisk, timestamp: int, found: tuple[int, ...], reads: int
) -> None:
    answers = parked(node, seek(node, (0, timestamp), (1, -1)))
    for _ in range(reads):
        brought(node, cold)
    assert len(cold.brought) == reads, "the time index, and the offset index where its end does not tell"
    assert not answers
    thread.run_one()
    assert rows(answers[0]) == [found, (0, 2, -1)]
    assert not cold.waiting
    assert not thread.waiting


def test_a_disk_that_hangs_holds_up_no_conversions(node: HandlerBroker, thread: HeldThreads, cold: ColdDisk) -> None:
    answers = parked(node, seek(node, (0, NOW_MS + 150), *[(index, NOW_MS) for index in range(1, AT_ONCE + 1)]))
    others = parked(node, seek(node, (1, NOW_MS)))
    while thread.waiting:
        thread.run_one()
    assert rows(others[0]) == [(0, 0, NOW_MS + 1)]
    assert not answers
    brought(node, cold)
    brought(node, cold)
    thread.run_all()
    assert rows(answers[0])[0] == (0, 2, NOW_MS + 200)
    assert rows(answers[0])[1:] == [(0, 0, NOW_MS + index) for index in range(1, AT_ONCE + 1)]


def test_so_many_are_read_for_at_once(node: HandlerBroker, thread: HeldThreads, cold: ColdDisk) -> None:
    """Each holds a file open."""
    wanted = [(0, NOW_MS + number) for number in range(2 * AT_ONCE + 1)]
    answers = parked(node, seek(node, *wanted))
    share = node.services.scheduler.reads(parent(node.services.partitions.get("t", 0).log.directory))
    assert share.running + len(share.waiting) == AT_ONCE
    while not answers:
        cold.run_all()
        node.time.advance()
        if thread.waiting:
            thread.run_one()
    assert [code for code, _, _ in rows(answers[0])] == [0] * len(wanted)


def test_abandoned_searches_leave_nothing_that_waits_for_the_disk(
    node: HandlerBroker, cold: ColdDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = list[str]()
    for name in ("warm", "release"):
        monkeypatch.setattr(WouldBlock, name, lambda _, name=name: done.append(name))
    share = node.services.scheduler.reads(parent(node.services.partitions.get("t", 0).log.directory))
    for _ in range(20):
        parked(node, seek(node, *[(0, NOW_MS + number) for number in range(AT_ONCE)]))
        node.time.advance(DEADLINE_MS)
        assert len(share.waiting) <= 64
    while cold.waiting:
        cold.run_one()
        node.time.advance()
    assert (done.count("warm"), done.count("release")) == (MAX_THREADS_PER_EXECUTOR, 20 * AT_ONCE)
    assert (len(share.waiting), share.running) == (0, 0)


def test_what_is_gone_again_when_it_was_brought_is_waited_for(
    node: HandlerBroker, thread: HeldThreads, cold: ColdDisk
) -> None:
    """Else a search would have no end where memory is short, or where a file system never answers at once."""
    cold.forgets = True
    answers = parked(node, seek(node, (0, NOW_MS + 150)))
    brought(node, cold)
    assert not answers
    thread.run_one()
    assert rows(answers[0]) == [(0, 2, NOW_MS + 200)]


def test_a_disk_that_fails_under_an_index_stops_no_other_partition(
    node: HandlerBroker, thread: HeldThreads, cold: ColdDisk
) -> None:
    answers = parked(node, seek(node, (0, NOW_MS + 150), (1, NOW_MS)))
    cold.run_one(OSError(5, "Input/output error"))
    thread.run_one()
    assert rows(answers[0]) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1, -1), (0, 0, NOW_MS + 1)]
