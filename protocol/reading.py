"""The reading half of the compiler; see `protocol.compiler` for the whole.

What a reader does, by example (FetchTopic v11 inside FetchRequest; comments added):

    x1.replica_id, x1.max_wait_ms, ..., n, = s5(buffer, position)    # one run, up to and with the count of `topics`
    position += 29
    if not 0 <= n <= (limit - position) // 6:                        # 6: the smallest FetchTopic
        raise refused('x1.topics', n)                                # before anything is allocated
    a6 = []
    for _ in range(n):
        x7 = new(FetchTopic)
        n, = s8(buffer, position)
        position += 2
        if 0 <= n <= 64:
            x7.topic = blobs[n](buffer, position)[0].decode()
        ...

Nothing reads past the end: an unpack of too few bytes raises struct.error, an index IndexError; slices, which would be
cut silently, are only made after a check. Lengths below zero never reach an index.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from protocol.emitter import Run, Source, fixed_format, is_compact, length_format, smallest_size
from protocol.errors import MalformedRequest
from protocol.wire import MAX_VARINT_SIZE, Array, Construct, Instance, NullableInstance, Records, Tagged, Text

Reader = Callable[..., tuple[Any, int]]

SHORT = 64
"""Blobs up to this many bytes are copied by a `struct.Struct` made for their length. It checks the end by itself, and
takes two thirds of the time of a slice of a memoryview."""

_SHORT_BLOBS = [struct.Struct(f"{length}s").unpack_from for length in range(SHORT + 1)]


def reader(root: Instance, title: str) -> Reader:
    """Emit and compile `read(buffer, position=0) -> (value, position)` for a message's tree."""
    source = Source()
    source.names.update(
        new=object.__new__,
        blobs=_SHORT_BLOBS,
        long_blob=_long_blob,
        numbers=_numbers,
        read_tags=read_tags,
        keep_tags=_keep_tags,
        refused=_refused,
        varint=_varint,
        wrapped=lambda position, error: _wrapped(title, position, error),
        ENDS=(struct.error, IndexError, UnicodeDecodeError, RefusedBytes),
    )
    emitter = _ReaderEmitter(source)
    with source.block("def read(buffer, position=0)"):
        with source.block("if type(buffer) is not memoryview"):
            source.line("buffer = memoryview(buffer)")
        source.line("limit = len(buffer)")
        with source.block("try"):
            value = emitter.instance(root)
            emitter.flush()
            source.line(f"return {value}, position")
        with source.block("except ENDS as error"):
            source.line("raise wrapped(position, error) from None")
    emitter.finish()
    return source.function("read", f"<read {title}>")


