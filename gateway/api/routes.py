"""Routes: the reader, the steps, the handler and the writer of one API version."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from headgate.gateway.api.authorization import Authorizer, StableAuthorizer, of_brokers, with_audit, with_authorization
from headgate.gateway.api.authorization_rules import unrestricted
from headgate.gateway.api.context import Client, CloseConnection, HandlerContext
from headgate.gateway.api.handler_registration import Registration
from headgate.gateway.api.throttling import Throttling
from headgate.gateway.audit.audit_log import AuditLog
from headgate.gateway.runtime.metrics import Histogram
from headgate.protocol import compiler, registry
from headgate.protocol.compiler import Splice, StepReader
from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.protocol.header import write_response_header
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.reading import MAX_ELEMENTS_AT_ONCE
from headgate.protocol.schema import Message
from headgate.protocol.steps import Steps

logger = logging.getLogger("headgate.dispatch")

HEAD = struct.Struct(">ii")  # size and correlation id

LARGE_BYTES = 1 << 13
"""A larger request is read in steps. A request of this size names a thousand partitions at most: 2 ms of work."""
_NEVER_LARGE = 1 << 31
PIECE_BYTES = 1 << 18
"""The size of the pieces of a large response; a single growing array would be copied again and again."""

Piece = bytes | bytearray | memoryview | Splice
Reply = list[Piece]
"""The bytes and pieces of files of one reply, in order. Empty: the request needs no reply."""


class Route:
    """One API version: its reader, steps, handler and writer, and its metrics.

    The constructor chooses the steps before the handler: without an authorizer there are none. `throttle` adds the
    quota step, or removes it.
    """

    __slots__ = (
        "_blank",
        "_is_traced",
        "_response",
        "_unthrottled",
        "_write",
        "errors",
        "handler",
        "is_lasting",
        "is_order",
        "large_bytes",
        "latency",
        "max_elements",
        "number",
        "read",
        "request",
        "stages",
        "throttling",
        "timed_at",
        "untimed",
        "version",
    )

    def __init__(
        self,
        registration: Registration,
        version: int,
        authorizer: Authorizer | None = None,
        latency: Histogram | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        """`latency`: the histogram of the API, shared by all its versions."""
        request, served = registration.request, registration.find(version)
        assert served is not None, "only a served version has a route"
        self.request = request
        self.version = version
        self.timed_at = self.untimed = 1
        """The number of the next timed request, and how many requests remain until then, that request included."""
        self.number = 0
        """The number of this API version in the counts of clients (`gateway.runtime.request_counts`)."""
        self.errors: dict[ErrorCode, int] = {}
        """The number of requests refused as a whole, by error."""
        self.latency = latency or Histogram()
        self.handler: Callable[[Any, HandlerContext], Any] = served.handler
        self.is_order = served.between_brokers
        if served.between_brokers:
            self.handler = of_brokers(self.handler)
        if authorizer is not None and served.authorize is not unrestricted:
            self.handler = with_authorization(self.handler, served.authorize, authorizer)
        if audit is not None:
            self.handler = with_audit(self.handler, request, audit)
        # A cached response would bypass an authorizer that may change its mind
        is_stable = authorizer is None or isinstance(authorizer, StableAuthorizer)
        self.is_lasting = served.is_lasting if is_stable else None
        self.read = compiler.reader(request, version)
        self.throttling: Throttling | None = None
        self._is_traced = False
        self._unthrottled = self.handler, self.is_lasting
        self.stages = served.stages
        # The rules of authorization look at all elements at once
        self.max_elements = served.max_elements if authorizer is None else MAX_ELEMENTS_AT_ONCE
        self.park_large()
        self._response = registry.response_class(request.api_key)
        self._write = compiler.writer(self._response, version)
        blank = bytearray(4)
        write_response_header(blank, 0, request.api_key, version)
        self._blank = bytes(blank)

    def throttle(self, throttling: Throttling | None) -> None:
        """Add a quota step, or remove that step."""
        self.throttling = throttling
        self.handler, self.is_lasting = self._unthrottled
        if throttling is not None:
            self.handler = throttling.throttled(self.handler)
            if self.is_lasting is not None:
                self.is_lasting = partial(_is_lasting_for_all, self.is_lasting)
        if self._is_traced:
            from headgate.gateway.request_log.request_trace import trace_handler
            from headgate.gateway.request_log.request_waits import describe

            self.handler = partial(trace_handler, self.handler, describe)

    def trace(self, *, is_traced: bool) -> None:
        """Have the request log see each request, or none. Each traced request is timed."""
        self._is_traced = is_traced
        self.throttle(self.throttling)
        if is_traced:
            self.timed_at, self.untimed = self.requests + 1, 1

    def park_large(self) -> None:
        """Park the requests that are read in steps. A large Produce request may have few rows: it is mostly records."""
        self.large_bytes = _NEVER_LARGE if self.request is ProduceRequest else LARGE_BYTES

    def park_all(self) -> None:
        """Park every request: it waits there for the end of the doubt about this broker's leads."""
        self.large_bytes = -1

    @property
    def requests(self) -> int:
        """The number of requests since the start."""
        return self.timed_at - self.untimed

    @property
    def read_in_steps(self) -> StepReader:
        """`read`, in steps."""
        return compiler.reader_in_steps(self.request, self.version, self.max_elements)

    def encode(self, response: Message, correlation_id: int) -> Reply:
        """Frame a response: its bytes, split at the pieces of files."""
        out = bytearray(self._blank)
        splices: list[tuple[int, Splice]] = []
        self._write(response, out, splices)
        if splices:
            return _cut(out, splices, correlation_id)
        HEAD.pack_into(out, 0, len(out) - 4, correlation_id)
        return [out]

    def encode_in_steps(self, response: Message, correlation_id: int) -> Reply | Steps[Reply]:
        """`encode`, in steps: the reply of one step, or all further steps."""
        out = bytearray(self._blank)
        splices: list[tuple[int, Splice]] = []
        steps = compiler.writer_in_steps(self._response, self.version)(response, out, splices)
        for _ in steps:
            return _encode_rest(steps, out, splices, correlation_id)
        return _cut(out, splices, correlation_id)

    def error_response(self, request: Message, client: Client, error: Exception) -> Message:
        """The error response of a request; a fault of ours is also logged. Raises CloseConnection again."""
        if isinstance(error, CloseConnection):
            raise error
        code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
        if isinstance(error, KafkaError):
            code, message = error.code, error.message
        else:
            logger.error("%s version %d from %s failed", type(request).__name__, self.version, client, exc_info=error)
        without_frames(error)  # an exception of an earlier phase was raised again, and its frames refer to it
        self.errors[code] = self.errors.get(code, 0) + 1
        client.note_error(registry.APIS[request.api_key].name, code)
        response: Message = request.error_response(self.version, code, message)
        if self.throttling is not None:
            self.throttling.note_error(response, client)
        return response


