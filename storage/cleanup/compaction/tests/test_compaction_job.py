"""What a log gives for a compaction: which records may be touched, and which not."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from headgate.storage.cleanup.compaction.compaction_job import Job, assess, plan, plan_merge
from headgate.storage.log import flushing, rolling
from headgate.storage.tests.builders import NOW_MS, files_of, new_log
from headgate.storage.tests.compacted import (
    COMMIT,
    COMPACT,
    close_segment,
    compact,
    filled,
    keyed,
    marker,
    offsets,
    put,
    records,
    transactional,
)


def test_what_is_not_safe_on_the_disk_is_not_touched() -> None:
    log = new_log(config=COMPACT)
    put(log, keyed(("a", "1")), keyed(("a", "2")))
    log.recovery_point = 0
    rolling.roll(log, NOW_MS)
    assert not compact(log, NOW_MS)
    flushing.flush(log)
    assert compact(log, NOW_MS)


def test_records_that_may_change_yet_are_not_touched() -> None:
    log = filled(keyed(("a", "1")), keyed(("a", "2")))
    assert not compact(log, NOW_MS, up_to=1), "the high watermark"


def test_a_marker_that_is_not_on_the_disk_decides_nothing() -> None:
    """A power cut could take it, and the transaction be aborted then: what it replaced must be there still."""
    log = filled(keyed(("a", "old")), transactional(("a", "new")))
    put(log, marker(COMMIT))
    assert not assess(log, NOW_MS, log.end_offset).dirty_bytes
    flushing.flush(log)
    assert assess(log, NOW_MS, log.end_offset).dirty_bytes


def test_messages_of_old_formats_are_left_alone_with_all_before_them() -> None:
    log = filled(keyed(("a", "1")), keyed(("a", "2")))
    put(log, keyed(("a", "3")), keyed(("a", "4")))
    close_segment(log)
    log.segments[0].has_legacy_format = True
    assert compact(log, NOW_MS)
    log.segments[0].has_legacy_format = False
    assert offsets(records(log)) == [0, 1, 3]
    assert log.segments.compacted.offset == 4


def test_a_job_is_the_same_behind_a_pipe() -> None:
    log = filled(keyed(("a", "1")), keyed(("a", "2"), producer_id=7, producer_epoch=0, base_sequence=0))
    job = plan(log, assess(log, NOW_MS, log.end_offset), NOW_MS, table_bytes=1 << 20, read_bytes=100)
    again = Job.from_values(json.loads(json.dumps(asdict(job))))
    assert again.ended == job.ended == [(job.segments[0], 2)]
    assert [tuple(producer) for producer in again.producers] == list(job.producers) == [(7, 0, 1)]
    assert again.unsafe_producers == job.unsafe_producers == []


def test_small_neighbours_are_to_be_merged_and_others_are_not() -> None:
    log = filled(keyed(("a", "1")))
    put(log, keyed(("b", "1")))
    close_segment(log)
    sizes: dict[str, Any] = {"table_bytes": 1 << 20, "read_bytes": 100}
    merge = plan_merge(log, log.end_offset, NOW_MS, **sizes)
    assert merge is not None
    assert len(merge.segments) == 2
    log.configure(replace(log.config, segment_bytes=log.segments[0].size))
    assert plan_merge(log, log.end_offset, NOW_MS, **sizes) is None


def test_records_without_times_are_as_old_as_their_file() -> None:
    """As in Apache Kafka 3.9 and 4.1: the lag counts from the last write then (`LogSegment.largestTimestamp`)."""
    log = filled(keyed(("a", "1"), timestamp=-1), keyed(("a", "2"), timestamp=-1))
    log.configure(replace(log.config, min_compaction_lag_ms=1_000))
    files_of(log).set_modified_ms(log.segments[0].path, NOW_MS - 999)
    assert not compact(log, NOW_MS)
    assert compact(log, NOW_MS + 1)