class _ReaderEmitter:
    """Walks a tree and emits code that puts every node's value into a target: an attribute or a local name."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._run = Run()
        self._later: list[tuple[str, Sequence[Tagged]]] = []

    def node(self, node: Construct, target: str) -> None:
        code = fixed_format(node)
        if code is not None:
            self._run.add(code, target)
        elif isinstance(node, Instance):
            self._source.line(f"{target} = {self.instance(node)}")
        elif isinstance(node, NullableInstance):
            self._nullable_instance(node, target)
        elif isinstance(node, Array):
            self._array(node, target)
        else:
            self._blob(node, target)

    def flush(self) -> None:
        """Read the run that has been collected."""
        if not self._run:
            return
        packer, targets = self._run.take()
        if packer.format == ">B":
            self._source.line(f"{targets[0]} = buffer[position]")
        else:
            unpack = self._source.constant("s", packer.unpack_from)
            self._source.line(f"{', '.join(targets)}, = {unpack}(buffer, position)")
        self._source.line(f"position += {packer.size}")

    def finish(self) -> None:
        """Emit the functions for tagged fields that were asked for on the way; they may ask for more."""
        while self._later:
            self._tags_function(*self._later.pop())

    def instance(self, node: Instance) -> str:
        """Read a struct; returns the local name that holds it.

        Fields are stored straight into the slots: calling the constructor takes half as long again.
        """
        source = self._source
        name = source.fresh("x")
        source.line(f"{name} = new({source.constant(node.cls.__name__, node.cls)})")
        present = dict(node.members)
        for field in node.cls.fields:
            if field.name not in present:
                value = field.default()
                default = "[]" if isinstance(value, list) else source.constant("default", value)
                source.line(f"{name}.{field.name} = {default}")
        for field_name, member in node.members:
            self.node(member, f"{name}.{field_name}")
        if node.tagged is None:
            source.line(f"{name}.unknown_tags = None")
        else:
            self._tags(node.tagged, name)
        return name

    def _tags(self, tagged: Sequence[Tagged], name: str) -> None:
        function = "keep_tags"
        if tagged:
            function = self._source.fresh("tags")
            self._later.append((function, tagged))
        self._run.add("B", "n")
        self.flush()
        with self._source.block("if n"):
            self._source.line(f"position = {function}({name}, buffer, position, n)")
        with self._source.block("else"):
            self._source.line(f"{name}.unknown_tags = None")

    def _tags_function(self, function: str, tagged: Sequence[Tagged]) -> None:
        source = self._source
        with source.block(f"def {function}(x, buffer, position, n)"):
            source.line("tags, position = read_tags(buffer, position, n)")
            for field in tagged:
                with source.block(f"if {field.tag} in tags"):
                    source.line(f"x.{field.name} = {function}_{field.tag}(tags.pop({field.tag}))")
            source.line("x.unknown_tags = tags or None")
            source.line("return position")
        for field in tagged:
            with source.block(f"def {function}_{field.tag}(buffer)"):
                source.line("position, limit = 0, len(buffer)")
                self.node(field.node, "value")
                self.flush()
                with source.block("if position != limit"):
                    source.line(f"raise refused({field.name!r}, limit)")
                source.line("return value")

    def _nullable_instance(self, node: NullableInstance, target: str) -> None:
        self._run.add("b", "n")
        self.flush()
        with self._source.block("if n < 0"):
            self._source.line(f"{target} = None")
        with self._source.block("else"):
            self.node(node.instance, target)
            self.flush()

    def _length(self, node: Any) -> None:
        """Read a length into `n`; null is -1."""
        self._run.add(length_format(node.length), "n")
        self.flush()
        if is_compact(node.length):
            with self._source.block("if n > 127"):
                self._source.line("n, position = varint(buffer, position, n)")
            self._source.line("n -= 1")

    def _blob(self, node: Construct, target: str) -> None:
        self._length(node)
        if isinstance(node, Records):
            copy, limit, get = False, "limit - position", "buffer[position:position + n]"
        else:
            copy, limit, get = True, str(SHORT), "blobs[n](buffer, position)[0]"
        decode = ".decode()" if isinstance(node, Text) else ""
        with self._source.block(f"if 0 <= n <= {limit}"):
            self._source.line(f"{target} = {get}{decode}")
            self._source.line("position += n")
        if node.length.nullable:
            with self._source.block("elif n == -1"):
                self._source.line(f"{target} = None")
        with self._source.block("else"):
            if copy:
                self._source.line(f"{target} = long_blob(buffer, position, n, {target!r}){decode}")
                self._source.line("position += n")
            else:
                self._source.line(f"raise refused({target!r}, n)")

    def _array(self, node: Array, target: str) -> None:
        self._length(node)
        if node.length.nullable:
            with self._source.block("if n == -1"):
                self._source.line(f"{target} = None")
            with self._source.block("else"):
                self._elements(node.element, target)
        else:
            self._elements(node.element, target)

    def _elements(self, element: Construct, target: str) -> None:
        source = self._source
        with source.block(f"if not 0 <= n <= (limit - position) // {smallest_size(element)}"):
            source.line(f"raise refused({target!r}, n)")
        code = fixed_format(element)
        if code is not None:
            source.line(f"{target} = numbers(buffer, position, n, {code!r})")
            source.line(f"position += n * {smallest_size(element)}")
            return
        elements = source.fresh("a")
        source.line(f"{elements} = []")
        with source.block("for _ in range(n)"):
            if isinstance(element, Instance):
                value = self.instance(element)
            else:
                value = "element"
                self.node(element, value)
            self.flush()
            source.line(f"{elements}.append({value})")
        source.line(f"{target} = {elements}")


class RefusedBytes(Exception):
    """A length that cannot be; becomes a MalformedRequest where the name of the message is known."""


def _refused(target: str, length: int) -> RefusedBytes:
    return RefusedBytes(f"{target.partition('.')[2] or target} cannot have length {length}")


def _wrapped(title: str, position: int, error: Exception) -> MalformedRequest:
    return MalformedRequest(f"{title}, at byte {position}: {error}")


def _varint(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte has been read."""
    value, shift = first & 0x7F, 7
    for _ in range(MAX_VARINT_SIZE - 1):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise RefusedBytes(f"an unsigned varint is longer than {MAX_VARINT_SIZE} bytes")


def _read_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    first = buffer[position]
    return (first, position + 1) if first < 0x80 else _varint(buffer, position + 1, first)


def read_tags(buffer: memoryview, position: int, count: int) -> tuple[dict[int, bytes], int]:
    """A section of tagged fields, of whose count the first byte has been read: the bytes of every field, by tag."""
    if count > 127:
        count, position = _varint(buffer, position, count)
    tags = {}
    for _ in range(count):
        tag, position = _read_varint(buffer, position)
        size, position = _read_varint(buffer, position)
        tags[tag] = _long_blob(buffer, position, size, f"tag {tag}")
        position += size
    return tags, position


def _keep_tags(instance: Any, buffer: memoryview, position: int, count: int) -> int:
    """Tagged fields of a struct that declares none."""
    tags, position = read_tags(buffer, position, count)
    instance.unknown_tags = tags or None
    return position


def _long_blob(buffer: memoryview, position: int, size: int, target: str) -> bytes:
    if not 0 <= size <= len(buffer) - position:
        raise _refused(target, size)
    return bytes(buffer[position : position + size])


_FEW = 16
_few_numbers: dict[str, list[Callable[..., tuple[Any, ...]]]] = {}


def _numbers(buffer: memoryview, position: int, count: int, code: str) -> list[Any]:
    """An array of fixed-width values, which the buffer holds in full."""
    if count > _FEW:
        return list(struct.unpack_from(">" + code * count if code == "16s" else f">{count}{code}", buffer, position))
    few = _few_numbers.get(code)
    if few is None:
        few = _few_numbers[code] = [struct.Struct(">" + code * number).unpack_from for number in range(_FEW + 1)]
    return list(few[count](buffer, position))
