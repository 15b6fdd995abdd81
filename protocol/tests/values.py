"""Strategies for messages, made from their declarations: what a version can carry."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import strategies as st

from headgate.protocol import compiler, wire
from headgate.protocol.emitter import fixed_format
from headgate.protocol.registry import APIS
from headgate.protocol.schema import Field, Message, Struct, tree
from headgate.protocol.tests.declared import request_class, response_class

MESSAGES = sorted(
    [cls for key in APIS for cls in (request_class(key), response_class(key))], key=lambda cls: cls.__name__
)
VERSIONS = [(cls, version) for cls in MESSAGES for version in range(cls.versions.first, cls.versions.last + 1)]


def written(value: Message, version: int) -> bytes:
    """The bytes of a message."""
    out = bytearray()
    compiler.write(value, version, out, [])
    return bytes(out)


def layout(node: Any) -> Any:
    """What decides about bytes: versions of a message whose layouts are equal have the same reader and writer."""
    if isinstance(node, wire.NullableStructNode):
        return node.null, layout(node.inner)
    if isinstance(node, wire.StructNode):
        tagged = None if node.tagged is None else [(field.tag, field.name, layout(field.node)) for field in node.tagged]
        return node.cls, [(name, layout(member)) for name, member in node.members], tagged
    if isinstance(node, wire.Array):
        return layout(node.length), layout(node.element)
    if isinstance(node, wire.Blob):
        return type(node), layout(node.length)
    return (node.number, node.nullable) if isinstance(node, wire.Length) else node


LAYOUTS = [
    (cls, version)
    for cls, version in VERSIONS
    if version == cls.versions.first or layout(tree(cls, version)) != layout(tree(cls, version - 1))
]
"""The first version of every layout that a message has had."""


def each_message(versions: Iterable[tuple[type[Message], int]]) -> pytest.MarkDecorator:
    """One test for each message, with its versions: pytest takes longer for a test than most versions need."""
    by_message: dict[type[Message], list[int]] = {}
    for cls, version in versions:
        by_message.setdefault(cls, []).append(version)
    return pytest.mark.parametrize("cls, versions", by_message.items(), ids=[cls.__name__ for cls in by_message])


@contextmanager
def about(what: object) -> Iterator[None]:
    """Name in an error for which turn of a loop it was raised."""
    try:
        yield
    except Exception as error:
        error.add_note(f"of {what}")
        raise


short_text = st.text(max_size=6)
# Around the sizes at which a varint grows and at which the reader changes its way
long_text = st.sampled_from(["t" * 64, "é" * 33, "u" * 126, "v" * 127, "w" * 128, "x" * 300])
text = short_text | long_text
unknown_tags = st.none() | st.dictionaries(st.integers(50, 300), st.binary(max_size=4), min_size=1, max_size=2)


@functools.cache
def integers(code: str) -> st.SearchStrategy[int]:
    bits = 8 * struct.calcsize(">" + code)
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if code.islower() else st.integers(0, 2**bits - 1)


@functools.cache
def messages(cls: type[Message], version: int) -> st.SearchStrategy[Any]:
    """Messages as they can be in one version: fields that it does not have keep their defaults."""
    return instances(cls, version, version in cls.flexible)


def instances(cls: type[Struct], version: int, flexible: bool) -> st.SearchStrategy[Any]:
    fields = {field.name: values(field, version, flexible) for field in cls.fields if version in field.versions}

    def make(fields: dict[str, Any], tags: dict[int, bytes] | None) -> Struct:
        instance = cls(**fields)
        instance.unknown_tags = tags
        return instance

    return st.builds(make, st.fixed_dictionaries(fields), unknown_tags if flexible else st.none())


def values(field: Field, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    node = field.lower(version, flexible)
    strategy = of_node(node, version)
    if field.tag is not None:
        strategy = st.builds(field.default) | strategy
    return strategy


def of_node(node: Any, version: int) -> st.SearchStrategy[Any]:
    if isinstance(node, wire.NullableStructNode):
        return st.none() | of_node(node.inner, version)
    if isinstance(node, wire.StructNode):
        return instances(node.cls, version, node.tagged is not None)
    if isinstance(node, wire.Array):
        return optional(node, st.lists(of_node(node.element, version), max_size=2))
    if isinstance(node, wire.Blob):
        return optional(node, text if isinstance(node, wire.Text) else st.binary(max_size=6))
    code = fixed_format(node)
    if node is wire.Flag:
        return st.booleans()
    if node is wire.UUID:
        return st.binary(min_size=16, max_size=16)
    return st.floats(allow_nan=False) if code == "d" else integers(str(code))


def full(cls: type[Message], version: int, count: int = 2, *, tagged: bool = True) -> Any:
    """A message with something in every field of a version: small numbers, and `count` elements an array.

    Arrays that hold others have two elements at most. `tagged`: also in the tagged fields.
    """
    return _full(tree(cls, version), itertools.count(1), count, tagged)


def _full(node: Any, numbers: Iterator[int], count: int, tagged: bool) -> Any:
    if isinstance(node, wire.NullableStructNode):
        return _full(node.inner, numbers, count, tagged)
    if isinstance(node, wire.StructNode):
        fields = list(node.members)
        if tagged:
            fields += ((field.name, field.node) for field in node.tagged or ())
        return node.cls(**{name: _full(member, numbers, count, tagged) for name, member in fields})
    if isinstance(node, wire.Array):
        elements = min(count, 2) if holds_arrays(node.element) else count
        return [_full(node.element, numbers, count, tagged) for _ in range(elements)]
    number = next(numbers)
    if isinstance(node, wire.Text):
        return f"text {number}"
    if isinstance(node, wire.Blob):
        return b"blob %d" % number
    if node is wire.UUID:
        return number.to_bytes(16, "big")
    return True if node is wire.Flag else number % 128


def holds_arrays(node: Any) -> bool:
    if isinstance(node, wire.NullableStructNode):
        return holds_arrays(node.inner)
    if not isinstance(node, wire.StructNode):
        return isinstance(node, wire.Array)
    tagged = [field.node for field in node.tagged or ()]
    return any(holds_arrays(member) for member in (*(member for _, member in node.members), *tagged))


def optional(node: Any, strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy if node.length.nullable else strategy
