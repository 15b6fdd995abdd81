"""Compiled messages against construct's interpretation: `python -m headgate.tools.bench.rows.messages [NAME ...]`.

No broker takes part. Every message of the registry is read and written in its oldest and its newest version, the hot
ones in every version, in three sizes: 1, 12 and 100 elements in the innermost arrays (the partitions of a topic), and
one element in the arrays around them. construct and the compiled function run in turns, so that both meet the same
neighbours on the machine. In a round the shortest turn counts, and of all rounds the one with the median ratio. Times
are CPU times.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from headgate.protocol import compiler, registry, wire
from headgate.protocol.schema import Message, tree
from headgate.protocol.tests.declared import request_class, response_class

HOT = ("Produce", "Fetch", "ListOffsets", "OffsetCommit")
SIZES = (1, 12, 100)
MARK = 15.0
"""The promise: hot messages, and all messages of more than ten elements, are so many times as fast as construct."""
MANY = 10

ROUNDS = 7
SECOND_CHANCE = 5
_TURNS = 3
_TURN_S = 0.001
_TICK_S = 1e-9
_BATCH = bytes(79)  # as long as a batch of one record of ten bytes
_REPLICAS = 3

Pair: TypeAlias = tuple[Callable[[], Any], Callable[[], Any]]
"""The same operation by construct and by the compiled function."""


@dataclass(frozen=True)
class Row:
    """The times of one message in one version, direction and size. `mark`: None without a promise."""

    name: str
    version: int
    direction: str
    elements: int
    construct_us: float
    compiled_us: float
    mark: float | None

    @property
    def ratio(self) -> float:
        return self.construct_us / self.compiled_us

    @property
    def is_short(self) -> bool:
        return self.mark is not None and self.ratio < self.mark


def measure(names: Sequence[str] = (), rounds: int = ROUNDS) -> list[Row]:
    """Measure the named APIs, by default all of them, which takes a minute."""
    return list(rows(names, rounds))


def rows(names: Sequence[str] = (), rounds: int = ROUNDS) -> Iterator[Row]:
    """The rows of `measure`, each as soon as it is measured."""
    for key, api in registry.APIS.items():
        if not names or api.name in names:
            for cls in (request_class(key), response_class(key)):
                yield from _rows_of(cls, api.name in HOT, rounds)


def sample(cls: type[Message], version: int, size: int) -> tuple[Any, int]:
    """A message with `size` elements in its innermost arrays of structs, and the number of all its elements."""
    sampler = _Sampler(size)
    return sampler.value(tree(cls, version)), sampler.elements


class _Sampler:
    """Fills a tree with typical values of clients: short names, no tagged fields, null where null is the default."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.elements = 0

    def value(self, node: Any) -> Any:
        if isinstance(node, wire.NullableStructNode):
            return self.value(node.inner)
        if isinstance(node, wire.StructNode):
            defaults = {field.name: field.default() for field in node.cls.fields}
            return node.cls(**{name: self._member(member, defaults[name]) for name, member in node.members})
        if isinstance(node, wire.Array):
            return self._array(node.element)
        if isinstance(node, wire.Text):
            return "a-name-of-it"
        if isinstance(node, wire.Blob):
            return _BATCH
        if node is wire.UUID:
            return b"0123456789abcdef"
        return True if node is wire.Flag else 1

    def _member(self, node: Any, default: Any) -> Any:
        return None if default is None and type(node) is wire.Text else self.value(node)

    def _array(self, element: Any) -> list[Any]:
        if not _is_counted(element):
            return [self.value(element) for _ in range(_REPLICAS)]
        count = 1 if _holds_elements(element) else self._size
        self.elements += count
        return [self.value(element) for _ in range(count)]


def _is_counted(element: Any) -> bool:
    """True for structs and texts; an array of numbers counts as one value."""
    return isinstance(element, wire.StructNode | wire.Text)


def _holds_elements(node: Any) -> bool:
    if isinstance(node, wire.NullableStructNode):
        return _holds_elements(node.inner)
    if isinstance(node, wire.StructNode):
        return any(_holds_elements(member) for _, member in node.members)
    return isinstance(node, wire.Array) and _is_counted(node.element)


def _rows_of(cls: type[Message], is_hot: bool, rounds: int) -> Iterator[Row]:
    first, last = cls.versions
    for version in range(first, last + 1) if is_hot else sorted({first, last}):
        measured = set()
        for size in SIZES:
            value, elements = sample(cls, version, size)
            if elements not in measured:  # a message without arrays has one size
                measured.add(elements)
                mark = MARK if elements > MANY or is_hot else None
                for direction, pair in _pairs(cls, version, value):
                    row = Row(cls.__name__, version, direction, elements, *timed(pair, rounds), mark)
                    if row.is_short:  # neighbours on the machine only make times longer: measure again, more often
                        construct_us, compiled_us = timed(pair, rounds * SECOND_CHANCE)
                        row = replace(row, construct_us=construct_us, compiled_us=compiled_us)
                    yield row


def _pairs(cls: type[Message], version: int, value: Any) -> Iterator[tuple[str, Pair]]:
    parse, build = tree(cls, version).parse, tree(cls, version).build
    read, write = compiler.reader(cls, version), compiler.writer(cls, version)
    encoded = build(value)
    view = memoryview(bytearray(encoded))  # as a received frame
    yield "read", (lambda: parse(encoded), lambda: read(view))
    yield "write", (lambda: build(value), lambda: write(value, bytearray(), []))


def timed(pair: Pair, rounds: int) -> tuple[float, float]:
    """Microseconds of construct and of the compiled function, from the round whose ratio is the median."""
    repeats = [max(1, int(_TURN_S / _seconds(function, 1))) for function in pair]
    measured = sorted((_round(pair, repeats) for _ in range(rounds)), key=lambda times: times[0] / times[1])
    construct_s, compiled_s = measured[rounds // 2]
    return construct_s * 1e6, compiled_s * 1e6


def _round(pair: Pair, repeats: Sequence[int]) -> list[float]:
    """The shortest of a few turns of each function, all within the same milliseconds."""
    turns = [
        [_seconds(function, count) / count for function, count in zip(pair, repeats, strict=True)]
        for _ in range(_TURNS)
    ]
    return [min(times) for times in zip(*turns, strict=True)]


def _seconds(function: Callable[[], Any], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        function()
    return time.process_time() - start or _TICK_S


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m headgate.tools.bench.rows.messages", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="an API such as Fetch; all if none is named")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each measurement (default: %(default)s)")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - {api.name for api in registry.APIS.values()}
    if unknown:
        parser.error(f"no API is called {', '.join(sorted(unknown))}")
    print(f"{'message':38}{'':7}{'elements':>8}{'construct us':>14}{'compiled us':>13}{'ratio':>7}{'mark':>6}")
    short = 0
    for row in rows(options.names, options.rounds):
        short += row.is_short
        print(_line(row), flush=True)
    print(f"{short} below the mark" if short else "every row is at its mark")
    return 0


def _line(row: Row) -> str:
    mark = f"{row.mark:6.0f}" if row.mark is not None else f"{'-':>6}"
    times = f"{row.construct_us:14.1f}{row.compiled_us:13.2f}{row.ratio:7.1f}"
    title = f"{row.name} v{row.version}"
    return f"{title:38}{row.direction:7}{row.elements:8}{times}{mark}{'  short' if row.is_short else ''}"


if __name__ == "__main__":
    sys.exit(main())
