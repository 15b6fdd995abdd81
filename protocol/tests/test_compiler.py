"""Compiled readers and writers against construct's interpretation of the same trees, on good bytes and on bad ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from construct import ConstructError
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol import compiler
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.schema import Message, tree
from headgate.protocol.steps import finish
from headgate.protocol.tests.examples import share
from headgate.protocol.tests.values import LAYOUTS, about, each_message, full, messages, written

# More in a soak run, which asks for more of everything
few = settings(max_examples=max(share(4), settings().max_examples // 100))


def written_in_steps(value: Message, version: int) -> bytes:
    out = bytearray()
    finish(compiler.writer_in_steps(type(value), version)(value, out, []))
    return bytes(out)


def read_in_steps(cls: type[Message], version: int, data: bytes) -> tuple[Any, int]:
    value, position, _ = finish(compiler.reader_in_steps(cls, version)(data))
    return value, position


def read_or_refused(read: Callable[..., tuple[Any, int]], *arguments: Any) -> tuple[Any, str]:
    """What is read; or None, and what is refused."""
    try:
        found, position = read(*arguments)
    except MalformedRequest as error:
        return None, str(error).partition(", at byte")[0]
    assert position <= len(arguments[-1])
    return (found, position), ""


def both(cls: type[Message], version: int, data: bytes) -> tuple[Any, Any]:
    """What compiler and construct make of the same bytes; None where they refuse. In steps there is no difference."""
    compiled, refusal = read_or_refused(compiler.read, cls, version, data)
    in_steps, other = read_or_refused(read_in_steps, cls, version, data)
    assert compiled == in_steps
    assert refusal == other
    try:
        reference = tree(cls, version).parse(data)
    except ConstructError:
        reference = None
    return compiled and compiled[0], reference


@pytest.mark.parametrize("cls, version", LAYOUTS, ids=[f"{cls.__name__}-v{version}" for cls, version in LAYOUTS])
@given(data=st.data())
@few
def test_compiled_code_and_interpreted_tree_agree(cls: type[Message], version: int, data: st.DataObject) -> None:
    """Of a message, and of its bytes with some damage, which both refuse, or read the same."""
    value = data.draw(messages(cls, version))
    encoded = written(value, version)
    assert encoded == tree(cls, version).build(value)
    assert encoded == written_in_steps(value, version)
    assert compiler.read(cls, version, encoded) == (value, len(encoded))
    assert read_in_steps(cls, version, encoded) == (value, len(encoded))
    assert tree(cls, version).parse(encoded) == value
    damaged = bytearray(encoded)
    for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(0, len(damaged))) :]
    compiled, reference = both(cls, version, bytes(damaged))
    assert compiled == reference


@each_message(LAYOUTS)
def test_arrays_read_in_bulk_are_equal(cls: type[Message], versions: list[int]) -> None:
    """With so many elements, structs of fixed width are read by one iterator, if none has tagged fields."""
    for version in versions:
        with about(version):
            bulk_is_equal(cls, version)


def bulk_is_equal(cls: type[Message], version: int) -> None:
    for tagged in {False, version in cls.flexible}:
        value = full(cls, version, 5, tagged=tagged)
        encoded = written(value, version)
        assert encoded == tree(cls, version).build(value)
        assert encoded == written_in_steps(value, version)
        assert compiler.read(cls, version, encoded) == (value, len(encoded))
        assert read_in_steps(cls, version, encoded) == (value, len(encoded))
        for place in range(0, len(encoded), len(encoded) // 8 + 1):
            damaged = bytearray(encoded)
            damaged[place] ^= 0x81
            compiled, reference = both(cls, version, bytes(damaged))
            assert compiled == reference


@each_message(LAYOUTS)
def test_every_truncation_is_refused(cls: type[Message], versions: list[int]) -> None:
    for version in versions:
        encoded = written(cls(), version)
        for length in range(len(encoded)):
            with about(version), pytest.raises(MalformedRequest):
                compiler.read(cls, version, encoded[:length])
