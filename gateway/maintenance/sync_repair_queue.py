"""The repair queue: repairs logs after failed syncs, one after another, in a thread, until the disk takes them.

`storage.recovery.sync_failure_repair` has the repair of one log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from headgate.gateway.runtime.backoff import Backoff
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler, StoppedError
from headgate.gateway.runtime.tasks import SingleTask, Task
from headgate.protocol.errors import without_frames
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
        self._repairs = SingleTask()

    def retry_all(self) -> None:
        """Try all logs again at once, as their disk is back."""
        self._backoffs.clear()
        self.run()

    def run(self) -> None:
        """Repair the due logs. Called every second."""
        self._repairs.start(self._repair_due)

    def _repair_due(self) -> Task[None]:
        """Repair the first due log, until none is due."""
        while not self._scheduler.is_over:
            for log in self._needs_repair():
                if not self._is_there(log):
                    self._forget(log)
                elif log not in self._backoffs or self._backoffs[log].due_ms <= self._clock.monotonic_ms():
                    work = sync_failure_repair.begin(log)
                    if work is not None:  # otherwise another operation has the log
                        yield from self._repair(log, work)
                        break
            else:
                return

    def _repair(self, log: Log, work: SyncFailureRepair) -> Task[None]:
        try:
            yield partial(self._scheduler.in_slices, work.steps())
        except Exception as error:  # noqa: BLE001  decides about the next attempt
            work.error = without_frames(error)
        must_settle = self._apply(log, work)
        if must_settle and self._scheduler.is_over:
            work.error = work.error or StoppedError("the broker stops")
        elif must_settle and work.error is None:
            try:
                yield partial(self._scheduler.in_slices, work.write_steps())
            except Exception as error:  # noqa: BLE001  decides about the next attempt
                work.error = without_frames(error)
        is_repaired = sync_failure_repair.end(log, work)
        if self._scheduler.is_over:  # the next start recovers the log
            return
        if work.error is not None and self._is_there(log):
            self._again(log, work.error)
        elif is_repaired:
            self._forget(log)
            self._listener.repaired(log)

    def _apply(self, log: Log, work: SyncFailureRepair) -> bool:
        """Apply what the thread has found. Returns whether the files have to follow."""
        try:
            must_settle = sync_failure_repair.apply(log, work)
            if work.has_lost_records:
                self._listener.was_truncated(log)
        except Exception as error:  # a bug must not block the repair of other logs
            logger.exception("cannot apply the repair of %s-%d", *log.key)
            work.error = error
            return False
        return must_settle

    def _again(self, log: Log, error: BaseException) -> None:
        self._failed(error)
        backoff = self._backoffs.setdefault(log, Backoff(FIRST_WAIT_MS, MAX_WAIT_MS))
        wait_ms = backoff.postpone(self._clock.monotonic_ms())
        where = f"{log.topic}-{log.partition}"
        logger.error("%s still takes no records; the next repair is in %d s: %s", where, wait_ms / 1000, error)

    def _forget(self, log: Log) -> None:
        log.pool.needs_repair.remove(log)
        self._backoffs.pop(log, None)
