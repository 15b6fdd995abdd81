"""Segments with messages of magic 0 and 1: found, walked, searched by time, recovered, and told from damage."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import legacy
from headgate.protocol.records.batch import Record, build
from headgate.protocol.records.compression import GZIP, LZ4, NONE
from headgate.protocol.steps import finish
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.disk.layout import Meta, write_meta
from headgate.storage.errors import UnsupportedLog
from headgate.storage.log.log import Log
from headgate.storage.segment import legacy_messages
from headgate.storage.segment.batch_seek import seek
from headgate.storage.segment.file_slice import FileSlice, MessagesSlice
from headgate.storage.tests.builders import NOW_MS, append, batch, open_store
from headgate.storage.tests.crashing_files import CrashingFiles

PARTITION = "/data/t-0"
KEY = ("t", 0)
COUNT = 30


def records(first: int, count: int, magic: int = 1) -> list[Record]:
    time = NOW_MS if magic else -1
    return [
        Record(offset, time + offset if magic else -1, b"key %d" % offset, bytes(offset % 40), [])
        for offset in range(first, first + count)
    ]


def stored(magic: int, codec: int, first: int = 0, count: int = COUNT) -> bytes:
    """Messages as a log has them: plain ones, or wrappers of ten."""
    if codec == NONE:
        return bytes(legacy.build(records(first, count, magic), magic))
    wrappers = [
        legacy.build(records(start, 10, magic), magic, codec=codec) for start in range(first, first + count, 10)
    ]
    return b"".join(wrappers)


def kafkas(*segments: tuple[int, bytes], epochs: str | None = None) -> CrashingFiles:
    """A directory that Apache Kafka left, with nothing but `.log` files, and leader epochs if there are any."""
    files = CrashingFiles()
    files.make_directories(PARTITION)
    write_meta(files, "/data", Meta("c" * 22, 0, ""))
    for base_offset, data in segments:
        files.write(f"{PARTITION}/{base_offset:020d}.log", data, sync=True)
    if epochs is not None:
        files.write(f"{PARTITION}/leader-epoch-checkpoint", epochs.encode(), sync=True)
    return files


def opened(files: CrashingFiles) -> Log:
    store = open_store(files)
    assert store.failed == {}
    return store.logs[KEY]


def all_read(log: Log, max_bytes: int = 300) -> list[Record]:
    """Read piece by piece, as a consumer does."""
    found: list[Record] = []
    while True:
        offset = found[-1].offset + 1 if found else log.start_offset
        piece = log.read(offset, max_bytes, log.end_offset, at_least_one=True)
        if piece is None:
            return found
        assert isinstance(piece, MessagesSlice) == log.segments[log.segments.position_of(offset)].has_legacy_format
        data = piece.read()
        assert legacy_messages.whole_bytes(data) == len(data)
        found += [record for record in legacy.iterate(data) if record.offset >= offset]
        piece.release()


@pytest.mark.parametrize("codec", [NONE, GZIP, LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_are_read_from_any_offset(magic: int, codec: int) -> None:
    log = opened(kafkas((0, stored(magic, codec)), (COUNT, stored(magic, codec, COUNT))))
    expected = records(0, 2 * COUNT, magic)
    assert (log.start_offset, log.end_offset) == (0, 2 * COUNT)
    assert log.segments.has_legacy_format
    assert all_read(log) == expected
    for offset in range(log.end_offset):
        piece = log.read(offset, 1, log.end_offset, at_least_one=True)
        assert piece is not None
        assert offset in [record.offset for record in legacy.iterate(piece.read())]


def test_batches_behind_messages() -> None:
    """The segment in which the format changed has both, the next one is as any other."""
    mixed = stored(1, NONE) + batches(COUNT)
    log = opened(kafkas((0, mixed), (COUNT + 5, batches(COUNT + 5)), epochs="0\n1\n0 30\n"))
    assert [segment.has_legacy_format for segment in log.segments] == [True, False]
    assert all_read(log) == records(0, COUNT + 10)
    assert log.epochs.entries == [(0, COUNT)]


def batches(first: int, leader_epoch: int = 0) -> bytes:
    """One batch of five."""
    return bytes(build(records(first, 5), base_offset=first, leader_epoch=leader_epoch))


def test_writing_goes_on_behind_messages() -> None:
    files = kafkas((0, stored(1, GZIP)))
    store = open_store(files)
    log = store.logs[KEY]
    assert log.epochs.entries == []
    append(log, *(batch(2) for _ in range(60)), leader_epoch=3)
    assert len(log.segments) > 2
    before = all_read(log)
    assert before[:COUNT] == records(0, COUNT)
    for is_clean in (True, False):
        if is_clean:
            store.close()
        files.locked.clear()
        store = open_store(files)
        log = store.logs[KEY]
        assert log.epochs.entries == [(3, COUNT)]
        assert [segment.has_legacy_format for segment in log.segments] == [True] + [False] * (len(log.segments) - 1)
        assert all_read(log) == before


@pytest.mark.parametrize("magic", [0, 1])
def test_indexes_lead_to_messages(magic: int) -> None:
    log = opened(kafkas((0, stored(magic, NONE, 0, 200))))
    (segment,) = log.segments
    assert segment.offsets.entries > 10
    assert [segment.locate(offset) for offset in range(200)] == [position for position, _ in segment.iterate()]
    assert segment.max_timestamp == (NOW_MS + 199 if magic else -1)
    assert segment.times.entries == (segment.offsets.entries if magic else 0)
    before = segment.offsets.content(), segment.times.content()
    for _ in segment.rebuild(log.config.index_interval_bytes):
        pass
    assert (segment.offsets.content(), segment.times.content()) == before


@pytest.mark.parametrize("kept", [-1, -5, -20, None])
@pytest.mark.parametrize("more", [b"", b"\xff", b"\x01" * 40])
def test_a_torn_tail_is_cut(kept: int | None, more: bytes) -> None:
    log = opened(kafkas((0, stored(1, NONE)[:kept] + more)))
    assert log.end_offset == COUNT - (kept is not None)
    assert all_read(log) == records(0, log.end_offset)
    append(log, batch())
    assert log.end_offset == len(all_read(log))


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_times_are_found_among_messages(codec: int) -> None:
    log = opened(kafkas((0, stored(1, codec) + batches(COUNT))))
    for offset in range(COUNT + 5):
        found = finish(log.offset_for_time(NOW_MS + offset, log.end_offset))
        assert found is not None
        assert found[:2] == (offset, NOW_MS + offset)
    newest = finish(log.max_timestamp(log.end_offset))
    assert newest is not None
    assert newest[0] == COUNT + 4
    assert finish(log.offset_for_time(NOW_MS + 100, log.end_offset)) is None


def test_without_times_none_is_found() -> None:
    log = opened(kafkas((0, stored(0, NONE))))
    assert finish(log.offset_for_time(0, log.end_offset)) is None
    assert finish(log.max_timestamp(log.end_offset)) is None


def test_messages_where_epochs_say_that_there_are_none() -> None:
    """It is told how to have them read."""
    files = kafkas((0, stored(1, NONE)), epochs="0\n1\n0 0\n")
    store: LogDirectory = open_store(files)
    assert isinstance(store.failed[KEY], UnsupportedLog)
    assert "delete that file" in str(store.failed[KEY])
    files.locked.clear()
    files.remove(f"{PARTITION}/leader-epoch-checkpoint")
    assert all_read(opened(files)) == records(0, COUNT)


@pytest.mark.parametrize("is_clean", [True, False])
def test_where_the_log_was_made_to_start_later(is_clean: bool) -> None:
    """Epochs begin with the log, in the middle of a segment: that says nothing of messages before."""
    for first, is_old in ((batches(0) + batches(5), False), (stored(1, NONE, 0, 5) + batches(5), True)):
        files = kafkas((0, first), (10, batches(10)))
        store = open_store(files)
        log = store.logs[KEY]
        append(log, batch())
        log.advance_start(7)
        assert log.epochs.entries[0] == (0, 7)
        store.checkpoint({})
        if is_clean:
            store.close()
        files.locked.clear()
        log = opened(files)
        assert [segment.has_legacy_format for segment in log.segments] == [is_old, False]
        assert all_read(log)[:8] == records(7, 8)


def test_a_log_of_batches_alone_pays_nothing() -> None:
    log = open_store(CrashingFiles()).create("t", 0, bytes(16), open_store(CrashingFiles()).config, NOW_MS)
    append(log, batch())
    assert not log.segments.has_legacy_format
    piece = log.read(0, 1000, log.end_offset, at_least_one=True)
    assert type(piece) is FileSlice


def heads(data: Sequence[bytes]) -> list[tuple[int, int, int, int]]:
    found = [legacy_messages.read_head(one) for one in data]
    return [(head.magic, head.last_offset, head.size, head.compression) for head in found]


def test_what_a_head_tells() -> None:
    data = [stored(0, NONE, 4, 1), stored(1, NONE, 5, 1), stored(1, GZIP, 0, 10), bytes(batch())]
    sizes = [len(one) for one in data]
    assert heads(data) == [(0, 4, sizes[0], 0), (1, 5, sizes[1], 0), (1, 9, sizes[2], 1), (2, 0, sizes[3], 0)]
    for one in data:
        assert legacy_messages.valid_bytes(one) == legacy_messages.size_at(one) == len(one)
        assert legacy_messages.valid_bytes(one[:-1]) == 0
        assert legacy_messages.valid_bytes(one[:-1] + b"\xff") == 0
    assert legacy_messages.whole_bytes(b"".join(data) + data[0][:-1]) == sum(sizes)


@pytest.mark.parametrize("data", [b"", bytes(16), bytes(17), bytes(100), bytes(16) + b"\x01" + bytes(30), b"\xff" * 80])
def test_other_bytes_are_no_head(data: bytes) -> None:
    with pytest.raises(KafkaError):
        legacy_messages.read_head(data)
    assert legacy_messages.valid_bytes(data) == 0


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["0", "1", "0z", "1z", "2"]), st.integers(1, 12)), min_size=1, max_size=12))
def test_any_mixture_is_walked_and_sought(parts: list[tuple[str, int]]) -> None:
    """Beside a look at each item of the file."""
    data, items, offset = b"", [], 0
    for kind, count in parts:
        many = records(offset, count, int(kind[0]))
        made = [many] if kind in ("0z", "1z", "2") else [[one] for one in many]
        for one in made:
            items.append((len(data), one[-1].offset))
            data += build(one, base_offset=one[0].offset) if kind == "2" else legacy.build(
                one, int(kind[0]), codec=GZIP if kind.endswith("z") else NONE
            )  # fmt: skip
        offset += count
    log = opened(kafkas((0, data)))
    (segment,) = log.segments
    assert [(position, header.last_offset) for position, header in segment.iterate()] == items
    assert log.end_offset == offset
    for wanted in range(offset + 1):
        assert segment.locate(wanted) == next((at for at, last in items if last >= wanted), len(data))
    for limit in range(0, len(data), 37):
        found = seek(segment, 0, limit)
        assert found is not None
        assert found[0] == next(at for at, end in zip(*_bounds(items, len(data)), strict=True) if end > limit)
    assert [(record.offset, record.value) for record in all_read(log)] == [
        (record.offset, record.value) for record in records(0, offset)
    ]


def _bounds(items: list[tuple[int, int]], size: int) -> tuple[list[int], list[int]]:
    starts = [at for at, _ in items]
    return starts, [*starts[1:], size]
