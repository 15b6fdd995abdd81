"""One request: header -> read -> handler -> write.

Errors take one of three ways. What a client can be told goes into the message's own error response. Bytes that are no
request, and requests that are not served, close the connection with one log line (`MalformedRequest`,
`CloseConnection`). Anything else is a fault of ours: logged with its traceback, and answered UNKNOWN_SERVER_ERROR.
"""

import logging
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gateway.context import Client, CloseConnection, Context, Services
from gateway.handlers import Registration
from gateway.handlers.api_versions import unsupported_version
from gateway.waiting import Waiting
from protocol.compiler import Splice, read, write
from protocol.errors import ErrorCode, KafkaError
from protocol.header import RequestHeader, read_request_header, write_response_header
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.schema import Message

logger = logging.getLogger("headgate.dispatch")

Chunk = bytes | bytearray | memoryview | Splice
Reply = list[Chunk]
"""What goes out for one request: bytes and pieces of files, in order. Empty: no reply is due."""

Done = Callable[[Reply | Exception], None]

_SIZE = struct.Struct(">i")


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

    def dispatch(self, frame: memoryview, client: Client, done: Done) -> Reply | Parked:
        """Answer one frame (without its size prefix), or park it; then `done` is called once, later.

        Raises MalformedRequest, CloseConnection.
        """
        header, position = read_request_header(frame)
        registration = self._registrations.get(header.api_key)
        if registration is None or not registration.served_min <= header.api_version <= registration.served_max:
            return self._refuse(header, registration, client)
        if header.client_id != client.client_id:
            client.client_id = header.client_id
        request, _ = read(registration.request, header.api_version, frame, position)
        context = Context(self._services, client, header.api_version, header.client_id)
        try:
            outcome = registration.handler(request, context)
        except Exception as error:  # noqa: BLE001  a fault of one request is answered, not passed on
            outcome = _error_response(request, header, client, error)
        return self._settle(outcome, request, header, client, done)

    def _settle(
        self, outcome: Any, request: Message, header: RequestHeader, client: Client, done: Done
    ) -> Reply | Parked:
        if isinstance(outcome, Message):
            return encode(outcome, header)
        if outcome is None:
            return []
        finish = _finisher(request, header, client, done)
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

    def _refuse(self, header: RequestHeader, registration: Registration | None, client: Client) -> Reply:
        if header.api_key == ApiVersionsRequest.api_key:
            return encode(unsupported_version(self._registrations), header._replace(api_version=0))
        if registration is None:
            raise CloseConnection(f"API key {header.api_key} version {header.api_version} is not served")
        name = registration.request.__name__.removesuffix("Request")
        served = f"{registration.served_min} to {registration.served_max}"
        raise CloseConnection(f"{name} version {header.api_version} is not served; versions {served} are")


def encode(response: Message, header: RequestHeader) -> Reply:
    """Frame a response: its bytes, cut where pieces of files go."""
    out = bytearray(4)
    splices: list[tuple[int, Splice]] = []
    write_response_header(out, header.correlation_id, header.api_key, header.api_version)
    write(response, header.api_version, out, splices)
    _SIZE.pack_into(out, 0, len(out) - 4 + sum(len(splice) for _, splice in splices))
    if not splices:
        return [out]
    return _cut(out, splices)


def _cut(out: bytearray, splices: list[tuple[int, Splice]]) -> Reply:
    chunks: Reply = []
    view, start = memoryview(out), 0
    for position, splice in splices:
        chunks += (view[start:position], splice)
        start = position
    if start < len(out):
        chunks.append(view[start:])
    return chunks


def _finisher(request: Message, header: RequestHeader, client: Client, done: Done) -> Callable[[Any], None]:
    def finish(result: Any) -> None:
        try:
            if isinstance(result, Exception):
                result = _error_response(request, header, client, result)
            done(encode(result, header))
        except Exception as error:  # noqa: BLE001  the connection closes itself
            done(error)

    return finish


def _error_response(request: Message, header: RequestHeader, client: Client, error: Exception) -> Message:
    if isinstance(error, KafkaError):
        return request.error_response(header.api_version, error.code, error.message)
    if isinstance(error, CloseConnection):
        raise error
    logger.error("%s version %d from %s failed", type(request).__name__, header.api_version, client, exc_info=error)
    return request.error_response(header.api_version, ErrorCode.UNKNOWN_SERVER_ERROR)
