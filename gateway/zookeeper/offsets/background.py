"""Work for many groups, a few of them at a time: to carry offsets over, and to look at all of them again."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

logger = logging.getLogger("headgate.groups")

AT_A_TIME: Final = 8

Work = Callable[[Callable[[], None]], None]
"""Called with what to call at its end, exactly once."""


class Background:
    """The groups that wait for their work, by id. New work of a group replaces what waits."""

    def __init__(self, at_a_time: int = AT_A_TIME) -> None:
        self._at_a_time = at_a_time
        self._waiting: OrderedDict[str, Work] = OrderedDict()
        self._running = 0
        self._is_going_on = False

    def add(self, group_id: str, work: Work) -> None:
        """Begin the work when there is room."""
        self._waiting[group_id] = work
        self._go_on()

    def add_unless_waiting(self, group_id: str, work: Work) -> None:
        """Begin the work when there is room, unless other work of the group waits, which is more."""
        if group_id not in self._waiting:
            self.add(group_id, work)

    def hurry(self, group_id: str) -> None:
        """A request waits for the work of this group: it is next."""
        if group_id in self._waiting:
            self._waiting.move_to_end(group_id, last=False)

    def __len__(self) -> int:
        """The number of groups that wait."""
        return len(self._waiting)

    def _go_on(self) -> None:
        if self._is_going_on:  # work that has ended at once
            return
        self._is_going_on = True
        while self._waiting and self._running < self._at_a_time:
            self._begin(*self._waiting.popitem(last=False))
        self._is_going_on = False

    def _begin(self, group_id: str, work: Work) -> None:
        is_over = False

        def ended() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._running -= 1
                self._go_on()

        self._running += 1
        try:
            work(ended)
        except Exception:
            logger.exception("work on the offsets of group %s failed; that of other groups goes on", group_id)
            ended()
