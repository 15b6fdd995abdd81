"""Aborted transactions are the same from the indexes, from the batches, and from a part of both."""

from __future__ import annotations

import pytest

from headgate.protocol.records.aborted_batches import AbortedBatches
from headgate.spark.reading.aborted_transactions import IndexTrust, find_aborted
from headgate.spark.reading.segment_view import SegmentView
from headgate.spark.reading.tests.logs import DIRECTORY, new_store, transact
from headgate.spark.reading.tests.simulated_disk import SimulatedDisk
from headgate.storage.files import File
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import append_own, entries, marker, next_offset, transactional
from headgate.storage.tests.builders import stored as stored_batches
from headgate.storage.tests.crashing_files import CrashingFiles

ALL = IndexTrust(has_last=True, may_lack_files=False)
RUNNING = IndexTrust(has_last=False, may_lack_files=False)
NONE = IndexTrust(has_last=False, may_lack_files=False, recovery_point=0)


@pytest.fixture
def stored() -> tuple[CrashingFiles, Log]:
    files, store, log = new_store()
    transact(log)
    assert len(log.segments) > 3
    store.close()
    return files, log


def found(files: CrashingFiles, start: int, up_to: int, trust: IndexTrust) -> list[tuple[int, int]]:
    view = SegmentView(SimulatedDisk(files), DIRECTORY)
    return [(one.producer_id, one.first_offset) for one in find_aborted(view, start, up_to, trust)]


def hidden(log: Log, start: int, up_to: int, aborted: list[tuple[int, int]]) -> list[int]:
    """The base offsets of the batches that a consumer of committed records leaves out."""
    piece = log.read(start, 1 << 30, up_to, at_least_one=True)
    data = b""
    while piece is not None:
        data += piece.read()
        piece.release()
        piece = log.read(next_offset(data), 1 << 30, up_to, at_least_one=True)
    batches = AbortedBatches(aborted)
    return [header.base_offset for header, view in stored_batches(data) if batches.includes(header, view)]


@pytest.mark.parametrize("trust", [ALL, RUNNING, NONE, NONE._replace(recovery_point=30)])
def test_any_range_has_those_that_reach_into_it(stored: tuple[CrashingFiles, Log], trust: IndexTrust) -> None:
    files, log = stored
    ends = [header.last_offset + 1 for header in log.segments.headers(0)]
    for start in range(0, log.end_offset, 9):
        for up_to in (end for end in ends[::4] if end > start):
            expected = hidden(log, start, up_to, log.aborted(start, up_to))
            assert hidden(log, start, up_to, found(files, start, up_to, trust)) == expected
    assert files.open_handles <= len(log.segments)


@pytest.mark.parametrize("content", [b"", b"\0" * 34, b"half", None])
def test_a_lost_index_is_replaced_by_the_markers(stored: tuple[CrashingFiles, Log], content: bytes | None) -> None:
    files, log = stored
    expected = log.aborted(0, log.end_offset)
    path = log.segments[1].path.replace(".log", ".txnindex")
    files.remove(path)
    if content is not None:
        files.write(path, content)
    trust = NONE._replace(recovery_point=0) if content == b"" else ALL
    assert found(files, 0, log.end_offset, trust) == expected


def test_kafka_has_no_index_where_nothing_was_aborted(stored: tuple[CrashingFiles, Log]) -> None:
    files, log = stored
    before = log.aborted(0, log.end_offset)
    for segment in log.segments:
        path = segment.path.replace(".log", ".txnindex")
        if not files.size(path):
            files.remove(path)
    assert found(files, 0, log.end_offset, ALL._replace(may_lack_files=True)) == before


@pytest.mark.parametrize("is_open", [False, True])
def test_a_snapshot_spares_the_batches(is_open: bool) -> None:
    """Without aborted transactions no index says where to stop, up to the active segment's."""
    files, _, log = new_store()
    if is_open:
        append_own(log, transactional(0, 1, producer_id=99))
    for number in range(40):
        append_own(log, transactional(number, 1, size=100), marker(is_commit=True))
    opened = list[str]()

    class Counting(SimulatedDisk):
        def open(self, path: str, *, create: bool = False) -> File:
            opened.append(path)
            return super().open(path, create=create)

    assert find_aborted(SegmentView(Counting(files), DIRECTORY), 0, 5, RUNNING) == []
    assert any(path.endswith(".log") for path in opened) == is_open


def test_batches_behind_the_range_are_read_while_its_transactions_are_open(stored: tuple[CrashingFiles, Log]) -> None:
    files, log = stored
    for one in (one for segment in log.segments for one in entries(segment)):
        if one.last_offset - one.first_offset > 4:
            assert (one.producer_id, one.first_offset) in found(files, one.first_offset, one.first_offset + 1, NONE)


def test_an_open_transaction_is_not_aborted() -> None:
    files, _, log = new_store()
    append_own(log, transactional(0, 3))
    assert found(files, 0, 3, RUNNING) == []
