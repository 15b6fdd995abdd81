"""The headers of requests and responses: API, version, and the correlation id that pairs a response with its request.

The code is written by hand, not declared. A header is read before its version is known, and for every request; and each
header has an exception (see `registry.header_versions`). The client id keeps its int16 length in flexible headers
(KIP-482).

    request    api_key int16 | api_version int16 | correlation_id int32 | client_id nullable string (v1+) | tags (v2+)
    response   correlation_id int32 | tags (v1+)
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from headgate.protocol.errors import MalformedRequest
from headgate.protocol.reading import (
    MAX_ELEMENTS_AT_ONCE,
    MAX_SHORT_BLOB_BYTES,
    InvalidLength,
    blob_unpackers,
    read_tags,
)
from headgate.protocol.registry import header_versions

_REQUEST = struct.Struct(">hhih")
_REQUEST_BYTES = _REQUEST.size
_unpack_request = _REQUEST.unpack_from
_short_client_id = blob_unpackers("", 0)
_CLIENT_ID_SIZE = 2
_RESPONSE = struct.Struct(">i")
_RESPONSE_WITH_TAGS = struct.Struct(">iB")


class RequestHeader(NamedTuple):
    """The header of a request. The response repeats `correlation_id`."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(buffer: memoryview) -> tuple[int, int, int, str | None, int]:
    """Return the fields of a request's `RequestHeader`, and the position of its body. Raises MalformedRequest.

    The result is a plain tuple: a `RequestHeader` would double the time of this call, which each request makes.
    """
    try:
        key, version, correlation_id, size = _unpack_request(buffer)
        header_version, _ = header_versions(key, version)
        if header_version == 0:
            return key, version, correlation_id, None, _REQUEST_BYTES - _CLIENT_ID_SIZE
        if 0 < size <= MAX_SHORT_BLOB_BYTES:
            position = _REQUEST_BYTES + size
            try:
                client_id = _short_client_id[size](buffer, _REQUEST_BYTES)[0].decode()
            except UnicodeDecodeError:  # C programs send Latin-1; Kafka too replaces the invalid bytes
                client_id = buffer[_REQUEST_BYTES:position].tobytes().decode(errors="replace")
        else:
            client_id, position = _uncommon_client_id(buffer, _REQUEST_BYTES, size)
        if header_version >= 2:
            position = _skip_tags(buffer, position) if buffer[position] else position + 1
    except (struct.error, IndexError) as error:
        raise MalformedRequest(f"a request of {len(buffer)} bytes ends inside its header") from error
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"a client id is not UTF-8: {error}") from error
    return key, version, correlation_id, client_id, position


def write_request_header(out: bytearray, header: RequestHeader) -> None:
    key, version, correlation_id, client_id = header
    header_version, _ = header_versions(key, version)
    data = b"" if client_id is None else client_id.encode()
    head = _REQUEST.pack(key, version, correlation_id, -1 if client_id is None else len(data))
    out += head[:-_CLIENT_ID_SIZE] if header_version == 0 else head + data
    if header_version >= 2:
        out.append(0)


def read_response_header(buffer: memoryview, key: int, version: int) -> tuple[int, int]:
    """Return the correlation id of a response, and the position of its body. Raises MalformedRequest.

    `key` and `version`: those of the request.
    """
    try:
        (correlation_id,) = _RESPONSE.unpack_from(buffer)
        position = _RESPONSE.size
        if header_versions(key, version)[1] >= 1:
            position = _skip_tags(buffer, position)
    except (struct.error, IndexError) as error:
        raise MalformedRequest(f"a response of {len(buffer)} bytes ends inside its header") from error
    return correlation_id, position


def write_response_header(out: bytearray, correlation_id: int, key: int, version: int) -> None:
    """Append the header of a response to `out`. `key` and `version`: those of the request."""
    if header_versions(key, version)[1] >= 1:
        out += _RESPONSE_WITH_TAGS.pack(correlation_id, 0)
    else:
        out += _RESPONSE.pack(correlation_id)


def _uncommon_client_id(buffer: memoryview, position: int, size: int) -> tuple[str | None, int]:
    """Read a client id that is null, empty or long. Return it, and the position after it."""
    if size == -1:
        return None, position
    if not 0 <= size <= len(buffer) - position:
        raise MalformedRequest(f"a client id cannot have length {size}")
    end = position + size
    return buffer[position:end].tobytes().decode(), end


def _skip_tags(buffer: memoryview, position: int) -> int:
    """Return the position after the tagged fields. The broker needs no tagged field of a header."""
    count = buffer[position]
    position += 1
    try:
        return read_tags(buffer, position, count, MAX_ELEMENTS_AT_ONCE)[1]
    except InvalidLength as error:
        raise MalformedRequest(f"a tagged field of a header: {error}") from None
