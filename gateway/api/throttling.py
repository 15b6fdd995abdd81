"""Quotas: the throttle time of a client, its field in the response, and the pause itself (KIP-124, KIP-219).

The response is sent at once, with `throttle_time_ms` if its version has the field. During that time the broker answers
nothing more on the connection, whatever the client does. Without a quota, a route is built without this step.
"""

from __future__ import annotations

from typing import Any, Protocol

from headgate.gateway.api.authorization import amended
from headgate.gateway.api.context import Client, Handler, HandlerContext, HandlerOutcome
from headgate.protocol import registry
from headgate.protocol.schema import Message


class Quota(Protocol):
    """Accounts what clients use. Called on the event loop, once for each request."""

    def throttle_ms(self, client: Client, api_key: int, used_ms: float) -> int:
        """Account for a request that took `used_ms` of the loop. Returns the throttle time in ms, or 0."""


class Throttling:
    """The quota step of one API."""

    __slots__ = ("_api_key", "_has_field", "_quota")

    def __init__(self, quota: Quota, api_key: int) -> None:
        self._quota = quota
        self._api_key = api_key
        self._has_field = any(field.name == "throttle_time_ms" for field in registry.response_class(api_key).fields)

    def throttled(self, handler: Handler) -> Handler:
        """The handler with its quota step. After a raising handler, the route calls `note`."""

        def handle(request: Message, context: HandlerContext) -> HandlerOutcome:
            monotonic_ms = context.broker.clock.monotonic_ms
            started_ms = monotonic_ms()
            outcome = handler(request, context)
            used_ms = monotonic_ms() - started_ms
            if outcome is None:  # acks=0: no response has the throttle time, but the client has to pause
                self.note(None, context.client, used_ms)
            return amended(outcome, lambda response: self.note(response, context.client, used_ms))

        return handle

    def note(self, response: Any, client: Client, used_ms: float = 0.0) -> None:
        """Account for a request, set the throttle time in its response, and begin the pause."""
        throttle_ms = self._quota.throttle_ms(client, self._api_key, used_ms)
        if throttle_ms > 0:
            if response is not None and self._has_field:
                response.throttle_time_ms = throttle_ms
            client.mute(throttle_ms)
