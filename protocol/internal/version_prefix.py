"""Messages after an int16, their version: keys and values of internal topics, and the consumer protocol.

A key of `__consumer_offsets` has the record's type in place of its version. Source: Apache Kafka's
`MessageUtil.toVersionPrefixedBytes`.
"""

import struct
from typing import TypeVar

from headgate.protocol import compiler
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.schema import Message

_INT16 = struct.Struct(">h")

M = TypeVar("M", bound=Message)


def encode(prefix: int, message: Message, version: int) -> bytes:
    """Return the prefix and the message in one version. Raises ValueError for a version that is not declared."""
    out = bytearray(_INT16.pack(prefix))
    compiler.write(message, version, out, [])
    return bytes(out)


def read_prefix(data: bytes | memoryview, what: str) -> int:
    """Return the prefix. Raises MalformedRequest, with `what` as the name of the data."""
    if len(data) < _INT16.size:
        raise MalformedRequest(f"{what} has {len(data)} bytes; it begins with an int16")
    prefix: int = _INT16.unpack_from(data)[0]
    return prefix


def decode(cls: type[M], version: int, data: bytes | memoryview) -> M:
    """Return the message after the prefix. Raises MalformedRequest, also for bytes after the message."""
    message, end = decode_start(cls, version, data)
    if end != len(data):
        raise MalformedRequest(f"{len(data) - end} bytes follow a {cls.__name__}")
    return message


def decode_start(cls: type[M], version: int, data: bytes | memoryview) -> tuple[M, int]:
    """Return the message after the prefix, and the position after the message. Raises MalformedRequest."""
    return compiler.read(cls, version, data, _INT16.size)


def decode_versioned(cls: type[M], data: bytes | memoryview, what: str) -> M:
    """Return the message of the version in the prefix. Raises MalformedRequest, also for an undeclared version."""
    version = read_prefix(data, what)
    if version not in cls.versions:
        raise MalformedRequest(f"a {cls.__name__} has version {version}; {cls.versions} are known here")
    return decode(cls, version, data)
