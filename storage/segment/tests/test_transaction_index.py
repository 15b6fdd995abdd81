"""The index of aborted transactions of a segment: layout, lookups, truncation, a disk that fails."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.storage.disk.pool import Pool
from headgate.storage.errors import BadFile
from headgate.storage.files import WouldBlock
from headgate.storage.segment import transaction_index
from headgate.storage.segment.index import BLOCK_BYTES
from headgate.storage.segment.transaction_index import AbortedTransaction, TransactionIndex
from headgate.storage.tests.crashing_files import CrashingFiles

BASE = 1000
PATH = "/d/00000000000000001000.txnindex"


def new_index(*entries: AbortedTransaction, flushed: int = 0) -> TransactionIndex:
    files = CrashingFiles()
    files.make_directories("/d")
    index = TransactionIndex(Pool(files), "/d", BASE)
    for number, entry in enumerate(entries, 1):
        index.append(entry)
        if number == flushed:
            index.flush()
            index.collect(0, 0)
    return index


def reopened(index: TransactionIndex) -> TransactionIndex:
    return TransactionIndex(index.pool, "/d", BASE, index.pool.files.size(PATH))


def ended(*steps: tuple[int, int, int]) -> list[AbortedTransaction]:
    """(gap, length, how much was open) of transactions one after another -> their entries."""
    entries, last, stable = [], BASE, 0
    for producer_id, (gap, length, opened) in enumerate(steps):
        last += gap
        stable = max(stable, last + 1 - opened)
        entries.append(AbortedTransaction(producer_id, last - length, last, stable))
    return entries


some = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 60), st.integers(0, 60)), max_size=30)


def test_the_layout_is_kafkas() -> None:
    index = new_index(AbortedTransaction(7, 900, 1005, 1006))
    index.flush()
    assert index.pool.files.read(PATH) == struct.pack(">hqqqq", 0, 7, 900, 1005, 1006)
    assert transaction_index.parse(index.content()) == [AbortedTransaction(7, 900, 1005, 1006)]


@given(steps=some, start=st.integers(900, 1700), length=st.integers(0, 300), flushed=st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_what_is_collected(steps: list[tuple[int, int, int]], start: int, length: int, flushed: int) -> None:
    """All that reach into the range are among them, until an entry says that no later one can."""
    entries, up_to = ended(*steps), start + length
    found, is_complete = new_index(*entries, flushed=flushed).collect(start, up_to)
    reaching = [
        (one.producer_id, one.first_offset) for one in entries if one.last_offset >= start and one.first_offset < up_to
    ]
    ends = [
        number for number, one in enumerate(entries) if one.last_offset >= start and one.last_stable_offset >= up_to
    ]
    assert is_complete == bool(ends)
    before_end = {(one.producer_id, one.first_offset) for one in entries[: ends[0] + 1]} if ends else set(reaching)
    assert found == [pair for pair in reaching if pair in before_end]


@given(some, st.integers(990, 1700), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_truncation(steps: list[tuple[int, int, int]], offset: int, is_flushed: bool, is_reopened: bool) -> None:
    entries = ended(*steps)
    index = new_index(*entries)
    if is_flushed or is_reopened:
        index.touch()
    if is_reopened:
        index = reopened(index)
    index.truncate_to(offset)
    kept = [one for one in entries if one.last_offset < offset]
    assert transaction_index.parse(index.content()) == kept
    index.append(AbortedTransaction(99, 1900, 1999, 2000))
    index.flush()
    assert transaction_index.parse(reopened(index).content()) == [*kept, AbortedTransaction(99, 1900, 1999, 2000)]


def test_what_is_no_index() -> None:
    entry = struct.pack(">hqqqq", 0, 7, 900, 1005, 1006)
    for data in (entry[:-1], bytes(34), struct.pack(">h", 1) + entry[2:], entry * 2, entry + bytes(34)):
        with pytest.raises(BadFile):
            transaction_index.parse(data)
    assert transaction_index.parse(b"") == []


def test_soundness() -> None:
    index = new_index(*ended((5, 3, 0), (5, 3, 0)))
    assert index.is_plausible
    index.touch()
    files = index.pool.files
    files.write(PATH, files.read(PATH)[:34] + bytes(34))
    assert not reopened(index).is_plausible
    files.write(PATH, struct.pack(">hqqqq", 0, 7, 10, 999, 1000))
    assert not reopened(index).is_plausible, "of another segment"
    assert new_index().is_plausible


def test_a_file_that_was_cut_counts_as_lost() -> None:
    index = new_index(*ended((5, 3, 0), (5, 3, 0)))
    index.touch()
    index.pool.files.truncate(PATH, 40)
    again = reopened(index)
    assert (again.is_whole, again.entries) == (False, 0)


def test_a_full_disk_is_met_when_the_segment_is_sealed() -> None:
    index = new_index()
    files = index.pool.files
    assert isinstance(files, CrashingFiles)
    files.room = 0
    entries = ended(*[(1, 1, 0)] * (BLOCK_BYTES // 34 + 10))
    for one in entries:
        index.append(one)
    assert transaction_index.parse(index.content()) == entries
    with pytest.raises(OSError, match=str(errno.ENOSPC)):
        index.touch()
    files.room = None
    index.touch()
    assert transaction_index.parse(reopened(index).content()) == entries


def test_blocks_are_written_by_themselves() -> None:
    index = new_index(*ended(*[(1, 1, 0)] * (BLOCK_BYTES // 34 + 1)))
    assert index.pool.files.size(PATH) >= BLOCK_BYTES


def test_what_is_loaded_is_counted_and_given_back() -> None:
    index = new_index(*ended((5, 3, 0)))
    pool = index.pool
    index.collect(0, 5000)
    assert pool.loaded_bytes == index.size == 34
    index.append(AbortedTransaction(5, 1200, 1300, 1301))
    assert index.collect(1250, 5000)[0] == [(5, 1200)]
    assert pool.loaded_bytes == 68
    index.unload()
    assert pool.loaded_bytes == 0


def test_an_impatient_lookup_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    index = new_index(*ended((5, 3, 0)))
    index.touch()
    again = reopened(index)
    opened = type(again.pool.files.open(PATH))
    monkeypatch.setattr(opened, "read_cached", lambda *_: None)
    with pytest.raises(WouldBlock) as caught:
        again.collect(0, 5000, blocking=False)
    caught.value.release()
    assert again.collect(0, 5000)[0] == [(0, 1002)]
