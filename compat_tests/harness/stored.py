"""A partition's files as Apache Kafka lays them out, read independently of the product.

Sources: Kafka's documentation, "Message format" (record batch, magic 2), and `OffsetIndex`/`TimeIndex` of its storage
module: 8-byte entries (relative offset, position) and 12-byte entries (timestamp, relative offset).
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import crc32c

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_FROM = 21


class Batch(NamedTuple):
    """The header of a stored batch, and where it lies."""

    segment: int
    position: int
    size: int
    base_offset: int
    last_offset: int
    attributes: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def codec(self) -> str:
        return CODECS[self.attributes & 7]


def batches(directory: Path) -> list[Batch]:
    """All batches of a partition, segment by segment; every checksum is checked and offsets must increase.

    In a compacted one there may be fewer records than offsets.
    """
    found = [batch for log in sorted(directory.glob("*.log")) for batch in segment_batches(log)]
    for one, other in itertools.pairwise(found):
        assert one.last_offset < other.base_offset, f"offsets go back in {directory} at {other}"
    return found


def segment_batches(log: Path) -> Iterator[Batch]:
    data = memoryview(log.read_bytes())
    position = 0
    while position < len(data):
        batch = read_batch(data, position, int(log.stem))
        yield batch
        position += batch.size


def read_batch(data: memoryview, position: int, segment: int) -> Batch:
    base, length, _, magic, crc, attributes, delta, _, latest, producer, epoch, sequence, count = HEADER.unpack_from(
        data, position
    )
    size = length + 12
    assert magic == 2, f"magic {magic} at {position} of segment {segment}"
    assert position + size <= len(data), f"the batch at {position} of segment {segment} is cut"
    assert crc32c.crc32c(data[position + CRC_FROM : position + size]) == crc, (
        f"checksum at {position} of segment {segment}"
    )
    assert 0 <= count <= delta + 1, f"{count} records over {delta + 1} offsets at {position} of segment {segment}"
    return Batch(segment, position, size, base, base + delta, attributes, latest, producer, epoch, sequence, count)


def offset_index(path: Path) -> list[tuple[int, int]]:
    """(offset, position) of each entry; unused room at the end, which is zeros, is left out."""
    base = int(path.stem)
    return [(base + relative, position) for relative, position in entries(path, ">ii") if relative or position]


def time_index(path: Path) -> list[tuple[int, int]]:
    """(timestamp, offset) of each entry."""
    base = int(path.stem)
    return [(timestamp, base + relative) for timestamp, relative in entries(path, ">qi") if timestamp or relative]


def entries(path: Path, layout: str) -> Iterator[tuple[int, int]]:
    data = path.read_bytes()
    whole = len(data) - len(data) % struct.calcsize(layout)
    yield from struct.iter_unpack(layout, data[:whole])


def assert_indexes_true(directory: Path) -> int:
    """Every index entry points at what it names; the number of entries checked."""
    found = batches(directory)
    checked = 0
    for path in sorted(directory.glob("*.index")):
        held = [batch for batch in found if batch.segment == int(path.stem)]
        checked += check_offset_index(path, held) + check_time_index(path.with_suffix(".timeindex"), held)
    return checked


def check_offset_index(path: Path, held: list[Batch]) -> int:
    """An entry's batch begins at its position and the entry's offset is in it, or in the batches appended with it."""
    found = offset_index(path)
    starts = {batch.position: batch for batch in held}
    last = held[-1].last_offset if held else -1
    for offset, position in found:
        assert position in starts, f"{path}: no batch begins at {position}"
        assert starts[position].base_offset <= offset <= last, f"{path}: offset {offset} is not at {position}"
    assert found == sorted(set(found)), f"{path}: entries are not increasing"
    return len(found)


def check_time_index(path: Path, held: list[Batch]) -> int:
    """Up to an entry's offset nothing is later than its timestamp, and something is that late."""
    found = time_index(path)
    for timestamp, offset in found:
        before = [batch.max_timestamp for batch in held if batch.base_offset <= offset]
        assert max(before, default=-1) >= timestamp, f"{path}: {timestamp} is later than all up to offset {offset}"
        whole = [batch.max_timestamp for batch in held if batch.last_offset <= offset]
        assert not whole or max(whole) <= timestamp, (
            f"{path}: something up to offset {offset} is later than {timestamp}"
        )
    assert found == sorted(found), f"{path}: entries are not increasing"
    return len(found)


def assert_indexes_rebuilt(directory: Path, interval_bytes: int, known: set[tuple[str, int]]) -> None:
    """After a clean stop each index is what the log's bytes make of it, by the rule alone.

    `known`: what was looked at before and found true, of the same directory or a copy of it.
    """
    for log in sorted(directory.glob("*.log")):
        stored = [read_if_there(log.with_suffix(suffix)) for suffix in (".index", ".timeindex")]
        seen = f"{directory.name}/{log.name}", hash((log.read_bytes(), *stored))
        if seen not in known:
            expected = rebuilt_indexes(list(segment_batches(log)), int(log.stem), interval_bytes)
            assert tuple(stored) == expected, f"the indexes of {log} are not as its bytes make them"
            known.add(seen)


def read_if_there(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def rebuilt_indexes(held: list[Batch], base: int, interval_bytes: int) -> tuple[bytes, bytes]:
    """An entry before each batch that begins more than the interval behind the last entry; a last one for the time."""
    offsets, times = bytearray(), bytearray()
    indexed, highest, highest_offset, last_time = 0, -1, base, -1
    for batch in held:
        if batch.max_timestamp > highest:
            highest, highest_offset = batch.max_timestamp, batch.last_offset
        is_indexed = batch.position - indexed > interval_bytes
        if is_indexed:
            offsets += struct.pack(">ii", batch.last_offset - base, batch.position)
            indexed = batch.position
        if highest > last_time and (is_indexed or batch is held[-1]):
            times += struct.pack(">qi", highest, highest_offset - base)
            last_time = highest
    return bytes(offsets), bytes(times)


def compacted_to(data: Path, topic: str, partition: int) -> int:
    """The offset up to which a partition is compacted, from the checkpoint of its log directory; 0 if it never was."""
    checkpoint = data / "cleaner-offset-checkpoint"
    rows = [line.split() for line in checkpoint.read_text().splitlines()] if checkpoint.exists() else []
    return next((int(row[2]) for row in rows if row[:2] == [topic, str(partition)]), 0)
