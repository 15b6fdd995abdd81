"""The reading half of the compiler; see `protocol.compiler` for the whole.

What a reader does, by example (FetchTopic v11 inside FetchRequest; comments added):

    x1.replica_id, x1.max_wait_ms, ..., n, = s5(buffer, position)    # one run, up to and with the count of `topics`
    position += 29
    if n == 1:
        a6 = [new(FetchTopic)]
    elif n == 0:
        a6 = []
    else:
        if not 0 < n <= spare or n * 6 > limit - position:           # 6: the smallest FetchTopic
            raise refused_count('x1.topics', n, spare, limit)        # before anything is allocated
        spare -= n
        a6 = [*map(new, repeat(FetchTopic, n))]
    x1.topics = a6
    for x7 in a6:
        x7.unknown_tags = None
        n, = s8(buffer, position)
        position += 2
        if 0 < n <= 127:
            d, m, = s9[n](buffer, position)                          # a short text, and the run after it
            x7.topic = d.decode()
            position += n + 4
            n = m
        else:
            ...

Nothing reads past the end: an unpack of too few bytes raises struct.error, an index IndexError; slices, which would be
cut silently, are only made after a check. Lengths below zero never reach an index.

The arrays of a request have at most `MAX_ELEMENTS` together; `spare` is what is left of them. The only element of an
array is not counted, as what holds it was. Ten numbers count as one element: to read an array of them is one call, but
each is an object, and a handler may make something of each.

A reader in steps is the same code as a generator. It yields after every `STEP_ELEMENTS` elements, reads structs one by
one, and makes each when its turn comes: what is made all at once for 100,000 elements takes 10 ms.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from headgate.protocol.emitter import (
    STEP_ELEMENTS,
    STEP_NUMBERS,
    FixedWidthRun,
    Source,
    YieldPoints,
    fixed_format,
    is_compact,
    length_format,
    min_size,
)
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.wire import (
    MAX_TEXT_SIZE,
    MAX_VARINT_SIZE,
    Array,
    Blob,
    Construct,
    NullableStructNode,
    Records,
    StructNode,
    TaggedField,
    Text,
)

Reader = Callable[..., Any]

MAX_ELEMENTS = 100_000
"""What the arrays of a request, with its tagged fields, may have in all. Reading that many stops the loop for 0.1 s; a
request for every partition of a broker has fewer."""

MAX_SHORT_BLOB_BYTES = 127
"""Blobs up to this length, which one byte of a varint can be, are copied by a `struct.Struct` made for their length. It
checks the end by itself, is faster than a slice of a memoryview, and reads the run after the blob in the same call."""

_NUMBERS_PER_ELEMENT = 10
_FEW = 16  # numbers: an array of so many has a struct of its own
_BULK = 4  # structs of fixed width: from so many on an iterator over their bytes pays
_LITERALS = (type(None), bool, int, str, bytes)


class _BlobUnpackers(dict[int, Callable[..., tuple[Any, ...]]]):
    """By the length of a short blob, as it is on the wire: what unpacks it together with the run after it.

    Made when first needed.
    """

    def __init__(self, rest: str, bias: int) -> None:
        super().__init__()
        self._rest = rest
        self._bias = bias

    def __missing__(self, length: int) -> Callable[..., tuple[Any, ...]]:
        unpack = self[length] = struct.Struct(f">{length - self._bias}s{self._rest}").unpack_from
        return unpack


blob_unpackers = functools.cache(_BlobUnpackers)


class _PendingBlob(NamedTuple):
    """A blob whose length, or the first byte of it, is in `n`, and which is read together with the run after it."""

    node: Blob
    target: str

    @property
    def decode(self) -> str:
        return ".decode()" if isinstance(self.node, Text) else ""

    @property
    def empty(self) -> str | bytes:
        return "" if isinstance(self.node, Text) else b""


def reader(root: StructNode, title: str, max_elements: int | None, in_steps: bool = False) -> Reader:
    """Emit and compile `read(buffer, position=0) -> (value, position)` for a message's tree.

    `max_elements`: how many elements its arrays may have together; None if as many as there are bytes for.
    `in_steps`: `read` is a generator that yields often, and returns the same.
    """
    source = Source()
    source.names.update(
        new=object.__new__,
        repeat=itertools.repeat,
        long_blob=_long_blob,
        long_text=_long_text,
        many_numbers=_many_numbers_in_steps if in_steps else _many_numbers,
        is_untagged=_is_untagged,
        read_tags=_read_tags_in_steps if in_steps else read_tags,
        keep_tags=_keep_tags_in_steps if in_steps else _keep_tags,
        refused=_refused,
        refused_count=_refused_count,
        varint=_varint,
        wrapped=lambda position, error: _wrapped(title, position, error),
        ENDS=(struct.error, IndexError, UnicodeDecodeError, InvalidLength),
    )
    pauses = YieldPoints(source, in_steps)
    emitter = _ReaderEmitter(source, pauses)
    with source.block("def read(buffer, position=0)"):
        pauses.begin()
        with source.block("if type(buffer) is not memoryview"):
            source.line("buffer = memoryview(buffer)")
        source.line("limit = len(buffer)")
        bounded = "" if max_elements is None else f" if limit < {max_elements} else {max_elements}"
        source.line(f"spare = limit{bounded}")
        with source.block("try"):
            value = emitter.instance(root)
            emitter.flush()
            source.line(f"return {value}, position")
        with source.block("except ENDS as error"):
            source.line("raise wrapped(position, error) from None")
    emitter.finish()
    return source.function("read", f"<read {title}{' in steps' if in_steps else ''}>")


class _ReaderEmitter:
    """Walks a tree and emits code that puts every node's value into a target: an attribute or a local name."""

    def __init__(self, source: Source, pauses: YieldPoints) -> None:
        self._source = source
        self._pauses = pauses
        self._lead: _PendingBlob | None = None
        self._run = FixedWidthRun()
        self._later: list[tuple[str, Sequence[TaggedField]]] = []

    def node(self, node: Construct, target: str) -> None:
        code = fixed_format(node)
        if code is not None:
            self._run.add(code, target)
        elif isinstance(node, StructNode):
            value = self._new(node)
            self._source.line(f"{target} = {value}")
            self._members(node, value)
        elif isinstance(node, NullableStructNode):
            self._nullable_instance(node, target)
        elif isinstance(node, Array):
            self._array(node, target)
        elif isinstance(node, Records):
            self._records(node, target)
        else:
            self._lead_by(node, target)

    def flush(self) -> None:
        """Read the run that has been collected, with the blob before it."""
        lead, self._lead = self._lead, None
        packer, targets = self._run.take()
        if lead is None:
            self._unpack(packer, targets)
            return
        source, bias = self._source, lead.node.length.bias
        unpack = source.constant("s", blob_unpackers(packer.format[1:], bias))
        value = "d" if lead.decode else lead.target
        with source.block(f"if {bias} < n <= {MAX_SHORT_BLOB_BYTES}"):
            rest = "".join(f"{'m' if target == 'n' else target}, " for target in targets)
            source.line(f"{value}, {rest}= {unpack}[n](buffer, position)")
            if lead.decode:
                source.line(f"{lead.target} = d.decode()")
            source.line("position += n" + (f" {packer.size - bias:+}" if packer.size != bias else ""))
            if "n" in targets:
                source.line("n = m")
        with source.block("else"):
            self._rare_blob(lead)
            self._unpack(packer, targets)

    def finish(self) -> None:
        """Emit the functions for tagged fields that were asked for on the way; they may ask for more."""
        while self._later:
            self._tags_function(*self._later.pop())

    def instance(self, node: StructNode) -> str:
        """Read a struct; returns the local name that holds it."""
        name = self._new(node)
        self._members(node, name)
        return name

    def _unpack(self, packer: struct.Struct, targets: Sequence[str]) -> None:
        if not targets:
            return
        if packer.format == ">B":
            self._source.line(f"{targets[0]} = buffer[position]")
        else:
            unpack = self._source.constant("s", packer.unpack_from)
            self._source.line(f"{', '.join(targets)}, = {unpack}(buffer, position)")
        self._source.line(f"position += {packer.size}")

    def _new(self, node: StructNode) -> str:
        """Make an empty struct. Its slots are filled in place: calling the constructor takes half as long again."""
        name = self._source.fresh("x")
        self._source.line(f"{name} = new({self._source.constant(node.cls.__name__, node.cls)})")
        return name

    def _members(self, node: StructNode, name: str) -> None:
        self._defaults(node, name)
        for field_name, member in node.members:
            self.node(member, f"{name}.{field_name}")
        if node.tagged is not None:
            self._tags(node.tagged, name)

    def _defaults(self, node: StructNode, name: str) -> None:
        """Fill what this version does not have, and what a tagged field may replace."""
        present = dict(node.members)
        for field in node.cls.fields:
            if field.name not in present:
                self._source.line(f"{name}.{field.name} = {self._literal(field.default())}")
        self._source.line(f"{name}.unknown_tags = None")

    def _literal(self, value: Any) -> str:
        if type(value) in _LITERALS or value == []:
            return repr(value)
        return self._source.constant("default", value)

    def _tags(self, tagged: Sequence[TaggedField], name: str) -> None:
        function = "keep_tags"
        if tagged:
            function = self._source.fresh("tags")
            self._later.append((function, tagged))
        self._run.add("B", "n")
        self.flush()
        with self._source.block("if n"):
            self._source.line(f"position, spare = {self._pauses.call}{function}({name}, buffer, position, n, spare)")

    def _tags_function(self, function: str, tagged: Sequence[TaggedField]) -> None:
        source, call = self._source, self._pauses.call
        with source.block(f"def {function}(x, buffer, position, n, spare)"):
            source.line(f"tags, position, spare = {call}read_tags(buffer, position, n, spare)")
            for field in tagged:
                with source.block(f"if {field.tag} in tags"):
                    source.line(f"x.{field.name}, spare = {call}{function}_{field.tag}(tags.pop({field.tag}), spare)")
            source.line("x.unknown_tags = tags or None")
            source.line("return position, spare")
        for field in tagged:
            with source.block(f"def {function}_{field.tag}(buffer, spare)"):
                self._pauses.begin()
                source.line("position, limit = 0, len(buffer)")
                self.node(field.node, "value")
                self.flush()
                with source.block("if position != limit"):
                    source.line(f"raise refused({field.name!r}, limit)")
                source.line("return value, spare")

    def _nullable_instance(self, node: NullableStructNode, target: str) -> None:
        self._run.add("b", "n")
        self.flush()
        with self._source.block(f"if n <= {node.null}"):
            self._source.line(f"{target} = None")
        with self._source.block("else"):
            self.node(node.instance, target)
            self.flush()

    def _length(self, node: Array | Blob) -> None:
        """Read a length into `n`; null is -1."""
        self._run.add(length_format(node.length), "n")
        self.flush()
        self._complete(node)

    def _complete(self, node: Array | Blob) -> None:
        """Make a length of what is in `n`, its fixed part."""
        if is_compact(node.length):
            with self._source.block("if n > 127"):
                self._source.line("n, position = varint(buffer, position, n)")
            self._source.line("n -= 1")

    def _lead_by(self, node: Blob, target: str) -> None:
        """Read the fixed part of a blob's length into `n`; the blob itself is read by the next flush."""
        self._run.add(length_format(node.length), "n")
        self.flush()
        self._lead = _PendingBlob(node, target)

    def _records(self, node: Records, target: str) -> None:
        source = self._source
        self._length(node)
        source.line("end = position + n")
        with source.block("if position <= end <= limit"):
            source.line(f"{target} = buffer[position:end]")
            source.line("position = end")
        if node.length.nullable:
            with source.block("elif n == -1"):
                source.line(f"{target} = None")
        with source.block("else"):
            source.line(f"raise refused({target!r}, n)")

    def _rare_blob(self, lead: _PendingBlob) -> None:
        """Null, empty, or long."""
        source, target = self._source, lead.target
        self._complete(lead.node)
        branch = "if"
        if lead.node.length.nullable:
            with source.block("if n == -1"):
                source.line(f"{target} = None")
            branch = "elif"
        with source.block(f"{branch} n == 0"):
            source.line(f"{target} = {self._literal(lead.empty)}")
        with source.block("else"):
            function = "long_text" if lead.decode else "long_blob"
            source.line(f"{target} = {function}(buffer, position, n, {target!r})")
            source.line("position += n")

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
        code = fixed_format(element)
        if code is not None:
            self._numbers(code, target)
        elif isinstance(element, StructNode):
            self._structs(element, target)
        else:
            self._values(element, target)

    def _numbers(self, code: str, target: str) -> None:
        """An array of fixed-width values."""
        few = self._source.constant("few", _few_numbers(code))
        with self._source.block(f"if 0 <= n <= {_FEW}"):
            self._source.line(f"{target} = [*{few}[n](buffer, position)]")
        with self._source.block("else"):
            self._source.line(
                f"{target}, spare = {self._pauses.call}many_numbers(buffer, position, n, {code!r}, {target!r}, spare)"
            )
        self._source.line(f"position += n * {struct.calcsize('>' + code)}")

    def _values(self, element: Construct, target: str) -> None:
        """An array of what is neither of fixed width nor a struct."""
        source = self._source
        with source.block("if not 0 <= n <= spare"):
            source.line(f"raise refused_count({target!r}, n, spare, limit)")
        source.line("spare -= n")
        elements = source.fresh("a")
        source.line(f"{elements} = {target} = []")
        if isinstance(element, Text):
            self._texts(element, elements)
            return
        with source.block("for _ in range(n)"):
            self.node(element, "element")
            self.flush()
            source.line(f"{elements}.append(element)")
            self._pauses.pause()

    def _texts(self, element: Text, elements: str) -> None:
        """Each is read together with the length of the next."""
        source = self._source
        with source.block("if n"):
            source.line("others = n - 1")
            self._lead_by(element, "element")
            with source.block("for _ in range(others)"):
                self._lead_by(element, "element")
                source.line(f"{elements}.append(element)")
                self._pauses.pause()
            self.flush()
            source.line(f"{elements}.append(element)")

    def _structs(self, element: StructNode, target: str) -> None:
        """Make all of them at once, then fill one after another. Most arrays have one element."""
        source = self._source
        elements, name = source.fresh("a"), source.fresh("x")
        cls = source.constant(element.cls.__name__, element.cls)
        if self._pauses.are_wanted:
            self._structs_in_steps(element, target, elements, name, cls)
            return
        with source.block("if n == 1"):
            source.line(f"{elements} = [new({cls})]")
        with source.block("elif n == 0"):
            source.line(f"{elements} = []")
        with source.block("else"):
            with source.block(f"if not 0 < n <= spare or n * {min_size(element)} > limit - position"):
                source.line(f"raise refused_count({target!r}, n, spare, limit)")
            source.line("spare -= n")
            source.line(f"{elements} = [*map(new, repeat({cls}, n))]")
        source.line(f"{target} = {elements}")
        if all(fixed_format(member) for _, member in element.members):
            self._flat(element, elements, name)
        else:
            self._each(element, elements, name)

    def _structs_in_steps(self, element: StructNode, target: str, elements: str, name: str, cls: str) -> None:
        """Make each when its turn comes."""
        source = self._source
        with source.block("if n != 1"):
            with source.block(f"if not 0 <= n <= spare or n * {min_size(element)} > limit - position"):
                source.line(f"raise refused_count({target!r}, n, spare, limit)")
            source.line("spare -= n")
        source.line(f"{elements} = {target} = []")
        with source.block("for _ in range(n)"):
            source.line(f"{name} = new({cls})")
            source.line(f"{elements}.append({name})")
            self._members(element, name)
            self.flush()
            self._pauses.pause()

    def _each(self, element: StructNode, elements: str, name: str) -> None:
        with self._source.block(f"for {name} in {elements}"):
            self._members(element, name)
            self.flush()

    def _flat(self, element: StructNode, elements: str, name: str) -> None:
        """Structs of one run: from a few of them on by one iterator over all, if none of them has tagged fields.

        Their bytes are there: `_structs` has compared the count with what they take at least, which is all they take.
        """
        source = self._source
        run = FixedWidthRun()
        for field_name, member in element.members:
            run.add(str(fixed_format(member)), f"{name}.{field_name}")
        if element.tagged is not None:
            run.add("B", "n")
        packer, targets = run.take()
        condition = f"n >= {_BULK}"
        if element.tagged is not None:
            condition += f" and is_untagged(buffer, position, n, {packer.size})"
        with source.block(f"if {condition}"):
            source.line(f"end = position + n * {packer.size}")
            unpack = source.constant("s", packer.iter_unpack)
            rows = f"zip({elements}, {unpack}(buffer[position:end]))"
            with source.block(f"for {name}, ({', '.join(targets)},) in {rows}"):
                self._defaults(element, name)
            source.line("position = end")
        with source.block("else"):
            self._each(element, elements, name)


