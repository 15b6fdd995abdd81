"""Every request of the bench, in every version, against kio: what it reads, written again by it, are the same bytes."""

import io
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.serial import entity_reader, entity_writer

from headgate.protocol.compiler import read
from headgate.protocol.header import read_request_header
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.records import legacy
from headgate.protocol.records.batch import iterate
from headgate.protocol.schema import Message
from headgate.tools.bench.requests import frames

TOPIC_ID = bytes(range(16))
BATCH = frames.batch([b"value"] * 3, timestamp_ms=1_700_000_000_000)


def read_with_kio(frame: bytes) -> tuple[Any, Any]:
    """Header and request; fails unless the frame ends where they do and kio writes the same bytes."""
    size, key, version = struct.unpack_from(">ihh", frame)
    assert size == len(frame) - 4
    schema = load_request_schema(key, version)
    header_schema = schema.__header_schema__
    header, header_size = entity_reader(header_schema)(frame, 4)
    request, request_size = entity_reader(schema)(frame, 4 + header_size)
    assert 4 + header_size + request_size == len(frame)
    buffer = io.BytesIO()
    entity_writer(header_schema)(buffer, header)
    entity_writer(schema)(buffer, request)
    assert buffer.getvalue() == frame[4:]
    return header, request


def every_request() -> Iterator[frames.RequestWriter]:
    yield frames.api_versions()
    yield frames.create_topic("topic", 4)
    yield frames.create_topic("topic", 2, assignments=[(1, 2, 3), (2, 3, 1)])
    yield frames.elect_preferred_leaders("topic", 4)
    yield frames.delete_topic("topic")
    yield frames.list_latest_offsets("topic", 4)
    for version in range(1, 14):
        yield frames.metadata(version, ["topic"])
        yield frames.metadata(version, None)
    for version in range(3, 14):
        yield frames.produce(version, "topic", 2, BATCH, TOPIC_ID)
    for version in range(4, 19):
        yield frames.fetch(version, "topic", 2, frames.FetchOptions(1024), TOPIC_ID)
        if version >= 7:
            yield frames.fetch(version, "topic", 2, frames.FetchOptions(1024, in_session=True), TOPIC_ID)


@pytest.mark.parametrize("writer", list(every_request()), ids=lambda writer: f"{writer.key} v{writer.version}")
def test_kio_reads_the_same(writer: frames.RequestWriter) -> None:
    header, _ = read_with_kio(writer.frame())
    assert (header.request_api_key, header.request_api_version) == (writer.key, writer.version)
    assert header.client_id == frames.CLIENT_ID


@pytest.mark.parametrize("version", range(3))
def test_old_versions_of_produce(version: int) -> None:
    """Kio has none of them; `protocol` is held to Kafka's definitions elsewhere."""
    request = read_with_ours(ProduceRequest, frames.produce(version, "topic", 2, b"a set"))
    assert request == ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name="topic", partition_data=request_of(b"a set"))]
    )


def request_of(records: bytes) -> list[PartitionProduceData]:
    return [PartitionProduceData(index=2, records=memoryview(records))]


@pytest.mark.parametrize("version", range(4))
def test_old_versions_of_fetch(version: int) -> None:
    request = read_with_ours(FetchRequest, frames.fetch(version, "topic", 2, frames.FetchOptions(1024, 77)))
    wanted = FetchTopic(topic="topic", partitions=[FetchPartition(partition=2, partition_max_bytes=1024)])
    limit = 1024 if version == 3 else 0x7FFF_FFFF
    assert request == FetchRequest(max_wait_ms=77, min_bytes=1, max_bytes=limit, topics=[wanted])


def read_with_ours(cls: type[Message], writer: frames.RequestWriter) -> Any:
    frame = memoryview(writer.frame())[4:]
    key, version, _, _, position = read_request_header(frame)
    assert (key, version) == (writer.key, writer.version)
    request, end = read(cls, version, frame, position)
    assert end == len(frame)
    return request


@pytest.mark.parametrize("magic, codec", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_message_sets_are_read_by_ours(magic: int, codec: int) -> None:
    values = [b"one", b"two", b"three"]
    data = frames.message_set(values, magic, codec)
    assert data[16] == magic
    assert [(record.offset, record.key, record.value) for record in legacy.iterate(data)] == [
        (number, None, value) for number, value in enumerate(values)
    ]


@pytest.mark.parametrize("codec", [0, 1, 3, 4])
def test_batches_in_a_codec_are_read_by_ours(codec: int) -> None:
    data = frames.batch([b"one", b"two"], codec=codec)
    assert [record.value for record in iterate(data)] == [b"one", b"two"]


def test_a_codec_that_is_not_used_is_refused() -> None:
    with pytest.raises(ValueError, match="codec 2"):
        frames.compressed(2, b"")


def test_a_topic_with_settings() -> None:
    _, request = read_with_kio(frames.create_topic("topic", 4, configs={"compression.type": "zstd"}).frame())
    assert [(config.name, config.value) for config in request.topics[0].configs] == [("compression.type", "zstd")]


def test_a_topic_with_chosen_replicas() -> None:
    _, request = read_with_kio(frames.create_topic("topic", 2, assignments=[(1, 2, 3), (2, 3, 1)]).frame())
    (topic,) = request.topics
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    assert [(each.partition_index, each.broker_ids) for each in topic.assignments] == [(0, (1, 2, 3)), (1, (2, 3, 1))]


def test_produce_names_each_partition_once() -> None:
    _, request = read_with_kio(frames.produce_each(7, "topic", [3, 5], BATCH, acks=-1, timeout_ms=1000).frame())
    (topic,) = request.topic_data
    assert request.acks == -1
    assert [(each.index, bytes(each.records)) for each in topic.partition_data] == [(3, BATCH), (5, BATCH)]


@pytest.mark.parametrize("version", [3, 7, 9, 11, 13])
def test_produce_carries_the_batch(version: int) -> None:
    _, request = read_with_kio(frames.produce(version, "topic", 2, BATCH, TOPIC_ID).frame())
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert (request.acks, partition.index, bytes(partition.records)) == (1, 2, BATCH)
    assert topic.topic_id.bytes == TOPIC_ID if version >= 13 else topic.name == "topic"


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_marks_are_where_the_fields_are(version: int) -> None:
    writer = frames.fetch(version, "topic", 2, frames.FetchOptions(4096, 250, in_session=version >= 7), TOPIC_ID)
    frame = bytearray(writer.frame())
    struct.pack_into(">q", frame, writer.marks["fetch_offset"], 123_456_789_012)
    if version >= 7:
        struct.pack_into(">ii", frame, writer.marks["session"], 77, 3)
    _, request = read_with_kio(bytes(frame))
    (partition,) = request.topics[0].partitions
    assert (partition.partition, partition.fetch_offset, partition.partition_max_bytes) == (2, 123_456_789_012, 4096)
    assert (request.max_bytes, request.min_bytes) == (4096, 1)
    if version >= 7:
        assert (request.session_id, request.session_epoch) == (77, 3)


def test_fetch_without_a_session_says_so() -> None:
    writer = frames.fetch(11, "topic", 0, frames.FetchOptions(1024))
    _, request = read_with_kio(writer.frame())
    assert (request.session_id, request.session_epoch) == (0, -1)
    assert "session" not in writer.marks
