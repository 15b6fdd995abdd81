"""The copiers of one kind: a group, its two topics, the values fed into the first, and those due in the second."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from compat_tests.harness.topics import new_topic
from compat_tests.transactions.copiers.committed_values import Values
from compat_tests.transactions.copiers.copier import TRANSACTION_TIMEOUT_MS, Copier, Kind, Pace, Task
from compat_tests.transactions.copiers.stable_offsets import stable_offsets

FED_AHEAD = 12_000
# The timeout of a transaction, with the interval of the search for overdue ones, on a busy machine
ENDED_S = TRANSACTION_TIMEOUT_MS / 1000 + 10.0


class Pipeline:
    """`values` are those of each partition of the input; `least` has the highest offsets that the group had."""

    def __init__(self, bootstrap: str, kind: Kind, directory: Path, *, replicas: int = 1) -> None:
        self.bootstrap = bootstrap
        self.kind = kind
        self.input, self.output = (new_topic(bootstrap, kind.partitions, replicas=replicas) for _ in range(2))
        self.group = f"copiers-{kind.name}"
        self.values: list[list[bytes]] = [[] for _ in range(kind.partitions)]
        self.least = dict.fromkeys(range(kind.partitions), 0)
        self.copiers = [
            Copier(kind, Task(bootstrap, self.input, self.output, self.group, f"{kind.name}-{number}"), directory)
            for number in range(kind.members)
        ]
        self._victims = itertools.cycle(self.copiers)

    @property
    def places(self) -> list[tuple[str, int]]:
        """The partitions of the output."""
        return [(self.output, partition) for partition in range(self.kind.partitions)]

    @property
    def commits(self) -> int:
        return sum(copier.commits for copier in self.copiers)

    def state(self) -> str:
        told = [(copier.commits, copier.lives) for copier in self.copiers]
        return (
            f"{self.kind.name} at {self.least} of {[len(values) for values in self.values]}, commits and lives {told}"
        )

    def start(self, pace: Pace) -> None:
        for copier in self.copiers:
            copier.start(pace)

    def keep_alive(self, pace: Pace) -> None:
        for copier in self.copiers:
            copier.keep_alive(pace)

    def kill(self) -> None:
        for copier in self.copiers:
            copier.kill()

    def kill_next(self, pace: Pace) -> None:
        """Kill one copier, and start it again at once."""
        copier = next(self._victims)
        copier.kill()
        copier.start(pace)

    def feed(self, producer: Producer, ahead: int = FED_AHEAD) -> None:
        """Let each partition have some records that are not copied yet."""
        for partition, values in enumerate(self.values):
            for number in range(len(values), self.least[partition] + ahead // self.kind.partitions):
                values.append(b"record %d of %d %b" % (number, partition, b"x" * (number % 97)))
                producer.produce(self.input, values[-1], partition=partition, on_delivery=assert_delivered)
            producer.poll(0)

    def note_acknowledged(self) -> None:
        """Take the offsets whose commit a copier says was answered."""
        for copier in self.copiers:
            for partition, offset in tuple(copier.acknowledged.items()):
                self.least[partition] = max(offset, self.least[partition])

    def check_committed(self) -> None:
        """Ask for the offsets of the group: none has gone back, and none is unstable for longer than a timeout."""
        stored = stable_offsets(self.bootstrap, self.group, self.input, self.least, ENDED_S)
        behind = {one: (least, stored[one]) for one, least in self.least.items() if max(stored[one], 0) < least}
        assert not behind, f"{self.group}: committed, and stored now: {behind}"
        self.least = {one: max(offset, 0) for one, offset in stored.items()}

    def is_drained(self) -> bool:
        self.check_committed()
        return all(self.least[partition] == len(values) for partition, values in enumerate(self.values))

    def assert_copied(self, found: Values) -> None:
        """Each record before the group's offset is in the output once, in order, and nothing else."""
        for partition, values in enumerate(self.values):
            copied = found[self.output, partition]
            expected = [self.kind.transform(value) for value in values[: self.least[partition]]]
            assert len(copied) == len(expected), self.describe(partition, copied, expected)
            assert copied == expected, self.describe(partition, copied, expected)

    def describe(self, partition: int, copied: list[bytes], expected: list[bytes]) -> str:
        first = next(differing(copied, expected), min(len(copied), len(expected)))
        around = slice(max(first - 2, 0), first + 3)
        return (
            f"{self.kind.name}, partition {partition}: {len(copied)} records are committed where the group has read "
            f"{len(expected)}; from {first} on {copied[around]} instead of {expected[around]}"
        )


def differing(one: list[bytes], other: list[bytes]) -> Iterator[int]:
    return (index for index, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)


def assert_delivered(error: KafkaError | None, _: Message) -> None:
    assert error is None, error
