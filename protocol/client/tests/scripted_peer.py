"""A broker of pure bytes: it decodes requests from a connection, and answers as a test tells."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from headgate.protocol import compiler
from headgate.protocol.client.connection import ClientConnection, Exchange
from headgate.protocol.errors import ErrorCode
from headgate.protocol.header import read_request_header, write_response_header
from headgate.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.schema import Message
from headgate.protocol.tests.declared import request_class

T = TypeVar("T")
# A request and its version -> the response; bytes are sent as they are; None hangs up
Answer = Callable[[Any, int], Message | bytes | None]


def respond(frame: bytes, answer: Answer) -> bytes:
    """The bytes of the answer to the bytes of one request."""
    return reply(memoryview(frame)[4:], answer) or b""


def reply(request_bytes: memoryview, answer: Answer) -> bytes | None:
    """The bytes of the answer to a request without its size."""
    key, version, correlation_id, _, position = read_request_header(request_bytes)
    request, _ = compiler.read(request_class(key), version, request_bytes, position)
    response = answer(request, version)
    if response is None or isinstance(response, bytes):
        return response
    is_refusal = isinstance(response, ApiVersionsResponse) and response.error_code == ErrorCode.UNSUPPORTED_VERSION
    out = bytearray(4)
    write_response_header(out, correlation_id, key, version)
    compiler.write(response, 0 if is_refusal else version, out, [])
    struct.pack_into(">i", out, 0, len(out) - 4)
    return bytes(out)


def drive(connection: ClientConnection, exchange: Exchange[T], answer: Answer, slice_bytes: int = 1 << 16) -> T:
    """Run an exchange: each answer arrives in slices, the end of a large one in the buffer of the connection."""
    try:
        step = next(exchange)
        while True:
            [(_, response)] = arrive(connection, respond(connection.request(*step), answer), slice_bytes)
            step = exchange.send(response)
    except StopIteration as end:
        result: T = end.value
        return result


def arrive(connection: ClientConnection, data: bytes, slice_bytes: int) -> list[tuple[Message, Any]]:
    """Give received bytes to a connection as an engine does, `slice_bytes` at once; the answers."""
    answers: list[tuple[Message, Any]] = []
    rest = memoryview(data)
    while rest:
        if connection.incomplete_size:
            room = connection.get_buffer()[:slice_bytes]
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            answers += connection.buffer_updated(count)
        else:
            count = min(slice_bytes, len(rest))
            answers += connection.receive(rest[:count])
        rest = rest[count:]
    return answers


def connected(**versions: tuple[int, int]) -> ClientConnection:
    """A connection to a broker that serves the newest versions, or these of requests by name: `Metadata=(0, 3)`."""
    connection = ClientConnection("test")

    def answer(request: ApiVersionsRequest, version: int) -> Message:
        kinds = {key: request_class(key) for key in (1, 3, 10)}
        ranges = {
            key: versions.get(kind.__name__.removesuffix("Request"), kind.versions) for key, kind in kinds.items()
        }
        return ApiVersionsResponse(api_keys=[ApiVersion(key, *ends) for key, ends in ranges.items()])

    assert drive(connection, connection.negotiate("test"), answer) == 0
    return connection
