"""Logs of which a sync failed: mended one after another, in a thread, until the disk takes them.

How one is mended is said in `storage.recovery.sync_failure_repair`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler, StoppedError
from headgate.storage.log.log import Log
from headgate.storage.recovery import sync_failure_repair
from headgate.storage.recovery.sync_failure_repair import SyncFailureRepair

logger = logging.getLogger("headgate.upkeep")

# How long to wait after a failure: twice as long after each, up to the longest.
FIRST_WAIT_MS, LONGEST_WAIT_MS = 1_000.0, 60_000.0


class RepairListener(NamedTuple):
    """Who hears of logs: of each that ends earlier than it did, and of each that takes records again."""

    was_truncated: Callable[[Log], None]
    repaired: Callable[[Log], None]


class RepairQueue:
    """Makes logs whole again that `needs_repair` names."""

    def __init__(
        self,
        broken: Callable[[], list[Log]],
        is_there: Callable[[Log], bool],
        tell: RepairListener,
        clock: Clock,
        scheduler: Scheduler,
        failed: Callable[[object], None] = lambda _: None,
    ) -> None:
        """`is_there`: a log was not deleted meanwhile. `failed` is called with each error."""
        self._failed = failed
        self._needs_repair = broken
        self._is_there = is_there
        self._tell = tell
        self._clock = clock
        self._scheduler = scheduler
        self._waits: dict[Log, tuple[float, float]] = {}  # until when, and how long the next time
        self._is_busy = False

    def retry_all(self) -> None:
        """Wait for none any longer: their disk is back."""
        self._waits.clear()
        self.run()

    def run(self) -> None:
        """Begin with the first whose time has come. Called every second, and after each."""
        for log in self._needs_repair():
            if self._is_busy:
                return
            if not self._is_there(log):
                self._forget(log)
            elif self._waits.get(log, (0.0, 0.0))[0] <= self._clock.monotonic_ms():
                self._begin(log)

    def _begin(self, log: Log) -> None:
        work = sync_failure_repair.begin(log)
        if work is not None:  # else a thread writes to it
            self._is_busy = True
            self._scheduler.in_slices(work.steps(), lambda result: self._take_up(log, work, result))

    def _take_up(self, log: Log, work: SyncFailureRepair, result: object) -> None:
        """It is known what there is of the log."""
        if isinstance(result, BaseException):
            work.error = result
        is_owed = False
        try:
            is_owed = sync_failure_repair.apply(log, work)
            if work.has_lost_records:
                self._tell.was_truncated(log)
        except Exception as error:  # a fault of ours must not keep the others waiting
            logger.exception("what was found of %s-%d cannot be taken up", *log.key)
            work.error = error
        if work.error is None and is_owed and not self._scheduler.is_over:
            self._scheduler.in_slices(work.settle_steps(), lambda result: self._end(log, work, result))
        else:
            self._end(log, work, StoppedError("the broker stops") if is_owed else None)

    def _end(self, log: Log, work: SyncFailureRepair, result: object) -> None:
        self._is_busy = False
        if isinstance(result, BaseException):
            work.error = work.error or result
        is_mended = sync_failure_repair.end(log, work)
        if self._scheduler.is_over:  # the next start looks at it
            return
        if work.error is not None and self._is_there(log):
            self._again(log, work.error)
        elif is_mended:
            self._forget(log)
            self._tell.repaired(log)
        self.run()

    def _again(self, log: Log, error: BaseException) -> None:
        self._failed(error)
        wait_ms = min(self._waits.get(log, (0.0, FIRST_WAIT_MS))[1], LONGEST_WAIT_MS)
        self._waits[log] = self._clock.monotonic_ms() + wait_ms, 2 * wait_ms
        where = f"{log.topic}-{log.partition}"
        logger.error("%s still takes no records, and is tried again in %d s: %s", where, wait_ms / 1000, error)

    def _forget(self, log: Log) -> None:
        log.pool.needs_repair.remove(log)
        self._waits.pop(log, None)
