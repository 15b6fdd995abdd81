"""One segment: append, bounds, cutting, indexes, failed writes."""

from __future__ import annotations

import errno

import pytest

from headgate.protocol.errors import KafkaError
from headgate.storage.files import File, WouldBlock
from headgate.storage.recovery.index_check import has_indexes
from headgate.storage.tests.builders import NOW_MS, rebuilt_indexes
from headgate.storage.tests.crashing_files import CrashingFiles, OpenFile
from headgate.storage.tests.segments import INTERVAL, add, new_segment, reopened


def test_a_new_segment() -> None:
    segment = new_segment()
    assert (segment.path, segment.size) == ("/d/00000000000000000100.log", 0)
    assert (segment.max_timestamp, segment.first_timestamp, segment.end_offset()) == (-1, -1, 100)
    assert segment.locate(100) == 0
    assert has_indexes(segment, INTERVAL, checks_content=True)


@pytest.mark.parametrize("offset", range(98, 123))
def test_locate(offset: int) -> None:
    segment = new_segment(batches=10)
    size = segment.size // 10
    assert segment.locate(offset) == min(max(0, (offset - 100) // 2), 10) * size
    assert segment.end_offset() == 120


def test_cut_finds_the_batch_that_does_not_fit() -> None:
    segment = new_segment(batches=10)
    size = segment.size // 10
    assert segment.cut(0, 3 * size) == (3 * size, 4 * size, 106, 107)
    assert segment.cut(0, 4 * size - 1) == (3 * size, 4 * size, 106, 107)
    assert segment.cut(5 * size, 5 * size) == (5 * size, 6 * size, 110, 111)
    with pytest.raises(KafkaError, match="no batch"):
        segment.cut(0, segment.size)


def test_timestamps_after_opening_again() -> None:
    segment = new_segment(batches=4)
    add(segment, 108, NOW_MS + 900)
    add(segment, 110, NOW_MS + 5)
    assert segment.seal()
    assert not segment.seal()
    again = reopened(segment)
    assert (again.max_timestamp, again.max_timestamp_offset, again.first_timestamp) == (NOW_MS + 900, 109, NOW_MS)
    add(again, 112, NOW_MS + 6)
    assert not again.is_sealed
    assert (again.offsets.content(), again.times.content()) == rebuilt_indexes(again, INTERVAL, sealed=False)
    again.seal()
    assert (again.offsets.content(), again.times.content()) == rebuilt_indexes(again, INTERVAL, sealed=True)


@pytest.mark.parametrize("kept", range(8))
def test_truncation_restores_the_highest_timestamp(kept: int) -> None:
    segment = new_segment()
    times = [5, 9, 3, 9, 12, 4, 30, 2]
    for number, time in enumerate(times):
        add(segment, 100 + 2 * number, NOW_MS + time)
    segment.seal()
    segment.truncate(segment.locate(100 + 2 * kept))
    highest = max([NOW_MS + time for time in times[:kept]], default=-1)
    assert segment.max_timestamp == highest
    if kept:
        assert segment.max_timestamp_offset == 101 + 2 * times.index(highest - NOW_MS)
        assert segment.first_timestamp == NOW_MS + 5
    assert (segment.offsets.content(), segment.times.content()) == rebuilt_indexes(segment, INTERVAL, sealed=False)


def test_the_first_append_finds_in_memory_what_was_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = new_segment(batches=10)
    assert segment.seal()
    again, files = reopened(segment), segment.pool.files
    assert isinstance(files, CrashingFiles)
    brought = list[tuple[str, int]]()

    def read_cached(file: OpenFile, length: int, position: int) -> bytes | None:
        is_there = (file.path, position) in brought
        return bytes(file.node.content[position : position + length]) if is_there else None

    monkeypatch.setattr(OpenFile, "read_cached", read_cached)
    before, is_ready = files.reads, False
    while not is_ready:
        try:
            again.look_up()
            is_ready = True
        except WouldBlock as cold:
            brought.append(cold.place)
            cold.release()
    assert [path.rpartition(".")[2] for path, _ in brought] == ["log", "timeindex", "timeindex", "index", "log"]
    assert len({*brought}) == len(brought)
    assert again.first_timestamp == NOW_MS
    add(again, 120, NOW_MS + 10)
    assert files.reads == before
    again.look_up()
    assert files.reads == before, "only the first one asks"


def test_rebuild_makes_the_indexes_again() -> None:
    segment = new_segment(batches=20)
    expected = segment.offsets.content(), segment.times.content()
    iterator = segment.rebuild(INTERVAL)
    assert segment.offsets.entries == 0
    assert len(list(iterator)) == 20
    assert (
        (segment.offsets.content(), segment.times.content())
        == expected
        == rebuilt_indexes(segment, INTERVAL, sealed=False)
    )
    assert (segment.max_timestamp, segment.first_timestamp) == (NOW_MS + 19, NOW_MS)


def test_a_failed_write_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = new_segment(batches=2)
    size, write_at = segment.size, type(segment.file).write_at

    def fail(file: File, data: bytes, position: int) -> None:
        write_at(file, b"half", position)
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(type(segment.file), "write_at", fail)
    with pytest.raises(OSError, match="input/output"):
        add(segment, 104, NOW_MS)
    monkeypatch.undo()
    assert segment.pool.files.size(segment.path) == segment.size == size
    add(segment, 104, NOW_MS)
    assert segment.end_offset() == 106


@pytest.mark.parametrize("refused", [".index", ".timeindex", ".txnindex"])
def test_a_failed_seal_is_undone_also_where_nothing_can_be_read(refused: str) -> None:
    segment = new_segment(batches=20)
    segment.follow_transactions()
    segment.times.flush()
    files = segment.pool.files
    assert isinstance(files, CrashingFiles)
    files.fail(errno.EIO, "create", "write", path=refused)
    files.fail(errno.EIO, "read", "open")
    with pytest.raises(OSError, match="EIO"):
        segment.seal()
    files.heal()
    assert (segment.offsets.content(), segment.times.content()) == rebuilt_indexes(segment, INTERVAL, sealed=False)
    add(segment, 140, NOW_MS + 20)
    assert segment.seal()
    assert (segment.offsets.content(), segment.times.content()) == rebuilt_indexes(segment, INTERVAL, sealed=True)


def test_deleted_files_are_renamed_and_readable_until_removed() -> None:
    segment = new_segment(batches=20)
    segment.seal()
    files = segment.pool.files
    assert isinstance(files, CrashingFiles)
    files.write("/d/00000000000000000100.snapshot", b"")
    whole = segment.file.read_at(segment.size, 0)
    segment.delete(5_000)
    left = [f"00000000000000000100{suffix}.deleted" for suffix in (".index", ".log", ".snapshot", ".timeindex")]
    assert sorted(files.list("/d")) == left
    assert segment.file.read_at(segment.size, 0) == whole
    assert (segment.locate(121), segment.times.floor(NOW_MS + 19)) == (10 * segment.size // 20, 139)
    assert files.open_handles == 0, "only who reads it keeps it open"
    doomed = segment.pool.pending_deletions
    assert sorted(doomed) == [f"/d/{name}" for name in left]
    assert doomed.take(1_000) is None
    assert doomed.take(5_999) is None
    removal = doomed.take(6_000)
    assert removal is not None
    removal.run()
    assert not files.list("/d")
    assert not doomed
