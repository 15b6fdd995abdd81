"""Each step fails, or the driver dies, before and after its effect: every row is committed once in the end.

The cluster is simulated: one transactional id with its epoch, an open transaction, and what was committed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pytest

from headgate.protocol.records import batch
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.sink import exactly_once, transaction
from headgate.spark.sink.batch_log import PARTITION
from headgate.spark.sink.connection import SinkFailed
from headgate.spark.sink.exactly_once import ExactlyOnce, TransactionTooLong, WriteOutcome, is_worth_another_try
from headgate.spark.sink.marker import QueryBatch, SinkMarker, SinkRefused, SourceOffsets, decode_marker
from headgate.spark.sink.transaction import Fenced, TransactionalProducer
from headgate.tools.client.client import PLAINTEXT, SecurityError
from headgate.tools.groups.offsets import OffsetAndMetadata

STEPS = ("begin", "read", "write", "check", "positions", "marker", "end")
FAULTS = list(itertools.product(STEPS, (True, False)))
TARGET = TopicPartition("out", 0)
TIMEOUT_MS = 60_000


class Killed(BaseException):
    """The driver ends here."""


class Simulation:
    """What the functions of `transaction` do to a cluster. `fault`: the step, whether before it, and the error."""

    def __init__(self, fault: tuple[str, bool, BaseException] | None = None) -> None:
        self.fault = fault
        self.bootstrap, self.security = "simulated:9092", PLAINTEXT
        self.epoch = -1
        self.open: list[Any] = []
        self.committed: list[Any] = []
        self.clock_s = 0.0
        self.begins = 0
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.is_end_late = False

    def step(self, name: str, producer: TransactionalProducer | None = None) -> Step:
        if producer is not None and producer.epoch != self.epoch:
            raise Fenced("an old epoch")
        return Step(self, name)

    def begin(self, connection: object, transactional_id: str, timeout_ms: int) -> TransactionalProducer:
        with self.step("begin"):
            self.begins += 1
            self.epoch += 1
            self.open.clear()
        return TransactionalProducer(transactional_id, 1, self.epoch)

    def last(self, *, is_fenced: bool) -> SinkMarker | None:
        with self.step("read"):
            found = [row for kind, row in self.committed if kind == "marker"]
        found = found[:-1] if self.is_end_late and not is_fenced else found
        return found[-1] if found else None

    def unfinished(self) -> SinkMarker | None:
        found = [row for kind, row in self.committed if kind == "marker"]
        return found[-1] if self.is_end_late and found else None

    def run_tasks(self, producer: TransactionalProducer) -> Mapping[TopicPartition, int]:
        with self.step("write", producer):
            self.open += [("row", number) for number in range(3)]
        return {TARGET: 3}

    def check_written(
        self, connection: object, producer: TransactionalProducer, written: Mapping[TopicPartition, int]
    ) -> None:
        with self.step("check", producer):
            assert sum(written.values()) == sum(kind == "row" for kind, _ in self.open)

    def commit_positions(
        self, connection: object, producer: TransactionalProducer, group: str, positions: Any, text: str
    ) -> None:
        with self.step("positions", producer):
            self.open.append(("positions", (group, positions)))

    def write(self, producer: TransactionalProducer, batches: Mapping[TopicPartition, tuple[int, bytearray]]) -> None:
        with self.step("marker", producer):
            [(count, data)] = [batches[PARTITION]]
            [record] = batch.iterate(data)
            assert (count, record.key) == (1, b"q")
            self.open.append(("marker", decode_marker("q", record.value or b"")))

    def end(self, connection: object, producer: TransactionalProducer, *, is_commit: bool) -> None:
        assert is_commit
        with self.step("end", producer):
            self.committed += self.open
            self.open.clear()

    def committed_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        assert group == "g"
        return self.offsets

    def partition_count(self, topic: str) -> int:
        return {"in": 2}.get(topic, 0)


class Step:
    """Raises the fault once, before or after the effect."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.simulation, self.name = simulation, name

    def __enter__(self) -> None:
        self._raise(is_before=True)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if error is None:
            self._raise(is_before=False)

    def _raise(self, *, is_before: bool) -> None:
        fault = self.simulation.fault
        if fault is not None and fault[:2] == (self.name, is_before):
            self.simulation.fault = None
            raise fault[2]


