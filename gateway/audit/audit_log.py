"""The audit log: the parts of the broker report events, which are limited and written to a file.

Requests that are allowed and change nothing cost nothing here. What a request has changed is computed by the thread
that writes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from headgate.gateway.audit import audit_events
from headgate.gateway.audit.audit_file import AuditFile
from headgate.gateway.audit.changes import AuditedChange
from headgate.gateway.audit.repeat_limits import INTERVAL_MS, PeerKey, RepeatLimits
from headgate.gateway.security.acls.authorizer import Asked, Requester
from headgate.protocol.acls import AclOperation, AclResource
from headgate.protocol.schema import Message

if TYPE_CHECKING:
    from headgate.gateway.runtime.clock import Clock
    from headgate.gateway.runtime.metrics import Metrics
    from headgate.gateway.runtime.scheduler import Scheduler


class AuditLog:
    """Where events are reported. All methods are called on the loop, `close` after its end."""

    def __init__(self, file: AuditFile, clock: Clock, scheduler: Scheduler) -> None:
        self._file = file
        self._clock = clock
        self._scheduler = scheduler
        self._limits = RepeatLimits()

    def measure(self, metrics: Metrics) -> None:
        """Register the numbers of written and of lost lines."""
        metrics.gauge("audit.lines", lambda: self._file.written)
        metrics.gauge("audit.lines.lost", lambda: self._file.lost)

    def report_login(self, peer: Requester, mechanism: str, *, is_renewal: bool = False) -> None:
        """A client has logged in, or has renewed its session."""
        if self._admits(audit_events.LOGIN, peer, (mechanism, is_renewal)):
            self._file.append([audit_events.login(self._clock.now_ms(), peer, mechanism, is_renewal=is_renewal)])

    def report_failed_login(self, peer: Requester, reason: str, user: str = "") -> None:
        """A login was refused; `reason` has no secret. `user`: the name that the client claims, if it is known."""
        if self._admits(audit_events.FAILED_LOGIN, peer, (reason, user)):
            self._file.append([audit_events.failed_login(self._clock.now_ms(), peer, reason, user)])

    def report_refusal(
        self, peer: Requester, request: type[Message], operation: AclOperation, resource: AclResource, name: str | None
    ) -> None:
        """The authorizer refuses an operation. `name` None: on any resource of the type."""
        kind = audit_events.REFUSAL
        if self._admits(kind, peer, (operation, resource, name)):
            now_ms, api = self._clock.now_ms(), api_name(request)
            self._file.append([audit_events.refusal(kind, now_ms, peer, api, operation, resource, name)])

    def report_observed(self, peer: Requester, asked: Asked) -> None:
        """An authorizer that only observes would refuse an operation; it reports each one once."""
        now_ms = self._clock.now_ms()
        kind, operation = audit_events.OBSERVED, asked.operation
        self._file.append([audit_events.refusal(kind, now_ms, peer, None, operation, asked.resource, asked.name)])

    def report_changes(
        self, peer: Requester, request: type[Message], changes: Callable[[], Iterable[AuditedChange]]
    ) -> None:
        """A request was answered; a thread computes what it has changed."""
        now_ms, api = self._clock.now_ms(), api_name(request)
        self._file.append(audit_events.change(now_ms, peer, api, change) for change in _called(changes))

    def _admits(self, kind: str, peer: Requester, identity: Hashable) -> bool:
        """Whether an event of a peer is written; others are counted."""
        if self._limits.is_idle:
            self._scheduler.call_after(INTERVAL_MS, self._end_intervals)
        return self._limits.admits(
            PeerKey(kind, peer.principal, peer.remote_host), identity, self._clock.monotonic_ms()
        )

    def _end_intervals(self) -> None:
        self._append_suppressed(self._clock.monotonic_ms())
        if not self._limits.is_idle:
            self._scheduler.call_after(INTERVAL_MS, self._end_intervals)

    def _append_suppressed(self, now_ms: float | None) -> None:
        ended = [*self._limits.ended(now_ms)]
        if ended:
            time_ms = self._clock.now_ms()
            self._file.append([audit_events.suppressed(time_ms, *key, count) for key, count in ended])

    def close(self) -> None:
        """Write all that was reported, after the end of the scheduler."""
        self._append_suppressed(None)
        self._file.close()


def api_name(request: type[Message]) -> str:
    """The name of an API, as DeleteTopics."""
    return request.__name__.removesuffix("Request")


def _called(changes: Callable[[], Iterable[AuditedChange]]) -> Iterator[AuditedChange]:
    yield from changes()
