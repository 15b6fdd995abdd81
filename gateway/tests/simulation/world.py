"""The world of a simulated cluster: one virtual time, and everything that happens in its order.

    world = World(seed)
    world.after(20.0, callback)                 # in 20 ms of virtual time
    world.run_until(lambda: ..., within_ms)     # event after event; a host runs what is due there

A host is a process with a clock and a scheduler: a broker or a client. A killed process gets nothing any more, a paused
one gets everything at once when it goes on. No thread, no socket, no real time: a seed is one history.
"""

from __future__ import annotations

import heapq
import itertools
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from random import Random
from typing import Any, Final

from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, at_once
from headgate.gateway.runtime.workers import result_of
from headgate.storage.tests.crashing_files import PowerCut

EPOCH_MS: Final = 1_700_000_000_000
NEVER: Final = float("inf")
_due_ms: Final = attrgetter("due_ms")


class BrokenRule(AssertionError):
    """A rule of replication does not hold."""


class TooLong(AssertionError):
    """Something does not come about within its time."""


class HostClock:
    """The clock of a host. Its wall clock may jump."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.jumped_ms = 0
        self.monotonic_ms: Callable[[], float] = partial(getattr, world, "now_ms")  # most calls of a simulation

    def now_ms(self) -> int:
        return EPOCH_MS + int(self._world.now_ms) + self.jumped_ms


class Host:
    """One process."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.clock = HostClock(world)
        self.scheduler: Scheduler = FakeScheduler(self.clock)
        self.is_running = True
        self._is_serving = True
        self.is_paused = False
        self._inbox: deque[Callable[[], None]] = deque()
        self.due_ms = NEVER
        """The time at which something is due here; NEVER while the loop does not run. Its own events change it."""
        world.hosts.append(self)

    def __str__(self) -> str:
        return self.name

    def deliver(self, callback: Callable[[], None]) -> None:
        """Something arrives: `callback` runs here, unless the process is gone, and not before it goes on."""
        if self.is_paused:
            self._inbox.append(callback)
        elif self.is_running:
            self._guarded(callback)

    @property
    def is_serving(self) -> bool:
        """Whether its loop runs: before, it starts and waits for ZooKeeper alone."""
        return self._is_serving

    @is_serving.setter
    def is_serving(self, serves: bool) -> None:
        self._is_serving = serves
        self._note_due()

    def _note_due(self) -> None:
        runs = self._is_serving and not self.is_paused
        self.due_ms = self.world.now_ms + self.scheduler.idle_ms() if runs else NEVER

    def run_due(self) -> None:
        """Run what is due."""
        self._guarded(lambda: None)

    def pause(self) -> None:
        """Run nothing until `resume`."""
        self.is_paused = True
        self._note_due()

    def resume(self) -> None:
        """Go on after a pause: all that has arrived meanwhile comes first."""
        self.is_paused = False
        self._note_due()
        inbox, self._inbox = self._inbox, deque()
        for callback in inbox:
            self.deliver(callback)

    def die(self) -> None:
        """The process is gone."""
        self.is_running = self.is_paused = False
        self._inbox.clear()
        if self in self.world.hosts:
            self.world.hosts.remove(self)

    def power_cut(self) -> None:
        """The disk has ended the process."""
        raise AssertionError(f"{self.name} has no disk")

    def _guarded(self, callback: Callable[[], None]) -> None:
        try:
            callback()
            if self._is_serving and self.is_running:
                self.scheduler.run_due()
        except PowerCut:
            self.power_cut()
        finally:
            self._note_due()

    # Threads

    def slow_threads(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Threads whose work takes a while, for `FakeScheduler`."""
        if not self.is_serving:
            at_once(work, done)
            return

        def end() -> None:
            result = result_of(work)
            if isinstance(result, PowerCut):
                raise result
            done(result)

        self.world.after(self.world.random.choice((0.1, 1.0, 20.0)), partial(self.deliver, end))


class World:
    """Virtual time, the events to come, and the trace of what has happened."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now_ms = 0.0
        self.hosts: list[Host] = []
        self.trace: list[str] = []
        self.events = 0
        self.failures: list[str] = []
        """Rules that do not hold, in the order of their discovery; the first ends the history."""
        self._to_come: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def note(self, text: str) -> None:
        """A line of the trace."""
        self.trace.append(self._line(text))

    def show(self, text: str) -> None:
        """Print a line of the trace."""
        sys.stdout.write(f"{self._line(text)}\n")

    def _line(self, text: str) -> str:
        return f"{self.now_ms / 1000:8.3f} s  {text}"

    def after(self, delay_ms: float, callback: Callable[[], None]) -> None:
        """Call `callback` after `delay_ms`."""
        heapq.heappush(self._to_come, (self.now_ms + delay_ms, next(self._numbers), callback))

    def step(self, until_ms: float) -> None:
        """The next event, if there is one before `until_ms`; else let the time pass until then."""
        event_ms = self._to_come[0][0] if self._to_come else NEVER
        host = min(self.hosts, key=_due_ms, default=None)
        if host is not None and host.due_ms >= event_ms:
            host = None
        when_ms = event_ms if host is None else host.due_ms
        if when_ms > until_ms:
            self.now_ms = max(self.now_ms, until_ms)
            return
        self.now_ms = max(self.now_ms, when_ms)
        self.events += 1
        if host is not None:
            host.run_due()
        else:
            heapq.heappop(self._to_come)[2]()

    def run_for(self, milliseconds: float) -> None:
        """Let time pass."""
        until_ms = self.now_ms + milliseconds
        while self.now_ms < until_ms:
            self.step(until_ms)
            self._check()

    def run_until(self, holds: Callable[[], bool], within_ms: float, what: str) -> None:
        """Go on until something holds. Raises TooLong."""
        until_ms = self.now_ms + within_ms
        while not holds():
            if self.now_ms >= until_ms:
                raise TooLong(f"after {within_ms / 1000:.0f} s still not: {what}")
            self.step(min(self.now_ms + 100.0, until_ms))
            self._check()

    def _check(self) -> None:
        if self.failures:
            raise BrokenRule(self.failures[0])
