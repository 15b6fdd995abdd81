"""A replay: the offsets are fixed at the first run, and each is copied once, whatever ends the runs."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.pipelines.replay import Replay, plan, run
from headgate.spark.pipelines.tests.fake_copier import FakeCopier, Killed
from headgate.spark.pipelines.tests.memory_reader import MemoryLog, MemoryReader
from headgate.tools.output import Row, UsageError

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
REPLAY = Replay("r", "t", "u", None, None, keeps_partitions=True, most_offsets=7)


def reader(*ends: int) -> MemoryReader:
    return MemoryReader({TopicPartition("t", number): MemoryLog(end=end) for number, end in enumerate(ends)})


def run_all(replay: Replay, source: MemoryReader, copier: Any) -> list[Row]:
    return list(run(replay, source, copier.marker, lambda: copier))


def test_all_records_are_copied_once() -> None:
    copier = FakeCopier("r")
    rows = run_all(REPLAY, reader(20, 5), copier)
    assert copier.copied == {P0: list(range(20)), P1: list(range(5))}
    assert [row["batch"] for row in rows] == list(range(len(rows)))


def test_a_complete_replay_opens_no_session() -> None:
    copier = FakeCopier("r")
    run_all(REPLAY, reader(20, 5), copier)
    assert list(run(REPLAY, reader(30, 9), copier.marker, pytest.fail)) == []


@pytest.mark.parametrize("seed", range(20))
def test_runs_that_are_killed_copy_the_offsets_of_the_first_plan(seed: int) -> None:
    chance = random.Random(seed)
    copier = FakeCopier("r", [chance.choice(["", "before", "after"]) for _ in range(12)])
    ends = [20, 11]
    planned: list[int] | None = None
    while True:
        if planned is None and copier.marker is None:
            first = list(ends)
        try:
            run_all(REPLAY, reader(*ends), copier)
        except Killed:
            planned = planned or (first if copier.marker else None)
            ends = [end + chance.randrange(3) for end in ends]
            continue
        break
    planned = planned or first
    assert copier.copied == {P0: list(range(planned[0])), P1: list(range(planned[1]))}


def test_times_are_offsets_of_the_first_run() -> None:
    source = reader(20, 5)
    source.times = {(P0, 1_000): 4, (P1, 1_000): None, (P0, 2_000): 9, (P1, 2_000): None}
    wanted = Replay("r", "t", "u", 1_000, 2_000, keeps_partitions=True, most_offsets=100)
    assert plan(wanted, source) == ({P0: 4, P1: 5}, {P0: 9, P1: 5})


def test_another_replay_under_the_name_is_refused() -> None:
    copier = FakeCopier("r")
    run_all(REPLAY, reader(5), copier)
    other = Replay("r", "t", "v", None, None, keeps_partitions=True, most_offsets=7)
    with pytest.raises(UsageError, match="another copy or query"):
        run_all(other, reader(5), copier)


def test_records_that_retention_took_between_runs_end_the_replay() -> None:
    copier = FakeCopier("r", ["", "before"])
    with pytest.raises(Killed):
        run_all(REPLAY, reader(20), copier)
    source = reader(20)
    source.logs[P0].start = 10
    with pytest.raises(UsageError, match="retention took them"):
        run_all(REPLAY, source, copier)


def test_an_unknown_topic() -> None:
    with pytest.raises(UsageError, match="no topic t"):
        plan(REPLAY, MemoryReader({}))
