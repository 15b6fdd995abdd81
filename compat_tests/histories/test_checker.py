"""The checker names each planted anomaly, and no other one, with the operations that prove it."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.harness.soak import SOAK
from compat_tests.histories import checker
from compat_tests.histories.checker import Anomaly, check
from compat_tests.histories.history import FAIL, INFO, OK, Operation, Read, Write, load

GROUP = "copiers"
# Seconds for 100,000 operations on a busy machine
SPEED_LIMIT_S = 10.0


class Record:
    """A history in the making: an operation begins when the one before has ended, unless it says when."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def add(self, kind: str, process: str = "a", outcome: str = OK, **fields: Any) -> Operation:
        number = len(self.operations)
        times = {"began_ns": number * 10, "ended_ns": number * 10 + 9} | fields
        self.operations.append(Operation(process, number, kind, outcome=outcome, **times))
        return self.operations[-1]

    def send(self, *writes: Write, outcome: str = OK, **fields: Any) -> Operation:
        return self.add("send", outcome=outcome, writes=list(writes), **fields)

    def transaction(self, *writes: Write, outcome: str = OK, **fields: Any) -> Operation:
        decided = {"decided_ns": len(self.operations) * 10 + 5}
        return self.add("transaction", outcome=outcome, writes=list(writes), **(decided | fields))

    def poll(self, *reads: Read, process: str = "reader", **fields: Any) -> Operation:
        return self.add("poll", process, reads=list(reads), **fields)

    def assign(self, process: str = "reader", **positions: int | None) -> Operation:
        return self.add("assign", process, offsets=dict(positions))

    def committed(self, **offsets: int) -> Operation:
        return self.add("committed", "reader", group=GROUP, offsets=dict(offsets))


def written(value: str, offset: int | None, key: str = "x", outcome: str = OK) -> Write:
    return Write(key, value, offset, outcome)


def duplicate(record: Record) -> list[Operation]:
    sent = record.send(written("1", 0))
    read = record.poll(Read("x", 0, "1"), Read("x", 1, "1"))
    return [sent, read]


def duplicate_after_an_unknown_outcome(record: Record) -> list[Operation]:
    record.send(written("1", None, outcome=INFO), outcome=INFO)
    return [record.poll(Read("x", 0, "1"), Read("x", 1, "1"))]


def inconsistent_offsets(record: Record) -> list[Operation]:
    record.send(written("1", None, outcome=INFO), written("2", None, outcome=INFO), outcome=INFO)
    return [record.poll(Read("x", 0, "1"), process="one"), record.poll(Read("x", 0, "2"), process="other")]


def lost(record: Record) -> list[Operation]:
    sent = record.send(written("1", 0))
    record.send(written("2", 1))
    record.send(written("3", 2))
    read = record.poll(Read("x", 1, "2"))
    record.poll(Read("x", 2, "3"))
    return [sent, read]


def lost_of_a_transaction(record: Record) -> list[Operation]:
    transaction = record.transaction(written("1", 0))
    record.send(written("2", 2))
    return [transaction, record.poll(Read("x", 2, "2"))]


def unseen(record: Record) -> list[Operation]:
    record.send(written("1", 0))
    sent = record.send(written("2", 1))
    record.poll(Read("x", 0, "1"))
    return [sent]


def torn(record: Record) -> list[Operation]:
    transaction = record.transaction(
        written("1", 0, "x", INFO), written("2", 0, "y", INFO), outcome=INFO, ended_ns=9, decided_ns=5
    )
    return [transaction, record.poll(Read("x", 0, "1"))]


def torn_though_committed(record: Record) -> list[Operation]:
    transaction = record.transaction(written("1", 0, "x"), written("2", 0, "y"))
    return [transaction, record.poll(Read("y", 0, "2"))]


def aborted_read(record: Record) -> list[Operation]:
    transaction = record.transaction(written("1", 0), outcome=FAIL)
    read = record.poll(Read("x", 0, "1"))
    record.poll(Read("x", 0, "1"), process="other")
    return [transaction, read]


def own_read(record: Record) -> list[Operation]:
    transaction = record.transaction(written("1", 0), reads=[Read("x", 0, "1")])
    record.poll(Read("x", 0, "1"))
    return [transaction]


def intermediate_read(record: Record) -> list[Operation]:
    transaction = record.transaction(written("1", 0), written("2", 1), ended_ns=100, decided_ns=99)
    read = record.poll(Read("x", 0, "1"))
    record.poll(Read("x", 1, "2"), began_ns=110, ended_ns=120)
    return [transaction, read]


