"""DeleteRecords."""

import pytest

from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headgate.protocol.records.batch import Record, build


@pytest.fixture
def topic(node: HandlerBroker) -> HandlerBroker:
    """A broker with topic t, which has ten records."""
    node.services.metadata.create_topic("t", 1)
    batch = build([Record(offset, 1_700_000_000_000, None, b"v", []) for offset in range(10)])
    node.services.partitions.get("t", 0).append(memoryview(batch), 1, node.time.clock.now_ms())
    return node


def ask(node: HandlerBroker, offset: int, version: int = 2, name: str = "t", index: int = 0) -> tuple[int, int]:
    wanted = DeleteRecordsTopic(name, [DeleteRecordsPartition(index, offset)])
    (answered,) = node.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=1_000), version).topics
    (row,) = answered.partitions
    assert (answered.name, row.partition_index) == (name, index)
    return row.error_code, row.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_records_before_an_offset_go(topic: HandlerBroker, version: int) -> None:
    assert ask(topic, 4, version) == (ErrorCode.NONE, 4)
    assert topic.services.partitions.get("t", 0).log.start_offset == 4
    assert ask(topic, 2, version) == (ErrorCode.NONE, 4)  # the start never goes back
    assert ask(topic, -1, version) == (ErrorCode.NONE, 10)


@pytest.mark.parametrize("offset", [11, -2])
def test_an_offset_outside_of_the_log(topic: HandlerBroker, offset: int) -> None:
    assert ask(topic, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_a_compacted_topic_keeps_its_records(topic: HandlerBroker) -> None:
    topic.services.metadata.change_topic_configs("t", {"cleanup.policy": "compact"})
    assert ask(topic, 4) == (ErrorCode.POLICY_VIOLATION, -1)


def test_an_unknown_partition(topic: HandlerBroker) -> None:
    assert ask(topic, 0, index=1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
