"""The line of a traced request: fields for JSON, and the same as text. Pure.

No record, no key and no secret is among the fields. Texts of the client are escaped and cut, so that they cannot forge
a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from headgate.gateway.request_log.request_waits import MAX_TOPICS
from headgate.protocol import registry

if TYPE_CHECKING:
    from headgate.gateway.request_log.request_trace import RequestTrace

MAX_TEXT: Final = 120
STAGES: Final = ("receive", "queue", "memory", "handle", "park", "write", "send")
"""The stages of a request in their order, each with its time in the field `<stage>_ms`."""


def shown(text: str | None) -> str:
    """A text of a client, escaped, and cut if it is long."""
    escaped = (text or "").encode("unicode_escape").decode("ascii")
    return escaped if len(escaped) <= MAX_TEXT else f"{escaped[:MAX_TEXT]}..."


def fields_of(request: RequestTrace, reason: str) -> dict[str, Any]:
    """The fields of a request that has ended. `reason`: why it is logged."""
    client = request.client
    topics = [shown(topic) for topic in request.topics]
    return {
        "reason": reason,
        "api": registry.APIS[request.api_key].name,
        "api_version": request.version,
        "correlation_id": request.correlation_id,
        "client_id": shown(request.client_id),
        "software": ""
        if client.software_name == "unknown"
        else shown(f"{client.software_name}-{client.software_version}"),
        "principal": shown(client.principal),
        "client_address": f"{client.remote_host}:{client.remote_port}",
        "listener": client.listener,
        "topics": topics[:MAX_TOPICS],
        "has_more_topics": len(topics) > MAX_TOPICS,
        "request_bytes": request.request_bytes,
        "response_bytes": request.response_bytes,
        "has_disconnected": request.has_disconnected,
        "total_ms": _ms(request.total_ms),
        **{f"{stage}_ms": _ms(took_ms) for stage, took_ms in zip(STAGES, _stages(request), strict=True)},
        "parked_for": shown(request.wait.text) if request.parked_ms > 0 else None,
        "throttle_ms": request.throttle_ms,
    }


def _stages(request: RequestTrace) -> tuple[float, ...]:
    queue_ms = request.started_ms - request.received_ms
    return (
        request.received_ms - request.begun_ms,
        queue_ms,
        request.memory_ms,
        request.handled_ms - request.started_ms,
        request.parked_ms,
        request.written_ms - request.answered_ms,
        request.sent_ms - request.written_ms,
    )


def _ms(time_ms: float) -> float:
    return max(0.0, round(time_ms, 3))


def text_of(fields: Mapping[str, Any]) -> str:
    """The line as text, of the same fields."""
    stages = []
    for stage in STAGES:
        parked_for = f" for {fields['parked_for']}" if stage == "park" and fields["parked_for"] else ""
        stages.append(f"{stage} {fields[f'{stage}_ms']:g}{parked_for}")
    throttle = f", then throttled for {fields['throttle_ms']} ms" if fields["throttle_ms"] else ""
    end = "; the client has disconnected" if fields["has_disconnected"] else ""
    return (
        f"{fields['api']} {fields['api_version']} took {fields['total_ms']:g} ms ({fields['reason']}):"
        f" {', '.join(stages)}{throttle}{end}; from {fields['client_address']} client.id={fields['client_id']!r}"
        f" {fields['principal']} by {fields['listener']}, correlation id {fields['correlation_id']},"
        f" {fields['request_bytes']} bytes in, {fields['response_bytes']} out{_topics(fields)}"
    )


def _topics(fields: Mapping[str, Any]) -> str:
    names = ", ".join(fields["topics"])
    return f", topics {names}{' and others' if fields['has_more_topics'] else ''}" if names else ""