def write_read_cycle(record: Record) -> list[Operation]:
    reads = [[Read("y", 0, "2")], [Read("z", 0, "3")], [Read("x", 0, "1")]]
    one, two, three = (
        record.transaction(
            written(value, 0, key), process=value, reads=read, began_ns=int(value), ended_ns=100, decided_ns=99
        )
        for value, key, read in zip("123", "xyz", reads, strict=True)
    )
    record.transaction(written("4", 1), process="4", reads=[Read("x", 0, "1")], ended_ns=101)
    record.poll(Read("x", 1, "4"), ended_ns=102)
    return [one, three, two]


def skipped(record: Record) -> list[Operation]:
    record.send(written("1", 0), written("2", 1), written("3", 2))
    record.assign(x=0)
    before = record.poll(Read("x", 0, "1"))
    after = record.poll(Read("x", 2, "3"))
    return [before, after, record.poll(Read("x", 1, "2"), process="other")]


def skipped_at_the_start(record: Record) -> list[Operation]:
    record.send(written("1", 0), written("2", 1))
    start = record.assign(x=0)
    after = record.poll(Read("x", 1, "2"))
    return [start, after, record.poll(Read("x", 0, "1"), process="other")]


def nonmonotonic_poll(record: Record) -> list[Operation]:
    record.send(written("1", 0), written("2", 1))
    record.assign(x=0)
    before = record.poll(Read("x", 0, "1"), Read("x", 1, "2"))
    return [before, record.poll(Read("x", 1, "2"))]


def reordered(record: Record) -> list[Operation]:
    first = record.send(written("1", 1))
    second = record.send(written("2", 0))
    record.poll(Read("x", 0, "2"), Read("x", 1, "1"))
    return [first, second]


def false_failure(record: Record) -> list[Operation]:
    sent = record.send(written("1", None, outcome=FAIL), outcome=FAIL)
    return [sent, record.poll(Read("x", 0, "1"))]


def unexpected_value(record: Record) -> list[Operation]:
    return [record.poll(Read("x", 0, "1"))]


def aborted_offsets(record: Record) -> list[Operation]:
    record.transaction(group=GROUP, offsets={"x": 3})
    aborted = record.transaction(group=GROUP, offsets={"x": 5}, outcome=FAIL)
    told = record.committed(x=5)
    record.committed(x=5)
    record.transaction(group=GROUP, offsets={"x": 5})
    return [aborted, told]


def unexpected_offset(record: Record) -> list[Operation]:
    record.transaction(group=GROUP, offsets={"x": 3})
    return [record.committed(x=4)]


def offsets_that_went_back(record: Record) -> list[Operation]:
    record.transaction(group=GROUP, offsets={"x": 3})
    later = record.transaction(group=GROUP, offsets={"x": 5})
    return [later, record.committed(x=3)]


def hanging(record: Record) -> list[Operation]:
    return [record.transaction(written("1", None, outcome=INFO), outcome=INFO, ended_ns=None)]


def hanging_too_long(record: Record) -> list[Operation]:
    return [record.poll(ended_ns=200_000_000_000)]


def hanging_transaction(record: Record) -> list[Operation]:
    return [record.add("ends", "reader", offsets={"x": 4, "y": 2}, ends={"x": 5, "y": 2})]


def liveness(record: Record) -> list[Operation]:
    record.send(written("1", 0), process="quick")
    slow = record.send(written("2", None, outcome=INFO), outcome=INFO, process="slow")
    heal = record.add("heal", "faults", bound_s=1e-6)
    record.send(written("3", 1), process="quick")
    record.poll(Read("x", 0, "1"), Read("x", 1, "3"))
    return [heal, slow]


