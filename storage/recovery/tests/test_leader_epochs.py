"""Leader epochs that are made again, and the formats that they tell of."""

from __future__ import annotations

import pytest

from headgate.storage.log import flushing
from headgate.storage.recovery.leader_epochs import with_beginning
from headgate.storage.tests.builders import NOW_MS, SMALL, TOPIC_ID, append, batch, files_of, open_store
from headgate.storage.tests.compacted import COMPACT, close_segment, compact, keyed, put
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.reopened import KEY, killed, reopened


def test_batches_without_epochs_are_looked_through_once() -> None:
    files = CrashingFiles()
    store = open_store(files)
    append(store.create("t", 0, TOPIC_ID, SMALL, NOW_MS), *(batch() for _ in range(300)), leader_epoch=-1)
    store.close()
    open_store(files).close()
    files.reads = 0
    assert open_store(files).logs[KEY].epochs.entries == []
    assert files.reads < 10


def test_epochs_of_a_compacted_log_are_derived_once(caplog: pytest.LogCaptureFixture) -> None:
    """The first batch that is left is behind the start of the log."""
    caplog.set_level("INFO", logger="headgate.storage")
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, COMPACT, NOW_MS)
    put(log, keyed(("a", "1")), keyed(("a", "2")))
    close_segment(log)
    assert compact(log, NOW_MS)
    flushing.flush(log)
    store.checkpoint({})
    files.remove("/data/t-0/leader-epoch-checkpoint")
    for count in (1, 1):
        store = open_store(killed(files), COMPACT)
        assert store.logs[KEY].epochs.entries == [(0, 0)]
        assert caplog.text.count("rebuilding it from the batches") == count
        files = files_of(store.logs[KEY])


def test_epochs_of_a_scanned_compacted_log_begin_as_the_file_says(caplog: pytest.LogCaptureFixture) -> None:
    """Also of the segment with the recovery point; again and again, if the broker dies before anything is flushed."""
    caplog.set_level("INFO", logger="headgate.storage")
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, COMPACT, NOW_MS)
    put(log, keyed(("a", "1")), keyed(("a", "2")))
    close_segment(log)
    flushing.flush(log)
    assert compact(log, NOW_MS)
    assert next(log.segments.headers(0)).base_offset == 1
    flushing.write_epochs(log)
    for _ in range(2):
        store = open_store(killed(files), COMPACT)
        assert store.logs[KEY].epochs.entries == [(0, 0)]
        files = files_of(store.logs[KEY])
    assert "rebuilding it from the batches" not in caplog.text


@pytest.mark.parametrize(
    "entries,found,expected",
    [
        ([(0, 0)], [(0, 5)], [(0, 0)]),
        ([(0, 0), (2, 4)], [(2, 7), (3, 9)], [(0, 0), (2, 4), (3, 9)]),
        ([(0, 0), (1, 3)], [(2, 5)], [(0, 0), (1, 3), (2, 5)]),
        ([(0, 0), (3, 3)], [(2, 5)], [(0, 0), (2, 5)]),
        ([(0, 6)], [(0, 5)], [(0, 5)]),
        ([(0, 0)], [], []),
        (None, [(0, 5)], [(0, 5)]),
    ],
)
def test_what_a_scan_finds_begins_where_the_file_says(
    entries: list[tuple[int, int]] | None, found: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    assert with_beginning(entries, found) == expected


def test_epochs_are_those_of_the_batches() -> None:
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    for epoch in (1, 1, 4, 4, 9):
        append(log, batch(2), leader_epoch=epoch)
    expected = log.epochs.entries
    assert expected == [(1, 0), (4, 4), (9, 8)]
    store.close()
    files.remove(log.epochs.path)
    assert reopened(files).logs[KEY].epochs.entries == expected
