"""Kafka's primitive types as constructs: the nodes of a message's tree.

Numbers are construct's own (`Int32sb`, `Flag` ...). This module adds Kafka's types: lengths in three encodings, the
text, bytes and arrays that use them, and tagged fields. The nodes check everything and are slow: they are the
reference. `protocol.compiler` walks the same nodes and emits the code that the broker runs. A test compares both, on
valid and on invalid bytes.

A length has one of these encodings (KIP-482 for the compact one; null only where the field is nullable):

    encoding     bytes             null     used by
    short        int16             -1       string, before flexible versions
    long         int32             -1       bytes, records, array, before flexible versions
    compact      unsigned varint   0        all of them in flexible versions, as length + 1

A nullable struct has one byte before it: negative for null, and nothing follows; else 1.

Source: https://kafka.apache.org/protocol (protocol primitive types), KIP-482 (flexible versions and tagged fields).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import construct
from construct import Construct, Flag, Float64b, Int8sb, Int16sb, Int16ub, Int32sb, Int32ub, Int64sb
from construct.core import FormatField, stream_read, stream_write

__all__ = [
    "MAX_TEXT_SIZE",
    "MAX_VARINT_SIZE",
    "UUID",
    "ZERO_UUID",
    "Array",
    "Blob",
    "Construct",
    "Flag",
    "Float64b",
    "FormatField",
    "Int8sb",
    "Int16sb",
    "Int16ub",
    "Int32sb",
    "Int32ub",
    "Int64sb",
    "Length",
    "NullableStructNode",
    "Records",
    "Splice",
    "StructNode",
    "TaggedField",
    "Text",
    "UnsignedVarint",
    "WireError",
]

MAX_VARINT_SIZE = 5
"""An unsigned varint of Kafka carries 32 bits, seven in a byte."""

MAX_TEXT_SIZE = 0x7FFF
"""The most bytes of a text. A short length is an int16; Kafka applies the same limit to compact lengths."""

UUID = construct.Bytes(16)
ZERO_UUID = bytes(16)
"""Kafka's value for no id."""


