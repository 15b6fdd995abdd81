"""Protobuf without a schema, in the form of `protoc --decode_raw`.

Bytes of a length may be a text, or a message within: like protoc, this takes for a message whatever can be one, ten
levels deep. Source: Protocol Buffers' documentation, "Encoding"; the text format of unknown fields.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from headgate.protocol.records.varint import read_rest

MOST_FIELDS: Final = 50_000
_DEEPEST: Final = 10
_VARINT, _FIXED_64, _BYTES, _GROUP, _END_GROUP, _FIXED_32 = range(6)
_ESCAPES: Final = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
_INDENT: Final = "  "
_U64: Final = (1 << 64) - 1


class NotProtobuf(ValueError):
    """The bytes cannot be a message."""


class _Field(NamedTuple):
    """`value`: a number as it is shown, the bytes of a length, or the fields of a message."""

    number: int
    value: str | bytes | list[Any]


def decode(content: bytes, position: int = 0) -> str:
    """The fields of a message, one a line. Raises NotProtobuf."""
    reader = _Reader()
    fields, _ = reader.fields(content[position:] if position else content, 0, 0, group=None)
    lines: list[str] = []
    _write(fields, "", lines)
    return "\n".join(lines)


class _Reader:
    def __init__(self) -> None:
        self._count = 0

    def fields(self, data: bytes, position: int, depth: int, group: int | None) -> tuple[list[_Field], int]:
        """The fields up to the end of the data or of the group, and the position after them. Raises NotProtobuf."""
        found: list[_Field] = []
        try:
            while position < len(data):
                tag, position = _varint(data, position)
                number, kind = tag >> 3, tag & 7
                if not 0 < number < 1 << 29:
                    raise NotProtobuf(f"a field has the number {number}")
                if kind == _END_GROUP:
                    if number != group:
                        raise NotProtobuf("a group ends that did not begin")
                    return found, position
                self._count += 1
                if self._count > MOST_FIELDS:
                    raise NotProtobuf(f"there are more than {MOST_FIELDS} fields")
                value, position = self._value(data, position, depth, number, kind)
                found.append(_Field(number, value))
        except (IndexError, struct.error):
            raise NotProtobuf("a field ends too early") from None
        if group is not None:
            raise NotProtobuf("a group does not end")
        return found, position

    def _value(
        self, data: bytes, position: int, depth: int, number: int, kind: int
    ) -> tuple[str | bytes | list[_Field], int]:
        if kind == _VARINT:
            value, position = _varint(data, position)
            return str(value), position
        if kind == _FIXED_64:
            return f"0x{struct.unpack_from('<Q', data, position)[0]:016x}", position + 8
        if kind == _FIXED_32:
            return f"0x{struct.unpack_from('<I', data, position)[0]:08x}", position + 4
        if kind == _GROUP and depth < _DEEPEST:
            return self.fields(data, position, depth + 1, group=number)
        if kind != _BYTES:
            raise NotProtobuf(f"a field has the wire type {kind}")
        size, position = _varint(data, position)
        if size > len(data) - position:
            raise NotProtobuf(f"a field of {size} bytes passes the end")
        return self._message_or_bytes(data[position : position + size], depth), position + size

    def _message_or_bytes(self, part: bytes, depth: int) -> bytes | list[_Field]:
        if not part or depth >= _DEEPEST:
            return part
        try:
            return self.fields(part, 0, depth + 1, group=None)[0]
        except NotProtobuf:
            if self._count > MOST_FIELDS:
                raise
            return part


def _varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    number, position = read_rest(data, position + 1, byte)
    return number & _U64, position


def _write(fields: list[_Field], indent: str, lines: list[str]) -> None:
    for number, value in fields:
        if isinstance(value, list):
            lines.append(f"{indent}{number} {{")
            _write(value, indent + _INDENT, lines)
            lines.append(f"{indent}}}")
        else:
            lines.append(f"{indent}{number}: {value if isinstance(value, str) else _quote(value)}")


def _quote(content: bytes) -> str:
    return '"' + "".join(map(_escape, content)) + '"'


def _escape(byte: int) -> str:
    if byte in _ESCAPES:
        return _ESCAPES[byte]
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"