PLANTED: dict[Callable[[Record], list[Operation]], str] = {
    duplicate: "duplicate",
    duplicate_after_an_unknown_outcome: "duplicate",
    inconsistent_offsets: "inconsistent offsets",
    lost: "lost",
    lost_of_a_transaction: "lost",
    unseen: "unseen",
    torn: "torn",
    torn_though_committed: "torn",
    aborted_read: "aborted read",
    own_read: "own read",
    intermediate_read: "intermediate read",
    write_read_cycle: "write-read cycle",
    skipped: "skipped",
    skipped_at_the_start: "skipped",
    nonmonotonic_poll: "nonmonotonic poll",
    reordered: "reordered",
    false_failure: "false failure",
    unexpected_value: "unexpected value",
    aborted_offsets: "aborted offsets",
    unexpected_offset: "unexpected offset",
    offsets_that_went_back: "offsets went back",
    hanging: "hanging",
    hanging_too_long: "hanging",
    hanging_transaction: "hanging",
    liveness: "liveness",
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_anomaly_is_named_with_its_proof(plant: Callable[[Record], list[Operation]]) -> None:
    record = Record()
    proof = plant(record)
    (anomaly,) = check(record.operations)
    assert anomaly.name == PLANTED[plant]
    assert list(anomaly.evidence) == proof


class SoundLog:
    """Logs in memory, as Kafka could have written them, and a consumer that reads each to its end."""

    def __init__(self) -> None:
        self.keys = [f"t-{number}" for number in range(8)]
        self.ends = dict.fromkeys(self.keys, 0)
        self.unread: dict[str, list[tuple[str, int, str]]] = {key: [] for key in self.keys}
        self.committed = dict.fromkeys(self.keys, 0)

    def transaction(self, number: int, chance: random.Random) -> dict[str, Any]:
        """Of three records, each with a marker behind it; the outcome."""
        is_aborted = chance.random() < 0.2
        writes = [(key, f"{number}-{key}", self.ends[key], "ok") for key in chance.sample(self.keys, 3)]
        for key, value, offset, _ in writes:
            self.ends[key] += 2
            self.unread[key] += [] if is_aborted else [(key, offset, value)]
        offsets = {key: self.committed[key] + 1 for key in chance.sample(self.keys, 2)}
        self.committed |= {} if is_aborted else offsets
        outcome = "fail" if is_aborted else "ok"
        return {"type": outcome, "kind": "transaction", "writes": writes, "group": GROUP, "offsets": offsets}

    def poll(self, key: str) -> dict[str, Any]:
        found, self.unread[key] = self.unread[key], []
        return {"type": "ok", "kind": "poll", "reads": found}

    def told(self) -> dict[str, Any]:
        offsets = {key: offset or None for key, offset in self.committed.items()}
        return {"type": "ok", "kind": "committed", "group": GROUP, "offsets": offsets}


def sound(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Events of as many operations that Kafka could have answered."""
    chance = random.Random(seed)
    log = SoundLog()
    for number in range(count):
        if number % 50 == 7:
            outcome = log.told()
        elif number % 5 == 4:
            outcome = log.poll(chance.choice(log.keys))
        else:
            outcome = log.transaction(number, chance)
        yield from both(outcome, number)
    for number, key in enumerate(log.keys):
        yield from both(log.poll(key), count + number)


def both(outcome: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The invocation and the outcome of an operation."""
    process = "reader" if outcome["kind"] == "poll" else f"p{number % 5}"
    head = {"process": process, "operation": number, "kind": outcome["kind"]}
    yield head | {"type": "invoke", "time_ns": number * 10}
    yield head | outcome | {"time_ns": number * 10 + 9, "decided_ns": number * 10 + 5}


def lines(count: int, seed: int) -> list[str]:
    return [json.dumps(event) for event in sound(count, seed)]


@pytest.mark.parametrize("seed", range(5))
def test_a_sound_history_has_no_anomaly(seed: int) -> None:
    history = load(lines(2_000, seed))
    assert len(history) > 2_000
    assert not check(history)


def test_a_long_history_takes_seconds() -> None:
    count = 100_000 if SOAK else 20_000
    events = lines(count, 1)
    began_s = time.process_time()
    assert not check(load(events))
    assert time.process_time() - began_s < count / 100_000 * SPEED_LIMIT_S


def test_the_command_prints_the_proof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    events = [{"process": "a", "operation": 1, "time_ns": 1, "type": "invoke", "kind": "poll"}]
    events += [{"process": "a", "operation": 1, "time_ns": 2, "type": "ok", "reads": [["x", 0, "never written"]]}]
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    assert checker.main([str(path)]) == 1
    said = capsys.readouterr().out
    assert "1 operations, 1 anomalies" in said
    assert "unexpected value: never written was read at x 0\n    a #1 poll ok" in said


def test_each_anomaly_of_the_docstring_is_planted() -> None:
    assert checker.__doc__ is not None
    assert {name for name in PLANTED.values() if f"\n    {name} " not in checker.__doc__} == set()
    assert len(set(PLANTED.values())) == checker.__doc__.count("\n    ") - 1
    assert Anomaly("a", "b", ()).name == "a"
