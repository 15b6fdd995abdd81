"""A replay of a table: version and batches are fixed at the first run, and each batch is copied once."""

from __future__ import annotations

import random

import pytest

from headgate.spark.pipelines.replay_table import TablePlan, TableReplay, parse_plan, run
from headgate.spark.pipelines.table_source import TableSource
from headgate.spark.pipelines.tests.fake_copier import Killed
from headgate.spark.sink.exactly_once import WriteOutcome
from headgate.spark.sink.marker import BatchDecision, QueryBatch, SinkMarker, decide
from headgate.tools.output import UsageError

REPLAY = TableReplay("r", TableSource("delta", "out"), "u", None, None, keeps_partitions=False, most_rows=10)


class FakeCopier:
    """`copied`: (version, batches, number) of each written batch."""

    def __init__(self, kills: list[str]) -> None:
        self.kills = kills
        self.copied: list[tuple[str, int, int]] = []
        self.marker: SinkMarker | None = None
        self.version, self.rows = 7, 35

    def plan(self, replay: TableReplay) -> TablePlan:
        return TablePlan(str(self.version), -(-self.rows // replay.most_rows))

    def copy(self, replay: TableReplay, plan: TablePlan, batch: QueryBatch) -> WriteOutcome:
        kill = self.kills.pop(0) if self.kills else ""
        if kill == "before":
            raise Killed
        assert decide(replay.name, self.marker, batch) is BatchDecision.WRITE
        self.copied.append((plan.version, plan.batches, batch.batch_id))
        self.marker = SinkMarker(batch.query_id, batch.batch_id, batch.positions, 0)
        if kill == "after":
            raise Killed
        return WriteOutcome(is_written=True, records=1, tries=1, seconds=0)


@pytest.mark.parametrize("seed", range(20))
def test_runs_that_are_killed_copy_the_version_of_the_first_plan(seed: int) -> None:
    chance = random.Random(seed)
    copier = FakeCopier([chance.choice(["", "before", "after"]) for _ in range(12)])
    while True:
        try:
            list(run(REPLAY, copier.marker, lambda: copier))
        except Killed:
            if copier.marker is not None:
                copier.version, copier.rows = copier.version + 1, 99
            continue
        break
    assert copier.copied == [("7", 4, number) for number in range(4)]


def test_a_complete_replay_opens_no_session() -> None:
    copier = FakeCopier([])
    rows = list(run(REPLAY, None, lambda: copier))
    assert [(row["batch"], row["batches"]) for row in rows] == [(number, 4) for number in range(4)]
    assert list(run(REPLAY, copier.marker, pytest.fail)) == []


def test_an_empty_table_writes_nothing() -> None:
    copier = FakeCopier([])
    copier.rows = 0
    assert list(run(REPLAY, None, lambda: copier)) == []


def test_another_replay_under_the_name_is_refused() -> None:
    copier = FakeCopier([])
    list(run(REPLAY, None, lambda: copier))
    other = TableReplay("r", REPLAY.table, "v", None, None, keeps_partitions=False, most_rows=10)
    with pytest.raises(UsageError, match="another copy or query"):
        list(run(other, copier.marker, pytest.fail))


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"version": "1", "batches": null}'])
def test_a_damaged_plan_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="the marker of 'r' is damaged"):
        parse_plan("r", text)
