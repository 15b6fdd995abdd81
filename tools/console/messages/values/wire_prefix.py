"""The bytes before a value that name its schema.

    Confluent   0x00 | schema id i32          | for Protobuf: count of indexes, indexes (zigzag varints) | value
    Apicurio    0x00 | schema id i64          | value              (the default of its clients before 3.0)

A registry counts ids from 1, and no id of Apicurio needs more than 32 bits: so eight bytes that begin with four zero
bytes are Apicurio's. Source: Confluent's documentation, "Wire format"; Apicurio's, "Configuring SerDes".
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from headgate.protocol.records.varint import read_varint

CONFLUENT, APICURIO = "Confluent", "Apicurio"
_INT32: Final = struct.Struct(">i")
_MOST_INDEXES: Final = 30


class WirePrefix(NamedTuple):
    """The id of a schema, whose form the prefix has, and its size in bytes."""

    schema_id: int
    kind: str
    size: int


def read(content: bytes) -> WirePrefix | None:
    """The prefix of a value, if its first bytes can be one."""
    if len(content) < 5 or content[0]:
        return None
    number: int = _INT32.unpack_from(content, 1)[0]
    if number > 0:
        return WirePrefix(number, CONFLUENT, 5)
    if number == 0 and len(content) >= 9:
        number = _INT32.unpack_from(content, 5)[0]
        if number > 0:
            return WirePrefix(number, APICURIO, 9)
    return None


def after_indexes(content: bytes, position: int) -> int:
    """The position after the indexes of a Protobuf message in its file. Raises ValueError."""
    try:
        count, position = read_varint(content, position)
        if not 0 <= count <= _MOST_INDEXES:
            raise ValueError(f"it claims {count} indexes of its message type")
        for _ in range(count):
            _, position = read_varint(content, position)
    except IndexError:
        raise ValueError("it ends within the indexes of its message type") from None
    return position
