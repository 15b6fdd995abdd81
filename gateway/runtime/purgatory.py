"""The purgatory: requests that wait, the events that complete them, and their expiry.

A handler that cannot answer yet returns a `Waiting` with a deadline. No request has a task or a poll of its own. Two
kinds of events complete a request:

- A change *touches* a `WaitList` (records for a fetch, a decision of a coordinator). After the present turn every
  waiter of a touched list is tried once, however many changes the turn brought. So one receive with a hundred appends
  wakes a long-polling consumer once.
- Code that knows that nothing is left to wait for calls `complete`, such as the end of a produce request's last append.
  No other request is tried then.

The owner of the awaited thing decides when an event is due, and in which order requests wait.
"""

import logging
from collections.abc import Callable, Collection
from typing import Any, Protocol

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler, Timer
from headgate.protocol.errors import without_frames

logger = logging.getLogger("headgate.waiting")


NO_REPLY = object()
"""The reply, once due, to a request that needs none."""


class Watch(Protocol):
    """A lasting interest in a `WaitList`. The next touch of the list ends the watch."""

    def mark(self) -> "WaitList":
        """Mark the watched thing as changed. Returns the list that waits for the mark; that list is touched next."""


class WaitList:
    """The requests that wait for one thing. The owner of the thing touches the list at each change."""

    __slots__ = ("waiters", "watches")

    def __init__(self) -> None:
        self.watches: tuple[Watch, ...] = ()
        # A dict keeps the order of arrival, unlike a set. None: nobody ever waits for most partitions.
        self.waiters: dict[Waiting, None] | None = None


class Waiting:
    """A parked reply.

    attempt(list) -> the reply, or None if it is not ready; called with each touched list.
    expire() -> the reply when the request is completed, at the deadline, or at shutdown.
    Either may return another `Waiting`: the request then waits for that one's lists and deadline.
    is_silent: the request needs no reply, and so continues after its client has closed the connection.
    """

    __slots__ = ("attempt", "deadline_ms", "done", "expire", "is_complete", "is_silent", "lists", "timer")

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
        self.timer: Timer | None = None
        self.done: Callable[[Any], None] | None = None


class Purgatory:
    """Keeps waiting requests, and answers each exactly once: at an event or its deadline; never if abandoned."""

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._touched: dict[WaitList, None] = {}
        self._complete: list[Waiting] = []
        self._parked: dict[Waiting, None] = {}

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, waiting: Waiting, done: Callable[[Any], None]) -> None:
        """Keep `waiting`; later call `done(reply)` once, or `done(exception)` if the reply failed."""
        waiting.done = done
        self._parked[waiting] = None
        for wait_list in waiting.lists:
            if wait_list.waiters is None:
                wait_list.waiters = {}
            wait_list.waiters[waiting] = None
        waiting.timer = self._scheduler.call_at(waiting.deadline_ms, self._expire, waiting)
        if waiting.is_complete:  # the request was complete before this call
            self.complete(waiting)

    def touch(self, wait_list: WaitList) -> None:
        """The thing behind `wait_list` has changed: mark the watches now, try the waiters after this turn."""
        if wait_list.watches:
            watches, wait_list.watches = wait_list.watches, ()
            for watch in watches:
                self.touch(watch.mark())
        if wait_list.waiters:
            if not self._touched:
                self._scheduler.call_soon(self._run)
            self._touched[wait_list] = None

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` after the present turn, when the waiters of touched lists are tried."""
        self._scheduler.call_soon(callback)

    def complete(self, waiting: Waiting) -> None:
        """Nothing is left to wait for: answer after this turn with the result of `expire`."""
        waiting.is_complete = True
        if waiting.done is not None:
            if not self._complete:
                self._scheduler.call_soon(self._run_complete)
            self._complete.append(waiting)

    def continue_with(self, waiting: Waiting, other: Waiting) -> None:
        """Continue to wait with the lists, deadline, `attempt` and `expire` of `other`."""
        done = waiting.done
        if done is not None:
            self._remove(waiting)
            waiting.lists, waiting.deadline_ms = other.lists, other.deadline_ms
            waiting.attempt, waiting.expire = other.attempt, other.expire
            waiting.is_complete = other.is_complete
            self.park(waiting, done)

    def abandon(self, waiting: Waiting) -> None:
        """Forget a request whose client is gone."""
        self._remove(waiting)

    def expire_all(self) -> None:
        """Expire all requests now: the broker is about to stop."""
        for waiting in list(self._parked):
            self._expire(waiting)

    def _run(self) -> None:
        touched, self._touched = self._touched, {}
        for wait_list in touched:
            for waiting in list(wait_list.waiters or ()):
                if waiting.done is not None:
                    self._finish(waiting, _reply_or_error(waiting.attempt, wait_list))

    def _run_complete(self) -> None:
        complete, self._complete = self._complete, []
        for waiting in complete:
            self._expire(waiting)

    def _expire(self, waiting: Waiting) -> None:
        if waiting.done is not None:
            self._finish(waiting, _reply_or_error(waiting.expire))

    def _finish(self, waiting: Waiting, reply: Any | None) -> None:
        done = waiting.done
        if isinstance(reply, Waiting):
            self.continue_with(waiting, reply)
        elif reply is not None and done is not None:
            self._remove(waiting)
            done(reply)

    def _remove(self, waiting: Waiting) -> None:
        waiting.done = None
        self._parked.pop(waiting, None)
        for wait_list in waiting.lists:
            if wait_list.waiters:
                wait_list.waiters.pop(waiting, None)
        if waiting.timer is not None:
            waiting.timer.cancel()


def _reply_or_error(make: Callable[..., Any], *arguments: Any) -> Any:
    """The reply, or the exception from making it; the request's connection handles either."""
    try:
        return make(*arguments)
    except Exception as error:  # noqa: BLE001
        return without_frames(error)
