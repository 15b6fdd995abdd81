"""The reading half of the compiler; `protocol.compiler` describes the whole.

An example of an emitted reader (FetchTopic v11 in FetchRequest; comments added):

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

No code reads past the end. An unpack of too few bytes raises struct.error, an index raises IndexError. A slice would be
cut silently, so a check precedes each slice. A negative length never becomes an index.

The arrays of a request have at most `MAX_ELEMENTS` elements together; `spare` is the unused part of this limit. Apache
Kafka has no such limit: its readers compare a count with the remaining bytes alone, as ours do too. The
only element of an array is not counted, as its holder was. Ten numbers count as one element: one call reads an array of
numbers, but each number is an object, and a handler may make something of each.

A reader in steps is the same code as a generator. It yields after every `STEP_ELEMENTS` elements. It makes and reads
structs one by one: 100,000 structs made at once would take 10 ms.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from headgate.protocol.emitter import (
    MAX_FEW_NUMBERS,
    STEP_ELEMENTS,
    STEP_NUMBERS,
    FixedWidthRun,
    Source,
    TreeEmitter,
    YieldPoints,
    few_numbers,
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

MAX_ELEMENTS = 1_000_000
"""The limit for the elements of all arrays and tagged fields of a request that is read in steps."""
MAX_ELEMENTS_AT_ONCE = 100_000
"""The same of a request that is read at once: the read of as many stops the loop for 0.1 s."""

BYTES_PER_ELEMENT = 1_200
"""The most memory of a counted element in a request that Headgate serves, beside its blobs: the struct, and what is not
counted inside, arrays of one element and of up to `MAX_FEW_NUMBERS` numbers."""
_BYTES_PER_BYTE = 100
"""The most memory for each byte of a request: for structs of four bytes with an empty list and an unknown tag."""

MAX_SHORT_BLOB_BYTES = 127
"""The longest blob that a `struct.Struct` of its own length copies; one byte of a varint holds this length. The struct
checks the end, is faster than a slice of a memoryview, and reads the run after the blob in the same call."""

_NUMBERS_PER_ELEMENT = 10
_MIN_BULK_STRUCTS = 4  # from so many structs of fixed width on, one iterator over their bytes is faster
_LITERALS = (type(None), bool, int, str, bytes)


class _BlobUnpackers(dict[int, Callable[..., tuple[Any, ...]]]):
    """The unpackers of a short blob together with the run after it, by the blob's length on the wire.

    The first use of a length makes its unpacker.
    """

    def __init__(self, rest: str, bias: int) -> None:
        super().__init__()
        self._rest = rest
        self._bias = bias

    def __missing__(self, length: int) -> Callable[..., tuple[Any, ...]]:
        unpack = self[length] = struct.Struct(f">{length - self._bias}s{self._rest}").unpack_from
        return unpack


blob_unpackers = functools.cache(_BlobUnpackers)
"""`blob_unpackers(rest, bias)`: `rest` is the format of the run, `bias` what a length on the wire adds."""


class _PendingBlob(NamedTuple):
    """A blob to be read together with the run after it. `n` has its length, or the first byte of the length."""

    node: Blob
    target: str

    @property
    def decode(self) -> str:
        return ".decode()" if isinstance(self.node, Text) else ""

    @property
    def empty(self) -> str | bytes:
        return "" if isinstance(self.node, Text) else b""


def parsed_bytes(size: int, max_elements: int) -> int:
    """The most memory that a request of `size` bytes, and at most so many elements, takes once it is read."""
    return min(size * _BYTES_PER_BYTE, size + max_elements * BYTES_PER_ELEMENT)


def reader(root: StructNode, title: str, max_elements: int | None, in_steps: bool = False) -> Reader:
    """Emit and compile `read(buffer, position=0) -> (value, position)` for the tree of a message.

    `max_elements`: the limit for the elements of all arrays together; None for no limit but the bytes.
    `in_steps`: `read` is a generator that yields often, and returns the number of elements as well.
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
        refused=_invalid_length,
        refused_count=_invalid_count,
        varint=_varint,
        wrapped=lambda position, error: _malformed(title, position, error),
        ENDS=(struct.error, IndexError, UnicodeDecodeError, InvalidLength),
    )
    yield_points = YieldPoints(source, in_steps)
    emitter = _ReaderEmitter(source, yield_points)
    with source.block("def read(buffer, position=0)"):
        yield_points.begin()
        with source.block("if type(buffer) is not memoryview"):
            source.line("buffer = memoryview(buffer)")
        source.line("limit = len(buffer)")
        bounded = "" if max_elements is None else f" if limit < {max_elements} else {max_elements}"
        source.line(f"{'most = ' if in_steps else ''}spare = limit{bounded}")
        with source.block("try"):
            value = emitter.read_struct(root)
            emitter.flush()
            source.line(f"return {value}, position" + (", most - spare" if in_steps else ""))
        with source.block("except ENDS as error"):
            source.line("raise wrapped(position, error) from None")
    emitter.finish()
    return source.function("read", f"<read {title}{' in steps' if in_steps else ''}>")


