"""Snapshot files: which one is taken, which go."""

from __future__ import annotations

import logging

import pytest

from headgate.protocol.steps import finish
from headgate.storage.disk.pool import Pool
from headgate.storage.log import snapshots
from headgate.storage.log.producers import Producer, Producers
from headgate.storage.log.segments import Segments
from headgate.storage.segment.segment import Segment
from headgate.storage.tests.builders import NOW_MS, batch
from headgate.storage.tests.crashing_files import CrashingFiles


def new_files(*offsets: int) -> CrashingFiles:
    """One snapshot for each offset, that knows a producer of this id."""
    files = CrashingFiles()
    files.make_directories("/d")
    for offset in offsets:
        producers = Producers()
        producers.by_id[offset] = Producer(0)
        snapshots.save(files, "/d", offset, producers)
    return files


@pytest.mark.parametrize("start,end,expected", [(0, 4, -1), (0, 5, 5), (5, 19, 5), (6, 19, -1), (6, 30, 20)])
def test_the_newest_snapshot_between_log_start_and_log_end(start: int, end: int, expected: int) -> None:
    producers, offset = snapshots.load_latest(new_files(5, 20), "/d", [5, 20], start, end)
    assert offset == expected
    assert list(producers.by_id) == ([expected] if expected >= 0 else [])


def test_a_damaged_one_is_passed_over_and_removed(caplog: pytest.LogCaptureFixture) -> None:
    files = new_files(5, 20)
    files.write("/d/00000000000000000020.snapshot", b"damaged")
    with caplog.at_level(logging.WARNING):
        assert snapshots.load_latest(files, "/d", [20, 5], 0, 30)[1] == 5
    assert "00000000000000000020.snapshot is not used" in caplog.text
    assert list(files.list("/d")) == ["00000000000000000005.snapshot"]


def test_removal() -> None:
    files = new_files(5, 20, 30)
    assert snapshots.remove_behind(files, "/d", [5, 20, 30], 20) == [5, 20]
    assert sorted(files.list("/d")) == ["00000000000000000005.snapshot", "00000000000000000020.snapshot"]


def test_what_is_a_snapshot() -> None:
    names = ["00000000000000000020.snapshot", "x.snapshot", "00000000000000000020.log"]
    assert snapshots.offsets(names) == [20]


def test_a_state_from_before_a_gap_is_not_taken() -> None:
    """A power cut came while the log was begun anew behind its end: the first segment is empty, and still there."""
    files = new_files(5)
    pool = Pool(files)
    items = [Segment.create(pool, "/d", base, NOW_MS) for base in (0, 12)]
    producers = finish(snapshots.replayed(files, "/d", [5], Segments(items), 12))
    assert (dict(producers.by_id), producers.snapshot_offset) == ({}, 12)
    items[0].append(batch(5), [(len(batch(5)), 4, NOW_MS)], 4096)
    producers = finish(snapshots.replayed(files, "/d", [5], Segments(items[:1]), 5))
    assert (list(producers.by_id), producers.snapshot_offset) == ([5], 5)
