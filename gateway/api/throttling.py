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

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from headgate.gateway.api.authorization import amended
from headgate.gateway.api.context import Client, Handler, HandlerContext, HandlerOutcome
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tasks import Silent
from headgate.gateway.security.quotas.quota_manager import ClientLimits, MutationQuota, QuotaManager
from headgate.gateway.security.quotas.rates import SampledRate
from headgate.protocol import registry
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest
from headgate.protocol.messages.create_topics import CreateTopicsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest
from headgate.protocol.messages.fetch import FetchRequest, FetchResponse
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.schema import Message
from headgate.protocol.security.quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from headgate.storage.segment.file_slice import FileSlice

STRICT_SINCE = {
    CreateTopicsRequest.api_key: 6,
    CreatePartitionsRequest.api_key: 3,
    DeleteTopicsRequest.api_key: 5,
}
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED. Older versions are throttled, and not refused."""

PERCENT_PER_MS = 0.1
"""A millisecond of the event loop is so many percent of a second."""
FIRST_BATCH_BYTES = 1 << 20
"""A response exceeds its limit by the first batch, whose usual limit this is."""
RESPONSE_BYTES, ROW_BYTES = 20, 60
"""About the size of a Fetch response without rows, and of a row without records, with its part of the topic."""
STATE_SINCE = 15
"""The first version of Fetch in which a follower has its id in `replica_state` (KIP-903)."""
FETCH_PERCENT = 0.5
"""A fetch with less time left is metered: it takes 5 ms at most until it waits."""
CACHED_ANSWER_PERCENT = 0.01 * PERCENT_PER_MS
"""The time of an answer from the cache is not measured: 0.01 ms."""


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
            fetch_ms = limits.fetch.charge(response_bytes, now_ms)
            if fetch_ms or throttle_ms:
                limits.fetch.take_back(response_bytes, now_ms)
            throttle_ms = throttling.longest(throttle_ms, CONSUMER_BYTE_RATE, fetch_ms)
        if throttle_ms:
            self._client.mute(throttling.scheduler, throttle_ms)
        return throttle_ms


class Usage(NamedTuple):
    """What a request has used: time of the event loop, bytes that count against `rate`, mutations.

    The bytes of a Fetch request are those of its response.
    """

    used_ms: float
    rate: SampledRate | None = None
    frame_bytes: int = 0
    mutations: MutationQuota | None = None


def _absorbs(request: SampledRate | None, used_ms: float, rate: SampledRate | None, size: int) -> bool:
    """Account for time and bytes, if they are too little for a look at the windows. False: nothing was accounted for.

    `request`, `rate`: the quotas of time and of bytes; None: no limit.
    """
    if rate is not None:
        pending = rate.pending + size
        if pending >= rate.grain:
            return False
    if request is not None:
        percent = request.pending + used_ms * PERCENT_PER_MS
        if percent >= request.grain:
            return False
        request.pending = percent
    if rate is not None:
        rate.pending = pending
    return True


def _is_follower(request: FetchRequest) -> bool:
    """Whether a fetch is that of a broker: it has other quotas."""
    return request.replica_id >= 0 or request.replica_state.replica_id >= 0


def _has_room(limits: ClientLimits, request: FetchRequest) -> bool:
    """Whether a response of any size within the request's limit is possible now without a violation."""
    fetch, time = limits.fetch, limits.request
    if fetch is not None and fetch.room < request.max_bytes + FIRST_BATCH_BYTES:
        return False
    return time is None or time.room >= FETCH_PERCENT


def size_of(response: FetchResponse) -> int:
    """About the size of a response."""
    size = RESPONSE_BYTES
    for topic in response.responses:
        for row in topic.partitions:
            size += ROW_BYTES if row.records is None else ROW_BYTES + len(row.records)
    return size