class FakeWriter:
    def __init__(self, connection: Simulation, producer: TransactionalProducer) -> None:
        self.simulation, self.producer = connection, producer

    def write(self, batches: Mapping[TopicPartition, tuple[int, bytearray]]) -> None:
        self.simulation.write(self.producer, batches)


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Any:
    def start(fault: tuple[str, bool, BaseException] | None = None) -> Simulation:
        simulation = Simulation(fault)
        for name in ("begin", "check_written", "commit_positions", "end"):
            monkeypatch.setattr(transaction, name, getattr(simulation, name))
        monkeypatch.setattr(exactly_once, "ensure_topic", lambda connection: None)
        monkeypatch.setattr(exactly_once, "BatchLog", lambda connection, name: simulation)
        monkeypatch.setattr(exactly_once, "TransactionWriter", FakeWriter)
        monkeypatch.setattr(exactly_once, "Connection", lambda *_, **__: nullcontext())
        return simulation

    return start


def sink(simulation: Any, **more: Any) -> ExactlyOnce:
    return ExactlyOnce(
        simulation, "q", group="g", timeout_ms=TIMEOUT_MS, clock_s=lambda: simulation.clock_s, now_ms=lambda: 7, **more
    )


def one(batch_id: int = 0, query: str = "id") -> QueryBatch:
    return QueryBatch(query, batch_id, {"in": {0: 10 * batch_id, 5: 1}, "elsewhere": {0: 3}})


ONCE = [
    ("row", 0),
    ("row", 1),
    ("row", 2),
    ("positions", ("g", {TopicPartition("in", 0): 0})),
    ("marker", SinkMarker("id", 0, one().positions, 7)),
]


def test_a_batch_is_written_with_its_positions_and_marker(simulate: Any) -> None:
    simulation = simulate()
    writer = sink(simulation)
    assert writer.write(simulation.run_tasks, one()) == WriteOutcome(True, 3, 1, 0.0)
    assert simulation.committed == ONCE
    assert writer.write(simulation.run_tasks, one()) == WriteOutcome(False, 0, 1, 0.0)
    assert simulation.committed == ONCE
    assert writer.write(simulation.run_tasks, one(1)).is_written


@pytest.mark.parametrize("step, is_before", FAULTS)
def test_a_failure_of_any_step_is_made_up_for(simulate: Any, step: str, is_before: bool) -> None:
    simulation = simulate((step, is_before, SinkFailed("no answer")))
    outcome = sink(simulation).write(simulation.run_tasks, one())
    assert outcome.tries == 2
    assert outcome.is_written == ((step, is_before) != ("end", False))
    assert simulation.committed == ONCE


@pytest.mark.parametrize("step, is_before", FAULTS)
def test_a_kill_at_any_step_loses_and_repeats_nothing(simulate: Any, step: str, is_before: bool) -> None:
    simulation = simulate((step, is_before, Killed()))
    with pytest.raises(Killed):
        sink(simulation).write(simulation.run_tasks, one())
    assert simulation.committed == (ONCE if (step, is_before) == ("end", False) else [])
    sink(simulation).write(simulation.run_tasks, one())
    assert simulation.committed == ONCE


