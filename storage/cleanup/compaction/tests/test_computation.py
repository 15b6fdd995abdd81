"""Segments written anew as one: where they begin and end, how large they are, and what a failure leaves."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from headgate.storage.tests.builders import NOW_MS, append, content, new_log, open_store
from headgate.storage.tests.compacted import (
    COMPACT,
    assert_indexes,
    close_segment,
    compact,
    filled,
    headers,
    keyed,
    offsets,
    put,
    records,
)
from headgate.storage.tests.crashing_files import CrashingFiles


def test_segments_that_have_become_small_become_one() -> None:
    log = new_log(config=COMPACT)
    for number in range(60):
        append(log, memoryview(keyed((f"key{number % 3}", "v" * 100))))
    close_segment(log)
    assert len(log.segments) > 5
    compact(log, NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 55, 60]
    assert offsets(records(log)) == [57, 58, 59]
    assert [header.records_count for header in headers(log)] == [0, 1, 1, 1], "one is left to mark an end"
    assert_indexes(log)


def test_no_new_segment_is_larger_than_one_may_be() -> None:
    log = new_log(config=COMPACT)
    for number in range(60):
        append(log, memoryview(keyed((f"key{number}", "v" * 100))))
    close_segment(log)
    before = len(log.segments)
    compact(log, NOW_MS)
    assert len(log.segments) == before
    assert all(segment.size <= COMPACT.segment_bytes for segment in log.segments)


def test_segments_end_where_they_ended_so_that_a_scan_finds_no_gap() -> None:
    log = new_log(config=replace(COMPACT, segment_bytes=300))
    for _ in range(12):
        append(log, memoryview(keyed(("same", "v" * 100))))
    append(log, memoryview(keyed(("other", "v" * 100), ("same", None))))
    close_segment(log)
    compact(log, NOW_MS)
    assert offsets(records(log)) == [12, 13]
    ends = [segment.end_offset() for segment in log.segments]
    assert ends[:-1] == [segment.base_offset for segment in log.segments[1:]]
    assert [header.records_count for header in headers(log)].count(0) == len(log.segments) - 2 > 1
    files = log.pool.files
    assert isinstance(files, CrashingFiles)
    again = open_store(files.crash(Random(1), power=False), COMPACT)  # no checkpoint: all of it is scanned
    assert offsets(records(again.logs["t", 0])) == [12, 13]


def test_the_file_has_the_time_of_the_last_one_it_replaces() -> None:
    log = filled(keyed(("a", "1")), keyed(("a", "2")))
    put(log, keyed(("a", "3")), keyed(("a", "4")))
    close_segment(log)
    files = log.pool.files
    assert isinstance(files, CrashingFiles)
    for segment, modified_ms in zip(log.segments, (111, 222, 333), strict=True):
        files.file(segment.path).modified_ms = modified_ms
    compact(log, NOW_MS)
    assert log.modified_ms() == [222, 333]


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_full_disk_ends_the_compaction_and_nothing_is_left_of_it(
    is_seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(*(keyed((f"k{number}", "v" * 50), ("same", "v")) for number in range(8)))
    files = log.pool.files
    assert isinstance(files, CrashingFiles)
    before, content_before = files.list(log.directory), content(log)
    files.room = 100
    if not is_seen:
        monkeypatch.setattr(files, "space", lambda path: (1 << 40, 1 << 40))
    with pytest.raises(OSError, match="space"):
        compact(log, NOW_MS)
    files.room = None
    assert files.list(log.directory) == before
    assert content(log) == content_before
    assert compact(log, NOW_MS)
