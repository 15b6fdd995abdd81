"""The compiler: turns the construct tree of a message into straight-line Python, at first use.

construct interprets a tree: up to three calls a field, a dict a struct. This is fine for a reference, and forty times
too slow for a broker. So the tree defines a message, and the compiler derives the code that runs:

    schema.tree(cls, version)  ->  reading.reader, writing.writer  ->  one Python function each, nested structs inlined

The shape of that code, and why:

- Adjacent fields of fixed width are one run, moved by one `struct.Struct` that is made once. The length of the next
  field belongs to the run too. So do the first byte of a varint and the count of tagged fields, which nearly always are
  the whole number.
- One `struct.Struct` reads a short text together with the run after it. There is one for each length, made when needed.
- `object.__new__` makes a struct, and the code fills its slots in place. The structs of an array are made together. One
  iterator reads all of them if they are of fixed width.
- The code compares an array's count with the remaining bytes before it allocates anything. A request also has a limit
  for all its arrays together: the read of a request has no pause, and all other clients wait meanwhile.
- A read returns `records` as a memoryview of the buffer, and copies all other blobs. So a frame may be reused as soon
  as its handler has returned, if the handler kept no view.
- A write takes `records` as a `Splice` too: bytes in a file. The writer writes their length, notes their place in
  `out`, and continues.

Large messages are read and written in steps (`reader_in_steps`, `writer_in_steps`). The code is the same as a
generator, which yields after every few elements, so that the loop can serve others.

construct's own `compile()` is unsafe here: its `Struct("a" / Bytes(4))` accepts one byte for four, and its negative
length reads to the end.

`print(compiler.source(FetchRequest, 12))` shows the code of a message. Tracebacks show its lines.
"""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from headgate.protocol.reading import MAX_ELEMENTS, MAX_ELEMENTS_AT_ONCE
from headgate.protocol.reading import reader as compile_reader
from headgate.protocol.schema import Message, tree
from headgate.protocol.wire import Splice
from headgate.protocol.writing import writer as compile_writer

__all__ = [
    "ReadFunction",
    "Splice",
    "StepReader",
    "StepWriter",
    "WriteFunction",
    "read",
    "reader",
    "reader_in_steps",
    "source",
    "write",
    "writer",
    "writer_in_steps",
]

M = TypeVar("M", bound=Message)
ReadFunction = Callable[..., tuple[Any, int]]
WriteFunction = Callable[[Any, bytearray, list[tuple[int, Splice]]], None]
StepReader = Callable[..., Generator[None, None, tuple[Any, int, int]]]
StepWriter = Callable[[Any, bytearray, list[tuple[int, Splice]]], Generator[None, None, None]]

_readers: dict[tuple[type[Message], int], ReadFunction] = {}
_writers: dict[tuple[type[Message], int], WriteFunction] = {}


def read(cls: type[M], version: int, buffer: bytes | bytearray | memoryview, position: int = 0) -> tuple[M, int]:
    """Read a message at `position`; return the message and the position after it.

    Raises MalformedRequest for any invalid bytes, and ValueError for a version that is not declared.
    """
    compiled = _readers.get((cls, version))
    if compiled is None:
        compiled = reader(cls, version)
    return compiled(buffer, position)


def write(value: Message, version: int, out: bytearray, splices: list[tuple[int, Splice]]) -> None:
    """Append a message to `out`. `splices` gets each splice of the message, after its place in `out`.

    Raises ValueError for a version that is not declared.
    """
    compiled = _writers.get((type(value), version))
    if compiled is None:
        compiled = writer(type(value), version)
    compiled(value, out, splices)


def reader(cls: type[Message], version: int) -> ReadFunction:
    """Return the compiled `read(buffer, position=0)` of one version, for frequent calls."""
    compiled = _readers.get((cls, version))
    if compiled is None:
        compiled = compile_reader(tree(cls, version), _title(cls, version), _max_elements(cls, MAX_ELEMENTS_AT_ONCE))
        _readers[cls, version] = compiled
    return compiled


def _max_elements(cls: type[Message], most: int) -> int | None:
    """The limit of a request. A response has none, as its reader serves no other client; a record must be readable."""
    return None if cls.is_response or cls.is_record else most


@functools.cache
def reader_in_steps(cls: type[Message], version: int, max_elements: int = MAX_ELEMENTS) -> StepReader:
    """Return the reader of one version as a generator, which yields often.

    It returns the message, the position after it, and the number of its elements; or raises as `reader`'s does.
    """
    return compile_reader(tree(cls, version), _title(cls, version), _max_elements(cls, max_elements), in_steps=True)


@functools.cache
def writer_in_steps(cls: type[Message], version: int) -> StepWriter:
    """Return the writer of one version as a generator that yields often."""
    return compile_writer(tree(cls, version), _title(cls, version), in_steps=True)


def writer(cls: type[Message], version: int) -> WriteFunction:
    """Return the compiled `write(value, out, splices)` of one version, for frequent calls."""
    compiled = _writers.get((cls, version))
    if compiled is None:
        compiled = _writers[cls, version] = compile_writer(tree(cls, version), _title(cls, version))
    return compiled


def source(cls: type[Message], version: int) -> str:
    """Return the Python source of a version's reader and writer, for people."""
    reader(cls, version)
    writer(cls, version)
    title = _title(cls, version)
    return "\n".join("".join(linecache.getlines(f"<{half} {title}>")) for half in ("read", "write"))


def _title(cls: type[Message], version: int) -> str:
    return f"{cls.__name__} v{version}"
