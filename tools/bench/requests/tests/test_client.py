"""The set-up client reads what kio writes."""

import datetime as dt
import importlib
import io
import uuid

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.primitive import i32Timedelta

from headgate.tools.bench.requests.client import (
    METADATA_OF_ANY_BROKER,
    METADATA_WITH_IDS,
    PartitionState,
    Reader,
    read_metadata,
)

TOPIC_ID = uuid.UUID(int=77)
VERSIONS = [METADATA_OF_ANY_BROKER, METADATA_WITH_IDS]


def metadata_answer(version: int, error: ErrorCode = ErrorCode.none) -> Reader:
    """One broker with id 3, one topic of two partitions."""
    kio = importlib.import_module(f"kio.schema.metadata.v{version}.response")
    modern = version == METADATA_WITH_IDS
    no_time = i32Timedelta.parse(dt.timedelta())
    in_partition, in_topic, in_answer = (
        ({"offline_replicas": (4, 5)}, {"topic_id": TOPIC_ID}, {"throttle_time": no_time, "cluster_id": "c"})
        if modern
        else ({}, {}, {})
    )
    partitions = tuple(
        kio.MetadataResponsePartition(
            error_code=error, partition_index=i, leader_id=3, replica_nodes=(3, 2), isr_nodes=(3,), **in_partition
        )
        for i in range(2)
    )
    topic = kio.MetadataResponseTopic(
        error_code=ErrorCode.none, name="topic", is_internal=False, partitions=partitions, **in_topic
    )
    broker = kio.MetadataResponseBroker(node_id=3, host="127.0.0.1", port=9092, rack=None)
    answer = kio.MetadataResponse(brokers=(broker,), controller_id=3, topics=(topic,), **in_answer)
    buffer = io.BytesIO(b"\x00" if modern else b"")
    buffer.seek(0, io.SEEK_END)
    entity_writer(kio.MetadataResponse)(buffer, answer)
    return Reader(buffer.getvalue(), flexible=modern)


@pytest.mark.parametrize("version", VERSIONS)
def test_metadata_is_read_to_its_end(version: int) -> None:
    reader = metadata_answer(version)
    state = read_metadata(reader, version)
    assert reader.position == len(reader.data)
    (topic,) = state.topics
    assert (state.brokers, state.controller, topic.name) == ([3], 3, "topic")
    assert topic.topic_id == (TOPIC_ID.bytes if version == METADATA_WITH_IDS else bytes(16))
    assert topic.partitions == [PartitionState(0, 0, 3, (3, 2), (3,)), PartitionState(0, 1, 3, (3, 2), (3,))]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_ready_when_all_its_partitions_are(version: int) -> None:
    (topic,) = read_metadata(metadata_answer(version), version).topics
    assert topic.is_ready(2)
    assert not topic.is_ready(3)
    (topic,) = read_metadata(metadata_answer(version, ErrorCode.leader_not_available), version).topics
    assert not topic.is_ready(2)
