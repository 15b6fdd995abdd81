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
from gateway.waiting import SILENCE, Waiting
from protocol import compiler, registry
from protocol.compiler import Splice
from protocol.errors import ErrorCode, KafkaError
from protocol.header import read_request_header, write_response_header
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.schema import Message

logger = logging.getLogger("headgate.dispatch")

_HEAD = struct.Struct(">ii")  # size and correlation id


class Route:
    """One API in one version: how its requests are read, answered and written."""

    __slots__ = ("_blank", "_write", "handler", "is_lasting", "read", "request", "stages", "version")

    def __init__(self, registration: Registration, version: int) -> None:
        request, served = registration.request, registration.find(version)
        assert served is not None, "only what is served has a route"
        self.request = request
        self.version = version
        self.handler = served.handler
        self.is_lasting = served.is_lasting
        self.read = compiler.reader(request, version)
        self.stages = served.stages
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


Piece = bytes | bytearray | memoryview | Splice
Reply = list[Piece]
"""What goes out for one request: bytes and pieces of files, in order. Empty: no reply is due."""

Done = Callable[[Reply | Exception], None]


class Parked:
    """A request whose reply comes later, through `done`. `abandon` when its connection is gone.

    One that `is_silent` is owed no reply: it only holds up what follows it.
    """

    __slots__ = ("abandon", "is_silent")

    def __init__(self, abandon: Callable[[], None], is_silent: bool = False) -> None:
        self.abandon = abandon
        self.is_silent = is_silent


class Dispatcher:
    """Turns frames into replies."""

    def __init__(self, services: Services, registrations: Mapping[int, Registration]) -> None:
        self._services = services
        self._registrations = registrations
        self._routes: dict[tuple[int, int], Route] = {}
        self._answers = Answers()
        self.appends = services.appends
        """What the requests of a turn leave to be written together, before any answer is sent."""

    def dispatch(self, frame: memoryview, client: Client, done: Done) -> Reply | Parked:
        """Answer one frame (without its size prefix), or park it; then `done` is called once, later.

        What the reply promises may still have to be written: `appends.commit` comes before it is sent, and may change
        its bytes. Raises MalformedRequest, CloseConnection.
        """
        api_key, version, correlation_id, client_id, position = read_request_header(frame)
        route = self._routes.get((api_key, version)) or self._open_route(api_key, version)
        client.client_id = client_id
        if route is None:
            return self._refuse(api_key, version, correlation_id, client)
        services, appends = self._services, self.appends
        if appends.is_open and not route.stages:
            appends.commit()
        key = None if route.is_lasting is None else answers.key(frame[:4], frame[position:], client)
        if key is not None:
            kept = self._answers.find(services.metadata.image, key)
            if kept is not None:
                return [_HEAD.pack(len(kept) + 4, correlation_id) + kept]
        request, _ = route.read(frame, position)
        try:
            outcome = route.handler(request, Context(services, client, version, client_id))
        except Exception as error:  # noqa: BLE001  a fault of one request is answered, not passed on
            outcome = _error_response(request, route, client, error)
        if not isinstance(outcome, Message):
            return self._park(outcome, _finisher(request, route, correlation_id, client, done))
        reply = route.encode(outcome, correlation_id)
        if appends.is_open:
            appends.draft(reply[0], route, outcome, correlation_id)
        elif key is not None:
            self._keep(route, key, outcome, reply)
        return reply

    def _keep(self, route: Route, key: Key, response: Message, reply: Reply) -> None:
        """Keep an answer that will be the same as long as the image is."""
        if route.is_lasting is not None and route.is_lasting(response) and isinstance(reply[0], bytearray):
            self._answers.keep(self._services.metadata.image, key, bytes(reply[0][_HEAD.size :]))

    def _park(self, outcome: Any, finish: Callable[[Any], None]) -> Reply | Parked:
        if outcome is None:
            return []
        if isinstance(outcome, Waiting):
            self._services.purgatory.park(outcome, finish)
            return Parked(lambda: self._services.purgatory.abandon(outcome), outcome.is_silent)
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

    def _open_route(self, api_key: int, version: int) -> Route | None:
        """The route of a request that came for the first time; None if it is not served."""
        registration = self._registrations.get(api_key)
        if registration is None or registration.find(version) is None:
            return None
        route = self._routes[api_key, version] = Route(registration, version)
        return route

    def _refuse(self, api_key: int, version: int, correlation_id: int, client: Client) -> Reply:
        if api_key == ApiVersionsRequest.api_key:
            response = unsupported_version(self._registrations)
            return Route(self._registrations[api_key], 0).encode(response, correlation_id)
        registration = self._registrations.get(api_key)
        if registration is None:
            name = f"{registry.APIS[api_key].name}, " if api_key in registry.APIS else ""
            wanted, offered = f"{name}API key {api_key} version {version}", ""
        else:
            wanted = f"{registration.request.__name__.removesuffix('Request')} version {version}"
            offered = f"; versions {registration.served_min} to {registration.served_max} are"
        raise CloseConnection(f"{wanted} is not served{offered}; asked by {client.principal}")


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
            done([] if result is SILENCE else route.encode(result, correlation_id))
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
