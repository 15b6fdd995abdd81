"""Records as the tests send and receive them, the generator of both shapes, and the comparison of the two sides."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]

HISTORY_MS = 60_000
STEP_MS = 5


class Sent(NamedTuple):
    """A record before the broker saw it; `None` for partition or timestamp leaves the choice to the client."""

    partition: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


class Received(NamedTuple):
    """A record as a consumer reports it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Traits(NamedTuple):
    """What a client's producing side can express."""

    sets_partition: bool = True
    sets_timestamp: bool = True
    text_only: bool = False  # keys, values and headers go through lines of text
    headers_block: int = 1  # so many records in a row must share their headers
    null_headers: bool = True  # a header may have no value
    headers_by_name: bool = False  # those of one name stand together
    headers_unique: bool = False  # and there is only one of them


def generate(count: int, partitions: int, traits: Traits, seed: int = 1, name: str = "record") -> list[Sent]:
    """Records of usual and of awkward content, as far as the client can express it."""
    chance = random.Random(seed)
    first_ms = int(time.time() * 1000) - HISTORY_MS
    make = text_content if traits.text_only else binary_content
    return [
        Sent(
            index % partitions if traits.sets_partition else None,
            first_ms + index * STEP_MS if traits.sets_timestamp else None,
            *make(name, index, chance),
            headers(index - index % traits.headers_block, traits),
        )
        for index in range(count)
    ]


def text_content(name: str, index: int, chance: random.Random) -> tuple[bytes, bytes]:
    word = f"{chance.getrandbits(64):016x}"
    return f"key-{index % 97}".encode(), f"{name} {index} {word} {'compressible ' * 6}é".encode()


def binary_content(name: str, index: int, chance: random.Random) -> tuple[bytes | None, bytes | None]:
    """Bytes of every kind: no key, an empty key, a tombstone, an empty value, and values that are not text."""
    key: bytes | None = f"key-{index}".encode()
    value: bytes | None = f"{name} {index} ".encode() + chance.randbytes(chance.randrange(40)) + bytes(60)
    match index % 50:
        case 7:
            key = None
        case 8:
            key = b""
        case 9:
            value = None
        case 10:
            value = b""
    return key, value


def headers(index: int, traits: Traits) -> Headers:
    pairs: Headers = (("number", str(index).encode()), ("trace", f"trace-{index:08d}".encode()))
    if traits.text_only:
        return pairs
    match index % 50:
        case 11:
            return ()
        case 12:
            again: Headers = () if traits.headers_unique else (("number", b"again, the same name"),)
            first, second = (pairs[:1], pairs[1:]) if traits.headers_by_name else (pairs, ())
            return (*first, *again, *second, ("nothing", None if traits.null_headers else b""))
        case 13:
            return (("bytes", bytes(range(256))), ("näme", b"not ascii"))
    return pairs


def by_partition(records: Iterable[Received]) -> dict[int, list[Received]]:
    """The records of each partition in the order in which they came."""
    parts: dict[int, list[Received]] = defaultdict(list)
    for record in records:
        parts[record.partition].append(record)
    return dict(parts)


def assert_same(sent: Sequence[Sent], received: Sequence[Received], began_ms: int) -> None:
    """Everything sent came back once: content, partition, time and order, with dense offsets."""
    assert len(received) == len(sent), f"{len(sent)} records were sent, {len(received)} came back"
    parts = by_partition(received)
    assert_dense(parts)
    if sent[0].partition is None:
        assert_same_by_content(sent, parts)
    else:
        assert_same_by_partition(sent, parts)
    if sent[0].timestamp_ms is None:
        late_ms = int(time.time() * 1000) + 1000
        assert all(began_ms <= record.timestamp_ms <= late_ms for record in received)


def assert_dense(parts: Mapping[int, Sequence[Received]]) -> None:
    for partition, records in parts.items():
        offsets = [record.offset for record in records]
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets))), (
            f"offsets of partition {partition} have gaps"
        )


def assert_same_by_partition(sent: Sequence[Sent], parts: Mapping[int, Sequence[Received]]) -> None:
    wanted: dict[int | None, list[Sent]] = defaultdict(list)
    for record in sent:
        wanted[record.partition].append(record)
    assert wanted.keys() == parts.keys()
    for partition, records in parts.items():
        seen = [Sent(one.partition, one.timestamp_ms, one.key, one.value, one.headers) for one in records]
        expected = wanted[partition]
        if expected[0].timestamp_ms is None:
            seen = [one._replace(timestamp_ms=None) for one in seen]
        assert_equal(expected, seen, f"partition {partition}")


def assert_same_by_content(sent: Sequence[Sent], parts: Mapping[int, Sequence[Received]]) -> None:
    """The client chose the partitions: within each the order of sending holds, together they are everything."""
    position = {record.value: index for index, record in enumerate(sent)}
    assert len(position) == len(sent), "these records are not told apart by their values"
    seen: list[int] = []
    for partition, records in parts.items():
        order = [position[record.value] for record in records]
        assert order == sorted(order), f"partition {partition} is not in the order of sending"
        got = [(one.key, one.value, one.headers) for one in records]
        assert_equal([sent[index][2:] for index in order], got, f"partition {partition}")
        seen += order
    assert sorted(seen) == list(range(len(sent)))


def assert_equal(expected: Sequence[object], seen: Sequence[object], where: str) -> None:
    """Compare two long lists and show the first difference only."""
    for index, (one, other) in enumerate(zip(expected, seen, strict=False)):
        assert one == other, f"{where}, record {index}: {one} was expected, {other} came"
    assert len(expected) == len(seen), f"{where}: {len(expected)} expected, {len(seen)} came"
