"""Quotas: the usage of a request, the throttle time in its response, and the pause itself (KIP-124, KIP-219, KIP-599).

    API                                             counts
    Produce                                         the bytes of the request, once it is answered
    Fetch of clients                                the bytes of the response, before it is sent (`FetchMeter`)
    CreateTopics, CreatePartitions, DeleteTopics    partitions (`charge_partitions`)
    all                                             the time of the event loop: 100 % is the one loop of this broker

The response is sent at once, with `throttle_time_ms` if its version has the field; that of a throttled fetch is empty,
and its bytes do not count. During that time the broker answers nothing more on the connection. Brokers are exempt.

A route has this step only while some client has a quota that its API counts against (`Throttling.of`).

Source: `KafkaApis`, `ControllerApis`, `RequestHandlerHelper` of Apache Kafka 4.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from headgate.gateway.api.authorization import amended
from headgate.gateway.api.context import Client, Handler, HandlerContext, HandlerOutcome
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.tasks import Silent
from headgate.gateway.security.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from headgate.gateway.security.quotas.quota_manager import ClientLimits, MutationQuota, QuotaManager
from headgate.protocol import registry
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest
from headgate.protocol.messages.create_topics import CreateTopicsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest
from headgate.protocol.messages.fetch import FetchRequest
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.schema import Message

STRICT_SINCE = {
    CreateTopicsRequest.api_key: 6,
    CreatePartitionsRequest.api_key: 3,
    DeleteTopicsRequest.api_key: 5,
}
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED. Older versions are throttled, and not refused."""

PERCENT_PER_MS = 0.1
"""A millisecond of the event loop is so many percent of a second."""
CACHED_ANSWER_MS = 0.01
"""The time of an answer from the cache, which is not measured."""


@dataclass(slots=True)
class MeteredContext(HandlerContext):
    """The context of a request whose handler has a part in a quota."""

    meter: FetchMeter | None = None
    mutations: MutationQuota | None = None


def charge_partitions(context: HandlerContext, count: int) -> None:
    """Account for partitions that a request creates or deletes. Raises KafkaError(THROTTLING_QUOTA_EXCEEDED)."""
    if isinstance(context, MeteredContext) and context.mutations is not None:
        context.mutations.charge(count)


def counts_partitions(context: HandlerContext) -> bool:
    """Whether the client of a request has a quota for mutations."""
    return isinstance(context, MeteredContext) and context.mutations is not None


class FetchMeter:
    """The quotas of one fetch."""

    __slots__ = ("_client", "_limits", "_started_ms", "_throttling", "used_ms")

    def __init__(self, throttling: Throttling, client: Client, limits: ClientLimits, started_ms: float) -> None:
        self._throttling = throttling
        self._client = client
        self._limits = limits
        self._started_ms = started_ms
        self.used_ms: float | None = None
        """The time of the event loop until the fetch began to wait."""

    @property
    def most_bytes(self) -> int | None:
        """The largest response that is possible without a violation; None: any."""
        fetch = self._limits.fetch
        return None if fetch is None else int(min(fetch.most, 0x7FFF_FFFF))

    def answer(self, response_bytes: int) -> int:
        """Account for a response of this size. Returns the throttle time, or 0.

        With a throttle time the pause has begun, and the size does not count: the response has to be empty.
        """
        throttling, limits = self._throttling, self._limits
        now_ms = throttling.clock.monotonic_ms()
        used_ms = now_ms - self._started_ms if self.used_ms is None else self.used_ms
        throttle_ms = throttling.charge_time(limits, used_ms, now_ms)
        if limits.fetch is not None:
            fetch_ms = limits.fetch.record(response_bytes, now_ms)
            if fetch_ms or throttle_ms:
                limits.fetch.take_back(response_bytes, now_ms)
            throttle_ms = throttling.longest(throttle_ms, CONSUMER_BYTE_RATE, fetch_ms)
        if throttle_ms:
            self._client.mute(throttle_ms)
        return throttle_ms