class InvalidLength(Exception):
    """A length that cannot be; becomes a MalformedRequest where the name of the message is known."""


def _refused(target: str, length: int) -> InvalidLength:
    return InvalidLength(f"{target.partition('.')[2] or target} cannot have length {length}")


def _refused_count(target: str, count: int, spare: int, limit: int) -> InvalidLength:
    """`limit`: the size of the message, and so the most elements that it can have."""
    if spare < count <= limit:
        name = target.partition(".")[2] or target
        return InvalidLength(f"{count} {name}, where a request may have {spare} more elements in all its arrays")
    return _refused(target, count)


def _wrapped(title: str, position: int, error: Exception) -> MalformedRequest:
    return MalformedRequest(f"{title}, at byte {position}: {error}")


_SHIFTS = tuple(range(14, 7 * MAX_VARINT_SIZE, 7))


def _varint(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte has been read."""
    byte = buffer[position]
    value = first & 0x7F | (byte & 0x7F) << 7
    position += 1
    if byte < 0x80:
        return value, position
    for shift in _SHIFTS:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise InvalidLength(f"an unsigned varint is longer than {MAX_VARINT_SIZE} bytes")


def _read_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    first = buffer[position]
    return (first, position + 1) if first < 0x80 else _varint(buffer, position + 1, first)


def read_tags(buffer: memoryview, position: int, count: int, spare: int) -> tuple[dict[int, bytes], int, int]:
    """A section of tagged fields, of whose count the first byte has been read: the bytes of every field, by tag.

    Returns them, the position after them, and what is left of `spare`.
    """
    if count > 127:
        count, position = _varint(buffer, position, count)
    if count > spare:
        raise _refused_count("tagged fields", count, spare, len(buffer))
    tags: dict[int, bytes] = {}
    for _ in range(count):
        position = _read_tag(buffer, position, tags)
    return tags, position, spare - count


def _read_tag(buffer: memoryview, position: int, tags: dict[int, bytes]) -> int:
    """Take one tagged field; returns the position after it."""
    tag, position = _read_varint(buffer, position)
    size, position = _read_varint(buffer, position)
    tags[tag] = _long_blob(buffer, position, size, f"tag {tag}")
    return position + size


def _read_tags_in_steps(
    buffer: memoryview, position: int, count: int, spare: int
) -> Generator[None, None, tuple[dict[int, bytes], int, int]]:
    """What `read_tags` does: most structs have a few tagged fields, a hostile one has as many as fit."""
    if count <= 127:
        return read_tags(buffer, position, count, spare)
    count, position = _varint(buffer, position, count)
    if count > spare:
        raise _refused_count("tagged fields", count, spare, len(buffer))
    tags: dict[int, bytes] = {}
    for number in range(1, count + 1):
        position = _read_tag(buffer, position, tags)
        if not number % STEP_ELEMENTS:
            yield
    return tags, position, spare - count


def _keep_tags(instance: Any, buffer: memoryview, position: int, count: int, spare: int) -> tuple[int, int]:
    """Tagged fields of a struct that declares none."""
    tags, position, spare = read_tags(buffer, position, count, spare)
    instance.unknown_tags = tags or None
    return position, spare


def _keep_tags_in_steps(
    instance: Any, buffer: memoryview, position: int, count: int, spare: int
) -> Generator[None, None, tuple[int, int]]:
    tags, position, spare = yield from _read_tags_in_steps(buffer, position, count, spare)
    instance.unknown_tags = tags or None
    return position, spare


def _is_untagged(buffer: memoryview, position: int, count: int, size: int) -> bool:
    """Whether none of `count` structs, of `size` bytes without tagged fields, has any: each ends with its count, 0."""
    ends = buffer[position + size - 1 : position + count * size : size]
    return ends.tobytes().count(0) == count


def _long_blob(buffer: memoryview, position: int, size: int, target: str) -> bytes:
    if not 0 <= size <= len(buffer) - position:
        raise _refused(target, size)
    return bytes(buffer[position : position + size])


def _long_text(buffer: memoryview, position: int, size: int, target: str) -> str:
    if size > MAX_TEXT_SIZE:
        raise _refused(target, size)
    return _long_blob(buffer, position, size, target).decode()


@functools.cache
def _few_numbers(code: str) -> list[Callable[..., tuple[Any, ...]]]:
    """By their number: what unpacks a few fixed-width values."""
    return [struct.Struct(">" + code * number).unpack_from for number in range(_FEW + 1)]


def _many_numbers(
    buffer: memoryview, position: int, count: int, code: str, target: str, spare: int
) -> tuple[list[Any], int]:
    """An array of more fixed-width values than a few, and what it leaves of `spare`."""
    left = _check_numbers(buffer, position, count, code, target, spare)
    return _numbers(buffer, position, count, code), left


def _many_numbers_in_steps(
    buffer: memoryview, position: int, count: int, code: str, target: str, spare: int
) -> Generator[None, None, tuple[list[Any], int]]:
    left = _check_numbers(buffer, position, count, code, target, spare)
    size, values = struct.calcsize(">" + code), []
    for first in range(0, count, STEP_NUMBERS):
        values += _numbers(buffer, position + first * size, min(STEP_NUMBERS, count - first), code)
        yield
    return values, left


def _check_numbers(buffer: memoryview, position: int, count: int, code: str, target: str, spare: int) -> int:
    """What an array of `count` numbers leaves of `spare`."""
    end = position + count * struct.calcsize(">" + code)
    if not position <= end <= len(buffer):
        raise _refused(target, count)
    left = spare - count // _NUMBERS_PER_ELEMENT
    if left < 0:
        raise _refused_count(target, count, spare * _NUMBERS_PER_ELEMENT, len(buffer))
    return left


def _numbers(buffer: memoryview, position: int, count: int, code: str) -> list[Any]:
    if code.endswith("s"):  # there is no count of them in a format, and a long format would be kept by `struct`
        size = struct.calcsize(">" + code)
        data = bytes(buffer[position : position + count * size])
        return [data[start : start + size] for start in range(0, len(data), size)]
    return list(struct.unpack_from(f">{count}{code}", buffer, position))