class _ReaderEmitter(TreeEmitter):
    """Walks a tree, and emits code that assigns the value of each node to a target: an attribute or a local name."""

    def __init__(self, source: Source, yield_points: YieldPoints) -> None:
        super().__init__(source, yield_points)
        self._pending: _PendingBlob | None = None

    def flush(self) -> None:
        """Emit the read of the collected run, together with the blob before it."""
        pending, self._pending = self._pending, None
        packer, targets = self._run.take()
        if pending is None:
            self._unpack(packer, targets)
            return
        source, bias = self._source, pending.node.length.bias
        unpack = source.constant("s", blob_unpackers(packer.format[1:], bias))
        value = "d" if pending.decode else pending.target
        with source.block(f"if {bias} < n <= {MAX_SHORT_BLOB_BYTES}"):
            rest = "".join(f"{'m' if target == 'n' else target}, " for target in targets)
            source.line(f"{value}, {rest}= {unpack}[n](buffer, position)")
            if pending.decode:
                source.line(f"{pending.target} = d.decode()")
            source.line("position += n" + (f" {packer.size - bias:+}" if packer.size != bias else ""))
            if "n" in targets:
                source.line("n = m")
        with source.block("else"):
            self._uncommon_blob(pending)
            self._unpack(packer, targets)

    def read_struct(self, node: StructNode) -> str:
        """Emit the read of a struct; return the local name of the struct."""
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
        """Emit an empty struct. The code fills its slots in place: a constructor call takes half as long again."""
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
        """Emit the defaults of the fields that this version lacks, and of the tagged fields."""
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
        function = self._tags_name(tagged)
        self._run.add("B", "n")
        self.flush()
        with self._source.block("if n"):
            self._source.line(
                f"position, spare = {self._yield_points.call_prefix}{function}({name}, buffer, position, n, spare)"
            )

    def _tags_function(self, function: str, tagged: Sequence[TaggedField]) -> None:
        source, call = self._source, self._yield_points.call_prefix
        with source.block(f"def {function}(x, buffer, position, n, spare)"):
            source.line(f"tags, position, spare = {call}read_tags(buffer, position, n, spare)")
            for field in tagged:
                with source.block(f"if {field.tag} in tags"):
                    source.line(f"x.{field.name}, spare = {call}{function}_{field.tag}(tags.pop({field.tag}), spare)")
            source.line("x.unknown_tags = tags or None")
            source.line("return position, spare")
        for field in tagged:
            with source.block(f"def {function}_{field.tag}(buffer, spare)"):
                self._yield_points.begin()
                source.line("position, limit = 0, len(buffer)")
                self.node(field.node, "value")
                self.flush()
                with source.block("if position != limit"):
                    source.line(f"raise refused({field.name!r}, limit)")
                source.line("return value, spare")

    def _struct(self, node: StructNode, target: str) -> None:
        name = self._new(node)
        self._source.line(f"{target} = {name}")
        self._members(node, name)

    def _nullable_struct(self, node: NullableStructNode, target: str) -> None:
        self._run.add("b", "n")
        self.flush()
        with self._source.block(f"if n <= {node.null}"):
            self._source.line(f"{target} = None")
        with self._source.block("else"):
            self.node(node.inner, target)
            self.flush()

    def _length(self, node: Array | Blob) -> None:
        """Emit the read of a length into `n`; null is -1."""
        self._run.add(length_format(node.length), "n")
        self.flush()
        self._complete_length(node)

    def _complete_length(self, node: Array | Blob) -> None:
        """Emit the rest of a length, whose fixed part is in `n`."""
        if is_compact(node.length):
            with self._source.block("if n > 127"):
                self._source.line("n, position = varint(buffer, position, n)")
            self._source.line("n -= 1")

    def _blob(self, node: Blob, target: str) -> None:
        """Emit the fixed part of a blob's length into `n`; the next flush reads the blob."""
        self._run.add(length_format(node.length), "n")
        self.flush()
        self._pending = _PendingBlob(node, target)

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

    def _uncommon_blob(self, pending: _PendingBlob) -> None:
        """Emit the read of a blob that is null, empty or long."""
        source, target = self._source, pending.target
        self._complete_length(pending.node)
        branch = "if"
        if pending.node.length.nullable:
            with source.block("if n == -1"):
                source.line(f"{target} = None")
            branch = "elif"
        with source.block(f"{branch} n == 0"):
            source.line(f"{target} = {self._literal(pending.empty)}")
        with source.block("else"):
            function = "long_text" if pending.decode else "long_blob"
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
        """Emit the read of an array of fixed-width values."""
        few = self._source.constant("few", _few_numbers(code))
        with self._source.block(f"if 0 <= n <= {MAX_FEW_NUMBERS}"):
            self._source.line(f"{target} = [*{few}[n](buffer, position)]")
        with self._source.block("else"):
            call = f"{self._yield_points.call_prefix}many_numbers"
            self._source.line(f"{target}, spare = {call}(buffer, position, n, {code!r}, {target!r}, spare)")
        self._source.line(f"position += n * {struct.calcsize('>' + code)}")

    def _values(self, element: Construct, target: str) -> None:
        """Emit the read of an array whose elements are neither of fixed width nor structs."""
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
            self._yield_points.count_element()

    def _texts(self, element: Text, elements: str) -> None:
        """Emit the read of an array of texts, each together with the length of the next."""
        source = self._source
        with source.block("if n"):
            source.line("others = n - 1")
            self._blob(element, "element")
            with source.block("for _ in range(others)"):
                self._blob(element, "element")
                source.line(f"{elements}.append(element)")
                self._yield_points.count_element()
            self.flush()
            source.line(f"{elements}.append(element)")

    def _structs(self, element: StructNode, target: str) -> None:
        """Emit the read of an array of structs: all are made at once, then filled. Most arrays have one element."""
        source = self._source
        elements, name = source.fresh("a"), source.fresh("x")
        cls = source.constant(element.cls.__name__, element.cls)
        if self._yield_points.is_enabled:
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
            self._structs_in_bulk(element, elements, name)
        else:
            self._structs_one_by_one(element, elements, name)

    def _structs_in_steps(self, element: StructNode, target: str, elements: str, name: str, cls: str) -> None:
        """Emit the read of an array of structs, each made and filled before the next."""
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
            self._yield_points.count_element()

    def _structs_one_by_one(self, element: StructNode, elements: str, name: str) -> None:
        with self._source.block(f"for {name} in {elements}"):
            self._members(element, name)
            self.flush()

    def _structs_in_bulk(self, element: StructNode, elements: str, name: str) -> None:
        """Emit the read of structs of one run each: several without tagged fields by one iterator, others one by one.

        The iterator has enough bytes: `_structs` has compared their count with their least size, which is their size.
        """
        source = self._source
        run = FixedWidthRun()
        for field_name, member in element.members:
            run.add(str(fixed_format(member)), f"{name}.{field_name}")
        if element.tagged is not None:
            run.add("B", "n")
        packer, targets = run.take()
        condition = f"n >= {_MIN_BULK_STRUCTS}"
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
            self._structs_one_by_one(element, elements, name)


