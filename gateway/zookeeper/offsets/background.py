"""Tasks for many groups, a few of them at a time: to carry offsets over, and to refresh all of them."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from headgate.gateway.runtime.tasks import Task, Tasks

logger = logging.getLogger("headgate.groups")

AT_A_TIME: Final = 8

Work = Callable[[], Task[Any]]


class Background:
    """The groups that wait for their task, by id. A new task of a group replaces the one that waits."""

    def __init__(self, tasks: Tasks, at_a_time: int = AT_A_TIME) -> None:
        self._tasks = tasks
        self._at_a_time = at_a_time
        self._waiting: OrderedDict[str, Work] = OrderedDict()
        self._running = 0
        self._is_beginning = False

    def add(self, group_id: str, work: Work) -> None:
        """Begin the task when there is room."""
        self._waiting[group_id] = work
        self._begin()

    def add_unless_waiting(self, group_id: str, work: Work) -> None:
        """Begin the task when there is room, unless another task of the group waits, which does more."""
        if group_id not in self._waiting:
            self.add(group_id, work)

    def run(self, group_id: str, task: Task[Any], resume: Callable[[Any], None]) -> None:
        """Run a task when there is room; `resume` gets its result, or the exception."""

        def work() -> Task[None]:
            try:
                result = yield from task
            except Exception as error:  # noqa: BLE001  raised in the task that waits
                result = error
            resume(result)

        self.add(group_id, work)

    def hurry(self, group_id: str) -> None:
        """A request waits for the task of this group: the task is next."""
        if group_id in self._waiting:
            self._waiting.move_to_end(group_id, last=False)

    def __len__(self) -> int:
        """The number of groups that wait."""
        return len(self._waiting)

    def _begin(self) -> None:
        if self._is_beginning:  # a task has ended at once: the loop below goes on
            return
        self._is_beginning = True
        while self._waiting and self._running < self._at_a_time:
            group_id, work = self._waiting.popitem(last=False)
            self._running += 1
            self._tasks.start(work(), partial(self._ended, group_id))
        self._is_beginning = False

    def _ended(self, group_id: str, result: object) -> None:
        self._running -= 1
        if isinstance(result, Exception):
            message = "work on the offsets of group %s failed; that of other groups goes on"
            logger.error(message, group_id, exc_info=result)
        self._begin()
