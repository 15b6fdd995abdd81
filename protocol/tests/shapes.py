"""Bytes that look like a message: as dense as can be, or changed in places that hurt."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from hypothesis import strategies as st

from headgate.protocol import wire
from headgate.protocol.emitter import MAX_FEW_NUMBERS, fixed_format, is_compact
from headgate.protocol.schema import Message, tree

DENSE_BYTES = 400
_DEEPEST = 6
_UNKNOWN_TAG = 0x7F

HOSTILE_NUMBERS = [
    bytes.fromhex(digits)
    for digits in (
        *("00", "01", "7f", "80", "ff"),
        *("7fff", "8000", "ffff", "fffe"),
        *("7fffffff", "80000000", "ffffffff", "fffffffe", "0000ffff", "00fffffff"[:8]),
        *("7fffffffffffffff", "8000000000000000", "ffffffffffffffff"),
        *("ffffffff07", "ffffffff0f", "ffffffff7f", "808080808000", "ffffffffffffffff7f", "ffffffffffffffffff01"),
    )
]
"""Lengths, counts and varints at the edges of what they can be, and beyond."""


class Edit(NamedTuple):
    """One change: `size` bytes at `place`, a part of the whole, make room for `new`, `times` times."""

    place: float
    size: int
    new: bytes
    times: int

    def apply(self, data: bytes) -> bytes:
        at = int(self.place * (len(data) + 1))
        return data[:at] + self.new * self.times + data[at + self.size :]


_new = st.sampled_from(HOSTILE_NUMBERS) | st.binary(max_size=8)
edits = st.lists(
    st.builds(Edit, st.floats(0, 1, exclude_max=True), st.integers(0, 9), _new, st.integers(0, 3)), max_size=4
)


def edited(data: bytes, changes: list[Edit]) -> bytes:
    for change in changes:
        data = change.apply(data)
    return data


def dense(cls: type[Message], version: int) -> Iterator[bytes]:
    """Messages of about `DENSE_BYTES` that are mostly objects: the smallest elements, as many as there is room for.

    One for each level of arrays, with unknown tags and without.
    """
    root = tree(cls, version)
    for tags in {0, int(root.tagged is not None)}:
        for level in range(_DEEPEST):
            one, two = (_smallest(root, _Shape(level, count, tags), 0) for count in (1, 2))
            if one == two:
                break
            yield _smallest(root, _Shape(level, 1 + DENSE_BYTES // (len(two) - len(one)), tags), 0)


def filled(cls: type[Message], version: int, count: int) -> bytes:
    """A message with `count` elements in its outer arrays, and inside as much as no limit counts."""
    return _filled(tree(cls, version), count)


def _filled(node: Any, count: int) -> bytes:
    """Arrays inside have one element each, or the most numbers that are not counted."""
    code = fixed_format(node)
    if code is not None:
        return b"\1" if code == "?" else b"\x80" * struct.calcsize(">" + code)
    if isinstance(node, wire.Array):
        if count == 1 and fixed_format(node.element):
            count = MAX_FEW_NUMBERS
        return _length(node.length, count) + _filled(node.element, 1) * count
    if isinstance(node, wire.NullableStructNode):
        return b"\1" + _filled(node.inner, count)
    if isinstance(node, wire.StructNode):
        return b"".join(_filled(member, count) for _, member in node.members) + _tags(node, _Shape(0, 0, 0), 0)
    return _length(node.length, 0)


class _Shape(NamedTuple):
    """Arrays at `level` have `count` elements, those around them one, those inside none."""

    level: int
    number: int
    tags: int


def _smallest(node: Any, shape: _Shape, level: int) -> bytes:
    code = fixed_format(node)
    if code is not None:
        return b"\1" if code == "?" else b"\x80" * struct.calcsize(">" + code)
    if isinstance(node, wire.Array):
        count = shape.number if level == shape.level else int(level < shape.level)
        return _length(node.length, count) + _smallest(node.element, shape, level + 1) * count
    if isinstance(node, wire.NullableStructNode):
        return b"\1" + _smallest(node.inner, shape, level)
    if isinstance(node, wire.StructNode):
        return b"".join(_smallest(member, shape, level) for _, member in node.members) + _tags(node, shape, level)
    return _length(node.length, 0)


def _tags(node: wire.StructNode, shape: _Shape, level: int) -> bytes:
    if node.tagged is None:
        return b""
    tags = [(field.tag, _smallest(field.node, shape, level)) for field in node.tagged]
    tags += [(_UNKNOWN_TAG, b"")] * shape.tags
    return _varint(len(tags)) + b"".join(_varint(tag) + _varint(len(data)) + data for tag, data in tags)


def _length(length: wire.Length, number: int) -> bytes:
    biased = number + length.bias
    if is_compact(length):
        return _varint(biased)
    return biased.to_bytes(length.number.sizeof(), "big", signed=True)


def _varint(number: int) -> bytes:
    return bytes(wire.UnsignedVarint.build(number))
