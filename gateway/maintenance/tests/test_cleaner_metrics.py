"""What compaction says of itself: counters that grow with each round, gauges of the last look and the last round."""

from __future__ import annotations

import pytest

from headgate.gateway.maintenance.log_cleaner import FIRST_DELAY_MS
from headgate.gateway.maintenance.tests.compactions import NOW_MS, Compactions, dirty
from headgate.gateway.tests.builders import HandlerBroker
from headgate.storage.cleanup.compaction.compaction_job import Damaged


def measured(node: HandlerBroker, *names: str) -> list[float]:
    snapshot = node.services.metrics.snapshot()
    return [snapshot[f"compaction.{name}"] for name in names]


def test_each_round_counts_what_it_read_wrote_kept_and_dropped(node: HandlerBroker, compactions: Compactions) -> None:
    closed_bytes = dirty(node).log.segments.size
    compactions.run()
    assert measured(node, "runs", "failures", "records.kept", "records.dropped") == [1, 0, 3, 9]
    read_bytes, written_bytes = measured(node, "read.bytes", "written.bytes")
    assert 2 * closed_bytes < read_bytes < 3 * closed_bytes, "for the keys, for the records, and what is left to merge"
    assert 0 < written_bytes < closed_bytes
    dirty(node)
    compactions.run()
    assert measured(node, "runs", "records.dropped") == [2, 21]


def test_the_room_that_keys_take_is_that_of_the_last_round(node: HandlerBroker, compactions: Compactions) -> None:
    dirty(node)
    compactions.run()
    room = compactions.workers[0].job.table_bytes // 192
    assert measured(node, "buffer.percent") == [pytest.approx(100 * 3 / room)], "what is merged has none"


def test_the_last_look_tells_its_age_and_how_dirty_logs_are(node: HandlerBroker, compactions: Compactions) -> None:
    dirty(node, "clean", settings={"min.cleanable.dirty.ratio": "0"})
    compactions.run()
    assert measured(node, "dirty.percent") == [0]
    waiting = dirty(node, "waiting", settings={"min.cleanable.dirty.ratio": "1"})
    compactions.check()
    node.time.advance(5000)
    assert not compactions.cleaning.running
    assert measured(node, "dirty.percent", "last.look.seconds") == [100, pytest.approx(5)]
    assert waiting.log.segments.compacted.offset == -1


def test_who_waits_too_long_is_told_of(node: HandlerBroker, compactions: Compactions) -> None:
    node.time.advance(NOW_MS + 90_000 - node.time.clock.now_ms())
    dirty(node, settings={"max.compaction.lag.ms": "60000"})
    compactions.check()
    assert measured(node, "delay.seconds") == [30]
    while compactions.workers[0].waiting:
        node.time.advance(1000)
        compactions.workers[0].step()
        node.time.advance()
    assert measured(node, "delay.seconds", "last.run.seconds") == [0, 6]


def test_a_failure_is_counted_and_a_damaged_log_until_it_is_deleted(
    node: HandlerBroker, compactions: Compactions
) -> None:
    replica = dirty(node)
    compactions.check()
    compactions.workers[-1].fail(OSError(28, "no space left on device"))
    assert measured(node, "failures", "uncleanable.partitions", "uncleanable.bytes") == [1, 0, 0]
    node.time.advance(FIRST_DELAY_MS)
    compactions.check()
    compactions.workers[-1].fail(Damaged("byte 7"))
    names = ("runs", "failures", "uncleanable.partitions", "uncleanable.bytes")
    assert measured(node, *names) == [0, 2, 1, replica.log.segments.size]
    node.services.metadata.delete_topic("t")
    assert measured(node, *names) == [0, 2, 0, 0]


def test_a_round_that_ends_as_its_topic_was_deleted_is_neither(node: HandlerBroker, compactions: Compactions) -> None:
    dirty(node)
    compactions.check()
    compactions.workers[0].step()
    node.services.metadata.delete_topic("t")
    compactions.workers[0].step()
    node.time.advance()
    assert measured(node, "runs", "failures") == [0, 0]