class InvalidLength(Exception):
    """An invalid length or count. The reader of the message turns it into a MalformedRequest."""


def _invalid_length(target: str, length: int) -> InvalidLength:
    return InvalidLength(f"{target.partition('.')[2] or target} cannot have length {length}")


def _invalid_count(target: str, count: int, spare: int, limit: int) -> InvalidLength:
    """`limit`: the size of the message in bytes, and so the most elements that its bytes allow."""
    if spare < count <= limit:
        name = target.partition(".")[2] or target
        return InvalidLength(f"{count} {name}, but a request may have only {spare} more elements in its arrays")
    return _invalid_length(target, count)


def _malformed(title: str, position: int, error: Exception) -> MalformedRequest:
    return MalformedRequest(f"{title}, at byte {position}: {error}")


_SHIFTS = tuple(range(14, 7 * MAX_VARINT_SIZE, 7))


def _varint(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint, whose first byte is `first`. Return the number and the position after it."""
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
    """Read a section of tagged fields; `count` is the first byte of their count.

    Return the bytes of the fields by tag, the position after them, and the rest of `spare`. Raises InvalidLength, and
    IndexError at the end of the buffer.
    """
    if count > 127:
        count, position = _varint(buffer, position, count)
    if count > spare:
        raise _invalid_count("tagged fields", count, spare, len(buffer))
    tags: dict[int, bytes] = {}
    for _ in range(count):
        position = _read_tag(buffer, position, tags)
    return tags, position, spare - count


def _read_tag(buffer: memoryview, position: int, tags: dict[int, bytes]) -> int:
    """Read one tagged field into `tags`; return the position after it."""
    tag, position = _read_varint(buffer, position)
    size, position = _read_varint(buffer, position)
    tags[tag] = _long_blob(buffer, position, size, f"tag {tag}")
    return position + size


def _read_tags_in_steps(
    buffer: memoryview, position: int, count: int, spare: int
) -> Generator[None, None, tuple[dict[int, bytes], int, int]]:
    """`read_tags` in steps. Most structs have few tagged fields; a hostile one has as many as fit."""
    if count <= 127:
        return read_tags(buffer, position, count, spare)
    count, position = _varint(buffer, position, count)
    if count > spare:
        raise _invalid_count("tagged fields", count, spare, len(buffer))
    tags: dict[int, bytes] = {}
    for number in range(1, count + 1):
        position = _read_tag(buffer, position, tags)
        if not number % STEP_ELEMENTS:
            yield
    return tags, position, spare - count


def _keep_tags(instance: Any, buffer: memoryview, position: int, count: int, spare: int) -> tuple[int, int]:
    """Read the tagged fields of a struct without declared ones. Return the position, and the rest of `spare`."""
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
    """Return True if none of `count` structs of `size` bytes has tagged fields: each then ends with a count of 0."""
    ends = buffer[position + size - 1 : position + count * size : size]
    return ends.tobytes().count(0) == count


def _long_blob(buffer: memoryview, position: int, size: int, target: str) -> bytes:
    if not 0 <= size <= len(buffer) - position:
        raise _invalid_length(target, size)
    return bytes(buffer[position : position + size])


def _long_text(buffer: memoryview, position: int, size: int, target: str) -> str:
    if size > MAX_TEXT_SIZE:
        raise _invalid_length(target, size)
    return _long_blob(buffer, position, size, target).decode()


@functools.cache
def _few_numbers(code: str) -> list[Callable[..., tuple[Any, ...]]]:
    """Return the unpackers of few fixed-width values, by their count."""
    return [numbers.unpack_from for numbers in few_numbers(code)]


def _many_numbers(
    buffer: memoryview, position: int, count: int, code: str, target: str, spare: int
) -> tuple[list[Any], int]:
    """Read an array of many fixed-width values. Return the values, and the rest of `spare`."""
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
    """Return the rest of `spare` after an array of `count` numbers. Raises InvalidLength."""
    end = position + count * struct.calcsize(">" + code)
    if not position <= end <= len(buffer):
        raise _invalid_length(target, count)
    left = spare - count // _NUMBERS_PER_ELEMENT
    if left < 0:
        raise _invalid_count(target, count, spare * _NUMBERS_PER_ELEMENT, len(buffer))
    return left


def _numbers(buffer: memoryview, position: int, count: int, code: str) -> list[Any]:
    if code.endswith("s"):  # a format has no count of blobs, and `struct` would cache a long format
        size = struct.calcsize(">" + code)
        data = bytes(buffer[position : position + count * size])
        return [data[start : start + size] for start in range(0, len(data), size)]
    return list(struct.unpack_from(f">{count}{code}", buffer, position))