class Splice(Protocol):
    """Bytes of a message that stay in a segment file until they are sent (zero copy), as with splice(2)."""

    @property
    def fileno(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def disk(self) -> str: ...
    def __len__(self) -> int: ...
    def read(self, start: int = ..., length: int = ...) -> bytes: ...
    def read_cached(self, start: int, length: int) -> bytes | bytearray | None: ...
    def is_cached(self, start: int, length: int) -> bool: ...
    def warm(self, start: int, length: int) -> None: ...
    def release(self) -> None: ...


class WireError(construct.ConstructError):  # type: ignore[misc]
    """The interpreted tree met invalid bytes."""


class Node(Construct):  # type: ignore[misc]
    """The base of our constructs. construct is untyped, so mypy sees its values as `Any`."""


class _UnsignedVarint(Node):
    def _parse(self, stream: Any, context: Any, path: str) -> int:
        value = 0
        for shift in range(0, 7 * MAX_VARINT_SIZE, 7):
            byte: int = stream_read(stream, 1, path)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise WireError(f"an unsigned varint is longer than {MAX_VARINT_SIZE} bytes", path)

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        rest = obj
        while rest >= 0x80:
            stream_write(stream, bytes((rest & 0x7F | 0x80,)), 1, path)
            rest >>= 7
        stream_write(stream, bytes((rest,)), 1, path)
        return obj


UnsignedVarint = _UnsignedVarint()


class Length(Node):
    """A length in bytes or in elements; `None` for null. The wire carries length + `bias`."""

    def __init__(self, number: Construct, bias: int, nullable: bool) -> None:
        super().__init__()
        self.number = number
        self.bias = bias
        self.nullable = nullable

    @classmethod
    def short(cls, nullable: bool) -> Length:
        return cls(Int16sb, 0, nullable)

    @classmethod
    def long(cls, nullable: bool) -> Length:
        return cls(Int32sb, 0, nullable)

    @classmethod
    def compact(cls, nullable: bool) -> Length:
        return cls(UnsignedVarint, 1, nullable)

    def _parse(self, stream: Any, context: Any, path: str) -> int | None:
        length: int = self.number._parsereport(stream, context, path) - self.bias
        if length >= 0:
            return length
        if length == -1 and self.nullable:
            return None
        raise WireError(f"length {length} of a field that is not nullable", path)

    def _build(self, obj: int | None, stream: Any, context: Any, path: str) -> int | None:
        if obj is None and not self.nullable:
            raise WireError("the field is not nullable", path)
        self.number._build((-1 if obj is None else obj) + self.bias, stream, context, path)
        return obj


class Blob(Node):
    """Bytes after their length."""

    def __init__(self, length: Length) -> None:
        super().__init__()
        self.length = length

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        length = self.length._parsereport(stream, context, path)
        return None if length is None else stream_read(stream, length, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        self.length._build(None if obj is None else len(obj), stream, context, path)
        if obj is not None:
            stream_write(stream, obj, len(obj), path)
        return obj


class Records(Blob):
    """A blob of record batches. The compiled reader returns a memoryview; the compiled writer takes a `Splice` too."""


class Text(Blob):
    """UTF-8 after its length, which is at most `MAX_TEXT_SIZE`."""

    def _parse(self, stream: Any, context: Any, path: str) -> str | None:
        data = super()._parse(stream, context, path)
        if data is not None and len(data) > MAX_TEXT_SIZE:
            raise WireError(f"a text of {len(data)} bytes", path)
        try:
            return None if data is None else str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise WireError(f"not UTF-8: {error}", path) from error

    def _build(self, obj: str | None, stream: Any, context: Any, path: str) -> Any:
        return super()._build(None if obj is None else obj.encode(), stream, context, path)


class Array(Node):
    """Elements after their count."""

    def __init__(self, length: Length, element: Construct) -> None:
        super().__init__()
        self.length = length
        self.element = element

    def _parse(self, stream: Any, context: Any, path: str) -> list[Any] | None:
        count = self.length._parsereport(stream, context, path)
        if count is None:
            return None
        return [self.element._parsereport(stream, context, path) for _ in range(count)]

    def _build(self, obj: Sequence[Any] | None, stream: Any, context: Any, path: str) -> Any:
        self.length._build(None if obj is None else len(obj), stream, context, path)
        for element in obj or ():
            self.element._build(element, stream, context, path)
        return obj


class TaggedField(NamedTuple):
    """An optional field of a flexible struct: written only where it differs from its default."""

    tag: int
    name: str
    node: Construct
    default: Callable[[], Any]


class StructNode(Node):
    """A struct, as an instance of `cls`: its fields in order, then, in flexible versions, its tagged fields.

    `cls` is a `protocol.schema.Struct`. `tagged` is None before flexible versions. `unknown_tags` of the instance keeps
    undeclared tags, and they are written again, in order of their numbers. The last of two equal tags wins.
    """

    def __init__(
        self, cls: type[Any], members: Sequence[tuple[str, Construct]], tagged: Sequence[TaggedField] | None
    ) -> None:
        super().__init__()
        self.cls = cls
        self.members = tuple(members)
        self.tagged = None if tagged is None else tuple(tagged)
        self.fields = construct.Struct(*(name / node for name, node in members))

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        values = self.fields._parsereport(stream, context, path)
        known = {name: values[name] for name, _ in self.members}
        unknown = self._parse_tags(known, stream, context, path)
        instance = self.cls(**known)
        instance.unknown_tags = unknown or None
        return instance

    def _parse_tags(self, known: dict[str, Any], stream: Any, context: Any, path: str) -> dict[int, bytes]:
        if self.tagged is None:
            return {}
        found = {}
        for _ in range(UnsignedVarint._parsereport(stream, context, path)):
            tag = UnsignedVarint._parsereport(stream, context, path)
            found[tag] = stream_read(stream, UnsignedVarint._parsereport(stream, context, path), path)
        for tagged in self.tagged:
            if tagged.tag in found:
                known[tagged.name] = _parse_whole(tagged.node, found.pop(tagged.tag), context, path)
        return found

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        values = construct.Container({name: getattr(obj, name) for name, _ in self.members})
        self.fields._build(values, stream, context, path)
        if self.tagged is not None:
            self._build_tags(obj, stream, context, path)
        return obj

    def _build_tags(self, obj: Any, stream: Any, context: Any, path: str) -> None:
        tags = dict(obj.unknown_tags or {})
        for tagged in self.tagged or ():
            value = getattr(obj, tagged.name)
            if value != tagged.default():
                data = io.BytesIO()
                tagged.node._build(value, data, context, path)
                tags[tagged.tag] = data.getvalue()
        UnsignedVarint._build(len(tags), stream, context, path)
        for tag in sorted(tags):
            UnsignedVarint._build(tag, stream, context, path)
            UnsignedVarint._build(len(tags[tag]), stream, context, path)
            stream_write(stream, tags[tag], len(tags[tag]), path)


class NullableStructNode(Node):
    """A nullable struct: a byte for null or not, then the struct.

    `null` is the byte for null: -1, but 0 in a tagged field, where Kafka writes a varint.
    """

    def __init__(self, inner: StructNode, null: int = -1) -> None:
        super().__init__()
        self.inner = inner
        self.null = null

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        if Int8sb._parsereport(stream, context, path) <= self.null:
            return None
        return self.inner._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        Int8sb._build(self.null if obj is None else 1, stream, context, path)
        if obj is not None:
            self.inner._build(obj, stream, context, path)
        return obj


def _parse_whole(node: Construct, data: bytes, context: Any, path: str) -> Any:
    stream = io.BytesIO(data)
    value = node._parsereport(stream, context, path)
    if stream.tell() != len(data):
        raise WireError(f"a tagged field has {stream.tell()} bytes, but its size says {len(data)}", path)
    return value
