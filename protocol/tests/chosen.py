"""Values of messages chosen by a seed: quick to make in great number, and near the ends of what fields can carry.

Strategies for hypothesis, which shrinks what fails, are in values.py.
"""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from headgate.protocol import wire
from headgate.protocol.emitter import fixed_format
from headgate.protocol.schema import Message, Struct, tree

TEXTS: Final = ("", "k", "topic-1", "\0", "naïve", "日本語", "🗝", "é" * 63, "t" * 127, "u" * 128, "v" * 300)
BLOBS: Final = (b"", b"\0", b"\xff\xfe", b"b" * 127, bytes(range(256)))
FLOATS: Final = (float("-inf"), -1.5, -0.0, 0.0, 5e-324, 0.1, 1e300, float("inf"))
UUIDS: Final = (wire.ZERO_UUID, bytes(15) + b"\1", bytes(range(16)), b"\xff" * 16)
TAGS: Final = (40, 127, 128, 16_384, 0x7FFF_FFFE)  # to Kafka the next number means "no more"
FEW: Final = (0, 1, 2)
MANY: Final = (0, 1, 2, 4, 5, 18)
PLAIN: Final = (*MANY, 130)
"""Numbers of elements: 4 are read in bulk, 18 are more than the compiler has a function for, 130 take two bytes."""


def chosen(cls: type[Message], version: int, count: int, seed: int = 0) -> Iterator[Any]:
    """`count` messages: one with the first choice everywhere (null where that can be), one with the last, then any."""
    node = tree(cls, version)
    yield _Chooser(lambda options: options[0], 0.0).value(node)
    yield _Chooser(lambda options: options[-1], 0.0).value(node)
    chance = random.Random(f"{cls.__name__} {version} {seed}")
    for _ in range(count - 2):
        yield _Chooser(chance.choice, chance.choice((0.0, 0.5)), chance).value(node)


class _Chooser:
    """Makes values of nodes with `pick`, which takes one of some choices; they are ordered, null being the first."""

    def __init__(self, pick: Any, tags: float, chance: random.Random | None = None) -> None:
        self._pick = pick
        self._tags = tags
        self._chance = chance

    def value(self, node: Any, depth: int = 0) -> Any:
        if isinstance(node, wire.NullableStructNode):
            return self._pick([None, node.inner]) and self._instance(node.inner, depth)
        if isinstance(node, wire.StructNode):
            return self._instance(node, depth)
        if isinstance(node, wire.Array):
            return self._array(node, depth)
        choices = choices_of(node)
        if isinstance(node, wire.Blob) and node.length.nullable:
            return self._pick((None, *choices))
        return self._pick(choices)

    def _instance(self, node: wire.StructNode, depth: int) -> Struct:
        values = {name: self.value(member, depth) for name, member in node.members}
        for field in node.tagged or ():
            if self._pick((False, True)):
                values[field.name] = self.value(field.node, depth)
        instance: Struct = node.cls(**values)
        if node.tagged is not None and self._chance is not None and self._chance.random() < self._tags:
            tags = self._chance.sample(TAGS, self._chance.choice((1, 2)))
            instance.unknown_tags = {tag: self._pick(BLOBS) for tag in sorted(tags)}
        return instance

    def _array(self, node: wire.Array, depth: int) -> list[Any] | None:
        counts: Sequence[int | None] = MANY if isinstance(node.element, wire.StructNode) else PLAIN
        if is_wide(node.element) or depth > 1:
            counts = FEW
        if node.length.nullable:
            counts = (None, *counts)
        count = self._pick(counts)
        return None if count is None else [self.value(node.element, depth + 1) for _ in range(count)]


@functools.cache
def is_wide(node: Any) -> bool:
    """Whether there are arrays, or many fields, in it."""
    if isinstance(node, wire.NullableStructNode):
        return is_wide(node.inner)
    if not isinstance(node, wire.StructNode):
        return isinstance(node, wire.Array)
    return len(node.members) > 6 or any(is_wide(member) for _, member in node.members)


@functools.cache
def choices_of(node: Any) -> tuple[Any, ...]:
    """What a field without parts can be, without null; the ends of its range are the first and the last."""
    if isinstance(node, wire.Blob):
        return TEXTS if isinstance(node, wire.Text) else BLOBS
    if node is wire.Flag:
        return False, True
    if node is wire.UUID:
        return UUIDS
    code = str(fixed_format(node))
    return FLOATS if code == "d" else integers(code)


def integers(code: str) -> tuple[int, ...]:
    bits = 8 * struct.calcsize(">" + code)
    if code.isupper():
        return 0, 1, 1 << (bits - 1), (1 << bits) - 1
    top = 1 << (bits - 1)
    return -top, -2, -1, 0, 1, 0x7E, top - 1
