"""The repair queue: repairs logs after failed syncs, one after another, in a thread, until the disk takes them.

`storage.recovery.sync_failure_repair` has the repair of one log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from headgate.gateway.runtime.backoff import Backoff
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler, StoppedError
from headgate.storage.log.log import Log
from headgate.storage.recovery import sync_failure_repair
from headgate.storage.recovery.sync_failure_repair import SyncFailureRepair

logger = logging.getLogger("headgate.maintenance")

# The wait after a failed repair of a log, doubled after each failure up to the maximum.
FIRST_WAIT_MS, MAX_WAIT_MS = 1_000.0, 60_000.0


class RepairListener(NamedTuple):
    """The callbacks for a log that lost its end, and for a log that takes records again."""

    was_truncated: Callable[[Log], None]
    repaired: Callable[[Log], None]


class SyncRepairQueue:
    """Repairs the logs that `needs_repair` returns."""

    def __init__(
        self,
        needs_repair: Callable[[], list[Log]],
        is_there: Callable[[Log], bool],
        listener: RepairListener,
        clock: Clock,
        scheduler: Scheduler,
        failed: Callable[[object], None] = lambda _: None,
    ) -> None:
        """`is_there(log)`: the log still exists. `failed(error)` is called with each error."""
        self._failed = failed
        self._needs_repair = needs_repair
        self._is_there = is_there
        self._listener = listener
        self._clock = clock
        self._scheduler = scheduler
        self._backoffs: dict[Log, Backoff] = {}  # logs whose repair failed
        self._is_busy = False

    def retry_all(self) -> None:
        """Try all logs again at once, as their disk is back."""
        self._backoffs.clear()
        self.run()

    def run(self) -> None:
        """Begin the first due repair. Called every second, and after each repair."""
        for log in self._needs_repair():
            if self._is_busy:
                return
            if not self._is_there(log):
                self._forget(log)
            elif log not in self._backoffs or self._backoffs[log].due_ms <= self._clock.monotonic_ms():
                self._begin(log)

    def _begin(self, log: Log) -> None:
        work = sync_failure_repair.begin(log)
        if work is not None:  # otherwise another operation has the log
            self._is_busy = True
            self._scheduler.in_slices(work.steps(), lambda result: self._apply(log, work, result))

    def _apply(self, log: Log, work: SyncFailureRepair, result: object) -> None:
        """Apply what the thread has found."""
        if isinstance(result, BaseException):
            work.error = result
        must_settle = False
        try:
            must_settle = sync_failure_repair.apply(log, work)
            if work.has_lost_records:
                self._listener.was_truncated(log)
        except Exception as error:  # a bug must not block the repair of other logs
            logger.exception("cannot apply the repair of %s-%d", *log.key)
            work.error = error
        if work.error is None and must_settle and not self._scheduler.is_over:
            self._scheduler.in_slices(work.write_steps(), lambda result: self._end(log, work, result))
        else:
            self._end(log, work, StoppedError("the broker stops") if must_settle else None)

    def _end(self, log: Log, work: SyncFailureRepair, result: object) -> None:
        self._is_busy = False
        if isinstance(result, BaseException):
            work.error = work.error or result
        is_repaired = sync_failure_repair.end(log, work)
        if self._scheduler.is_over:  # the next start recovers the log
            return
        if work.error is not None and self._is_there(log):
            self._again(log, work.error)
        elif is_repaired:
            self._forget(log)
            self._listener.repaired(log)
        self.run()

    def _again(self, log: Log, error: BaseException) -> None:
        self._failed(error)
        backoff = self._backoffs.setdefault(log, Backoff(FIRST_WAIT_MS, MAX_WAIT_MS))
        wait_ms = backoff.postpone(self._clock.monotonic_ms())
        where = f"{log.topic}-{log.partition}"
        logger.error("%s still takes no records; the next repair is in %d s: %s", where, wait_ms / 1000, error)

    def _forget(self, log: Log) -> None:
        log.pool.needs_repair.remove(log)
        self._backoffs.pop(log, None)