class Throttling:
    """The quota step of one API version."""

    __slots__ = (
        "_api_key",
        "_charges_frame",
        "_failed_ms",
        "_has_field",
        "_quotas",
        "_version",
        "clock",
        "frame_bytes",
    )

    def __init__(self, quotas: QuotaManager, api_key: int, version: int, clock: Clock) -> None:
        self.clock = clock
        self.frame_bytes = 0
        """The size of the request that is handled next; only Produce requests need it."""
        self._quotas = quotas
        self._api_key = api_key
        self._version = version
        self._charges_frame = api_key == ProduceRequest.api_key
        self._failed_ms = 0.0
        self._has_field = any(field.name == "throttle_time_ms" for field in registry.response_class(api_key).fields)

    @classmethod
    def of(cls, quotas: QuotaManager, api_key: int, version: int, clock: Clock) -> Self | None:
        """The step of an API version; None if no client has a quota that the API counts against."""
        key = _KEYS.get(api_key, CONTROLLER_MUTATION_RATE if api_key in STRICT_SINCE else REQUEST_PERCENTAGE)
        is_needed = quotas.counts(key) or quotas.counts(REQUEST_PERCENTAGE)
        return cls(quotas, api_key, version, clock) if is_needed else None

    # Parts of a route

    def reader(self, read: Callable[..., Any]) -> Callable[..., Any]:
        """The reader of the route: that of a Produce request notes the size of the frame."""
        if not self._charges_frame:
            return read

        def read_and_note(frame: memoryview, position: int) -> Any:
            self.frame_bytes = len(frame)
            return read(frame, position)

        return read_and_note

    def throttled(self, handler: Handler) -> Handler:
        """The handler with its quota step. After a raising handler, the route calls `note_error`."""
        if self._api_key == FetchRequest.api_key:
            return self._throttled_fetch(handler)
        if self._api_key in STRICT_SINCE:
            return self._throttled_mutation(handler)

        def handle(request: Message, context: HandlerContext) -> HandlerOutcome:
            client = context.client
            limits = self._find_limits(client)
            produce = limits.produce if self._charges_frame else None
            if (produce is None and limits.request is None) or client.is_broker:
                return handler(request, context)
            frame_bytes, started_ms = self.frame_bytes, self.clock.monotonic_ms()
            outcome = self._run(handler, request, context, started_ms)
            used_ms = self.clock.monotonic_ms() - started_ms
            if isinstance(outcome, Message) or outcome is None:
                self._settle(outcome, client, limits, frame_bytes, used_ms)
                return outcome
            if isinstance(outcome, Silent):
                self._settle(None, client, limits, frame_bytes, used_ms)
            return amended(outcome, lambda response: self._settle(response, client, limits, frame_bytes, used_ms))

        return handle

    def _throttled_fetch(self, handler: Handler) -> Handler:
        def handle(request: Any, context: HandlerContext) -> HandlerOutcome:
            client = context.client
            limits = self._find_limits(client)
            if (limits.fetch is None and limits.request is None) or client.is_broker:
                return handler(request, context)
            if request.replica_id >= 0 or request.replica_state.replica_id >= 0:  # a follower has other quotas
                return handler(request, context)
            started_ms = self.clock.monotonic_ms()
            meter = FetchMeter(self, client, limits, started_ms)
            metered = MeteredContext(context.broker, client, context.version, context.client_id, meter)
            outcome = self._run(handler, request, metered, started_ms)
            meter.used_ms = self.clock.monotonic_ms() - started_ms
            return outcome

        return handle

    def _throttled_mutation(self, handler: Handler) -> Handler:
        is_strict = self._version >= STRICT_SINCE[self._api_key]

        def handle(request: Message, context: HandlerContext) -> HandlerOutcome:
            client, clock = context.client, self.clock
            limits = self._find_limits(client)
            if (limits.mutations is None and limits.request is None) or client.is_broker:
                return handler(request, context)
            mutations = None
            if limits.mutations is not None:
                mutations = MutationQuota(limits.mutations, clock.monotonic_ms, is_strict=is_strict)
            metered = MeteredContext(context.broker, client, context.version, context.client_id, None, mutations)
            started_ms = clock.monotonic_ms()
            outcome = self._run(handler, request, metered, started_ms)
            used_ms = clock.monotonic_ms() - started_ms
            return amended(outcome, lambda response: self._settle(response, client, limits, 0, used_ms, mutations))

        return handle

    def _run(self, handler: Handler, request: Message, context: HandlerContext, started_ms: float) -> HandlerOutcome:
        try:
            return handler(request, context)
        except Exception:
            self._failed_ms = self.clock.monotonic_ms() - started_ms
            raise

    def note_error(self, response: Any, client: Client) -> None:
        """Account for the time of a request that was refused as a whole."""
        used_ms, self._failed_ms = self._failed_ms, 0.0
        limits = self._find_limits(client)
        if not client.is_broker:
            throttle_ms = self.charge_time(limits, used_ms, self.clock.monotonic_ms())
            self._throttle(response, client, throttle_ms)

    def passes(self, client: Client) -> bool:
        """Whether an answer from the cache may be sent to a client now: its time counts, and throttles nobody."""
        request = self._find_limits(client).request
        if request is None or client.is_broker:
            return True
        now_ms, percent = self.clock.monotonic_ms(), CACHED_ANSWER_MS * PERCENT_PER_MS
        if request.record(percent, now_ms):
            request.take_back(percent, now_ms)
            return False
        return True

    # Usage

    def _find_limits(self, client: Client) -> ClientLimits:
        limits, quotas = client.limits, self._quotas
        if (
            limits is None
            or limits.epoch is not quotas.epoch
            or limits.client_id != client.client_id
            or limits.principal is not client.principal
        ):
            limits = quotas.limits(client.principal, client.client_id, self.clock.monotonic_ms())
            client.limits = limits
        return limits

    def charge_time(self, limits: ClientLimits, used_ms: float, now_ms: float) -> int:
        """Account for the time of a request. Returns the throttle time, of one window at most, or 0."""
        request = limits.request
        if request is None:
            return 0
        throttle_ms = min(request.record(used_ms * PERCENT_PER_MS, now_ms), self._quotas.windows.size_ms)
        return self.longest(0, REQUEST_PERCENTAGE, throttle_ms)

    def longest(self, before_ms: int, key: str, throttle_ms: int) -> int:
        """The longer of two throttle times; the second one is that of a quota, and is counted."""
        if throttle_ms:
            self._quotas.note_throttled(key, throttle_ms)
        return max(before_ms, throttle_ms)

    def _settle(
        self,
        response: Any,
        client: Client,
        limits: ClientLimits,
        frame_bytes: int,
        used_ms: float,
        mutations: MutationQuota | None = None,
    ) -> None:
        """Account for an answered request, set the throttle time in its response, and begin the pause."""
        now_ms = self.clock.monotonic_ms()
        throttle_ms = self.charge_time(limits, used_ms, now_ms)
        if limits.produce is not None and self._charges_frame:
            produce_ms = limits.produce.record(frame_bytes, now_ms)
            throttle_ms = self.longest(throttle_ms, PRODUCER_BYTE_RATE, produce_ms)
        if mutations is not None:
            throttle_ms = self.longest(throttle_ms, CONTROLLER_MUTATION_RATE, mutations.throttle_ms())
        self._throttle(response, client, throttle_ms)

    def _throttle(self, response: Any, client: Client, throttle_ms: int) -> None:
        if throttle_ms > 0:
            if response is not None and self._has_field:
                response.throttle_time_ms = throttle_ms
            client.mute(throttle_ms)


_KEYS = {ProduceRequest.api_key: PRODUCER_BYTE_RATE, FetchRequest.api_key: CONSUMER_BYTE_RATE}
