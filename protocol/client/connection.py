"""The bytes of one connection, sans-IO: requests to bytes, bytes to responses; for tools, followers and tests.

    connection = ClientConnection(client_id="dump")
    send(connection.request(ApiVersionsRequest(), 3))
    for request, response in connection.receive(received): ...
    send(connection.request(MetadataRequest(topics=None)))      # now at the latest version that both sides have

A broker answers the requests of a connection in order. So any number of requests may be in flight, as a queue, and the
correlation id is only a check. `receive` takes the bytes of one read; the rest of a large response goes into
`get_buffer()` without a copy, in slices of any size.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from headgate.protocol.compiler import read, write
from headgate.protocol.errors import ErrorCode, KafkaError, MalformedRequest
from headgate.protocol.frame import FrameReader
from headgate.protocol.header import RequestHeader, read_response_header, write_request_header
from headgate.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.registry import response_class
from headgate.protocol.schema import Message, Versions
from headgate.protocol.wire import Splice

MAX_RESPONSE_SIZE = 256 * 1024 * 1024

_SIZE = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_API_VERSIONS = 3  # Kafka 2.4 and later know this version

T = TypeVar("T")
Exchange: TypeAlias = Generator[tuple[Message, int | None], Any, T]
"""Requests that depend on each other: it yields each with its version, and gets the response in return.

The caller moves the bytes, so the same exchange runs over a blocking socket and over an engine of many connections.
"""


class InFlightRequest(NamedTuple):
    """A sent request without a response so far."""

    correlation_id: int
    version: int
    request: Message


class ClientConnection:
    """One connection to a broker.

    `served_versions`: the versions that the broker serves, by API key; empty until its ApiVersions response.
    """

    def __init__(self, client_id: str | None = None, max_response_size: int = MAX_RESPONSE_SIZE) -> None:
        self.client_id = client_id
        self.served_versions: dict[int, Versions] = {}
        self.in_flight: deque[InFlightRequest] = deque()
        self._frames = FrameReader(max_response_size)
        self._correlation_id = 0

    def latest_usable_version(self, cls: type[Message]) -> int:
        """Return the latest version of a request that both sides have.

        Raises KafkaError(UNSUPPORTED_VERSION) if there is none, and before the ApiVersions response.
        """
        served = self.served_versions.get(cls.api_key)
        if served is None:
            known = (
                "does not serve it" if self.served_versions else "was not asked for its versions (ApiVersionsRequest)"
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{cls.__name__}: the broker {known}")
        version = min(served.last, cls.versions.last)
        if version < max(served.first, cls.versions.first):
            ranges = f"the broker has versions {served}, this side {cls.versions}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{cls.__name__}: {ranges}")
        return version

    def usable_version(self, cls: type[Message], newest: int, oldest: int = 0) -> int:
        """Return the newest version from `oldest` to `newest` that both sides have. Raises KafkaError."""
        version = min(newest, self.latest_usable_version(cls))
        served = self.served_versions[cls.api_key]
        if version < max(oldest, served.first):
            name = cls.__name__.removesuffix("Request")
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"it has {name} {served}, this needs {oldest}-{newest}")
        return version

    def negotiate(self, software: str) -> Exchange[int]:
        """The first requests of a connection: they learn `served_versions`. Returns the broker's error code."""
        answer = yield ApiVersionsRequest(client_software_name=software, client_software_version="1"), _API_VERSIONS
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = yield ApiVersionsRequest(), 0  # the error lists no API, or ApiVersions alone (KIP-511)
        code: int = answer.error_code
        return code

    def request(self, message: Message, version: int | None = None) -> bytes:
        """Return the frame of a request.

        `version` defaults to the latest usable one. Raises KafkaError if there is none.
        """
        if version is None:
            version = self.latest_usable_version(type(message))
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & 0x7FFF_FFFF
        out = bytearray(_SIZE.size)
        splices: list[tuple[int, Splice]] = []
        write_request_header(out, RequestHeader(message.api_key, version, correlation_id, self.client_id))
        write(message, version, out, splices)
        if splices:
            raise ValueError(f"{type(message).__name__}: a request needs bytes, not a splice")
        _SIZE.pack_into(out, 0, len(out) - _SIZE.size)
        if not (isinstance(message, ProduceRequest) and message.acks == 0):
            self.in_flight.append(InFlightRequest(correlation_id, version, message))
        return bytes(out)

    def receive(self, data: bytes | bytearray | memoryview) -> list[tuple[Message, Any]]:
        """Take received bytes; return the requests that they answer, each with its response.

        `records` of a response may be views of `data`. Raises MalformedRequest; the connection must close then.
        """
        return [self._match(frame) for frame in self._frames.feed(data)]

    @property
    def incomplete_size(self) -> int:
        """The size in bytes of the response that has come in part; 0 between responses."""
        return self._frames.incomplete_size

    def get_buffer(self) -> memoryview:
        """Return the buffer for the rest of the incomplete response: the socket fills it without a copy."""
        return self._frames.get_buffer(self._frames.incomplete_size)

    def buffer_updated(self, count: int) -> list[tuple[Message, Any]]:
        """`receive` for `count` bytes that the caller has put into `get_buffer()`."""
        return [self._match(frame) for frame in self._frames.buffer_updated(count)]

    def _match(self, frame: memoryview) -> tuple[Message, Any]:
        if not self.in_flight:
            raise MalformedRequest(f"a response of {len(frame)} bytes came without a request")
        expected, version, request = self.in_flight.popleft()
        correlation_id, position = read_response_header(frame, request.api_key, version)
        if correlation_id != expected:
            raise MalformedRequest(f"a response to request {correlation_id} came, but request {expected} is the next")
        if isinstance(request, ApiVersionsRequest):
            return request, self._note_versions(frame, position, version)
        answer, _ = read(response_class(request.api_key), version, frame, position)
        return request, answer

    def _note_versions(self, frame: memoryview, position: int, version: int) -> ApiVersionsResponse:
        """Note the versions that the broker serves. A broker without this version answers in version 0 (KIP-511)."""
        if frame[position : position + _INT16.size] == _INT16.pack(ErrorCode.UNSUPPORTED_VERSION):
            version = 0
        answer, _ = read(ApiVersionsResponse, version, frame, position)
        self.served_versions = {api.api_key: Versions(api.min_version, api.max_version) for api in answer.api_keys}
        return answer
