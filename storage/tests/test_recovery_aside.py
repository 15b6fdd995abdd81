"""What is kept beside a log."""

from __future__ import annotations

import errno
from random import Random

import pytest

from protocol.records.compression import finish
from storage.compaction.rounds import compact
from storage.recovery.aside import keep_aside
from storage.tests.builders import NOW_MS, content, open_store
from storage.tests.compacted import assert_indexes, close_segment, keyed, put, values
from storage.tests.crashing_files import CrashingFiles
from storage.tests.segments import new_segment
from storage.tests.test_replacement import EXPECTED, KEY, LARGE, filled, names


def test_each_time_it_is_another_file() -> None:
    segment = new_segment(batches=2)
    files = segment._pool.files
    for position in (10, 10, 10, 30):
        finish(keep_aside(files, segment, position))
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
    files = segment._pool.files
    finish(keep_aside(files, segment, size))
    assert sorted(files.list("/d")) == ["00000000000000000100.log"]
    finish(keep_aside(files, segment, size - 2))
    assert files.size(f"{segment.path}.{size - 2}.torn") == 502


def test_where_it_fails_nothing_is_left() -> None:
    segment = new_segment(batches=1)
    files = segment._pool.files
    assert isinstance(files, CrashingFiles)
    files.room = 20
    with pytest.raises(OSError, match=f"Errno {errno.ENOSPC}"):
        finish(keep_aside(files, segment, 0))
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
    assert "has all of its offsets, and has replaced it" in caplog.text
