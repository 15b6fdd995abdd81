"""Leader epochs that are made again, and the formats that they tell of."""

from __future__ import annotations

import pytest

from storage.compaction.rounds import compact
from storage.tests.builders import NOW_MS, SMALL, TOPIC_ID, append, batch, open_store
from storage.tests.compacted import COMPACT, close_segment, keyed, put
from storage.tests.crashing_files import CrashingFiles
from storage.tests.reopened import KEY, killed, reopened


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
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, COMPACT, NOW_MS)
    put(log, keyed(("a", "1")), keyed(("a", "2")))
    close_segment(log)
    assert compact(log, NOW_MS)
    log.flush()
    store.checkpoint({})
    files.remove("/data/t-0/leader-epoch-checkpoint")
    for count in (1, 1):
        store = open_store(killed(files), COMPACT)
        assert store.logs[KEY].epochs.entries == [(0, 0)]
        assert caplog.text.count("made again from the batches") == count
        files = store.pool.files  # type: ignore[assignment]


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
