"""A mirror: it goes on at its marker, follows new partitions, and keeps what a group needs to move."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.pipelines.copy_plan import CopiedOffsets, CopyState
from headgate.spark.pipelines.mirror import OWN_TOPICS, Mirror, run
from headgate.spark.pipelines.tests.fake_copier import FakeCopier, Killed
from headgate.spark.pipelines.tests.memory_reader import MemoryLog, MemoryReader
from headgate.spark.reading.log_reader import TopicDescription
from headgate.tools.output import UsageError

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def mirror(**changes: Any) -> Mirror:
    given: dict[str, Any] = {
        "name": "m",
        "cluster_id": "source",
        "topics": ["t"],
        "pattern": None,
        "prefix": "",
        "most_offsets": 7,
        "skips_lost": False,
    }
    return Mirror(**(given | changes))


class FakeTarget:
    """Notes what is prepared, and the points of batches that were written."""

    def __init__(self) -> None:
        self.prepared: list[dict[str, str]] = []
        self.points: list[tuple[int, CopiedOffsets]] = []

    def prepare(self, wanted: Mapping[str, TopicDescription], names: Mapping[str, str], configs: object) -> None:
        self.prepared.append(dict(names))

    def note_point(
        self, state: CopyState, positions: CopiedOffsets, names: Mapping[str, str]
    ) -> Callable[[object], None]:
        return lambda producer: self.points.append((state.next_batch, dict(positions)))


def run_all(
    source: MemoryReader, target: Any, copier: Any, wait: Callable[[], bool] = lambda: False, **changes: Any
) -> None:
    list(run(mirror(**changes), source, target, copier.marker, copier, lambda topic: {}, wait))


def reader(**ends: int) -> MemoryReader:
    """t0=20 is partition 0 of topic t with 20 offsets."""
    return MemoryReader({TopicPartition(name[0], int(name[1:])): MemoryLog(end=end) for name, end in ends.items()})


@pytest.mark.parametrize("seed", range(20))
def test_each_offset_is_copied_once_whatever_is_killed(seed: int) -> None:
    chance = random.Random(seed)
    copier, target = FakeCopier("m", [chance.choice(["", "before", "after"]) for _ in range(20)]), FakeTarget()
    source = reader(t0=0)
    for _ in range(10):
        source.logs[P0].end += chance.randrange(20)
        if chance.random() < 0.3:
            source.logs.setdefault(P1, MemoryLog()).end += 5
        try:
            run_all(source, target, copier)
        except Killed:
            continue
    copier.kills.clear()
    run_all(source, target, copier)
    for partition, log in source.logs.items():
        assert copier.copied.get(partition, []) == list(range(log.end))
    assert [number for number, _ in target.points] == list(range(len(target.points)))


def test_a_point_has_the_state_before_its_batch() -> None:
    copier, target = FakeCopier("m"), FakeTarget()
    run_all(reader(t0=10, t1=4), target, copier)
    assert target.points[0] == (0, {P0: 0, P1: 0})
    after_first = copier.batches[0].positions["t"]
    assert target.points[1] == (1, {P0: after_first[0], P1: after_first[1]})


def test_it_waits_for_more_until_it_is_told_to_end() -> None:
    source, copier, target = reader(t0=3), FakeCopier("m"), FakeTarget()
    waits = 0

    def wait() -> bool:
        nonlocal waits
        waits += 1
        if waits == 1:
            source.logs[P0].end = 5
            source.logs[P1] = MemoryLog(end=2)
        return waits < 3

    run_all(source, target, copier, wait)
    assert copier.copied == {P0: [0, 1, 2, 3, 4], P1: [0, 1]}
    assert len(target.prepared) == 2, "a new partition is prepared"


def test_a_pattern_leaves_internal_topics_out() -> None:
    topics = {name: TopicDescription(name, None, [0]) for name in (*OWN_TOPICS, "orders", "orders2", "x")}
    assert set(mirror(topics=[], pattern="orders.?").wanted(topics)) == {"orders", "orders2"}
    assert set(mirror(topics=[], pattern=".*").wanted(topics)) == {"orders", "orders2", "x"}


def test_a_missing_topic_and_another_source_are_refused() -> None:
    with pytest.raises(UsageError, match="has no topic t"):
        mirror().wanted({})
    copier = FakeCopier("m")
    run_all(reader(t0=3), FakeTarget(), copier)
    with pytest.raises(UsageError, match="another copy"):
        run_all(reader(t0=3), FakeTarget(), copier, cluster_id="other")


def test_topics_have_their_prefix() -> None:
    copier, target = FakeCopier("m"), FakeTarget()
    run_all(reader(t0=3), target, copier, prefix="dc1.")
    assert target.prepared == [{"t": "dc1.t"}]
    assert copier.names == {"t": "dc1.t"}
