"""The stall watch: notices that the loop stood still for so long that other brokers may have taken this one for lost.

A process that was stopped, or a machine that was frozen, goes on where it was: with requests in its sockets, and with
leads that others have by now. A timer of the loop moves `late_ms` on while the loop runs. The drivers of sockets
compare the time of each turn with it, before they read. After a stall the broker is in doubt: requests wait until
ZooKeeper has said whether this broker's session lives on. Without an answer within the limit the doubt ends too, and
the broker serves, as Kafka does.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from headgate.gateway.runtime.tasks import WaitList

if TYPE_CHECKING:
    from headgate.gateway.runtime.tasks import Tasks

logger = logging.getLogger("headgate.broker")

BEATS: Final = 4
"""How often a running loop moves `late_ms` on within the limit."""


class StallWatch:
    """Without `begin` it notices nothing."""

    def __init__(self, tasks: Tasks) -> None:
        self.late_ms = math.inf
        """From this time of the clock on the loop has stood still: call `note_stall`."""
        self.is_in_doubt = False
        self.waiters = WaitList()
        """Touched when the doubt has ended."""
        self.changed: Callable[[], None] = lambda: None
        """Called when `is_in_doubt` has changed."""
        self._tasks = tasks
        self._limit_ms = math.inf
        self._confirm: Callable[[Callable[[], None]], object]
        self._doubts = 0

    def begin(self, limit_ms: float, confirm: Callable[[Callable[[], None]], object]) -> None:
        """Watch the loop, which runs. `confirm` calls its argument once this broker knows what it is."""
        self._limit_ms, self._confirm = limit_ms, confirm
        self._beat()

    def end(self) -> None:
        """Watch the loop no more."""
        self._limit_ms = self.late_ms = math.inf
        self._end_doubt(self._doubts)

    def note_stall(self) -> None:
        """The loop has stood still until now."""
        self._doubts += 1
        number = self._doubts
        late_s = (self._tasks.monotonic_ms() - self.late_ms + self._limit_ms) / 1000
        logger.warning("this process stood still for %.1f s or more: requests wait until ZooKeeper answers", late_s)
        self._move_on()
        self._set_doubt(True)
        self._tasks.scheduler.call_after(self._limit_ms, partial(self._end_doubt, number))
        self._confirm(partial(self._end_doubt, number))

    def _beat(self) -> None:
        if self._limit_ms < math.inf:
            if self._tasks.monotonic_ms() >= self.late_ms:
                self.note_stall()
            self._move_on()
            self._tasks.scheduler.call_after(self._limit_ms / BEATS, self._beat)

    def _move_on(self) -> None:
        self.late_ms = self._tasks.monotonic_ms() + self._limit_ms

    def _end_doubt(self, number: int) -> None:
        """End the doubt with this number, unless the loop has stood still again since."""
        if number == self._doubts and self.is_in_doubt:
            if self._tasks.monotonic_ms() >= self.late_ms:
                self.note_stall()
            else:
                self._set_doubt(False)
                self._tasks.touch(self.waiters)

    def _set_doubt(self, is_in_doubt: bool) -> None:
        self.is_in_doubt = is_in_doubt
        self.changed()
