"""Syncs of the logs in one directory, in threads: those that somebody waits for, and those that only have to be made.

With `headgate.flush=commit` a produce request with acks=all is answered when its records are on the disk. One sync
serves all that came before it began: while a thread waits for the disk, others append, and are in the next one. The
logs that were written to in one turn are shared among a few threads, as a disk can do several syncs at a time.

What is flushed by `flush.messages`, `flush.ms`, or since a segment was rolled, nobody waits for. It may be a gigabyte,
so it has a thread of its own, one log after another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.protocol.errors import KafkaError
from headgate.storage.disk.checkpoint import run_all
from headgate.storage.log.flush import Flush
from headgate.storage.log.holding import FLUSH, waits

if TYPE_CHECKING:
    from headgate.gateway.replication.partition import Partition

logger = logging.getLogger("headgate.replication")

MOST_THREADS = 4
"""That sync for those who wait: `docs/durability.md` has the figures."""

MOST_FILES = 16
"""The files that one of these threads holds open. The last log may add a few: each of its unsynced segments is one."""

WRITE_MS = 100.0
"""Files that nobody waits for are collected for so long."""

_Begun = tuple["Partition", Flush]


class Syncs:
    """What is to be synced, and what threads are at. A log is flushed by one of them at a time."""

    def __init__(self, clock: Clock, scheduler: Scheduler, failed: Callable[[object], None] = lambda _: None) -> None:
        """`failed` is called with each error."""
        self._told = failed
        self._clock = clock
        self._scheduler = scheduler
        self._wanted: dict[Partition, None] = {}
        self._threads = 0
        self._is_planned = self._is_beginning = False
        self._queue: dict[Partition, None] = {}
        self._is_flushing = False
        self._writes: list[Callable[[], None]] = []
        self._is_writing = False

    def commit(self, partition: Partition) -> None:
        """Sync a log after the present turn, as somebody may wait for it."""
        self._wanted[partition] = None
        if not self._is_planned and self._threads < MOST_THREADS:
            self._is_planned = True
            self._scheduler.call_soon(self._begin)

    def flush(self, partition: Partition) -> None:
        """Flush a log when it is its turn."""
        self._queue[partition] = None
        if not self._is_flushing:
            self._flush_next()

    def given_back(self, partition: Partition) -> None:
        """A thread has no longer the log, which kept it from being flushed."""
        if partition in self._wanted:
            self.commit(partition)
        if partition in self._queue:
            self.flush(partition)

    def write(self, write: Callable[[], None]) -> None:
        """Have a small file written that is not waited for; what comes in so many milliseconds by one thread."""
        self._writes.append(write)
        if not self._is_writing:
            self._is_writing = True
            self._scheduler.call_after(WRITE_MS, self._write)

    def _write(self) -> None:
        writes, self._writes = self._writes, []
        self._is_writing = bool(writes)
        if writes and not self._scheduler.is_over:

            def write_small_files() -> None:
                run_all(writes)

            self._scheduler.in_thread(write_small_files, self._written)

    def _written(self, result: object) -> None:
        if isinstance(result, BaseException):  # the next flush or checkpoint writes it, or tells of it
            self._told(result)
        self._write()

    # Those that are waited for

    def _begin(self) -> None:
        self._is_planned = False
        if self._is_beginning or self._scheduler.is_over:  # the store flushes everything when it is closed
            return
        self._is_beginning = True
        try:
            while self._threads < MOST_THREADS:
                ready = [partition for partition in self._wanted if not waits(partition.log, FLUSH)]
                if not ready:
                    break
                begun = self._begun(ready[: -(-len(ready) // (MOST_THREADS - self._threads))])
                if begun:
                    self._threads += 1
                    self._run(begun)
        finally:
            self._is_beginning = False

    def _begun(self, partitions: list[Partition]) -> list[_Begun]:
        begun, files = list[_Begun](), 0
        for partition in partitions:
            if files >= MOST_FILES:
                break
            del self._wanted[partition]
            flush = self._flush_of(partition)
            if flush is not None:
                begun.append((partition, flush))
                files += flush.held_files
        return begun

    def _run(self, begun: list[_Begun]) -> None:
        def work() -> list[OSError | None]:
            return [_ran(flush) for _, flush in begun]

        def done(result: list[OSError | None] | BaseException) -> None:
            self._threads -= 1
            errors = [result] * len(begun) if isinstance(result, BaseException) else result
            for (partition, flush), error in zip(begun, errors, strict=True):
                self._end(partition, flush, error)
            self._begin()
            if self._queue and not self._is_flushing:
                self._flush_next()

        self._scheduler.in_thread(work, done)

    # Those that only have to be made

    def _flush_next(self) -> None:
        self._is_flushing = False
        if self._scheduler.is_over:
            return
        for partition in [waiting for waiting in self._queue if not waits(waiting.log, FLUSH)]:
            del self._queue[partition]
            flush = self._flush_of(partition)
            if flush is not None:
                self._is_flushing = True
                self._flush_by_thread(partition, flush)
                return

    def _flush_by_thread(self, partition: Partition, flush: Flush) -> None:
        def done(result: object) -> None:
            self._end(partition, flush, result if isinstance(result, BaseException) else None)
            self._flush_next()
            self._begin()

        self._scheduler.in_thread(flush.run, done)

    # Both

    def _flush_of(self, partition: Partition) -> Flush | None:
        """The flush that is to be made now; None if the log is gone, or has no file to be had."""
        log = partition.log
        if log.is_retired:  # its files may be another's by now
            partition.advanced(partition)  # who waits for it need wait no more
            return None
        try:
            return log.begin_flush()
        except (OSError, KafkaError) as error:
            self._failed(partition, error)
            return None

    def _end(self, partition: Partition, flush: Flush, error: BaseException | None) -> None:
        partition.log.end_flush(flush, self._clock.now_ms())
        if error is not None:
            self._failed(partition, error)
        elif flush.is_part:
            partition.sync_soon()
        partition.synced()

    def _failed(self, partition: Partition, error: BaseException) -> None:
        self._told(error)
        if partition.log.sync_error is None:
            logger.error("%r cannot be flushed, and is tried again: %s", partition.log, error)
        else:
            message = "%r takes nothing more: a sync failed, after which nobody knows what is on the disk: %s"
            logger.error(message, partition.log, error)


def _ran(flush: Flush) -> OSError | None:
    try:
        flush.run()
    except OSError as error:
        return error
    return None