def _is_lasting_for_all(is_lasting: Callable[[Any], bool], response: Any) -> bool:
    """Whether a response stays valid, and does not say that one client is throttled."""
    return is_lasting(response) and not response.throttle_time_ms


def _encode_rest(
    steps: Steps[None], out: bytearray, splices: list[tuple[int, Splice]], correlation_id: int
) -> Steps[Reply]:
    pieces: Reply = []
    yield
    for _ in steps:
        if len(out) > PIECE_BYTES and not splices:
            pieces.append(out[:])
            out.clear()
        yield
    if not pieces:
        return _cut(out, splices, correlation_id)
    pieces += _pieces(out, splices)
    HEAD.pack_into(pieces[0], 0, sum(map(len, pieces)) - 4, correlation_id)  # type: ignore[arg-type]
    return pieces


def _cut(out: bytearray, splices: list[tuple[int, Splice]], correlation_id: int) -> Reply:
    if not splices:
        HEAD.pack_into(out, 0, len(out) - 4, correlation_id)
        return [out]
    size = len(out) - 4
    for _, splice in splices:
        size += len(splice)
    HEAD.pack_into(out, 0, size, correlation_id)
    return _pieces(out, splices)


def _pieces(out: bytearray, splices: list[tuple[int, Splice]]) -> Reply:
    if not splices:
        return [out]
    chunks: Reply = []
    view, start = memoryview(out), 0
    for position, splice in splices:
        chunks += (view[start:position], splice)
        start = position
    if start < len(out):
        chunks.append(view[start:])
    return chunks


def with_body(body: bytes, correlation_id: int) -> Reply:
    """A reply with this body behind a correlation id. A large body is not copied."""
    head = HEAD.pack(len(body) + 4, correlation_id)
    return [head + body] if len(body) <= LARGE_BYTES else [head, body]


def body_of(reply: Reply) -> bytes | None:
    """The bytes behind the correlation id; None for a reply with pieces of files."""
    plain = [memoryview(piece) for piece in reply if isinstance(piece, bytes | bytearray)]
    if len(plain) < len(reply):
        return None
    plain[0] = plain[0][HEAD.size :]
    return b"".join(plain)
