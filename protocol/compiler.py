"""The compiler: from the construct tree of a message to straight-line Python, at first use.

construct interprets a tree: a call or three per field, a dict per struct. Fine for a reference, forty times too slow
for a broker. So this package keeps the tree as what a message *is*, and derives from it what runs:

    schema.tree(cls, version)  ->  reading.reader, writing.writer  ->  one Python function each, nested structs inlined

The shape of that code, and why:

- Fields of fixed width that stand next to each other are one `struct.Struct`, made once. The length of what comes next
  belongs to that run too; so do the first byte of a varint and the count of tagged fields, which nearly always are all.
- A short text is read by the same `struct.Struct` as the run after it: there is one for each length, made when needed.
- A struct is made with `object.__new__` and its slots are filled in place; the structs of an array are made together.
  Where they are of fixed width, one iterator reads all of them.
- An array's count is compared with the bytes that are left before anything is allocated for it, and a request has a
  limit for all its arrays together: what a client sends is read in one go, and everybody else waits meanwhile.
- `records` that are read are a memoryview into the buffer; all other blobs are copied. So a frame may be reused as soon
  as its handler has returned, if the handler kept no view.
- `records` that are written may be a `Splice`, bytes that are somewhere else: the writer writes its length, notes its
  place in `out`, and goes on.

Large messages are read and written in steps (`reader_in_steps`, `writer_in_steps`): the same code as a generator, which
yields after every few elements, so that others have their turn.

construct's own `compile()` will not do: its `Struct("a" / Bytes(4))` takes one byte for four, and its negative length
reads to the end.

To see the code of a message: `print(compiler.source(FetchRequest, 12))`. Tracebacks show its lines.
"""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from headgate.protocol.reading import MAX_ELEMENTS
from headgate.protocol.reading import reader as compile_reader
from headgate.protocol.schema import Message, tree
from headgate.protocol.wire import Splice
from headgate.protocol.writing import writer as compile_writer

__all__ = [
    "Reader",
    "Splice",
    "StepReader",
    "StepWriter",
    "Writer",
    "read",
    "reader",
    "reader_in_steps",
    "source",
    "write",
    "writer",
    "writer_in_steps",
]

M = TypeVar("M", bound=Message)
Reader = Callable[..., tuple[Any, int]]
Writer = Callable[[Any, bytearray, list[tuple[int, Splice]]], None]
StepReader = Callable[..., Generator[None, None, tuple[Any, int]]]
StepWriter = Callable[[Any, bytearray, list[tuple[int, Splice]]], Generator[None, None, None]]

_readers: dict[tuple[type[Message], int], Reader] = {}
_writers: dict[tuple[type[Message], int], Writer] = {}


def read(cls: type[M], version: int, buffer: bytes | bytearray | memoryview, position: int = 0) -> tuple[M, int]:
    """Read a message from `position`; returns it and the position after it.

    Raises MalformedRequest, whatever the bytes are; ValueError if there is no such version.
    """
    compiled = _readers.get((cls, version))
    if compiled is None:
        compiled = reader(cls, version)
    return compiled(buffer, position)


def write(value: Message, version: int, out: bytearray, splices: list[tuple[int, Splice]]) -> None:
    """Append a message to `out`. For every splice in it, its place in `out` and itself are appended to `splices`."""
    compiled = _writers.get((type(value), version))
    if compiled is None:
        compiled = writer(type(value), version)
    compiled(value, out, splices)


def reader(cls: type[Message], version: int) -> Reader:
    """The compiled `read(buffer, position=0)` of one version, for those who call it often."""
    compiled = _readers.get((cls, version))
    if compiled is None:
        compiled = compile_reader(tree(cls, version), _title(cls, version), _max_elements(cls))
        _readers[cls, version] = compiled
    return compiled


def _max_elements(cls: type[Message]) -> int | None:
    """What a broker answers may have more: it serves nobody else who waits. What was recorded has to be readable."""
    return None if cls.is_response or cls.is_record else MAX_ELEMENTS


@functools.cache
def reader_in_steps(cls: type[Message], version: int) -> StepReader:
    """What `reader` gives, as a generator that yields often and returns the same, or raises the same."""
    return compile_reader(tree(cls, version), _title(cls, version), _max_elements(cls), in_steps=True)


@functools.cache
def writer_in_steps(cls: type[Message], version: int) -> StepWriter:
    """What `writer` gives, as a generator that yields often."""
    return compile_writer(tree(cls, version), _title(cls, version), in_steps=True)


def writer(cls: type[Message], version: int) -> Writer:
    """The compiled `write(value, out, splices)` of one version, for those who call it often."""
    compiled = _writers.get((cls, version))
    if compiled is None:
        compiled = _writers[cls, version] = compile_writer(tree(cls, version), _title(cls, version))
    return compiled


def source(cls: type[Message], version: int) -> str:
    """The Python source of a version's reader and writer, for people."""
    reader(cls, version)
    writer(cls, version)
    title = _title(cls, version)
    return "\n".join("".join(linecache.getlines(f"<{half} {title}>")) for half in ("read", "write"))


def _title(cls: type[Message], version: int) -> str:
    return f"{cls.__name__} v{version}"
