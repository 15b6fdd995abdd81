"""The verbs that every client family is driven with."""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from compat_tests.harness.records import Received, Sent, Traits
from compat_tests.harness.stored import CODECS
from compat_tests.security.client_security import Security

CONSUME_LIMIT_S = 120.0


@dataclass(frozen=True)
class FromStart:
    """The first record there is."""


@dataclass(frozen=True)
class FromOffset:
    """An explicit offset for each partition."""

    offsets: Mapping[int, int]


@dataclass(frozen=True)
class FromTime:
    """The first record of each partition that is not older; the client asks the broker for its offset."""

    timestamp_ms: int


Start = FromStart | FromOffset | FromTime


class Arrival(NamedTuple):
    """A record at the end of a partition, and when its consumer handed it out (`time.perf_counter`)."""

    at_s: float
    value: bytes | None


class Tail:
    """A consumer at the end of partition 0, running in a thread of its own until closed."""

    def __init__(self, run: Callable[[Tail], None], interrupt: Callable[[], None] = lambda: None) -> None:
        self.arrivals: queue.SimpleQueue[Arrival | BaseException] = queue.SimpleQueue()
        self.is_parked = threading.Event()
        self.is_closing = threading.Event()
        self.interrupt = interrupt
        self.thread = threading.Thread(target=self.guard, args=(run,), name="tail", daemon=True)
        self.thread.start()

    def guard(self, run: Callable[[Tail], None]) -> None:
        try:
            run(self)
        except Exception as failure:  # noqa: BLE001  raised again by next()
            self.arrivals.put(failure)
        finally:
            self.is_parked.set()

    def arrived(self, value: bytes | None) -> None:
        self.arrivals.put(Arrival(time.perf_counter(), value))

    def next(self, timeout_s: float) -> Arrival:
        """The next record; raises queue.Empty when none comes, or what ended the consumer."""
        found = self.arrivals.get(timeout=timeout_s)
        if isinstance(found, BaseException):
            raise found
        return found

    def close(self) -> None:
        self.is_closing.set()
        self.interrupt()
        self.thread.join(60)
        assert not self.thread.is_alive(), "the consumer did not end"


class Family(ABC):
    """A stock client. Producers are idempotent with acks=all; consumers are assigned and never commit."""

    name: ClassVar[str]
    codecs: ClassVar[tuple[str, ...]] = CODECS
    traits: ClassVar[Traits] = Traits()
    # Of the topics of the tests of every codec
    partitions: ClassVar[int] = 2
    # Batches of so few records may stay as they are, where compressing would not make them smaller
    uncompressed_records: ClassVar[int] = 0
    # Whether it can be told which partitions to read, without a group
    reads_by_assignment: ClassVar[bool] = True
    # Whether a tail can tell when it is parked; otherwise its first record is for finding out
    knows_when_parked: ClassVar[bool] = True
    # How it reaches the broker; None: without security
    security: Security | None = None

    @abstractmethod
    def check(self) -> None:
        """End the test where the client is not on this machine."""

    @abstractmethod
    def produce(self, bootstrap: str, topic: str, records: Iterable[Sent], codec: str) -> None:
        """Send all and return when all are acknowledged; raises what the client reports."""

    @abstractmethod
    def consume(self, bootstrap: str, topic: str, start: Start, limits: Mapping[int, int]) -> list[Received]:
        """Read so many records of each partition named; what follows them may be there and is left."""

    @abstractmethod
    def tail(self, bootstrap: str, topic: str) -> Tail:
        """A consumer that waits at the end of partition 0 of an empty topic, with its default long poll."""

    def close(self) -> None:  # noqa: B027  most keep nothing
        """End what is kept running between calls."""


class AsksOffsets(Family):
    """A client whose offsets can be asked for by themselves."""

    @abstractmethod
    def offsets(self, bootstrap: str, topic: str, at: str) -> dict[int, int]:
        """Of each partition: `earliest`, `latest`, or `time:<ms>`, where the end stands for no record so late."""


class Gathered:
    """The limits of a `consume` and what came so far; shared by the clients that run in this process."""

    def __init__(self, limits: Mapping[int, int]) -> None:
        self.left = {partition: count for partition, count in limits.items() if count > 0}
        self.records: list[Received] = []
        self.deadline_s = time.monotonic() + CONSUME_LIMIT_S

    def add(self, record: Received) -> None:
        left = self.left.get(record.partition, 0)
        if left > 0:
            self.records.append(record)
            self.left[record.partition] = left - 1
            if left == 1:
                del self.left[record.partition]

    def is_waiting(self) -> bool:
        """Whether records are missing; raises when they are late."""
        if self.left and time.monotonic() > self.deadline_s:
            raise AssertionError(
                f"after {CONSUME_LIMIT_S} s so many records of each partition are missing: {self.left}"
            )
        return bool(self.left)