def test_a_refused_login_at_the_abort_hides_no_cause(simulate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = simulate(("write", True, SinkRefused("a row is too large")))

    def refused(*_: object, **__: object) -> None:
        raise SecurityError("the password is wrong by now")

    monkeypatch.setattr(exactly_once, "Connection", refused)
    with pytest.raises(SinkRefused, match="a row is too large"):
        sink(simulation).write(simulation.run_tasks, one())


def test_a_zombie_of_an_earlier_try_is_fenced(simulate: Any) -> None:
    simulation = simulate()
    old = simulation.begin(None, "q", 0)

    def run(producer: TransactionalProducer) -> Mapping[TopicPartition, int]:
        with pytest.raises(Fenced):
            simulation.run_tasks(old)
        return dict(simulation.run_tasks(producer))

    sink(simulation).write(run, one())
    assert simulation.committed == ONCE


def test_a_run_that_is_fenced_does_not_fight(simulate: Any) -> None:
    simulation = simulate()

    def run(producer: TransactionalProducer) -> Mapping[TopicPartition, int]:
        simulation.begin(None, "q", 0)
        return dict(simulation.run_tasks(producer))

    with pytest.raises(Fenced):
        sink(simulation).write(run, one())
    assert simulation.committed == []
    assert simulation.begins == 2, "the other run is not fenced in turn"


def test_tries_end_and_leave_nothing_open(simulate: Any) -> None:
    simulation = simulate()

    def run(producer: TransactionalProducer) -> Mapping[TopicPartition, int]:
        simulation.run_tasks(producer)
        raise ValueError("in a task")

    with pytest.raises(ValueError, match="in a task"):
        sink(simulation, tries=2).write(run, one())
    assert (simulation.begins, simulation.open, simulation.committed) == (3, [], [])


def test_a_batch_that_takes_too_long_is_told_so(simulate: Any) -> None:
    simulation = simulate()

    def run(producer: TransactionalProducer) -> Mapping[TopicPartition, int]:
        simulation.clock_s += TIMEOUT_MS / 1000
        raise Fenced("the coordinator ended it")

    with pytest.raises(TransactionTooLong, match=r"took 60 s.*timeout.ms=60000.*maxOffsetsPerTrigger"):
        sink(simulation).write(run, one())


def test_another_query_under_the_name_is_refused(simulate: Any) -> None:
    simulation = simulate()
    sink(simulation).write(simulation.run_tasks, one())
    with pytest.raises(SinkRefused, match="another name"):
        sink(simulation).write(simulation.run_tasks, one(0, "other"))
    assert simulation.committed == ONCE
    assert simulation.begins == 1, "the query that the name belongs to is not fenced"


def test_a_commit_without_its_control_batch_is_no_gap(simulate: Any) -> None:
    simulation = simulate()
    simulation.is_end_late = True
    for number in range(3):
        assert sink(simulation).write(simulation.run_tasks, one(number)).is_written
    with pytest.raises(SinkRefused, match="3 to 3 are missing"):
        sink(simulation).write(simulation.run_tasks, one(4))


def test_a_batch_planned_anew_is_refused_before_it_fences(simulate: Any) -> None:
    simulation = simulate()
    sink(simulation).write(simulation.run_tasks, one(0))
    with pytest.raises(SinkRefused, match="in-0: 7, written up to 0"):
        sink(simulation).write(simulation.run_tasks, one(0)._replace(positions={"in": {0: 7}}))
    assert (simulation.begins, simulation.committed) == (1, ONCE)


def test_offsets_of_the_group_stand_in_for_a_lost_marker(simulate: Any) -> None:
    simulation = simulate()
    texts = ("query id batch 4", "query id batch 3", "query other batch 9", "query id batch x", "")
    simulation.offsets = {
        TopicPartition("in", number): OffsetAndMetadata(40, -1, text) for number, text in enumerate(texts)
    }
    assert not sink(simulation).write(simulation.run_tasks, one(4)).is_written
    with pytest.raises(SinkRefused, match="in-0: 41, written up to 40"):
        sink(simulation).write(simulation.run_tasks, one(4)._replace(positions={"in": {0: 41}}))
    following = one(5)._replace(before=SourceOffsets(one(4).positions))
    assert sink(simulation).write(simulation.run_tasks, following).is_written
    without = simulate()
    assert sink(without).write(without.run_tasks, one(4)).is_written


def test_rows_without_a_marker_are_not_tried_again_once_committed(simulate: Any) -> None:
    simulation = simulate(("end", False, SinkFailed("no answer")))
    with pytest.raises(SinkRefused, match="not known whether"):
        sink(simulation).write(simulation.run_tasks)
    assert simulation.committed == ONCE[:3]
    assert sink(simulate()).write(lambda producer: {}) == WriteOutcome(True, 0, 1, 0.0)


@pytest.mark.parametrize(
    "error, expected",
    [
        (SinkFailed("x"), True),
        (SinkRefused("x"), False),
        (Fenced("x"), False),
        (RuntimeError("headgate.spark.sink.marker.SinkRefused: no such topic"), False),
        (RuntimeError("headgate.spark.sink.tasks.SecondAttempt: x"), True),
    ],
)
def test_what_another_try_may_cure(error: Exception, expected: bool) -> None:
    assert is_worth_another_try(error) is expected
