"""Logs of which a sync failed: mended one after another, in a thread, until the disk takes them (`storage.mending`)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from gateway.clock import Clock
from gateway.scheduler import Scheduler
from protocol.errors import KafkaError
from storage import mending
from storage.errors import StorageError
from storage.log import Log
from storage.mending import Mending

logger = logging.getLogger("headgate.upkeep")

# How long to wait after a failure: twice as long after each, up to the longest.
FIRST_WAIT_MS, LONGEST_WAIT_MS = 1_000.0, 60_000.0


class Mender:
    """Makes logs whole again that `broken` names."""

    def __init__(
        self,
        broken: Callable[[], list[Log]],
        is_there: Callable[[Log], bool],
        mended: Callable[[Log], None],
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        """`is_there`: a log was not deleted meanwhile. `mended` is called for each that takes records again."""
        self._broken = broken
        self._is_there = is_there
        self._mended = mended
        self._clock = clock
        self._scheduler = scheduler
        self._waits: dict[Log, tuple[float, float]] = {}  # until when, and how long the next time
        self._is_busy = False

    def run(self) -> None:
        """Begin with the first whose time has come. Called every second, and after each."""
        for log in self._broken():
            if self._is_busy:
                return
            if not self._is_there(log):
                self._forget(log)
            elif self._waits.get(log, (0.0, 0.0))[0] <= self._clock.monotonic_ms():
                self._begin(log)

    def _begin(self, log: Log) -> None:
        try:
            work = mending.begin(log)
        except (OSError, KafkaError) as error:
            self._again(log, error)
            return
        if work is not None:  # else a thread writes to it
            self._is_busy = True
            self._scheduler.in_thread(work.run, lambda result: self._end(log, work, result))

    def _end(self, log: Log, work: Mending, result: object) -> None:
        self._is_busy = False
        if isinstance(result, BaseException):
            work.error = result
        is_mended = False
        try:
            is_mended = mending.end(log, work)
        except (OSError, KafkaError, StorageError) as failure:
            work.error = failure
        if work.error is not None and self._is_there(log):
            self._again(log, work.error)
        elif is_mended:
            self._forget(log)
            self._mended(log)
        self.run()

    def _again(self, log: Log, error: BaseException) -> None:
        wait_ms = min(self._waits.get(log, (0.0, FIRST_WAIT_MS))[1], LONGEST_WAIT_MS)
        self._waits[log] = self._clock.monotonic_ms() + wait_ms, 2 * wait_ms
        where = f"{log.topic}-{log.partition}"
        logger.error("%s still takes no records, and is tried again in %d s: %s", where, wait_ms / 1000, error)

    def _forget(self, log: Log) -> None:
        log.pool.broken.remove(log)
        self._waits.pop(log, None)
