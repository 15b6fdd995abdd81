"""Routes: how the requests of one API in one version are read, handled and written, at once or in steps."""

from __future__ import annotations

import logging
import struct

from headgate.gateway.api.context import Client, CloseConnection
from headgate.gateway.api.handlers import Registration
from headgate.protocol import compiler, registry
from headgate.protocol.compiler import Splice, StepReader
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.header import write_response_header
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.schema import Message
from headgate.protocol.steps import Steps

logger = logging.getLogger("headgate.dispatch")

HEAD = struct.Struct(">ii")  # size and correlation id

LARGE_BYTES = 1 << 13
"""A larger request is read in steps. One of this size names a thousand partitions at most: 2 ms of work."""
_NEVER_LARGE = 1 << 31
PIECE_BYTES = 1 << 18
"""A large response goes out in pieces of this size: bytes that grow without end are copied again and again."""

Piece = bytes | bytearray | memoryview | Splice
Reply = list[Piece]
"""What goes out for one request: bytes and pieces of files, in order. Empty: no reply is due."""


class Route:
    """One API in one version: how its requests are read, answered and written."""

    __slots__ = ("_blank", "_write", "handler", "is_lasting", "large_bytes", "read", "request", "stages", "version")

    def __init__(self, registration: Registration, version: int) -> None:
        request, served = registration.request, registration.find(version)
        assert served is not None, "only what is served has a route"
        self.request = request
        self.version = version
        self.handler = served.handler
        self.is_lasting = served.is_lasting
        self.read = compiler.reader(request, version)
        self.stages = served.stages
        # Most of a Produce are records: views into its frame, which may be large for a few rows
        self.large_bytes = _NEVER_LARGE if request is ProduceRequest else LARGE_BYTES
        self._write = compiler.writer(registry.response_class(request.api_key), version)
        blank = bytearray(4)
        write_response_header(blank, 0, request.api_key, version)
        self._blank = bytes(blank)

    @property
    def read_in_steps(self) -> StepReader:
        """What `read` does, in steps."""
        return compiler.reader_in_steps(self.request, self.version)

    def encode(self, response: Message, correlation_id: int) -> Reply:
        """Frame a response: its bytes, cut where pieces of files go."""
        out = bytearray(self._blank)
        splices: list[tuple[int, Splice]] = []
        self._write(response, out, splices)
        if splices:
            return _cut(out, splices, correlation_id)
        HEAD.pack_into(out, 0, len(out) - 4, correlation_id)
        return [out]

    def encode_in_steps(self, response: Message, correlation_id: int) -> Steps[Reply]:
        """What `encode` does, in steps."""
        out = bytearray(self._blank)
        splices: list[tuple[int, Splice]] = []
        pieces: Reply = []
        for _ in compiler.writer_in_steps(registry.response_class(self.request.api_key), self.version)(
            response, out, splices
        ):
            if len(out) > PIECE_BYTES and not splices:
                pieces.append(out[:])
                out.clear()
            yield
        if not pieces:
            return _cut(out, splices, correlation_id)
        pieces += _pieces(out, splices)
        HEAD.pack_into(pieces[0], 0, sum(map(len, pieces)) - 4, correlation_id)  # type: ignore[arg-type]
        return pieces

    def error_response(self, request: Message, client: Client, error: Exception) -> Message:
        """What a client hears of an error; a fault of ours is logged. Raises CloseConnection again."""
        if isinstance(error, KafkaError):
            return request.error_response(self.version, error.code, error.message)
        if isinstance(error, CloseConnection):
            raise error
        logger.error("%s version %d from %s failed", type(request).__name__, self.version, client, exc_info=error)
        return request.error_response(self.version, ErrorCode.UNKNOWN_SERVER_ERROR)


def _cut(out: bytearray, splices: list[tuple[int, Splice]], correlation_id: int) -> Reply:
    HEAD.pack_into(out, 0, len(out) - 4 + sum(len(splice) for _, splice in splices), correlation_id)
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
    """A reply with the bytes that follow the correlation id, of which no copy is made if they are many."""
    head = HEAD.pack(len(body) + 4, correlation_id)
    return [head + body] if len(body) <= LARGE_BYTES else [head, body]


def body_of(reply: Reply) -> bytes | None:
    """The bytes that follow the correlation id; None for a reply with pieces of files."""
    plain = [memoryview(piece) for piece in reply if isinstance(piece, bytes | bytearray)]
    if len(plain) < len(reply):
        return None
    plain[0] = plain[0][HEAD.size :]
    return b"".join(plain)
