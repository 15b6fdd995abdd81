"""What a log gives for a compaction: which records may be touched, and which not."""

from __future__ import annotations

from storage.compaction.rounds import compact
from storage.tests.builders import NOW_MS, new_log
from storage.tests.compacted import (
    COMPACT,
    close_segment,
    filled,
    keyed,
    offsets,
    put,
    records,
)


def test_what_is_not_safe_on_the_disk_is_not_touched() -> None:
    log = new_log(config=COMPACT)
    put(log, keyed(("a", "1")), keyed(("a", "2")))
    log.recovery_point = 0
    log.roll(NOW_MS)
    assert not compact(log, NOW_MS)
    log.flush()
    assert compact(log, NOW_MS)


def test_records_that_may_change_yet_are_not_touched() -> None:
    log = filled(keyed(("a", "1")), keyed(("a", "2")))
    assert not compact(log, NOW_MS, up_to=1), "the high watermark"


def test_messages_of_old_formats_are_left_alone_with_all_before_them() -> None:
    log = filled(keyed(("a", "1")), keyed(("a", "2")))
    put(log, keyed(("a", "3")), keyed(("a", "4")))
    close_segment(log)
    log.segments[0].holds_messages = True
    assert compact(log, NOW_MS)
    log.segments[0].holds_messages = False
    assert offsets(records(log)) == [0, 1, 3]
    assert log.compacted.offset == 4
