"""Sync points: few slots, close at the end, and the nearest one to an offset."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.pipelines import sync_points
from headgate.spark.pipelines.sync_points import OffsetPair, SyncPoint, decode, encode, key, nearest, slot
from headgate.tools.output import UsageError

A, COPY = TopicPartition("a", 0), TopicPartition("x.a", 0)


def point(batch_id: int, source: int, target: int) -> SyncPoint:
    return SyncPoint(batch_id, {A: source}, {COPY: target}, {"a": "x.a"})


def test_slots_are_few_and_the_last_batches_are_kept() -> None:
    kept: dict[str, int] = {}
    for number in range(10_000):
        kept[slot(number)] = number
    assert len(kept) <= 4 * 14 + 1
    numbers = sorted(kept.values())
    assert numbers[0] == 0
    assert numbers[-4:] == [9_996, 9_997, 9_998, 9_999]
    # The gap before a batch is at most half as large as the batch is old
    for earlier, later in pairwise(numbers):
        assert later - earlier <= max(2, (10_000 - earlier))


def test_compaction_keeps_one_record_of_a_slot() -> None:
    records = [(key("m", number), encode(point(number, number * 10, number * 11))) for number in range(100)]
    found = decode("m", records)
    assert [one.batch_id for one in found][-2:] == [98, 99]
    assert len(found) == len({slot(number) for number in range(100)})


def test_other_mirrors_and_damage() -> None:
    other = (key("m/n", 1), encode(point(1, 5, 5)))
    assert decode("m", [other, (None, b"x"), (b"m/1.0", None)]) == []
    assert len(decode("m/n", [other])) == 1
    for damage in (
        b"{",
        b"[]",
        b'{"version": 2}',
        b'{"version": 1, "batch": 0, "names": {}, "source": [], "target": 1}',
    ):
        with pytest.raises(UsageError, match="cannot be read"):
            decode("m", [(key("m", 0), damage)])


def test_the_nearest_point_is_at_or_before_the_offset() -> None:
    points = [point(0, 0, 0), point(1, 10, 12), point(2, 20, 25)]
    assert nearest(points, A, 19) == OffsetPair(COPY, 10, 12)
    assert nearest(points, A, 20) == OffsetPair(COPY, 20, 25)
    assert nearest(points[1:], A, 9) is None
    assert nearest(points, TopicPartition("a", 1), 9) is None


def test_what_is_written_is_read() -> None:
    chance = random.Random(7)
    for number in range(50):
        source = {TopicPartition(f"t{n}", n): chance.randrange(1 << 60) for n in range(chance.randrange(5))}
        target = {TopicPartition(f"x{n}", n): chance.randrange(1 << 60) for n in range(chance.randrange(5))}
        written = SyncPoint(number, source, target, {"t0": "x0"})
        assert decode("m", [(sync_points.key("m", number), encode(written))]) == [written]
