"""Offsets of the source as offsets of the target: exact over markers, aborted records and gaps on both sides."""

from __future__ import annotations

import random

import pytest

from headgate.protocol.tests.examples import first_in_unit
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.pipelines.sync_points import SyncPoint
from headgate.spark.pipelines.tests.memory_reader import MemoryLog, MemoryReader
from headgate.spark.pipelines.translation import Translation, translate, translate_group
from headgate.spark.reading.log_reader import IsolationLevel, OffsetRange
from headgate.spark.records.columns import columns
from headgate.tools.groups.offsets import OffsetAndMetadata

A, COPY = TopicPartition("a", 0), TopicPartition("a", 0)
COMMITTED = IsolationLevel.READ_COMMITTED


def visible(log: MemoryLog) -> list[tuple[int, bytes]]:
    """(offset, value) of the records that a read_committed consumer sees."""
    wanted = OffsetRange(A, log.start, log.end)
    found = columns(MemoryReader({A: log}).read(wanted, COMMITTED), wanted, ("offset", "value"))
    return [(row["offset"], row["value"]) for rows in found for row in rows.to_pylist()]


def mirrored(chance: random.Random) -> tuple[MemoryLog, MemoryLog, list[SyncPoint]]:
    """A source with transactions, its mirror in batches, and the sync points."""
    source, target, points, copied = MemoryLog(), MemoryLog(), list[SyncPoint](), 0
    for number in range(chance.randrange(1, 8)):
        for producer in range(chance.randrange(1, 4)):
            first, values = source.end, [b"%d %d %d" % (number, producer, n) for n in range(chance.randrange(1, 6))]
            is_transaction = chance.random() < 0.6
            source.append(values, producer_id=producer if is_transaction else -1)
            if is_transaction:
                source.end_transaction(producer, is_commit=chance.random() < 0.5, first_offset=first)
        points.append(SyncPoint(number, {A: copied}, {COPY: target.end}, {"a": "a"}))
        if chance.random() < 0.3:  # a try that failed: aborted records in the target
            first = target.end
            target.append([b"zombie"] * 2, producer_id=90)
            target.end_transaction(90, is_commit=False, first_offset=first)
            points[-1] = points[-1]._replace(target={COPY: target.end})
        new = [value for offset, value in visible(source) if offset >= copied]
        if new:
            target.append(new, producer_id=91)
        target.end_transaction(91, is_commit=True, first_offset=0)
        copied = source.end
    return source, target, points


@pytest.mark.parametrize("seed", list(first_in_unit(range(25), 5)))
def test_every_offset_goes_to_the_same_record(seed: int) -> None:
    chance = random.Random(seed)
    source, target, points = mirrored(chance)
    kept = [one for one in points if one.batch_id == 0 or chance.random() < 0.5]
    readers = MemoryReader({A: source}), MemoryReader({COPY: target})
    for offset in range(source.end + 1):
        found = translate(kept, A, offset, *readers)
        assert isinstance(found, Translation)
        assert found.again == 0
        rest = [value for at, value in visible(source) if at >= offset]
        assert [value for at, value in visible(target) if at >= found.offset] == rest


def test_records_that_are_gone_from_the_source_are_read_again_at_most() -> None:
    source, target = MemoryLog(), MemoryLog()
    for log in (source, target):
        log.append([b"x"] * 10)
    source.start = 5
    points = [SyncPoint(0, {A: 0}, {COPY: 0}, {"a": "a"})]
    found = translate(points, A, 8, MemoryReader({A: source}), MemoryReader({COPY: target}))
    assert found == Translation(COPY, 0, 8)


def test_records_that_are_gone_from_the_target() -> None:
    source, target = MemoryLog(), MemoryLog()
    for log in (source, target):
        log.append([b"x"] * 10)
    target.start = 5
    points = [SyncPoint(0, {A: 0}, {COPY: 0}, {"a": "a"})]
    found = translate(points, A, 8, MemoryReader({A: source}), MemoryReader({COPY: target}))
    assert found == Translation(COPY, 5, 8)


def test_a_group_keeps_its_metadata_and_other_topics_are_left_out() -> None:
    source, target = MemoryLog(), MemoryLog()
    for log in (source, target):
        log.append([b"x"] * 10)
    points = [SyncPoint(0, {A: 4}, {COPY: 4}, {"a": "a"})]
    committed = {
        A: OffsetAndMetadata(7, 3, "mine"),
        TopicPartition("a", 1): OffsetAndMetadata(7, 3, ""),
        TopicPartition("other", 0): OffsetAndMetadata(1, -1, ""),
    }
    found, notes = translate_group(points, committed, MemoryReader({A: source}), MemoryReader({COPY: target}))
    assert found == {COPY: OffsetAndMetadata(7, -1, "mine")}
    assert len(notes) == 1
    assert "a-1: offset 7 lies before the first sync point" in notes[0]
