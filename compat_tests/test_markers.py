"""What transactions leave in a log does not reach clients from before transactions, and does not stop them either.

Batches of a transaction are marked, and followed by a marker, which takes an offset. Here a log gets many of them on
the disk, more in a row than an old client fetches at once, between batches that the newest client wrote.

On Kafka 3.9 sarama 1.10 and kafka-node fail: for them it pads what it converts with half a batch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import crc32c
import pytest

from compat_tests.broker import TARGET, Broker, running
from compat_tests.conftest import new_topic
from compat_tests.families.confluent import Confluent
from compat_tests.matrix.carried import assert_carried, records_of
from compat_tests.matrix.client import Abilities, Client
from compat_tests.matrix.rows import ROWS
from compat_tests.records import Sent, Traits
from compat_tests.stored import CRC_FROM, HEADER, Batch, batches

OF_EACH: Final = 20
# 78 bytes each: more than the 32 KiB that sarama fetches of a partition
MARKERS: Final = 500
# Kafka would send them an error instead
AFTERWARDS: Final = "zstd" if TARGET == "headgate" else "snappy"
# Whatever a client cannot show of a record is for other tests
WRITER: Final = Abilities(traits=Traits(text_only=True))
# kafka-go takes markers for records, wherever it gets batches; where it gets sets it reads nothing compressed
OLDEST: Final = tuple({client.family: client for client in reversed(ROWS) if client.family != "kafka-go"}.values())

ATTRIBUTES_AT: Final = 21
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
# Of a record: length, no attributes, no deltas, key (version 0, 1 for a commit), value (version 0, coordinator epoch)
COMMIT: Final = bytes([32, 0, 0, 0, 8, 0, 0, 0, 1, 12, 0, 0, 0, 0, 0, 0, 0])


class Log(NamedTuple):
    """A topic with one partition, what was sent to it, and at which offsets that is."""

    broker: Broker
    topic: str
    sent: list[Sent]
    offsets: list[int]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    with running(tmp_path_factory.mktemp("markers")) as broker:
        topic = new_topic(broker.bootstrap, 1)
        sent = [*produce(broker, topic, "gzip")]
        broker.kill()
        commit(broker.partition_directory(topic, 0))
        broker.start()
        sent += produce(broker, topic, AFTERWARDS)
        after = OF_EACH + MARKERS
        yield Log(broker, topic, sent, [*range(OF_EACH), *range(after, after + OF_EACH)])


def produce(broker: Broker, topic: str, codec: str) -> list[Sent]:
    records = [record._replace(partition=0) for record in records_of(WRITER, OF_EACH)]
    Confluent().produce(broker.bootstrap, topic, records, codec)
    return records


def commit(directory: Path) -> None:
    """Make a transaction of all that is in the only segment, and append its marker, again and again."""
    (path,) = directory.glob("*.log")
    data = bytearray(path.read_bytes())
    found = batches(directory)
    for batch in found:
        mark(data, batch.position, batch.size)
    for number in range(MARKERS):
        data += marker(found[-1], found[-1].last_offset + 1 + number)
    path.write_bytes(data)


def mark(data: bytearray, position: int, size: int) -> None:
    """As a batch of a transaction."""
    data[position + ATTRIBUTES_AT + 1] |= TRANSACTIONAL
    checksum = crc32c.crc32c(memoryview(data)[position + CRC_FROM : position + size])
    struct.pack_into(">I", data, position + CRC_FROM - 4, checksum)


def marker(last: Batch, offset: int) -> bytes:
    """A control batch of the same producer."""
    time_ms, producer = last.max_timestamp, (last.producer_id, last.producer_epoch)
    size = HEADER.size + len(COMMIT)
    kind = TRANSACTIONAL | CONTROL
    batch = bytearray(HEADER.pack(offset, size - 12, 0, 2, 0, kind, 0, time_ms, time_ms, *producer, -1, 1) + COMMIT)
    mark(batch, 0, size)
    return bytes(batch)


@pytest.mark.parametrize("client", [pytest.param(client, id=client.name.replace(" ", "-")) for client in OLDEST])
def test_the_oldest_read_over_markers(log: Log, client: Client) -> None:
    client.command()
    found = client.read(log.broker.bootstrap, log.topic, len(log.sent))
    if client.abilities.shows_places:
        assert [record.offset for record in found] == log.offsets
    dense = [record._replace(offset=index) for index, record in enumerate(found)]
    assert_carried(log.sent, dense, WRITER, client.abilities, 0)
