"""Random batches, and their records as `protocol` reads them, one by one: the oracle of the columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from headgate.protocol.records import batch, legacy, message_set
from headgate.protocol.records.batch import Header, Record
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import FetchedBatches, OffsetRange
from headgate.spark.records.columns import COLUMNS, columns

PARTITION = TopicPartition("orders", 3)
EVERYTHING = OffsetRange(PARTITION, 0, 1 << 62)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIZES = (0, 0, 1, 5, 63, 64, 100, 127, 128, 300, 8191, 8192, 9000)
LEGACY_CODECS = range(4)


def row(record: Record, timestamp_type: int) -> dict[str, Any]:
    """A record as a row of the `kafka` format."""
    return {
        "key": record.key,
        "value": record.value,
        "topic": PARTITION.topic,
        "partition": PARTITION.number,
        "offset": record.offset,
        "timestamp": _EPOCH + timedelta(milliseconds=record.timestamp),
        "timestampType": timestamp_type,
        "headers": [{"key": name, "value": content} for name, content in record.headers] or None,
    }


def expected(data: bytes, timestamp_type: int = 0) -> list[dict[str, Any]]:
    """The rows of whole batches or messages, none of them hidden."""
    if legacy.is_legacy(data):
        return [row(record, timestamp_type) for record in legacy.iterate(data)]
    return [
        row(record, int(header.is_log_append_time))
        for header, view in batches_of(data)
        for record in batch.iterate(view)
    ]


def batches_of(data: bytes) -> Iterable[tuple[batch.BatchHeader, memoryview]]:
    view = memoryview(data)
    while view:
        header = batch.read_header(view)
        yield header, view[: header.size]
        view = view[header.size :]


def rows(
    *pieces: bytes | FetchedBatches, wanted: OffsetRange = EVERYTHING, names: Sequence[str] = COLUMNS, **options: Any
) -> list[dict[str, Any]]:
    """The rows of the columns."""
    fetched = [one if isinstance(one, FetchedBatches) else FetchedBatches(one, (), 0) for one in pieces]
    found = []
    for one in columns(fetched, wanted, names, **options):
        one.validate(full=True)
        found += one.to_pylist()
    return found


def random_bytes(random: Random, largest: int = 9000) -> bytes | None:
    return None if random.random() < 0.2 else random.randbytes(min(largest, random.choice(_SIZES)))


def random_headers(random: Random) -> list[Header]:
    count = 0 if random.random() < 0.7 else random.choice((1, 2, 5, 70))
    return [(random.choice(("a", "trace-id", "ü" * 70, "")), random_bytes(random, 200)) for _ in range(count)]


def random_records(random: Random, offset: int, count: int, largest: int = 9000) -> list[Record]:
    """Records at offsets that rise, with gaps as compaction leaves them, and times in any order."""
    records, time = [], random.randrange(1 << 41)
    for _ in range(count):
        time += random.choice((0, 1, -40, 70, 10_000_000, -10_000_000))
        content = random_bytes(random, largest), random_bytes(random, largest)
        records.append(Record(offset, time, *content, random_headers(random)))
        offset += random.choice((1, 1, 1, 2, 200))
    return records


def random_batch(random: Random, offset: int) -> bytearray:
    """A batch of any codec and timestamp type."""
    records = random_records(random, offset, random.choice((1, 2, 70, 200)))
    append_time = random.choice((-1, -1, 1_700_000_000_000))
    return batch.build(records, base_offset=offset, compression=random.randrange(5), log_append_time_ms=append_time)


def random_messages(random: Random, offset: int, magic: int) -> bytearray:
    """Plain messages, or a wrapper around them."""
    records = [record._replace(headers=()) for record in random_records(random, offset, random.choice((1, 3, 80)))]
    append_time = random.choice((-1, 1_600_000_000_000)) if magic else -1
    codec = random.choice(LEGACY_CODECS)
    return message_set.build(records, magic, base_offset=offset, codec=codec, log_append_time_ms=append_time)
