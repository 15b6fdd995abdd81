"""One request: header -> read -> handler -> write.

Errors take one of three ways. What a client can be told goes into the message's own error response. Bytes that are no
request, and requests that are not served, close the connection with one log line (`MalformedRequest`,
`CloseConnection`). Anything else is a fault of ours: logged with its traceback, and answered UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gateway import answers
from gateway.answers import Answers, Key
from gateway.context import Client, CloseConnection, Context, Services
from gateway.handlers import Registration
from gateway.handlers.api_versions import unsupported_version
from gateway.waiting import Waiting
from protocol import compiler, registry
from protocol.compiler import Splice
from protocol.errors import ErrorCode, KafkaError
from protocol.header import RequestHeader, read_request_header, write_response_header
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.schema import Message

logger = logging.getLogger("headgate.dispatch")

_HEAD = struct.Struct(">ii")  # size and correlation id


class Route:
    """One API in one version: how its requests are read, answered and written."""

    __slots__ = ("_blank", "_write", "handler", "is_lasting", "read", "request", "stages", "version")

    def __init__(self, registration: Registration, version: int) -> None:
        request = registration.request
        self.request = request
        self.version = version
        self.handler = registration.handler
        self.is_lasting = registration.is_lasting
        self.read = compiler.reader(request, version)
        self.stages = registration.stages
        self._write = compiler.writer(registry.response(request.api_key), version)
        blank = bytearray(4)
        write_response_header(blank, 0, request.api_key, version)
        self._blank = bytes(blank)

    def encode(self, response: Message, correlation_id: int) -> Reply:
        """Frame a response: its bytes, cut where pieces of files go."""
        out = bytearray(self._blank)
        splices: list[tuple[int, Splice]] = []
        self._write(response, out, splices)
        if not splices:
            _HEAD.pack_into(out, 0, len(out) - 4, correlation_id)
            return [out]
        _HEAD.pack_into(out, 0, len(out) - 4 + sum(len(splice) for _, splice in splices), correlation_id)
        return _cut(out, splices)


class Promise:
    """A response that is made into bytes when it is sent: what it says depends on a write that is still to come."""

    __slots__ = ("_correlation_id", "_response", "_route", "_services")

    def __init__(self, route: Route, response: Message, correlation_id: int, services: Services) -> None:
        self._route = route
        self._response = response
        self._correlation_id = correlation_id
        self._services = services

    def __len__(self) -> int:
        """About as many bytes as it will have."""
        return 128

    def keep(self) -> bytes | bytearray | memoryview:
        """The bytes, after the write."""
        self._services.appends.commit()
        (reply,) = self._route.encode(self._response, self._correlation_id)
        assert isinstance(reply, bytearray)
        return reply


Piece = bytes | bytearray | memoryview | Splice
Chunk = Piece | Promise
Reply = list[Chunk]
"""What goes out for one request: bytes and pieces of files, in order. Empty: no reply is due."""

Done = Callable[[Reply | Exception], None]


class Parked:
    """A request whose reply comes later, through `done`. `abandon` when its connection is gone."""

    __slots__ = ("abandon",)

    def __init__(self, abandon: Callable[[], None]) -> None:
        self.abandon = abandon


class Dispatcher:
    """Turns frames into replies."""

    def __init__(self, services: Services, registrations: Mapping[int, Registration]) -> None:
        self._services = services
        self._registrations = registrations
        self._routes: dict[tuple[int, int], Route] = {}
        self._answers = Answers()

    def dispatch(self, frame: memoryview, client: Client, done: Done) -> Reply | Parked:
        """Answer one frame (without its size prefix), or park it; then `done` is called once, later.

        What the reply promises may still have to be written: `commit` comes before it is sent, or `Promise.keep`.
        Raises MalformedRequest, CloseConnection.
        """
        header, position = read_request_header(frame)
        route = self._routes.get(header[:2]) or self._open_route(header)
        if route is None:
            return self._refuse(header, client)
        client_id = header.client_id
        if client_id != client.client_id:
            client.client_id = client_id
        services = self._services
        if services.appends.is_open and not route.stages:
            services.appends.commit()
        key = None
        if route.is_lasting is not None:
            key = answers.key(frame[:4], frame[position:], client)
            kept = self._answers.find(services.metadata.image, key)
            if kept is not None:
                return [_HEAD.pack(len(kept) + 4, header.correlation_id) + kept]
        request, _ = route.read(frame, position)
        try:
            outcome = route.handler(request, Context(services, client, route.version, client_id))
        except Exception as error:  # noqa: BLE001  a fault of one request is answered, not passed on
            outcome = _error_response(request, route, client, error)
        if not isinstance(outcome, Message):
            return self._park(outcome, _finisher(request, route, header.correlation_id, client, done))
        if services.appends.is_open:
            return [Promise(route, outcome, header.correlation_id, services)]
        reply = route.encode(outcome, header.correlation_id)
        if key is not None:
            self._keep(route, key, outcome, reply)
        return reply

    def commit(self) -> None:
        """Write what the requests of this turn left to be written together."""
        self._services.appends.commit()

    def _keep(self, route: Route, key: Key, response: Message, reply: Reply) -> None:
        """Keep an answer that will be the same as long as the image is."""
        if route.is_lasting is not None and route.is_lasting(response) and isinstance(reply[0], bytearray):
            self._answers.keep(self._services.metadata.image, key, bytes(reply[0][_HEAD.size :]))

    def _park(self, outcome: Any, finish: Callable[[Any], None]) -> Reply | Parked:
        if outcome is None:
            return []
        if isinstance(outcome, Waiting):
            self._services.purgatory.park(outcome, finish)
            return Parked(lambda: self._services.purgatory.abandon(outcome))
        return self._spawn(outcome, finish)

    def _spawn(self, work: Awaitable[Any], finish: Callable[[Any], None]) -> Parked:
        gone = False

        def abandon() -> None:
            nonlocal gone
            gone = True

        async def run() -> Any:
            return await work

        self._services.scheduler.spawn(run, lambda result: None if gone else finish(result))
        return Parked(abandon)

    def _open_route(self, header: RequestHeader) -> Route | None:
        """The route of a request that came for the first time; None if it is not served."""
        registration = self._registrations.get(header.api_key)
        if registration is None or not registration.served_min <= header.api_version <= registration.served_max:
            return None
        route = self._routes[header[:2]] = Route(registration, header.api_version)
        return route

    def _refuse(self, header: RequestHeader, client: Client) -> Reply:
        if header.api_key == ApiVersionsRequest.api_key:
            response = unsupported_version(self._registrations)
            return Route(self._registrations[header.api_key], 0).encode(response, header.correlation_id)
        client.client_id = header.client_id  # for the line in the log: who is it that has to be upgraded?
        registration = self._registrations.get(header.api_key)
        if registration is None:
            name = f"{registry.APIS[header.api_key].name}, " if header.api_key in registry.APIS else ""
            raise CloseConnection(f"{name}API key {header.api_key} version {header.api_version} is not served")
        name = registration.request.__name__.removesuffix("Request")
        served = f"{registration.served_min} to {registration.served_max}"
        raise CloseConnection(f"{name} version {header.api_version} is not served; versions {served} are")


def _cut(out: bytearray, splices: list[tuple[int, Splice]]) -> Reply:
    chunks: Reply = []
    view, start = memoryview(out), 0
    for position, splice in splices:
        chunks += (view[start:position], splice)
        start = position
    if start < len(out):
        chunks.append(view[start:])
    return chunks


def _finisher(request: Message, route: Route, correlation_id: int, client: Client, done: Done) -> Callable[[Any], None]:
    def finish(result: Any) -> None:
        try:
            if isinstance(result, Exception):
                result = _error_response(request, route, client, result)
            done(route.encode(result, correlation_id))
        except Exception as error:  # noqa: BLE001  the connection closes itself
            done(error)

    return finish


def _error_response(request: Message, route: Route, client: Client, error: Exception) -> Message:
    if isinstance(error, KafkaError):
        return request.error_response(route.version, error.code, error.message)
    if isinstance(error, CloseConnection):
        raise error
    logger.error("%s version %d from %s failed", type(request).__name__, route.version, client, exc_info=error)
    return request.error_response(route.version, ErrorCode.UNKNOWN_SERVER_ERROR)
