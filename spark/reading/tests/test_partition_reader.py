"""A range of one partition: pieces, gaps, damage, and a broker beside it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.protocol.records.batch import Record, build, read_header
from headgate.spark.reading import partition_reader
from headgate.spark.reading.aborted_transactions import IndexTrust
from headgate.spark.reading.log_reader import Bounds, IsolationLevel, LogUnavailable, OffsetOutOfRange, OffsetRange
from headgate.spark.reading.partition_reader import PartitionReader, ReadDirectory
from headgate.spark.reading.tests.logs import DIRECTORY, PARTITION, fill, new_store, transact
from headgate.spark.reading.tests.simulated_disk import SimulatedDisk, records
from headgate.storage.files import File, Files
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import NOW_MS, append, append_own, marker, transactional
from headgate.storage.tests.compacted import COMPACT, close_segment, compact, keyed
from headgate.storage.tests.crashing_files import CrashingFiles

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
RUNNING = IndexTrust(has_last=False, may_lack_files=False)


@pytest.fixture
def stored() -> tuple[CrashingFiles, Log]:
    files, _, log = new_store()
    fill(log)
    return files, log


def reader(
    disk: CrashingFiles | Files,
    start: int,
    end: int,
    isolation: IsolationLevel = UNCOMMITTED,
    *,
    piece_bytes: int = 700,
    log_start: int = 0,
) -> PartitionReader:
    disk = SimulatedDisk(disk) if isinstance(disk, CrashingFiles) else disk
    wanted = OffsetRange(PARTITION, start, end)
    place = ReadDirectory(DIRECTORY, log_start, RUNNING)
    return PartitionReader(disk, place, wanted, isolation, piece_bytes, lambda _: None)


def offsets(disk: CrashingFiles | Files, start: int, end: int, isolation: IsolationLevel = UNCOMMITTED) -> list[int]:
    found = records(reader(disk, start, end, isolation).pieces(), OffsetRange(PARTITION, start, end))
    return [record.offset for record in found]


def test_any_range_in_pieces_of_any_size(stored: tuple[CrashingFiles, Log]) -> None:
    files, log = stored
    for start in range(0, log.end_offset, 7):
        for end in range(start, log.end_offset + 1, 7):
            assert offsets(files, start, end) == [*range(start, end)]
    for piece_bytes in (27, 178, 179, 180, 1 << 20):
        wanted = OffsetRange(PARTITION, 1, 59)
        pieces = list(reader(files, 1, 59, piece_bytes=piece_bytes).pieces())
        assert [record.offset for record in records(pieces, wanted)] == [*range(1, 59)]
        assert max(len(piece.batches) for piece in pieces) <= max(piece_bytes, 179)


def test_an_empty_range_opens_nothing() -> None:
    assert list(reader(CrashingFiles(), 5, 5).pieces()) == []


def test_files_are_closed_by_a_reader_that_stops(stored: tuple[CrashingFiles, Log]) -> None:
    files, log = stored
    log.close_files()
    pieces = reader(files, 0, 60).pieces()
    next(pieces)
    assert files.open_handles > 0
    pieces.close()
    assert files.open_handles == 0


def test_deleted_records_are_out_of_range(stored: tuple[CrashingFiles, Log]) -> None:
    files, log = stored
    with pytest.raises(OffsetOutOfRange, match="t-0: the offsets 3 to 9 were asked for"):
        list(reader(files, 3, 10, log_start=4).pieces())
    first = log.segments[0]
    files.rename(first.path, first.path + ".deleted")
    with pytest.raises(OffsetOutOfRange) as raised:
        list(reader(files, 3, 10).pieces())
    assert raised.value.bounds.start_offset == log.segments[1].base_offset


def test_offsets_that_are_not_there_are_out_of_range(stored: tuple[CrashingFiles, Log]) -> None:
    files, _ = stored
    found = list[int]()
    with pytest.raises(OffsetOutOfRange) as raised:
        found.extend(piece.next_offset for piece in reader(files, 50, 70).pieces())
    assert found[-1] == 60
    assert raised.value.bounds == Bounds(0, 60)


def test_records_that_come_meanwhile_are_read(stored: tuple[CrashingFiles, Log]) -> None:
    files, log = stored
    rounds = iter(range(5))

    def go_on(_: float) -> None:
        if next(rounds, None) == 3:
            fill(log, 5)

    wanted = OffsetRange(PARTITION, 50, 70)
    waiting = PartitionReader(
        SimulatedDisk(files), ReadDirectory(DIRECTORY, 0, RUNNING), wanted, UNCOMMITTED, 700, go_on
    )  # fmt: skip
    assert [record.offset for record in records(waiting.pieces(), wanted)] == [*range(50, 70)]


def test_a_damaged_batch_is_named(stored: tuple[CrashingFiles, Log]) -> None:
    files, log = stored
    files.file(log.segments[1].path).content[16] = 9
    with pytest.raises(LogUnavailable, match=r"byte 0.*magic 9.*headgate log verify"):
        list(reader(files, 0, 60).pieces())


def test_a_batch_of_an_absurd_size_is_not_loaded(
    stored: tuple[CrashingFiles, Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, _ = stored
    monkeypatch.setattr(partition_reader, "MAX_BATCH_BYTES", 100)
    with pytest.raises(LogUnavailable, match="a batch of 179 bytes is too large"):
        list(reader(files, 0, 60, piece_bytes=100).pieces())


def test_a_file_that_cannot_be_read_is_named(stored: tuple[CrashingFiles, Log]) -> None:
    files, _ = stored
    files.fail(13, "open", path=".log")
    with pytest.raises(LogUnavailable, match="EACCES"):
        list(reader(files, 0, 60).pieces())


def test_a_deleted_topic_is_named(stored: tuple[CrashingFiles, Log]) -> None:
    files, _ = stored
    files.rename(DIRECTORY, f"{DIRECTORY}.0-delete")
    with pytest.raises(LogUnavailable, match="cannot be read at offset 0"):
        list(reader(files, 0, 60).pieces())


def test_aborted_transactions_are_those_of_each_piece() -> None:
    files, _, log = new_store()
    transact(log)
    end = log.stable_offset
    for piece in reader(files, 0, end, COMMITTED).pieces():
        first = read_header(piece.batches).base_offset
        assert sorted(piece.aborted) == sorted(set(piece.aborted))
        assert {*piece.aborted} <= {*log.aborted(first, piece.next_offset)}
        assert all(start < piece.next_offset for _, start in piece.aborted)
    assert not any(piece.aborted for piece in reader(files, 0, end).pieces())
    markers = {header.base_offset for header in log.segments.headers(0) if header.is_control}
    assert offsets(files, 0, end) == [offset for offset in range(end) if offset not in markers]


class Interrupted(SimulatedDisk):
    """Something happens at the nth operation on this disk."""

    def __init__(self, files: CrashingFiles, number: int, what: Callable[[], object]) -> None:
        self.number = number
        self.what = what
        super().__init__(files, self.count)

    def count(self) -> None:
        self.number -= 1
        if not self.number:
            self.what()


def compacted_log() -> tuple[CrashingFiles, Log]:
    """Keys that come again in later segments, below an active one."""
    files, _, log = new_store(COMPACT)
    for number in range(20):
        append(log, memoryview(keyed((f"k{number % 3}", "v" * 90), (f"once{number}", "v"))))
        if number % 3 == 2:
            close_segment(log)
    append(log, memoryview(keyed(("k0", "last"))))
    return files, log


@pytest.mark.parametrize("number", range(1, 40, 2))
def test_a_compaction_at_any_moment_takes_only_what_it_removes(number: int) -> None:
    files, log = compacted_log()
    before = offsets(files, 0, log.end_offset)

    def compact_now() -> None:
        compact(log, NOW_MS)
        removal = log.pool.pending_deletions.take(0.0, at_once=True)
        assert removal is not None
        removal.run()

    found = offsets(Interrupted(files, number, compact_now), 0, log.end_offset)
    left = offsets(files, 0, log.end_offset)
    assert len(left) <= len(before)
    assert {*left} <= {*found} <= {*before}


def test_an_index_of_a_new_segment_does_not_hide_aborted_records() -> None:
    """Compaction swaps a segment, and its index of aborted transactions, after the reader has opened the old one."""
    files, _, log = new_store(COMPACT)
    append_own(log, memoryview(keyed(("a", "1"))))
    append_own(log, transactional(0, 1, size=300))
    append_own(log, marker(is_commit=False))
    append_own(log, memoryview(keyed(("b", "1"))))
    close_segment(log)
    append_own(log, memoryview(keyed(("a", "2"))))
    close_segment(log)
    append_own(log, memoryview(keyed(("c", "2"))))
    before = offsets(files, 0, log.end_offset, COMMITTED)
    assert before == [0, 3, 4, 5]
    for number in range(1, 30):
        files_now = files.copy()

        def swap(files_now: CrashingFiles = files_now) -> None:
            """The files of the new segment, as the broker leaves them."""
            path = f"{DIRECTORY}/{0:020d}"
            kept = build([Record(offset=3, timestamp=NOW_MS, key=b"b", value=b"1")], base_offset=3)
            files_now.rename(path + ".log", path + ".log.deleted")
            files_now.rename(path + ".txnindex", path + ".txnindex.deleted")
            files_now.write(path + ".txnindex", b"")
            files_now.write(path + ".log", bytes(kept))

        found = offsets(Interrupted(files_now, number, swap), 0, log.end_offset, COMMITTED)
        assert found in (before, before[1:])


def test_a_file_is_read_through_one_opening(stored: tuple[CrashingFiles, Log]) -> None:
    files, log = stored
    opened = list[str]()

    class Counting(SimulatedDisk):
        def open(self, path: str, *, create: bool = False) -> File:
            opened.append(path)
            return super().open(path, create=create)

    assert offsets(Counting(files), 0, 60) == [*range(60)]
    logs = [path for path in opened if path.endswith(".log")]
    assert logs == [segment.path for segment in log.segments]
