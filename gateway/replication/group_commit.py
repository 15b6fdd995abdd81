"""Syncs of the logs in one directory, by threads: clients wait for some, and for no others.

With `headgate.flush=commit` a produce request with acks=all is answered when its records are on the disk. One sync
serves all appends made before it began: appends that arrive during a sync are in the next one. A few threads share the
logs written in one turn, as a disk can do several syncs at a time.

No client waits for the flushes of `flush.messages`, `flush.ms` and rolls. Each may be a gigabyte: so they have one
thread of their own, and run one log after another.

`storage.log.flush` has the extent of a flush and the meaning of a failure; `append.py` has the waiting appends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tasks import SingleTask, Task, run, sleep
from headgate.protocol.errors import KafkaError
from headgate.storage.disk.checkpoint import run_all
from headgate.storage.log import flushing
from headgate.storage.log.flush import Flush
from headgate.storage.log.log_lock import FLUSH

if TYPE_CHECKING:
    from headgate.gateway.replication.replica import Replica

logger = logging.getLogger("headgate.replication")

MAX_SYNC_THREADS = 4
"""Maximum threads for syncs that a client awaits; `docs/durability.md` has the figures."""

MAX_OPEN_FILES = 16
"""Maximum files that one of these threads holds open. The last log may exceed it by its number of unsynced segments."""

WRITE_MS = 100.0
"""The pause in which small files are collected before a write."""

_Begun = tuple["Replica", Flush]


class GroupCommit:
    """The logs that need a sync, and the threads that sync. A log has at most one flush at a time."""

    def __init__(self, clock: Clock, scheduler: Scheduler, failed: Callable[[object], None]) -> None:
        """`failed` is called with each error."""
        self._on_failure = failed
        self._clock = clock
        self._scheduler = scheduler
        self._wanted: dict[Replica, None] = {}
        self._threads = 0
        self._is_planned = False
        self._queue: dict[Replica, None] = {}
        self._flushes = SingleTask()
        self._writes: list[Callable[[], None]] = []
        self._small_files = SingleTask()

    def sync_after_turn(self, replica: Replica) -> None:
        """Sync a log after the present turn: a client may wait."""
        self._wanted[replica] = None
        if not self._is_planned and self._threads < MAX_SYNC_THREADS:
            self._is_planned = True
            self._scheduler.call_soon(self._begin)

    def flush(self, replica: Replica) -> None:
        """Flush a log after the flushes in the queue."""
        self._queue[replica] = None
        self._flushes.start(self._flush_queued)

    def given_back(self, replica: Replica) -> None:
        """Resume the syncs of a log that a thread has released."""
        if replica in self._wanted:
            self.sync_after_turn(replica)
        if replica in self._queue:
            self.flush(replica)

    def write(self, write: Callable[[], None]) -> None:
        """Have a small file written without a waiting client; one thread writes all files of `WRITE_MS`."""
        self._writes.append(write)
        self._small_files.start(self._write_small_files)

    def _write_small_files(self) -> Task[None]:
        yield sleep(self._scheduler, WRITE_MS)
        while self._writes and not self._scheduler.is_over:
            writes, self._writes = self._writes, []
            try:
                yield partial(self._scheduler.in_thread, partial(write_small_files, writes))
            except Exception as error:  # noqa: BLE001  the next flush or checkpoint writes the files, or reports the error
                self._on_failure(error)

    # Syncs that are awaited

    def _begin(self) -> None:
        """Share the logs among the free threads."""
        self._is_planned = False
        while self._threads < MAX_SYNC_THREADS and not self._scheduler.is_over:  # a stop flushes everything itself
            ready = [replica for replica in self._wanted if not replica.log.lock.waits(FLUSH)]
            if not ready:
                break
            begun = self._begun(ready[: -(-len(ready) // (MAX_SYNC_THREADS - self._threads))])
            if begun:
                run(self._sync(begun))

    def _begun(self, replicas: list[Replica]) -> list[_Begun]:
        begun, files = list[_Begun](), 0
        for replica in replicas:
            if files >= MAX_OPEN_FILES:
                break
            del self._wanted[replica]
            flush = self._flush_of(replica)
            if flush is not None:
                begun.append((replica, flush))
                files += flush.held_files
        return begun

    def _sync(self, begun: list[_Begun]) -> Task[None]:
        """Have one thread sync some logs."""
        self._threads += 1
        errors: list[Any]
        try:
            errors = yield partial(self._scheduler.in_thread, partial(_run_all, begun))
        except Exception as error:  # noqa: BLE001  noted for each log
            errors = [error] * len(begun)
        self._threads -= 1
        for (replica, flush), failure in zip(begun, errors, strict=True):
            self._end(replica, flush, failure)
        self._begin()
        if self._queue:
            self._flushes.start(self._flush_queued)

    # Syncs that no client awaits

    def _flush_queued(self) -> Task[None]:
        """Flush the logs in the queue, one after another."""
        while not self._scheduler.is_over:
            replica = next((waiting for waiting in self._queue if not waiting.log.lock.waits(FLUSH)), None)
            if replica is None:
                return
            del self._queue[replica]
            flush = self._flush_of(replica)
            if flush is None:
                continue
            failure = None
            try:
                yield partial(self._scheduler.in_thread, flush.run)
            except Exception as error:  # noqa: BLE001  noted for the log
                failure = error
            self._end(replica, flush, failure)
            self._begin()

    # Both

    def _flush_of(self, replica: Replica) -> Flush | None:
        """The flush to be made now; None if the log is retired, or none of its files can be opened."""
        log = replica.log
        if log.is_retired:  # its files may belong to another log by now
            replica.fail_lost_appends()
            return None
        try:
            return flushing.begin(log)
        except (OSError, KafkaError) as error:
            self._failed(replica, error)
            return None

    def _end(self, replica: Replica, flush: Flush, error: BaseException | None) -> None:
        flushing.end(replica.log, flush, self._clock.now_ms())
        if error is not None:
            self._failed(replica, error)
        elif flush.is_part:
            replica.sync_soon()
        replica.synced()

    def _failed(self, replica: Replica, error: BaseException) -> None:
        self._on_failure(error)
        if replica.log.sync_error is None:
            logger.error("%r cannot be flushed; the broker retries: %s", replica.log, error)
        else:
            message = "%r accepts no more writes: after a failed sync the content of the disk is unknown: %s"
            logger.error(message, replica.log, error)


def write_small_files(writes: list[Callable[[], None]]) -> None:
    """Write all files, in a thread. Raises the first OSError."""
    run_all(writes)


def _run_all(begun: list[_Begun]) -> list[OSError | None]:
    """Run the flushes, in a thread. Returns their errors."""
    return [_ran(flush) for _, flush in begun]


def _ran(flush: Flush) -> OSError | None:
    try:
        flush.run()
    except OSError as error:
        return error
    return None
