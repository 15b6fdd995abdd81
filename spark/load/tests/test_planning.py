from __future__ import annotations

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output import planning
from headgate.spark.load.output.intervals import Interval
from headgate.spark.load.output.planning import LoadLimits, LoadRefused, PartitionPlan, decide, split_ranges
from headgate.spark.reading.log_reader import Bounds, OffsetRange

PARTITION = TopicPartition("orders", 0)
LOADED = (Interval(10, 20), Interval(30, 40))


@pytest.mark.parametrize(
    "bounds, covered, limits, wanted, lost",
    [
        (Bounds(0, 50), (), LoadLimits(), [(0, 50)], []),
        (Bounds(5, 5), (), LoadLimits(), [], []),
        (Bounds(0, 50), LOADED, LoadLimits(), [(40, 50)], []),
        (Bounds(0, 40), LOADED, LoadLimits(), [], []),
        (Bounds(45, 50), LOADED, LoadLimits(), [(45, 50)], [(40, 45)]),
        (Bounds(0, 50), LOADED, LoadLimits(0), [(0, 10), (20, 30), (40, 50)], []),
        (Bounds(0, 50), LOADED, LoadLimits(0, 35), [(0, 10), (20, 30)], []),
        (Bounds(0, 50), LOADED, LoadLimits(12, 18), [], []),
        (Bounds(0, 50), LOADED, LoadLimits(None, 45), [(40, 45)], []),
        (Bounds(0, 50), LOADED, LoadLimits(None, 99), [(40, 50)], []),
        (Bounds(0, 50), (), LoadLimits(30, 20), [], []),
        (Bounds(25, 50), LOADED, LoadLimits(25), [(25, 30), (40, 50)], []),
    ],
)
def test_a_load_takes_what_is_missing(
    bounds: Bounds,
    covered: tuple[Interval, ...],
    limits: LoadLimits,
    wanted: list[tuple[int, int]],
    lost: list[tuple[int, int]],
) -> None:
    assert decide(PARTITION, bounds, covered, limits) == PartitionPlan(tuple(wanted), tuple(lost))  # type: ignore[arg-type]


def test_a_shorter_partition_is_refused() -> None:
    with pytest.raises(LoadRefused, match="orders-0 ends before offset 39, but the folder has its records up to 39"):
        decide(PARTITION, Bounds(0, 39), LOADED, LoadLimits())


def test_ranges_are_enough_for_all_slots() -> None:
    wanted = {PARTITION: (Interval(0, 1_000_000),), TopicPartition("orders", 1): (Interval(7, 10),)}
    ranges = split_ranges(wanted, slots=4, most_offsets=5_000_000)
    assert ranges[-1] == OffsetRange(TopicPartition("orders", 1), 7, 10)
    assert len(ranges) == 5
    assert len(split_ranges(wanted, slots=1, most_offsets=400_000)) == 4
    assert len(split_ranges({PARTITION: (Interval(0, 60_000),)}, slots=100, most_offsets=5_000_000)) == 2


def test_losses_are_refused_by_name() -> None:
    planning.refuse_losses([])
    with pytest.raises(LoadRefused, match="orders-0 from 3 to 6"):
        planning.refuse_losses([OffsetRange(PARTITION, 3, 7)])