class Throttling:
    """The quota step of one API version."""

    __slots__ = (
        "_api_key",
        "_failed_ms",
        "_has_field",
        "_quotas",
        "_version",
        "clock",
        "frame_bytes",
        "scheduler",
    )

    def __init__(self, quotas: QuotaManager, api_key: int, version: int, clock: Clock, scheduler: Scheduler) -> None:
        self.clock = clock
        self.scheduler = scheduler
        self.frame_bytes = 0
        """The size of the request that is handled next; the dispatcher sets it."""
        self._quotas = quotas
        self._api_key = api_key
        self._version = version
        self._failed_ms = 0.0
        self._has_field = any(field.name == "throttle_time_ms" for field in registry.response_class(api_key).fields)

    @classmethod
    def of(cls, quotas: QuotaManager, api_key: int, version: int, clock: Clock, scheduler: Scheduler) -> Self | None:
        """The step of an API version; None if no client has a quota that the API counts against."""
        key = _KEYS.get(api_key, CONTROLLER_MUTATION_RATE if api_key in STRICT_SINCE else REQUEST_PERCENTAGE)
        is_needed = quotas.counts(key) or quotas.counts(REQUEST_PERCENTAGE)
        return cls(quotas, api_key, version, clock, scheduler) if is_needed else None

    # The step of a route

    def throttled(self, handler: Handler) -> Handler:
        """The handler with its quota step. After a raising handler, the route calls `note_error`."""
        if self._api_key == FetchRequest.api_key:
            return self._throttled_fetch(handler)
        if self._api_key in STRICT_SINCE:
            return self._throttled_mutation(handler)
        is_produce, monotonic_ms = self._api_key == ProduceRequest.api_key, self.clock.monotonic_ms
        if is_produce and not self._quotas.counts(REQUEST_PERCENTAGE):
            return self._throttled_produce(handler)

        def handle(request: Message, context: HandlerContext) -> HandlerOutcome:
            client = context.client
            limits = self._find_limits(client)
            rate = limits.produce if is_produce else None
            if rate is None and limits.request is None:
                return handler(request, context)
            frame_bytes = self.frame_bytes
            started_ms = monotonic_ms()
            try:
                outcome = handler(request, context)
            except Exception:
                self._note_failed(limits, started_ms)
                raise
            used_ms = monotonic_ms() - started_ms
            if isinstance(outcome, Message) and _absorbs(limits.request, used_ms, rate, frame_bytes):
                return outcome
            return self._settled(outcome, client, limits, Usage(used_ms, rate, frame_bytes))

        return handle

    def _throttled_produce(self, handler: Handler) -> Handler:
        """The handler of Produce while no client has a quota of time. Below a grain, bytes cost little."""
        quotas = self._quotas

        def handle(request: Message, context: HandlerContext) -> HandlerOutcome:
            client = context.client
            limits = client.limits
            if (  # as `_find_limits`, without the call
                limits is None
                or limits.epoch is not quotas.epoch
                or limits.client_id != client.client_id
                or limits.principal is not client.principal
            ):
                limits = self._find_limits(client)
            rate = limits.produce
            if rate is None:
                return handler(request, context)
            frame_bytes = self.frame_bytes
            outcome = handler(request, context)
            pending = rate.pending + frame_bytes
            if pending < rate.grain and isinstance(outcome, Message):
                rate.pending = pending
                return outcome
            return self._settled(outcome, client, limits, Usage(0.0, rate, frame_bytes))

        return handle

    def _throttled_fetch(self, handler: Handler) -> Handler:
        """A fetch that cannot exceed the quotas is planned as usual, and its size counts afterwards."""
        if not self._quotas.counts(REQUEST_PERCENTAGE):
            return self._throttled_fetch_bytes(handler)
        monotonic_ms = self.clock.monotonic_ms

        def handle(request: Any, context: HandlerContext) -> HandlerOutcome:
            client = context.client
            limits = self._find_limits(client)
            if (limits.fetch is None and limits.request is None) or _is_follower(request):
                return handler(request, context)
            if not _has_room(limits, request):
                return self._metered(handler, request, context, limits)
            started_ms = monotonic_ms()
            try:
                outcome = handler(request, context)
            except Exception:
                self._note_failed(limits, started_ms)
                raise
            used_ms = monotonic_ms() - started_ms
            if type(outcome) is FetchResponse and _absorbs(limits.request, used_ms, limits.fetch, size_of(outcome)):
                return outcome
            return self._settled(outcome, client, limits, Usage(used_ms, limits.fetch))

        return handle

    def _throttled_fetch_bytes(self, handler: Handler) -> Handler:
        """The same while no client has a quota of time: the calls are written out."""
        quotas, has_state = self._quotas, self._version >= STATE_SINCE

        def handle(request: Any, context: HandlerContext) -> HandlerOutcome:
            client = context.client
            limits = client.limits
            if (
                limits is None
                or limits.epoch is not quotas.epoch
                or limits.client_id != client.client_id
                or limits.principal is not client.principal
            ):
                limits = self._find_limits(client)
            fetch = limits.fetch
            if fetch is None or (request.replica_state.replica_id if has_state else request.replica_id) >= 0:
                return handler(request, context)
            if fetch.room < request.max_bytes + FIRST_BATCH_BYTES:
                return self._metered(handler, request, context, limits)
            outcome = handler(request, context)
            if type(outcome) is FetchResponse:
                pending = fetch.pending + RESPONSE_BYTES
                for topic in outcome.responses:
                    for row in topic.partitions:
                        records = row.records
                        if type(records) is FileSlice:  # `len` would call a function
                            pending += ROW_BYTES + records.length
                        else:
                            pending += ROW_BYTES if records is None else ROW_BYTES + len(records)
                if pending < fetch.grain:
                    fetch.pending = pending
                    return outcome
            return self._settled(outcome, client, limits, Usage(0.0, fetch))

        return handle

    def _metered(
        self, handler: Handler, request: Message, context: HandlerContext, limits: ClientLimits
    ) -> HandlerOutcome:
        client, started_ms = context.client, self.clock.monotonic_ms()
        meter = FetchMeter(self, client, limits, started_ms)
        metered = MeteredContext(context.broker, client, context.version, context.client_id, meter)
        try:
            outcome = handler(request, metered)
        except Exception:
            self._note_failed(limits, started_ms)
            raise
        meter.used_ms = self.clock.monotonic_ms() - started_ms
        return outcome

    def _throttled_mutation(self, handler: Handler) -> Handler:
        is_strict = self._version >= STRICT_SINCE[self._api_key]

        def handle(request: Message, context: HandlerContext) -> HandlerOutcome:
            client, monotonic_ms = context.client, self.clock.monotonic_ms
            limits = self._find_limits(client)
            if limits.mutations is None and limits.request is None:
                return handler(request, context)
            mutations = None
            if limits.mutations is not None:
                mutations = MutationQuota(limits.mutations, monotonic_ms, is_strict=is_strict)
            metered = MeteredContext(context.broker, client, context.version, context.client_id, None, mutations)
            started_ms = monotonic_ms()
            try:
                outcome = handler(request, metered)
            except Exception:
                self._note_failed(limits, started_ms)
                raise
            return self._settled(outcome, client, limits, Usage(monotonic_ms() - started_ms, mutations=mutations))

        return handle

    def _note_failed(self, limits: ClientLimits, started_ms: float) -> None:
        """Note the time of a request whose handler has raised, for `note_error`."""
        self._failed_ms = 0.0 if limits.request is None else self.clock.monotonic_ms() - started_ms

    def _settled(self, outcome: HandlerOutcome, client: Client, limits: ClientLimits, usage: Usage) -> HandlerOutcome:
        """The outcome of a handler; its usage counts as soon as it is a response."""
        if outcome is None or isinstance(outcome, Silent):  # no response has the throttle time, but the client pauses
            self._settle(None, client, limits, usage)
            return outcome
        return amended(outcome, lambda response: self._settle(response, client, limits, usage))

    def note_error(self, response: Any, client: Client) -> None:
        """Account for the time of a request that was refused as a whole."""
        used_ms, self._failed_ms = self._failed_ms, 0.0
        throttle_ms = self.charge_time(self._find_limits(client), used_ms, self.clock.monotonic_ms())
        self._throttle(response, client, throttle_ms)

    def passes(self, client: Client) -> bool:
        """Whether an answer from the cache may be sent to a client now. Its time counts."""
        limits = client.limits
        if (
            limits is None
            or limits.epoch is not self._quotas.epoch
            or limits.client_id != client.client_id
            or limits.principal is not client.principal
        ):
            limits = self._find_limits(client)
        request = limits.request
        if request is None:
            return True
        pending = request.pending + CACHED_ANSWER_PERCENT
        if pending < request.grain:
            request.pending = pending
            return True
        now_ms = self.clock.monotonic_ms()
        if request.charge(CACHED_ANSWER_PERCENT, now_ms):
            request.take_back(CACHED_ANSWER_PERCENT, now_ms)
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
            if client.is_broker:
                limits = ClientLimits(client.principal, client.client_id, quotas.epoch)
            else:
                limits = quotas.limits(client.principal, client.client_id, self.clock.monotonic_ms())
            client.limits = limits
        return limits

    def charge_time(self, limits: ClientLimits, used_ms: float, now_ms: float) -> int:
        """Account for the time of a request. Returns the throttle time, of one window at most, or 0."""
        request = limits.request
        if request is None:
            return 0
        throttle_ms = min(request.charge(used_ms * PERCENT_PER_MS, now_ms), self._quotas.windows.size_ms)
        return self.longest(0, REQUEST_PERCENTAGE, throttle_ms)

    def longest(self, before_ms: int, key: str, throttle_ms: int) -> int:
        """The longer of two throttle times; the second one is that of a quota, and is counted."""
        if throttle_ms:
            self._quotas.note_throttled(key, throttle_ms)
        return max(before_ms, throttle_ms)

    def _settle(self, response: Any, client: Client, limits: ClientLimits, usage: Usage) -> None:
        """Account for an answered request, set the throttle time in its response, and begin the pause."""
        now_ms = self.clock.monotonic_ms()
        throttle_ms = self.charge_time(limits, usage.used_ms, now_ms)
        if usage.rate is not None:
            size = size_of(response) if isinstance(response, FetchResponse) else usage.frame_bytes
            throttle_ms = self.longest(throttle_ms, _KEYS[self._api_key], usage.rate.charge(size, now_ms))
        if usage.mutations is not None:
            throttle_ms = self.longest(throttle_ms, CONTROLLER_MUTATION_RATE, usage.mutations.throttle_ms())
        self._throttle(response, client, throttle_ms)

    def _throttle(self, response: Any, client: Client, throttle_ms: int) -> None:
        if throttle_ms > 0:
            if response is not None and self._has_field:
                response.throttle_time_ms = throttle_ms
            client.mute(self.scheduler, throttle_ms)


_KEYS = {ProduceRequest.api_key: PRODUCER_BYTE_RATE, FetchRequest.api_key: CONSUMER_BYTE_RATE}
