"""The writing half of the compiler; `protocol.compiler` describes the whole.

An example of an emitted writer (ListOffsetsTopic v5; comments added):

    d1 = x.name.encode()
    n = len(d1)
    out += s2(n)                       # one call writes a run, with the length at its end
    out += d1
    a3 = x.partitions
    out += s4(len(a3))
    for e5 in a3:
        out += s6(e5.partition_index, e5.current_leader_epoch, e5.timestamp)

A varint's first byte belongs to the run before it; `more` adds its other bytes, which are rare. The count of tagged
fields belongs to that run too. It is written as zero, which it nearly always is, and removed if there are any fields.

A writer in steps is the same code as a generator, which yields after every `STEP_ELEMENTS` elements. An array may be a
`LazyArray`, whose elements are made while they are written.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from headgate.protocol.emitter import (
    MAX_FEW_NUMBERS,
    STEP_NUMBERS,
    Source,
    TreeEmitter,
    YieldPoints,
    few_numbers,
    fixed_format,
    is_compact,
    length_format,
)
from headgate.protocol.schema import Struct
from headgate.protocol.wire import Array, Blob, Construct, NullableStructNode, Records, StructNode, TaggedField, Text

Writer = Callable[..., Any]


def writer(root: StructNode, title: str, in_steps: bool = False) -> Writer:
    """Emit and compile `write(value, out, splices)` for the tree of a message.

    `in_steps`: `write` is a generator that yields often. Tagged fields are written in one step, as all of them are
    small.
    """
    source = Source()
    source.names.update(
        more=_more,
        many_numbers=_many_numbers,
        numbers_in_steps=_numbers_in_steps,
        write_tags=_write_tags,
        keep_tags=_keep_tags,
        BYTES=(bytes, bytearray, memoryview),
    )
    yield_points = YieldPoints(source, in_steps)
    emitter = _WriterEmitter(source, yield_points)
    with source.block("def write(value, out, splices)"):
        yield_points.begin()
        emitter.node(root, "value")
        emitter.flush()
        source.line("return")
    emitter.finish()
    return source.function("write", f"<write {title}{' in steps' if in_steps else ''}>")


class _WriterEmitter(TreeEmitter):
    """Walks a tree, and emits code that appends the value of each node, an expression, to `out`."""

    def flush(self) -> None:
        """Emit the write of the collected run."""
        if self._run:
            packer, values = self._run.take()
            if packer.format == ">B":
                self._source.line(f"out.append({values[0]})")
                return
            pack = self._source.constant("s", packer.pack)
            self._source.line(f"out += {pack}({', '.join(values)})")

    def finish(self) -> None:
        """Emit the functions for tagged fields, which write them in one step."""
        self._yield_points = YieldPoints(self._source, is_enabled=False)
        super().finish()

    def _struct(self, node: StructNode, value: str) -> None:
        if "." in value:
            value, expression = self._source.fresh("x"), value
            self._source.line(f"{value} = {expression}")
        for name, member in node.members:
            self.node(member, f"{value}.{name}")
        if node.tagged is not None:
            self._tags(node.tagged, value)

    def _tags(self, tagged: Sequence[TaggedField], value: str) -> None:
        source = self._source
        function = self._tags_name(tagged)
        self._run.add("B", "0")
        self.flush()
        present = [f"{value}.unknown_tags is not None"]
        present += [_difference(source, f"{value}.{field.name}", field.default()) for field in tagged]
        with source.block(f"if {' or '.join(present)}"):
            source.line("out.pop()")
            source.line(f"{function}({value}, out)")

    def _tags_function(self, function: str, tagged: Sequence[TaggedField]) -> None:
        source = self._source
        with source.block(f"def {function}(x, out)"):
            source.line("tags = dict(x.unknown_tags or ())")
            for field in tagged:
                with source.block(f"if {_difference(source, f'x.{field.name}', field.default())}"):
                    source.line(f"tags[{field.tag}] = {function}_{field.tag}(x.{field.name})")
            source.line("write_tags(tags, out)")
        for field in tagged:
            with source.block(f"def {function}_{field.tag}(value)"):
                source.line("out = bytearray()")
                self.node(field.node, "value")
                self.flush()
                source.line("return out")

    def _nullable_struct(self, node: NullableStructNode, value: str) -> None:
        source = self._source
        name = source.fresh("x")
        source.line(f"{name} = {value}")
        self._run.add("b", f"{node.null} if {name} is None else 1")
        self.flush()
        with source.block(f"if {name} is not None"):
            self.node(node.inner, name)
            self.flush()

    def _length(self, node: Any, number: str) -> None:
        """Add `number`, the length on the wire, to the run, and emit the write of the run."""
        if not is_compact(node.length):
            self._run.add(length_format(node.length), number)
            self.flush()
            return
        self._run.add("B", f"{number} if {number} < 128 else {number} & 127 | 128")
        self.flush()
        with self._source.block(f"if {number} > 127"):
            self._source.line(f"out += more({number})")

    def _measure(self, node: Any, name: str) -> None:
        """Emit the assignment of the length of `name` on the wire to `n`."""
        bias = 1 if is_compact(node.length) else 0
        size = f"len({name}) + 1" if bias else f"len({name})"
        if node.length.nullable:
            size = f"{bias - 1} if {name} is None else {size}"
        self._source.line(f"n = {size}")

    def _blob(self, node: Blob, value: str) -> None:
        source = self._source
        name = source.fresh("d")
        source.line(f"{name} = {value}")
        if isinstance(node, Text):
            encode = f"{name} = {name}.encode()"
            source.line(f"if {name} is not None: {encode}" if node.length.nullable else encode)
        self._measure(node, name)
        self._length(node, "n")
        source.line(f"if {name}: out += {name}" if node.length.nullable else f"out += {name}")

    def _records(self, node: Records, value: str) -> None:
        source = self._source
        name = source.fresh("d")
        source.line(f"{name} = {value}")
        self._measure(node, name)
        self._length(node, "n")
        source.line(f"if isinstance({name}, BYTES): out += {name}")
        source.line(f"elif {name} is not None: splices.append((len(out), {name}))")

    def _array(self, node: Array, value: str) -> None:
        source = self._source
        name = source.fresh("a")
        source.line(f"{name} = {value}")
        self._measure(node, name)
        self._length(node, "n")
        if node.length.nullable:
            with source.block(f"if {name}"):
                self._elements(node.element, name)
        else:
            self._elements(node.element, name)

    def _elements(self, element: Construct, elements: str) -> None:
        source = self._source
        code = fixed_format(element)
        if code is not None:
            few = source.constant("few", _few_numbers(code))
            many = f"many_numbers({elements}, {code!r})"
            if self._yield_points.is_enabled:
                with source.block(f"if len({elements}) > {MAX_FEW_NUMBERS}"):
                    source.line(f"yield from numbers_in_steps({elements}, {code!r}, out)")
                source.line(f"else: out += {few}[len({elements})](*{elements})")
                return
            source.line(
                f"out += {few}[len({elements})](*{elements}) if len({elements}) <= {MAX_FEW_NUMBERS} else {many}"
            )
            return
        name = source.fresh("e")
        with source.block(f"for {name} in {elements}"):
            self.node(element, name)
            self.flush()
            self._yield_points.count_element()


def _difference(source: Source, value: str, default: Any) -> str:
    """Return the test that `value` differs from its default. It compares structs by field, as their `==` is slow."""
    if default is None:
        return f"{value} is not None"
    name = source.constant("default", default)
    if not isinstance(default, Struct):
        return f"{value} != {name}"
    differences = " or ".join(_field_differences(source, value, default))
    return f"({value} is not {name} and ({value} is None or {differences}))"


def _field_differences(source: Source, value: str, default: Struct) -> Iterator[str]:
    yield f"{value}.unknown_tags is not None"
    for field in type(default).fields:
        yield _difference(source, f"{value}.{field.name}", getattr(default, field.name))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _more(number: int) -> bytes:
    """Return the bytes of a varint after the first."""
    return _varint(number >> 7)


@functools.cache
def _few_numbers(code: str) -> list[Callable[..., bytes]]:
    """Return the packers of few fixed-width values, by their count."""
    return [numbers.pack for numbers in few_numbers(code)]


def _many_numbers(values: Sequence[Any], code: str) -> bytes:
    """Pack an array of many fixed-width values."""
    return struct.pack(">" + code * len(values), *values)


def _numbers_in_steps(values: Sequence[Any], code: str, out: bytearray) -> Generator[None, None, None]:
    for first in range(0, len(values), STEP_NUMBERS):
        out += _many_numbers(values[first : first + STEP_NUMBERS], code)
        yield


def _keep_tags(instance: Struct, out: bytearray) -> None:
    """Write the tagged fields of a struct without declared ones."""
    _write_tags(instance.unknown_tags or {}, out)


def _write_tags(tags: dict[int, bytes], out: bytearray) -> None:
    out += _varint(len(tags))
    for tag in sorted(tags):
        out += _varint(tag)
        out += _varint(len(tags[tag]))
        out += tags[tag]
