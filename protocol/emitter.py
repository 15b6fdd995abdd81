"""What the two halves of the compiler share: a growing Python source with its names, and runs of fixed-width fields."""

from __future__ import annotations

import contextlib
import itertools
import linecache
import struct
from collections.abc import Callable, Iterator
from typing import Any

from headgate.protocol.wire import (
    UUID,
    Array,
    Blob,
    Construct,
    Flag,
    FormatField,
    Length,
    NullableStructNode,
    StructNode,
    UnsignedVarint,
)

STEP_ELEMENTS = 32
"""A reader or writer in steps yields after so many elements of arrays: that is 30 to 60 us of work."""
STEP_NUMBERS = 1024
"""... or after so many numbers of one array."""

_UUID_FORMAT = "16s"


class Source:
    """Lines of one Python function after another, with the objects their names stand for."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.lines: list[str] = []
        self._depth = 0
        self._numbers = itertools.count(1)

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head:` and what is emitted inside, one step further in."""
        self.line(head + ":")
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A name that nothing else has."""
        return f"{stem}{next(self._numbers)}"

    def constant(self, stem: str, value: Any) -> str:
        """A name for an object that the code needs; the same object gets the same name."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = stem if stem[0].isupper() and stem not in self.names else self.fresh(stem)
        self.names[name] = value
        return name

    def function(self, name: str, title: str) -> Callable[..., Any]:
        """Compile what was emitted, and return its function `name`. Tracebacks show the source under `title`."""
        text = "\n".join(self.lines) + "\n"
        linecache.cache[title] = (len(text), None, text.splitlines(keepends=True), title)
        exec(compile(text, title, "exec"), self.names)  # noqa: S102  made of declarations, never of what a peer sent
        return self.names[name]  # type: ignore[no-any-return]


class YieldPoints:
    """Where the emitted code yields, if it is wanted in steps: after every `STEP_ELEMENTS` elements of any arrays.

    Every emitted function is a generator then, and is called as one.
    """

    def __init__(self, source: Source, are_wanted: bool) -> None:
        self._source = source
        self.are_wanted = are_wanted
        self.call = "yield from " if are_wanted else ""
        """What stands before a call of another such function."""

    def begin(self) -> None:
        """Begin a function, which is a generator even without an array in it."""
        if self.are_wanted:
            self._source.line(f"left = {STEP_ELEMENTS}")
            self._source.line("if not left: yield")

    def pause(self) -> None:
        """An element is done."""
        if self.are_wanted:
            self._source.line("left -= 1")
            with self._source.block("if not left"):
                self._source.line("yield")
                self._source.line(f"left = {STEP_ELEMENTS}")


class FixedWidthRun:
    """Fixed-width values that stand next to each other: collected here, then moved by one `struct.Struct`."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, str]] = []

    def add(self, code: str, expression: str) -> None:
        """A value of format `code`, and where it goes to, or comes from."""
        self._parts.append((code, expression))

    def take(self) -> tuple[struct.Struct, list[str]]:
        """The struct of the run and its expressions. The run is empty then."""
        parts, self._parts = self._parts, []
        return struct.Struct(">" + "".join(code for code, _ in parts)), [expression for _, expression in parts]

    def __bool__(self) -> bool:
        return bool(self._parts)


def fixed_format(node: Construct) -> str | None:
    """The format character of a node of fixed width, or None."""
    if node is Flag:
        return "?"
    if node is UUID:
        return _UUID_FORMAT
    if isinstance(node, FormatField):
        # construct spells int32 "l": four bytes with an explicit byte order, as "i" is.
        return str(node.fmtstr[-1])
    return None


def length_format(length: Length) -> str:
    """The format of a length's fixed part: all of it, or the first byte of a varint."""
    return "B" if is_compact(length) else str(length.number.fmtstr[-1])


def is_compact(length: Length) -> bool:
    return length.number is UnsignedVarint


def min_size(node: Construct) -> int:
    """The fewest bytes a value can take: what bounds the count of an array by the bytes that are left."""
    code = fixed_format(node)
    if code is not None:
        return struct.calcsize(">" + code)
    if isinstance(node, Array | Blob):
        return struct.calcsize(">" + length_format(node.length))
    if isinstance(node, NullableStructNode):
        return 1
    if isinstance(node, StructNode):
        return sum(min_size(member) for _, member in node.members) + (node.tagged is not None)
    raise TypeError(f"no rule for {node!r}")
