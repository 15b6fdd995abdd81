"""The life of a broker's session after the start: interruption, expiry, and the recovery from both.

The broker serves its clients meanwhile. Once a session has expired, the broker leads no partition that others may lead,
until the controller has sent orders to its next registration. After each reconnection the broker repeats the checks of
a join (`joining.py`), registers itself, and resumes the store. Until then it logs the reason of the wait, at growing
intervals.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from headgate.gateway.runtime.backoff import Backoff
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.tasks import Task, run
from headgate.gateway.zookeeper.layout.brokers import BrokerRegistration
from headgate.gateway.zookeeper.membership import refusals
from headgate.gateway.zookeeper.membership.joining import EarlierSession, JoiningBroker, Overtaken, join
from headgate.gateway.zookeeper.membership.refusals import ZooKeeperRefusal, earlier_session
from headgate.gateway.zookeeper.membership.registration import register
from headgate.gateway.zookeeper.requests import Failed, Lost
from headgate.gateway.zookeeper.session import SessionEvent
from headgate.gateway.zookeeper.shared_session import SessionScheduling, SessionTimer, SharedSession

logger = logging.getLogger("headgate.zookeeper")

RETRY_MS: Final = 500.0
"""The wait before another attempt, after an earlier session or a concurrent write was found."""
REFUSED_RETRY_MS: Final = 5_000.0
FIRST_LINE_MS, LONGEST_LINE_MS = 5_000.0, 60_000.0


class ResumableStore(Protocol):
    """The metadata store. The errors of its requests report a lost connection to it."""

    def resume(self) -> None:
        """Read everything again, become the controller again, and continue."""

    def resign_leads(self) -> None:
        """Lead no partition that another broker may lead: the session has ended, and its registration with it."""


class SessionLife:
    """Handles the events of the session, from the end of the start on."""

    def __init__(
        self, shared: SharedSession, member: JoiningBroker, scheduling: SessionScheduling, clock: Clock
    ) -> None:
        self._shared = shared
        self._member = member
        self._scheduling = scheduling
        self._clock = clock
        self.broker_epoch = -1
        """The epoch of the last registration; -1 before the first one."""
        self.obeyed_epoch = -1
        """The least broker epoch of orders to this broker: orders to a registration that has ended are late."""
        self._store: ResumableStore | None = None
        self._registration: BrokerRegistration | None = None
        self._announced: Callable[[ZooKeeperRefusal | None], None] | None = None
        self._deadline: SessionTimer | None = None
        self._is_whole = True  # the session is connected, and all its nodes are in ZooKeeper
        self._attempt = 0
        self._lost_ms = 0.0
        self._problem = ""
        self._lines = Backoff(FIRST_LINE_MS, LONGEST_LINE_MS)
        self._line: SessionTimer | None = None
        self._retry: SessionTimer | None = None
        shared.listeners.append(self._handle_event)

    @property
    def is_registered(self) -> bool:
        """Whether ZooKeeper has this broker's registration, as far as this broker can know.

        Without a connection the session lives on for its timeout.
        """
        is_known = self._is_whole or self._clock.monotonic_ms() - self._lost_ms < self._shared.session_timeout_ms
        return is_known and self.broker_epoch >= max(0, self.obeyed_epoch)

    def serve(self, store: ResumableStore) -> None:
        """Set the store to resume."""
        self._store = store

    def announce(
        self, registration: BrokerRegistration, within_ms: float, resume: Callable[[ZooKeeperRefusal | None], None]
    ) -> None:
        """Register this broker, now and after each loss.

        `resume` gets None after the first registration, or the error if that takes longer than `within_ms`.
        """
        self._registration, self._announced = registration, resume
        self._deadline = self._scheduling.call_after(within_ms, partial(self._not_announced, within_ms))
        if self._is_whole:
            self._begin(self._register())

    def _not_announced(self, waited_ms: float) -> None:
        problem = self._problem or "no answer"
        self._report(refusals.not_registered(self._shared.connect, self._member.node_id, waited_ms, problem))

    def _report(self, error: ZooKeeperRefusal | None) -> None:
        announced, self._announced = self._announced, None
        if announced is not None:
            assert self._deadline is not None
            self._deadline.cancel()
            announced(error)

    def stop(self) -> None:
        """Handle no further events."""
        if self._handle_event in self._shared.listeners:
            self._shared.listeners.remove(self._handle_event)
        self._attempt += 1
        for timer in (self._line, self._retry, self._deadline):
            if timer is not None:
                timer.cancel()

    def _handle_event(self, event: SessionEvent) -> None:
        if event in {SessionEvent.EXPIRED, SessionEvent.CONNECTED}:
            self._end_registration()
        if event is SessionEvent.OUTDATED:
            self._problem = "it came back empty or from an older copy"
            logger.error("%s", refusals.outdated(self._shared.connect))
        elif event in {SessionEvent.SUSPENDED, SessionEvent.EXPIRED}:
            self._problem = "no connection" if event is SessionEvent.SUSPENDED else "the session has expired"
            self._lost()
        else:
            self._lost()  # needed for a new session without a loss event, after kazoo has failed
            self._begin(self._come_back())

    def _end_registration(self) -> None:
        """Lead nothing by the last registration: the controller has given its leads away, or will."""
        if self.obeyed_epoch == self.broker_epoch >= 0:
            self.obeyed_epoch += 1
        if self._store is not None:
            self._store.resign_leads()

    def _lost(self) -> None:
        self._attempt += 1
        if self._is_whole:
            self._is_whole = False
            self._lost_ms = self._clock.monotonic_ms()
            self._lines.reset()
            self._line = self._scheduling.call_after(self._lines.next_wait_ms(), self._log_waiting)

    def _log_waiting(self) -> None:
        logger.warning(
            "waiting for ZooKeeper at %s, for %.0f s so far: %s; clients are served, and what needs ZooKeeper waits:"
            " changes of topics and configs, offsets in ZooKeeper, the registration of broker %d",
            self._shared.connect, self._seconds(), self._problem, self._member.node_id,
        )  # fmt: skip
        self._line = self._scheduling.call_after(self._lines.next_wait_ms(), self._log_waiting)

    def _seconds(self) -> float:
        return (self._clock.monotonic_ms() - self._lost_ms) / 1000

    # Coming back

    def _come_back(self) -> Task[None]:
        yield from join(self._shared.session, self._member)
        yield from self._register()

    def _register(self) -> Task[None]:
        if self._registration is not None:
            self.broker_epoch = self.obeyed_epoch = yield from register(
                self._shared.session, self._member, self._registration, self._registration_changed
            )

    def _begin(self, steps: Task[None]) -> None:
        self._attempt += 1
        attempt = self._attempt

        def ended(result: object) -> None:
            if attempt == self._attempt:
                self._ended(result)

        run(steps, ended)

    def _ended(self, result: object) -> None:
        if result is None:
            self._whole()
        elif isinstance(result, Lost):
            pass  # an event reports the next connection
        elif isinstance(result, EarlierSession):
            self._problem = earlier_session(result.node_id, result.owner)
            self._try_again(RETRY_MS)
        elif isinstance(result, Overtaken | Failed):
            logger.info("ZooKeeper at %s: %s; trying again", self._shared.connect, result)
            self._try_again(RETRY_MS)
        elif isinstance(result, Exception):
            self._refused(result)

    def _refused(self, error: Exception) -> None:
        if str(error) != self._problem:
            self._problem = str(error)
            logger.error("%s", error, exc_info=None if isinstance(error, ZooKeeperRefusal) else error)
        self._try_again(REFUSED_RETRY_MS)

    def _try_again(self, delay_ms: float) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._scheduling.call_after(delay_ms, self._retried)

    def _retried(self) -> None:
        if self._shared.session.is_connected:
            self._begin(self._come_back())

    def _registration_changed(self, _path: str) -> None:
        """Register again: another program has deleted the registration of this broker."""
        self._retried()

    def _whole(self) -> None:
        was_refused, self._problem = bool(self._problem), ""
        if self._registration is not None:
            self._report(None)
        if self._is_whole and not was_refused:
            return
        if not self._is_whole:
            self._is_whole = True
            logger.info("ZooKeeper at %s: back after %.1f s", self._shared.connect, self._seconds())
        if self._line is not None:
            self._line.cancel()
        if self._store is not None:
            self._store.resume()
        for call in self._shared.when_whole:
            call()
