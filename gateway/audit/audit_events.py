"""The lines of the audit log as values. docs/security.md describes their fields for readers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from headgate.gateway.security.acls.authorizer import Requester
from headgate.protocol.acls import AclOperation, AclResource

LOGIN: Final = "login"
FAILED_LOGIN: Final = "login_failed"
REFUSAL: Final = "refused"
OBSERVED: Final = "would_be_refused"
CHANGE: Final = "changed"
SUPPRESSED: Final = "suppressed"

HIDDEN: Final = "[hidden]"
MAX_TEXT_LENGTH: Final = 1000
"""A client chooses its id and the names in its requests: longer ones are cut."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999

AuditEvent = dict[str, Any]


def time_text(now_ms: int) -> str:
    """A time in UTC, as 2026-11-28T03:41:00.123Z; the last time that has a date for a later one."""
    now_ms = min(now_ms, _LAST_MS)
    return f"{(_EPOCH + timedelta(milliseconds=now_ms)).isoformat(timespec='milliseconds')[:23]}Z"


def short(text: str | None) -> str | None:
    """A text of a client, cut to the length that a line may have."""
    return text if text is None or len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]}..."


def event(kind: str, now_ms: int, peer: Requester, **fields: object) -> AuditEvent:
    """An event of a peer."""
    return {
        "time": time_text(now_ms),
        "event": kind,
        "principal": short(peer.principal),
        "address": peer.remote_host,
        "client_id": short(peer.client_id),
        "listener": peer.listener,
        **fields,
    }


def login(now_ms: int, peer: Requester, mechanism: str, *, is_renewal: bool) -> AuditEvent:
    """A client has logged in, or has renewed its session."""
    return event(LOGIN, now_ms, peer, mechanism=mechanism, renewal=is_renewal)


def failed_login(now_ms: int, peer: Requester, reason: str, user: str = "") -> AuditEvent:
    """A login was refused; the principal is that of the connection before. `user`: the name that the client claims."""
    return event(FAILED_LOGIN, now_ms, peer, user=short(user) or None, reason=short(reason))


def refusal(
    kind: str,
    now_ms: int,
    peer: Requester,
    api: str | None,
    operation: AclOperation,
    resource: AclResource,
    name: str | None,
) -> AuditEvent:
    """The authorizer refuses an operation, or would refuse it (`kind`). `name` None: on any resource of the type."""
    fields = {"operation": operation.name, "resource_type": resource.name, "resource_name": short(name)}
    return event(kind, now_ms, peer, **({} if api is None else {"api": api}), **fields)


def change(now_ms: int, peer: Requester, api: str, changed: Mapping[str, object]) -> AuditEvent:
    """A request has changed something; `changed` of `changes.py`."""
    return event(CHANGE, now_ms, peer, api=api, **changed)


def suppressed(now_ms: int, kind: str, principal: str, address: str, count: int) -> AuditEvent:
    """So many further events of a kind of one peer were not written."""
    return {
        "time": time_text(now_ms),
        "event": SUPPRESSED,
        "principal": short(principal),
        "address": address,
        "of": kind,
        "count": count,
    }
