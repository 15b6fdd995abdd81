"""The purgatory: requests that wait as closures. Tasks (`gateway.runtime.tasks`) take its place, room by room."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tasks import Changes, Running, Task, Tasks, WaitList, Watch

__all__ = ["NO_REPLY", "Purgatory", "WaitList", "Waiting", "Watch"]

NO_REPLY = object()
"""The reply, once due, to a request that needs none."""


class Waiting:
    """A parked reply.

    attempt(list) -> the reply, or None if it is not ready; called with each touched list.
    expire() -> the reply when the request is completed, at the deadline, or at shutdown.
    Either may return another `Waiting`: the request then waits for that one's lists and deadline.
    is_silent: the request needs no reply, and so continues after its client has closed the connection.
    """

    __slots__ = (
        "attempt",
        "completed",
        "deadline_ms",
        "expire",
        "is_complete",
        "is_gone",
        "is_silent",
        "lists",
        "other",
    )

    def __init__(
        self,
        lists: Collection[WaitList],
        deadline_ms: float,
        attempt: Callable[[WaitList], Any | None],
        expire: Callable[[], Any],
        is_silent: bool = False,
    ) -> None:
        self.is_silent = is_silent
        self.lists = lists
        self.deadline_ms = deadline_ms
        self.attempt = attempt
        self.expire = expire
        self.is_complete = False
        self.completed = WaitList()
        self.is_gone = False
        self.other: Waiting | None = None


class Purgatory:
    """Keeps waiting requests, and answers each exactly once: at an event or its deadline; never if abandoned."""

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.tasks = Tasks(clock, scheduler)
        self.touch = self.tasks.touch
        self.expire_all = self.tasks.expire_all
        self.call_soon = scheduler.call_soon
        self._parked: dict[Waiting, Running[Any]] = {}

    def __len__(self) -> int:
        return len(self.tasks)

    def park(self, waiting: Waiting, done: Callable[[Any], None]) -> None:
        """Keep `waiting`; later call `done(reply)` once, or `done(exception)` if the reply failed."""

        def ended(reply: Any) -> None:
            self._parked.pop(waiting, None)
            done(reply)

        self._parked[waiting] = self.tasks.start(self.follow(waiting), ended)

    def follow(self, waiting: Waiting) -> Task[Any]:
        """The reply of a waiting request."""
        parked = waiting
        try:
            while True:
                reply = yield from self._reply(waiting)
                if not isinstance(reply, Waiting):
                    return reply
                waiting = reply
        finally:
            parked.is_gone = True

    def _reply(self, waiting: Waiting) -> Task[Any]:
        if waiting.is_complete:
            yield lambda resume: self._scheduler.call_soon(partial(resume, None))
            return waiting.other or waiting.expire()
        changes = Changes([*waiting.lists, waiting.completed], waiting.deadline_ms)
        while True:
            touched = yield changes
            if waiting.other is not None:
                return waiting.other
            if touched is None or touched is waiting.completed:
                reply = waiting.expire()
            else:
                reply = waiting.attempt(touched)
            if waiting.other is not None:
                return waiting.other
            if reply is not None:
                return reply

    def complete(self, waiting: Waiting) -> None:
        """Nothing is left to wait for: answer after this turn with the result of `expire`."""
        while waiting.other is not None:
            waiting = waiting.other
        waiting.is_complete = True
        self.touch(waiting.completed)

    def continue_with(self, waiting: Waiting, other: Waiting) -> None:
        """Continue to wait with the lists, deadline, `attempt` and `expire` of `other`."""
        waiting.other = other
        self.touch(waiting.completed)

    def abandon(self, waiting: Waiting) -> None:
        """Forget a request whose client is gone."""
        running = self._parked.pop(waiting, None)
        if running is not None:
            running.cancel()
