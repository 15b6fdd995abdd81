"""The shared parts of both halves of the compiler: emitted source with its names, runs of fixed width, yield points."""

from __future__ import annotations

import abc
import contextlib
import itertools
import linecache
import struct
from collections.abc import Callable, Iterator, Sequence
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
    Records,
    StructNode,
    TaggedField,
    UnsignedVarint,
)

STEP_ELEMENTS = 32
"""A reader or writer in steps yields after this many elements of arrays: 30 to 60 us of work."""
STEP_NUMBERS = 1024
"""... or after this many numbers of one array."""

MAX_FEW_NUMBERS = 16
"""An array of at most so many numbers has a `struct.Struct` of its own."""

_UUID_FORMAT = "16s"


class Source:
    """The lines of emitted Python functions. `names`: the objects that the code refers to, by name."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.lines: list[str] = []
        self._depth = 0
        self._numbers = itertools.count(1)

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Emit `head:`; the lines emitted within the context are indented below it."""
        self.line(head + ":")
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """Return an unused name that begins with `stem`."""
        return f"{stem}{next(self._numbers)}"

    def constant(self, stem: str, value: Any) -> str:
        """Return a name for an object that the code refers to; the same object gets the same name."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = stem if stem[0].isupper() and stem not in self.names else self.fresh(stem)
        self.names[name] = value
        return name

    def function(self, name: str, title: str) -> Callable[..., Any]:
        """Compile the emitted lines, and return their function `name`. Tracebacks show the source under `title`."""
        text = "\n".join(self.lines) + "\n"
        linecache.cache[title] = (len(text), None, text.splitlines(keepends=True), title)
        exec(compile(text, title, "exec"), self.names)  # noqa: S102  the source comes from declarations, never from a peer
        return self.names[name]  # type: ignore[no-any-return]


class YieldPoints:
    """Emits the yields of code in steps: one after every `STEP_ELEMENTS` elements of any arrays.

    If enabled, every emitted function is a generator, and is called as one. If disabled, nothing is emitted.
    """

    def __init__(self, source: Source, is_enabled: bool) -> None:
        self._source = source
        self.is_enabled = is_enabled
        self.call_prefix = "yield from " if is_enabled else ""
        """The prefix of a call of another emitted function."""

    def begin(self) -> None:
        """Begin a function; it becomes a generator even without an array."""
        if self.is_enabled:
            self._source.line(f"left = {STEP_ELEMENTS}")
            self._source.line("if not left: yield")

    def count_element(self) -> None:
        """Count an element, and yield if it is the last of the step."""
        if self.is_enabled:
            self._source.line("left -= 1")
            with self._source.block("if not left"):
                self._source.line("yield")
                self._source.line(f"left = {STEP_ELEMENTS}")


class FixedWidthRun:
    """Adjacent values of fixed width: collected here, then moved by one `struct.Struct`."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, str]] = []

    def add(self, code: str, expression: str) -> None:
        """Add a value of format `code`. `expression` is the target of a read, or the source of a write."""
        self._parts.append((code, expression))

    def take(self) -> tuple[struct.Struct, list[str]]:
        """Return the struct of the run and its expressions, and empty the run."""
        parts, self._parts = self._parts, []
        return struct.Struct(">" + "".join(code for code, _ in parts)), [expression for _, expression in parts]

    def __bool__(self) -> bool:
        return bool(self._parts)


class TreeEmitter(abc.ABC):
    """Walks the tree of a message. A subclass emits the code for each kind of node."""

    def __init__(self, source: Source, yield_points: YieldPoints) -> None:
        self._source = source
        self._yield_points = yield_points
        self._run = FixedWidthRun()
        self._pending_functions: list[tuple[str, Sequence[TaggedField]]] = []

    def node(self, node: Construct, place: str) -> None:
        """Emit the code for a node. `place` is the target of a read, or the source of a write."""
        code = fixed_format(node)
        if code is not None:
            self._run.add(code, place)
        elif isinstance(node, StructNode):
            self._struct(node, place)
        elif isinstance(node, NullableStructNode):
            self._nullable_struct(node, place)
        elif isinstance(node, Array):
            self._array(node, place)
        elif isinstance(node, Records):
            self._records(node, place)
        else:
            self._blob(node, place)

    def finish(self) -> None:
        """Emit the functions for tagged fields. They may add further ones."""
        while self._pending_functions:
            self._tags_function(*self._pending_functions.pop())

    @abc.abstractmethod
    def flush(self) -> None:
        """Emit the move of the collected run."""

    @abc.abstractmethod
    def _struct(self, node: StructNode, place: str, /) -> None: ...
    @abc.abstractmethod
    def _nullable_struct(self, node: NullableStructNode, place: str, /) -> None: ...
    @abc.abstractmethod
    def _array(self, node: Array, place: str, /) -> None: ...
    @abc.abstractmethod
    def _records(self, node: Records, place: str, /) -> None: ...
    @abc.abstractmethod
    def _blob(self, node: Blob, place: str, /) -> None: ...
    @abc.abstractmethod
    def _tags_function(self, function: str, tagged: Sequence[TaggedField]) -> None: ...

    def _tags_name(self, tagged: Sequence[TaggedField]) -> str:
        """Return the name of the function for these tagged fields. `finish` emits the function."""
        if not tagged:
            return "keep_tags"
        function = self._source.fresh("tags")
        self._pending_functions.append((function, tagged))
        return function


def fixed_format(node: Construct) -> str | None:
    """Return the format of a node of fixed width, or None."""
    if node is Flag:
        return "?"
    if node is UUID:
        return _UUID_FORMAT
    if isinstance(node, FormatField):
        # construct's int32 is "l": four bytes, as the byte order is explicit. So is "i".
        return str(node.fmtstr[-1])
    return None


def few_numbers(code: str) -> Iterator[struct.Struct]:
    """Return the structs of up to `MAX_FEW_NUMBERS` numbers of format `code`, by their count."""
    return (struct.Struct(">" + code * count) for count in range(MAX_FEW_NUMBERS + 1))


def length_format(length: Length) -> str:
    """Return the format of a length's fixed part: the whole number, or the first byte of a varint."""
    return "B" if is_compact(length) else str(length.number.fmtstr[-1])


def is_compact(length: Length) -> bool:
    return length.number is UnsignedVarint


def min_size(node: Construct) -> int:
    """Return the fewest bytes of a value. They bound the count of an array by the remaining bytes.

    Raises TypeError for an unknown node.
    """
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
