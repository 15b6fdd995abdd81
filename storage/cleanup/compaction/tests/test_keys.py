"""The keys of the dirty part: which count, and what is done where there is no room for all."""

from __future__ import annotations

import pytest

from headgate.protocol.steps import finish
from headgate.storage.cleanup.compaction.batches import Batches
from headgate.storage.cleanup.compaction.compaction_job import assess, plan
from headgate.storage.cleanup.compaction.keys import Keys
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import NOW_MS
from headgate.storage.tests.compacted import (
    ABORT,
    compact,
    filled,
    headers,
    keyed,
    marker,
    offsets,
    records,
    transactional,
)


def test_a_full_table_leaves_the_rest_for_the_next_round() -> None:
    log = filled(*(keyed((f"k{number % 8}", str(number))) for number in range(16)))
    capacity = 5 * 192
    ends = []
    while compact(log, NOW_MS, table_bytes=capacity):
        ends.append(log.segments.compacted.offset)
    assert ends == [5, 10, 15, 16]
    assert offsets(records(log)) == list(range(8, 16))


def collected(log: Log) -> Keys:
    """The keys of the dirty part of a log."""
    job = plan(log, assess(log, NOW_MS, log.end_offset), NOW_MS, table_bytes=1 << 20, read_bytes=100)
    keys = Keys(job)
    finish(keys.collect(Batches(log.pool, job)))
    return keys


def test_each_key_has_its_last_offset_which_tells_what_is_left() -> None:
    log = filled(keyed(("a", "1"), ("b", "1")), keyed(("a", "2")))
    keys = collected(log)
    assert (keys.table, keys.latest) == ({b"a": 2, b"b": 1}, 2)
    assert [list(keys.survivors(header)) for header in headers(log)] == [[1], [2]]


def test_what_was_aborted_has_no_keys() -> None:
    log = filled(keyed(("a", "kept")), transactional(("a", "aborted")), marker(ABORT))
    keys = collected(log)
    assert keys.table == {b"a": 0}
    assert [keys.is_plain(header) for header in headers(log)[:2]] == [True, False]


def test_after_too_many_unclear_batches_all_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.storage.cleanup.compaction.keys.MAX_NOT_PLAIN", 1)
    log = filled(keyed(("a", None)), keyed(("b", "1")), keyed(("c", None)), keyed(("d", "1")))
    assert [collected(log).is_plain(header) for header in headers(log)] == [False, True, False, False]
