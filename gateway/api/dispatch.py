"""The dispatcher of one request: header -> count -> read -> quota -> authorize -> handler -> write.

The route of an API and version has the steps before its handler (`gateway.api.routes`).

Errors take one of three ways. A KafkaError becomes the error response of the message. Malformed bytes and unsupported
APIs close the connection with one log line (`MalformedRequest`, `CloseConnection`). Any other exception is a fault of
ours: the log gets its traceback, and the client gets UNKNOWN_SERVER_ERROR.

A large request is read, handled and answered in steps, and other requests run in between (`gateway.api.parked`). A
handler may itself return steps, for a small request with a large response.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headgate.gateway.api.authorization import Authorizer, StableAuthorizer
from headgate.gateway.api.context import Client, CloseConnection, HandlerContext, Services
from headgate.gateway.api.handler_registration import Registration
from headgate.gateway.api.handlers.api_versions import unsupported_version
from headgate.gateway.api.parked import Done, Parked, ParkedRequest
from headgate.gateway.api.response_cache import Key, ResponseCache
from headgate.gateway.api.routes import HEAD, Piece, Reply, Route, body_of, with_body
from headgate.gateway.api.throttling import Throttling
from headgate.gateway.metadata.image import Image
from headgate.gateway.request_log.request_log import RequestLog
from headgate.gateway.runtime.metrics import Histogram
from headgate.gateway.runtime.request_counts import RequestCounts
from headgate.gateway.security.quotas.quota_manager import QuotaManager
from headgate.protocol import registry
from headgate.protocol.header import read_request_header
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.schema import Message

if TYPE_CHECKING:  # a broker whose request log is off imports no trace
    from headgate.gateway.request_log.request_trace import ConnectionTrace

TIMED_EVERY = 64
"""One in this many requests of each API and version is timed; also the requests number 1, 2, 4, 8, 16, 32 and 64."""

__all__ = ["Dispatcher", "Done", "Parked", "Piece", "Reply", "Route"]


class Dispatcher:
    """Turns frames into replies."""

    def __init__(
        self,
        services: Services,
        registrations: Mapping[int, Registration],
        authorizer: Authorizer | None = None,
        quotas: QuotaManager | None = None,
        request_log: RequestLog | None = None,
    ) -> None:
        """`quotas`: after each change of the quotas call `follow_quotas`; None: no client can have one.

        `request_log`: once the log is on or off call `follow_request_log`; None: no request is logged.
        """
        self.authorizer = authorizer
        self.quotas = quotas
        self.request_log = request_log
        self._is_tracing = request_log is not None and request_log.is_on
        self.audit = services.audit
        self._services = services
        self._registrations = registrations
        self._routes: dict[tuple[int, int], Route] = {}
        self._answers = ResponseCache(authorizer if isinstance(authorizer, StableAuthorizer) else None)
        self._latencies = {key: Histogram() for key in registrations}
        self.request_counts = RequestCounts()
        self.stall_watch = services.stall_watch
        self.stall_watch.changed = self._follow_doubt
        self.batcher = services.batcher
        """The batcher of a turn's appends, which are written together before any reply is sent."""
        services.metrics.labelled("requests", ("api", "version"), self._count_requests)
        services.metrics.labelled("request.errors", ("api", "error"), self._count_errors)
        services.metrics.labelled("request.seconds", ("api",), self._collect_latencies)
        services.metrics.labelled("row.errors", ("error",), self._count_refusals)

    def _count_refusals(self) -> Iterator[tuple[tuple[str, ...], int]]:
        return iter([((code.name,), count) for code, count in self._services.refusals.items()])

    def follow_quotas(self) -> None:
        """Add the quota step to the routes that need one now, and remove it from the others."""
        for route in self._routes.values():
            route.throttle(self._throttling(route))

    def follow_request_log(self) -> None:
        """Trace every request from now on, or none."""
        self._is_tracing = self.request_log is not None and self.request_log.is_on
        for route in self._routes.values():
            route.trace(is_traced=self._is_tracing)

    def _throttling(self, route: Route) -> Throttling | None:
        if self.quotas is None or route.is_order:
            return None
        clock, scheduler = self._services.clock, self._services.scheduler
        return Throttling.of(self.quotas, route.request.api_key, route.version, clock, scheduler)

    def dispatch(self, frame: memoryview, client: Client, done: Done) -> Reply | Parked:
        """Answer one frame (without its size prefix), or park the request; then `done` is called once, later.

        The appends of a reply may still be unwritten: call `batcher.write_all`, which may change the bytes of the
        reply, before the reply is sent. Raises MalformedRequest, CloseConnection.
        """
        api_key, version, correlation_id, client_id, position = read_request_header(frame)
        route = self._routes.get((api_key, version)) or self._open_route(api_key, version)
        client.client_id = client_id
        if route is None:
            return self._refuse_version(api_key, version, correlation_id, client)
        route.untimed = untimed = route.untimed - 1
        if not untimed:
            return self._dispatch_timed(route, frame, client, done)
        try:
            client.requests[route.number] += 1
        except IndexError:
            self.request_counts.count_first(client, route.number)
        services, batcher = self._services, self.batcher
        if batcher.is_open and not route.stages:
            batcher.write_all()
        key = None
        if route.is_lasting is not None:
            image = services.metadata.image
            key = self._answers.key(image, frame, position, client)
            if key is not None and (route.throttling is None or route.throttling.passes(client)):
                kept = self._answers.find(image, key)
                if kept is not None:
                    return [HEAD.pack(len(kept) + 4, correlation_id) + kept]
                shared = self._shared(key, correlation_id, done)
                if shared is not None:
                    return shared
        if len(frame) > route.large_bytes:
            # A copy: the driver reuses the frame's buffer after this call. An append writes into the records
            copied = memoryview(bytearray(frame))
            return self._parked(route, key, correlation_id, client, done).begin(copied, position)
        if route.throttling is not None:
            route.throttling.frame_bytes = len(frame)
        request, _ = route.read(frame, position)
        try:
            outcome = route.handler(request, HandlerContext(services, client, version, client_id))
        except Exception as error:  # noqa: BLE001  a failed request gets an error response
            outcome = route.error_response(request, client, error)
        if not isinstance(outcome, Message):
            if outcome is None:
                return []
            return self._parked(route, key, correlation_id, client, done).go_on(request, outcome)
        reply = route.encode(outcome, correlation_id)
        if batcher.is_open:
            batcher.draft(reply[0], route, outcome, correlation_id)
        elif key is not None:
            self._keep(route, key, outcome, reply)
        return reply

    def _dispatch_timed(self, route: Route, frame: memoryview, client: Client, done: Done) -> Reply | Parked:
        """Answer a frame, and record the time until its reply.

        Two readings of the clock for every request would cost more than one percent of the smallest requests.
        """
        number, trace = route.timed_at, client.trace
        route.timed_at = number + (1 if self._is_tracing else min(number, TIMED_EVERY))
        route.untimed = route.timed_at - number + 1  # `dispatch` counts this request again
        if trace is not None:
            return self._dispatch_traced(route, frame, client, done, trace)
        monotonic_ms, latency = self._services.clock.monotonic_ms, route.latency
        started_ms = monotonic_ms()

        def timed(reply: Reply | Exception) -> None:
            latency.observe((monotonic_ms() - started_ms) / 1000)
            done(reply)

        outcome = self.dispatch(frame, client, timed)
        if not isinstance(outcome, Parked):
            latency.observe((monotonic_ms() - started_ms) / 1000)
        return outcome

    def _dispatch_traced(
        self, route: Route, frame: memoryview, client: Client, resume: Done, trace: ConnectionTrace
    ) -> Reply | Parked:
        """Answer a frame, and note the times of its stages for the request log."""
        request = trace.begin(route.request.api_key, route.version, frame)

        def traced(reply: Reply | Exception) -> None:
            pieces = reply if isinstance(reply, list) else []
            request.answered(sum(map(len, pieces)))
            trace.end_handling(request, pieces)
            route.latency.observe((request.answered_ms - request.started_ms) / 1000)
            resume(reply)

        outcome = self.dispatch(frame, client, traced)
        if isinstance(outcome, Parked):
            request.parked()
            return outcome
        request.handled(sum(map(len, outcome)))
        route.latency.observe((request.handled_ms - request.started_ms) / 1000)
        if self.batcher.is_open:
            self.batcher.notify_written(request.written)
        trace.end_handling(request, outcome)
        return outcome

    def _shared(self, key: Key, correlation_id: int, done: Done) -> Reply | Parked | None:
        """The large response to an equal request: cached, or in progress."""
        image = self._services.metadata.image
        kept = self._answers.find_large(image, key)
        if kept is not None:
            return with_body(kept, correlation_id)
        making = self._answers.making.get(key)
        if making is None or making.image is not image or not making.is_open:
            return None
        return making.join(correlation_id, done)

    def _parked(self, route: Route, key: Key | None, correlation_id: int, client: Client, done: Done) -> ParkedRequest:
        if key is None:
            return ParkedRequest(self._services, route, correlation_id, client, done)

        def keep(image: Image, body: bytes) -> None:
            if image is self._services.metadata.image:
                self._answers.keep(image, key, body)

        request = ParkedRequest(self._services, route, correlation_id, client, done, keep)
        self._answers.making[key] = request
        return request

    def _keep(self, route: Route, key: Key, response: Message, reply: Reply) -> None:
        """Cache a response that is valid until the image changes."""
        if route.is_lasting is not None and route.is_lasting(response):
            body = body_of(reply)
            if body is not None:
                self._answers.keep(self._services.metadata.image, key, body)

    def _open_route(self, api_key: int, version: int) -> Route | None:
        """Make the route at the first request of an API version; None if the version is not supported."""
        registration = self._registrations.get(api_key)
        if registration is None or registration.find(version) is None:
            return None
        route = Route(registration, version, self.authorizer, self._latencies[api_key], self._services.audit)
        route.number = self.request_counts.number(api_key, version)
        route.throttle(self._throttling(route))
        route.trace(is_traced=self._is_tracing)
        if self.stall_watch.is_in_doubt:
            route.park_all()
        self._routes[api_key, version] = route
        return route

    def _follow_doubt(self) -> None:
        """Park all requests while this broker is in doubt whether it leads: the usual way of a request has no check."""
        for route in self._routes.values():
            if self.stall_watch.is_in_doubt:
                route.park_all()
            else:
                route.park_large()

    # Metrics

    def _count_requests(self) -> Iterator[tuple[tuple[str, ...], int]]:
        for (api_key, version), route in self._routes.items():
            yield (registry.APIS[api_key].name, str(version)), route.requests

    def _count_errors(self) -> Iterator[tuple[tuple[str, ...], int]]:
        counted: Counter[tuple[str, ...]] = Counter()
        for (api_key, _), route in self._routes.items():
            for code, count in route.errors.items():
                counted[registry.APIS[api_key].name, code.name] += count
        return iter(counted.items())

    def _collect_latencies(self) -> Iterator[tuple[tuple[str, ...], Histogram]]:
        for api_key, latency in self._latencies.items():
            if latency.count:
                yield (registry.APIS[api_key].name,), latency

    def _refuse_version(self, api_key: int, version: int, correlation_id: int, client: Client) -> Reply:
        if api_key == ApiVersionsRequest.api_key:
            response = unsupported_version(self._services.served_versions)
            return Route(self._registrations[api_key], 0).encode(response, correlation_id)
        registration = self._registrations.get(api_key)
        if registration is None:
            name = f"{registry.APIS[api_key].name}, " if api_key in registry.APIS else ""
            wanted, offered = f"{name}API key {api_key} version {version}", ""
        else:
            wanted = f"{registration.request.__name__.removesuffix('Request')} version {version}"
            offered = f"; versions {registration.served_min} to {registration.served_max} are"
        raise CloseConnection(f"{wanted} is not supported{offered}; asked by {client.principal}")
