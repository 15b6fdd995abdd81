"""What is kept beside a log."""

from __future__ import annotations

import errno
from random import Random

import pytest

from headgate.protocol.steps import finish
from headgate.storage.recovery.quarantine import FinalBatch, quarantine_cut, replaced
from headgate.storage.segment.tests.test_replacement import EXPECTED, KEY, LARGE, filled, names
from headgate.storage.tests.builders import NOW_MS, content, open_store
from headgate.storage.tests.compacted import assert_indexes, close_segment, compact, keyed, put, values
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.segments import new_segment


def test_each_time_it_is_another_file() -> None:
    segment = new_segment(batches=2)
    files = segment.pool.files
    for position in (10, 10, 10, 30):
        finish(quarantine_cut(files, segment, position))
    whole = segment.file.read_at(segment.size, 0)
    kept = {name: files.read(f"/d/{name}") for name in files.list("/d") if name.endswith(".torn")}
    log = "00000000000000000100.log"
    assert kept == {
        f"{log}.10.torn": whole[10:],
        f"{log}.10.1.torn": whole[10:],
        f"{log}.10.2.torn": whole[10:],
        f"{log}.30.torn": whole[30:],
    }


def test_zeros_alone_are_not_kept() -> None:
    segment = new_segment(batches=1)
    size = segment.size
    segment.file.write_at(bytes(500), size)
    segment.size += 500
    files = segment.pool.files
    finish(quarantine_cut(files, segment, size))
    assert sorted(files.list("/d")) == ["00000000000000000100.log"]
    finish(quarantine_cut(files, segment, size - 2))
    assert files.size(f"{segment.path}.{size - 2}.torn") == 502


def test_where_it_fails_nothing_is_left() -> None:
    segment = new_segment(batches=1)
    files = segment.pool.files
    assert isinstance(files, CrashingFiles)
    files.room = 20
    with pytest.raises(OSError, match=f"Errno {errno.ENOSPC}"):
        finish(quarantine_cut(files, segment, 0))
    assert sorted(files.list("/d")) == ["00000000000000000100.log"]


def test_a_replaced_segment_that_is_here_again_is_put_aside(caplog: pytest.LogCaptureFixture) -> None:
    files = CrashingFiles()
    store = filled(files)
    log = store.logs[KEY]
    replaced = {segment.path: files.read(segment.path) for segment in log.segments[1:3]}
    put(log, keyed(("head", "1")))
    close_segment(log)
    compact(log, NOW_MS, up_to=24)
    store.checkpoint({KEY: log.end_offset})
    expected = content(log)
    files = files.crash(Random(1), power=False)
    for path, data in replaced.items():
        files.write(path, data)
    log = open_store(files, LARGE).logs[KEY]
    assert content(log) == expected
    assert values(log) == EXPECTED
    assert_indexes(log)
    assert names(files, ".torn") == [f"{base:020d}.log.0.torn" for base in (8, 16)]
    assert "has replaced it and has all of its offsets" in caplog.text


def test_a_wrong_offset_takes_nothing_of_what_follows() -> None:
    files = CrashingFiles()
    store = filled(files)
    log = store.logs[KEY]
    store.checkpoint({KEY: log.end_offset})
    files = files.crash(Random(1), power=False)
    last = log.segments[0].locate(7)
    for bit in range(63):
        damaged = files.copy()
        damaged.file(log.segments[0].path).content[last + 7 - bit // 8] ^= 1 << bit % 8
        before = {name: damaged.read(f"/data/t-0/{name}") for name in names(damaged, ".log")}
        open_store(damaged, LARGE)
        assert {name: damaged.read(f"/data/t-0/{name}") for name in names(damaged, ".log")} == before


@pytest.mark.parametrize(
    "lasts, expected",
    [
        ([FinalBatch(0, 3, 5), FinalBatch(5, 7, 9)], []),
        ([FinalBatch(0, 7, 9), FinalBatch(5, 7, 9)], [5]),
        ([FinalBatch(0, 6, 9), FinalBatch(5, 7, 9)], []),
        ([FinalBatch(0, 7, 9), FinalBatch(3, 3, 5), FinalBatch(5, 7, 9)], [3, 5]),
        ([FinalBatch(0, 7, 9), FinalBatch(3, 3, 5)], [3]),
        ([FinalBatch(0, 8, 10), FinalBatch(3, 3, 5), FinalBatch(5, 7, 9)], []),
        ([FinalBatch(0, 1, 3), FinalBatch(3, 7, 9), FinalBatch(5, 7, 9)], [5]),
    ],
)
def test_what_has_replaced_others_ends_where_they_did(lasts: list[FinalBatch], expected: list[int]) -> None:
    assert replaced(lasts, bases=[*(last.base for last in lasts), 9]) == expected
