"""Offset and time index: layout, lookups, truncation, lazy loading."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.storage.disk.pool import Pool
from headgate.storage.files import File, Files, WouldBlock
from headgate.storage.segment.index import Index, OffsetIndex, TimeIndex
from headgate.storage.tests.crashing_files import CrashingFiles

BASE = 1000
increasing = st.lists(st.integers(1, 50), max_size=30).map(
    lambda steps: [sum(steps[: n + 1]) for n in range(len(steps))]
)


def new_pool() -> Pool:
    files = CrashingFiles()
    files.make_directories("/d")
    return Pool(files)


def test_layouts_are_kafkas() -> None:
    pool = new_pool()
    offsets, times = OffsetIndex(pool, "/d", BASE), TimeIndex(pool, "/d", BASE)
    offsets.append(BASE + 5, 4097)
    times.append(1 << 40, BASE + 3)
    offsets.flush()
    times.flush()
    assert pool.files.read("/d/00000000000000001000.index") == struct.pack(">ii", 5, 4097)
    assert pool.files.read("/d/00000000000000001000.timeindex") == struct.pack(">qi", 1 << 40, 3)


@given(offsets=increasing, wanted=st.integers(0, 1600), flushed=st.integers(0, 30), loaded=st.booleans())
@settings(max_examples=60)
def test_offset_lookup(offsets: list[int], wanted: int, flushed: int, loaded: bool) -> None:
    index = OffsetIndex(new_pool(), "/d", BASE)
    entries = [(BASE + offset, 100 * number) for number, offset in enumerate(offsets)]
    for number, (offset, position) in enumerate(entries):
        index.append(offset, position)
        if number == flushed:
            index.flush()
            if loaded:
                index.floor(0)
    assert index.floor(BASE + wanted) == max([0, *(at for offset, at in entries if offset <= BASE + wanted)])
    assert index.floor_position(wanted) == max([0, *(at for _, at in entries if at <= wanted)])
    assert (index.entries, index.size) == (len(entries), 8 * len(entries))
    assert index.last_position == (entries[-1][1] if entries else 0)


@given(times=increasing, wanted=st.integers(-1, 1600))
@settings(max_examples=60)
def test_time_lookup(times: list[int], wanted: int) -> None:
    index = TimeIndex(new_pool(), "/d", BASE)
    entries = [(time, BASE + 10 * number) for number, time in enumerate(times)]
    for time, offset in entries:
        index.append(time, offset)
        index.append(time, offset + 1)
        index.append(time - 1, offset + 2)
    assert index.entries == len(entries)
    assert index.floor(wanted) == max([BASE, *(offset for time, offset in entries if time <= wanted)])
    assert index.last_timestamp == (times[-1] if times else -1)


@given(offsets=increasing, position=st.integers(-1, 3000), flushed=st.integers(0, 30))
@settings(max_examples=60)
def test_truncation(offsets: list[int], position: int, flushed: int) -> None:
    pool = new_pool()
    index = OffsetIndex(pool, "/d", BASE)
    for number, offset in enumerate(offsets):
        index.append(BASE + offset, 100 * number)
        if number == flushed:
            index.flush()
    index.truncate_to(position)
    kept = [(offset, 100 * number) for number, offset in enumerate(offsets) if 100 * number < position]
    expected = b"".join(struct.pack(">ii", *entry) for entry in kept)
    assert index.content() == expected
    index.append(BASE + 2000, 5000)
    index.flush()
    assert pool.files.read(index.path) == expected + struct.pack(">ii", 2000, 5000)
    again = OffsetIndex(pool, "/d", BASE, len(expected) + 8)
    assert again.last() == (2000, 5000)
    assert again.floor(BASE + 2000) == 5000


def test_large_indexes_are_written_in_blocks() -> None:
    pool = new_pool()
    index = OffsetIndex(pool, "/d", 0)
    for number in range(512):
        index.append(number, number)
        assert pool.files.exists(index.path) == (number == 511)
    index.append(600, 600)
    assert pool.files.size(index.path) == 4096
    assert index.size == 4104
    assert index.last() == (600, 600)


@pytest.mark.parametrize("written,whole,entries", [(-1, False, 0), (0, True, 0), (16, True, 2), (17, False, 0)])
def test_what_a_file_on_the_disk_is_worth(written: int, whole: bool, entries: int) -> None:
    pool = new_pool()
    if written >= 0:
        pool.files.write("/d/00000000000000000000.index", b"\x00\x00\x00\x01" * 5)
    index = OffsetIndex(pool, "/d", 0, written)
    assert (index.is_whole, index.entries) == (whole, entries)
    index.touch()
    assert index.is_whole
    assert pool.files.size(index.path) == (0 if not whole else 20)


def test_an_index_without_entries() -> None:
    index = OffsetIndex(new_pool(), "/d", 5)
    assert (index.floor(9), index.floor_position(9), index.last_position, index.content()) == (0, 0, 0, b"")
    with pytest.raises(IndexError):
        index.last()
    index.truncate_to(0)


def test_a_disk_that_takes_a_part_of_a_block_leaves_no_part_of_it(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    index = OffsetIndex(Pool(Files()), str(tmp_path), 0)
    index.append(10, 100)
    index.flush()
    for number in range(2, 400):
        index.append(10 * number, 100 * number)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_001, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            index.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert Path(index.path).stat().st_size == index.ENTRY.size
    index.flush()
    index.unload()
    assert index.floor(3_000) == 30_000


def test_a_lost_first_entry_is_not_taken_for_one() -> None:
    """A power cut may leave zeros in its place, which are less than any entry."""
    files = CrashingFiles()
    files.write("/00000000000000000000.timeindex", bytes(12) + TimeIndex.ENTRY.pack(1_700_000_000_000, 9))
    index = TimeIndex(Pool(files), "", 0, 24)
    assert index.entries == 2
    assert not index.is_increasing


def test_the_last_entry_of_a_cut_index_is_a_disk_error() -> None:
    pool = new_pool()
    times = TimeIndex(pool, "/d", BASE)
    times.append(1 << 40, BASE)
    times.flush()
    again = TimeIndex(pool, "/d", BASE, len(pool.files.read(times.path)))
    pool.files.write(times.path, b"")
    with pytest.raises(OSError, match="was cut"):
        again.last()


@pytest.mark.parametrize("look,position", [(Index.last, 12), (Index.first, 0)])
def test_an_impatient_look_leaves_the_disk_to_a_thread(
    look: Callable[..., object], position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = TimeIndex(new_pool(), "/d", BASE)
    written.append(7, BASE + 1)
    written.append(9, BASE + 2)
    written.flush()
    files = written.pool.files
    assert isinstance(files, CrashingFiles)
    index = TimeIndex(written.pool, "/d", BASE, written.size)
    monkeypatch.setattr(File, "read_cached", lambda *_: None)
    with pytest.raises(WouldBlock) as caught:
        look(index, blocking=False)
    assert caught.value.place == (index.path, position)
    caught.value.release()
    assert (files.reads, files.open_handles) == (0, 0)
    assert (index.last(), index.first()) == ((9, 2), (7, 1))


def test_an_impatient_look_takes_what_is_in_memory() -> None:
    written = TimeIndex(new_pool(), "/d", BASE)
    written.append(7, BASE + 1)
    written.append(9, BASE + 2)
    assert (written.last(blocking=False), written.first(blocking=False)) == ((9, 2), (7, 1))
    written.flush()
    index = TimeIndex(written.pool, "/d", BASE, written.size)
    assert (index.last(), index.first()) == ((9, 2), (7, 1))


def test_the_end_is_found_without_the_rest_of_the_index() -> None:
    pool = new_pool()
    pool.files.write("/d/00000000000000001000.index", struct.pack(">iiiiii", 10, 100, 20, 200, 30, 300))
    index = OffsetIndex(pool, "/d", BASE, 3 * 8)
    with mock.patch.object(pool, "used") as loaded:
        assert index.floor(BASE + 35) == index.floor(BASE + 30) == 300
        loaded.assert_not_called()
        assert index.floor(BASE + 29) == 200
        loaded.assert_called_once()
