"""The writer slot of a partition whose disk is slow: appends one after another, in a thread, in the order they came.

A write goes to the page cache and takes microseconds, as long as the kernel has room. When it has none, a write waits
for the disk, and with it would the loop and all who have nothing to do with that partition. So after one slow write the
appends of that log are written by a thread, as many together as have come in the meantime; once it has been quick for
a while they are made inline again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gateway.clock import Clock
from gateway.scheduler import Scheduler
from protocol.errors import KafkaError
from storage.staged import AppendInfo, Staged

if TYPE_CHECKING:
    from gateway.replication.partition import Partition

SLOW_MS = 5.0
CALM_MS = 10_000.0

Done = Callable[[AppendInfo | KafkaError], None]


class _Append(NamedTuple):
    records: memoryview
    required_acks: int
    now_ms: int
    done: Done


class Writers(NamedTuple):
    """What writers need: how long a write took, and threads."""

    clock: Clock
    scheduler: Scheduler


class Writer:
    """Appends to one partition by a thread, one write at a time."""

    def __init__(self, partition: Partition, writers: Writers) -> None:
        self._partition = partition
        self._clock, self._scheduler = writers
        self._queue: deque[_Append] = deque()
        self._is_writing = False
        self._slow_ms = self._clock.monotonic_ms()  # when it was slow last

    def append(self, records: memoryview, required_acks: int, now_ms: int, done: Done) -> None:
        """Append `records`, which are copied; `done` is called once, with where they are or why they were refused."""
        self._queue.append(_Append(memoryview(bytearray(records)), required_acks, now_ms, done))
        if not self._is_writing:
            self._write()

    def _write(self) -> None:
        staged, taken = self._stage()
        if staged is None:
            for append, info in taken:  # nothing to be written: they had come before
                append.done(info)
            self._is_writing = False
            return
        self._is_writing = True
        began_ms = self._clock.monotonic_ms()
        self._scheduler.in_thread(staged.write, lambda result: self._written(staged, taken, began_ms, result))

    def _stage(self) -> tuple[Staged | None, list[tuple[_Append, AppendInfo]]]:
        """Stage what belongs into one write."""
        log, taken = self._partition.log, []
        while self._queue and (log.staged is None or log.staged.has_bytes(len(self._queue[0].records))):
            append = self._queue.popleft()
            try:
                info = self._partition.stage_owned(append.records, append.required_acks, append.now_ms)
            except KafkaError as error:
                append.done(error)
            else:
                taken.append((append, info))
        try:
            return log.begin_write(), taken
        except KafkaError as error:
            for append, _ in taken:
                append.done(error)
            return None, []

    def _written(
        self, staged: Staged, taken: list[tuple[_Append, AppendInfo]], began_ms: float, result: object
    ) -> None:
        refused: KafkaError | None = None
        try:
            self._partition.log.end_write(staged, result if isinstance(result, BaseException) else None)
        except KafkaError as error:
            refused = error
        now_ms = self._clock.monotonic_ms()
        if now_ms - began_ms > SLOW_MS:
            self._slow_ms = now_ms
        self._partition.advance()
        for append, info in taken:
            append.done(refused or info)
        self._partition.advanced(self._partition)  # who waits may have been refused
        if self._queue:
            self._write()
            return
        self._is_writing = False
        if now_ms - self._slow_ms > CALM_MS:
            self._partition.writer = None
