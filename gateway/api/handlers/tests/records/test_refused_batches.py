"""A refused batch leaves nothing in memory: the error is an answer, and holds neither frames nor buffers."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headgate.gateway.tests.harness import MemoryBroker, WireClient, run_broker
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.records import batch, compression, legacy
from headgate.protocol.records.batch import Record, build
from headgate.protocol.schema import Message
from headgate.protocol.tests.examples import first_in_unit

NOW_MS = 1_700_000_000_000
TIMES = 10
CONTENT = Random(4).randbytes(100_000)
"""More than the first slice of a conversion takes, so that a thread ends the conversion."""


@contextmanager
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def living_errors() -> int:
    return sum(isinstance(found, KafkaError) for found in gc.get_objects())


def compressed(content: bytes, codec: int = compression.ZSTD) -> bytearray:
    """A batch of one record, with this content in place of the record."""
    made = build([Record(timestamp=NOW_MS, value=b"")])
    header = batch.read_header(made)
    return batch.with_records(header._replace(attributes=codec), content)


def unreadable() -> bytearray:
    """A batch whose content begins as a stream of its codec, and is cut."""
    return compressed(compression.compress(compression.ZSTD, CONTENT)[:-100])


def without_records() -> bytearray:
    """A batch whose content is a stream of its codec, but not of records."""
    return compressed(compression.compress(compression.ZSTD, bytes(1 << 20)))


def large() -> bytearray:
    """A batch that is small only in its codec."""
    return build([Record(timestamp=NOW_MS, value=bytes(100_000))], compression=compression.ZSTD)


def without_key() -> bytearray:
    return build([Record(timestamp=NOW_MS, value=CONTENT)], compression=compression.GZIP)


def too_early() -> bytearray:
    return build([Record(timestamp=5, value=CONTENT)], compression=compression.GZIP)


def message_set() -> bytearray:
    """A wrapper with a wrong CRC within it."""
    records = bytearray(legacy.build([Record(timestamp=NOW_MS, value=CONTENT)], magic=1))
    records[-1] ^= 1
    return bytearray(records)


async def create(client: WireClient, name: str, **configs: str) -> None:
    wanted = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    topic = CreatableTopic(name, num_partitions=1, replication_factor=1, configs=wanted)
    response = await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 4)
    assert response.topics[0].error_code == ErrorCode.NONE


def fetch() -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[wanted])])


def lookup(timestamp: int) -> ListOffsetsRequest:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[wanted])])


def code_of(response: Any) -> int:
    (topic,) = getattr(response, "responses", None) or response.topics
    (row,) = getattr(topic, "partition_responses", None) or topic.partitions
    return int(row.error_code)


def leaves_nothing(
    directory: Path, stored: bytearray | None, request: Message, version: int, code: ErrorCode, **configs: str
) -> None:
    """Assert that so many refusals leave no error in memory, without the garbage collector."""

    async def scenario(broker: MemoryBroker) -> None:
        client = broker.connect()
        await create(client, "t", **configs)
        if stored is not None:
            assert code_of(await client.ask(produce_request(stored, acks=1), 7)) == ErrorCode.NONE
        assert code_of(await client.ask(request, version)) == code
        with no_collector():
            before = living_errors()
            for _ in range(TIMES):
                await client.ask(request, version)
            assert living_errors() == before

    run_broker(directory, scenario)


TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
PRODUCED = {
    "a cut stream": (unreadable, 7, ErrorCode.CORRUPT_MESSAGE, {"compression_type": "gzip"}),
    "no records": (without_records, 7, ErrorCode.INVALID_RECORD, {"cleanup_policy": "compact"}),
    "no key": (without_key, 7, ErrorCode.INVALID_RECORD, {"cleanup_policy": "compact"}),
    "too large after it": (large, 7, TOO_LARGE, {"compression_type": "uncompressed", "max_message_bytes": "9000"}),
    "too early": (too_early, 7, ErrorCode.INVALID_TIMESTAMP, {"message_timestamp_before_max_ms": "1000"}),
    "a wrong CRC in a set": (message_set, 2, ErrorCode.CORRUPT_MESSAGE, {}),
}


@pytest.mark.parametrize("name", PRODUCED)
def test_a_refused_produce_leaves_nothing(tmp_path: Path, name: str) -> None:
    make, version, code, configs = PRODUCED[name]
    leaves_nothing(tmp_path, None, produce_request(make(), acks=1), version, code, **configs)


@pytest.mark.slow
@pytest.mark.parametrize("version", list(first_in_unit(range(10), 3)))
@pytest.mark.parametrize("make", [unreadable, without_records])
def test_a_fetch_of_a_batch_that_cannot_be_converted_leaves_nothing(
    tmp_path: Path, version: int, make: Callable[[], bytearray]
) -> None:
    is_recompressed = version > 3 and make is without_records  # the records are not read
    code = ErrorCode.NONE if is_recompressed else ErrorCode.CORRUPT_MESSAGE
    leaves_nothing(tmp_path, make(), fetch(), version, code)


@pytest.mark.parametrize("timestamp", [NOW_MS, -3])
def test_a_lookup_in_an_unreadable_batch_leaves_nothing(tmp_path: Path, timestamp: int) -> None:
    leaves_nothing(tmp_path, unreadable(), lookup(timestamp), 7, ErrorCode.NONE)
