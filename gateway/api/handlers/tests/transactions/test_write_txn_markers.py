"""WriteTxnMarkers over the wire, with the logs and the group coordinator behind it."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.gateway.api.handlers.write_txn_markers import WAIT_MS
from headgate.gateway.coordinator.internal_topic import partition_of
from headgate.gateway.replication.append import ACKS_ALL
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import (
    HandlerBroker,
    add_follower,
    drop_followers,
    over_the_wire,
)
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from headgate.protocol.records.batch import Record, build
from headgate.storage.log.validation import BROKER

NOW_MS = 1_700_000_000_000
NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
Codes = dict[int, dict[str, dict[int, int]]]


@pytest.fixture
def replica(node: HandlerBroker) -> Replica:
    """Partition 0 of t, in which producer 7 has a transaction open in epoch 3."""
    node.services.metadata.create_topic("t", 200)
    replica = node.services.partitions.get("t", 0)
    data = build(
        [Record(timestamp=NOW_MS, value=b"x")],
        producer_id=7,
        producer_epoch=3,
        base_sequence=0,
        is_transactional=True,
    )
    replica.append(memoryview(data), ACKS_ALL, NOW_MS, BROKER)
    return replica


def marker(producer_id: int = 7, epoch: int = 3, version: int = 0, **topics: list[int]) -> WritableTxnMarker:
    rows = [WritableTxnMarkerTopic(name, indexes) for name, indexes in topics.items()]
    return WritableTxnMarker(producer_id, epoch, True, rows, 5, version)


def codes(response: WriteTxnMarkersResponse) -> Codes:
    return {
        one.producer_id: {
            topic.name: {row.partition_index: row.error_code for row in topic.partitions} for topic in one.topics
        }
        for one in response.markers
    }


@pytest.mark.parametrize("version", range(3))
def test_every_version_ends_the_transaction(node: HandlerBroker, replica: Replica, version: int) -> None:
    response = node.ask(WriteTxnMarkersRequest([marker(t=[0, 1])]), version)
    assert codes(response) == {7: {"t": {0: NONE, 1: NONE}}}
    assert replica.last_stable_offset == 2
    (topic,) = node.ask(DescribeProducersRequest([TopicRequest("t", [0])]), 0).topics
    (producer,) = topic.partitions[0].active_producers
    assert (producer.producer_epoch, producer.coordinator_epoch, producer.current_txn_start_offset) == (3, 5, -1)


@pytest.mark.parametrize("version, code", [(1, NONE), (2, ErrorCode.INVALID_PRODUCER_EPOCH)])
def test_only_the_new_version_tells_that_the_epoch_was_raised(
    node: HandlerBroker, replica: Replica, version: int, code: ErrorCode
) -> None:
    response = node.ask(WriteTxnMarkersRequest([marker(version=2, t=[0])]), version)
    assert codes(response) == {7: {"t": {0: code}}}


def test_each_partition_has_its_own_error(node: HandlerBroker, replica: Replica) -> None:
    node.ask(FindCoordinatorRequest("g"), 3)
    index = partition_of("g", 4)
    asked = [marker(epoch=2, t=[0, 1, 200], gone=[0]), marker(8, __consumer_offsets=[index, 4]), marker(t=[0])]
    assert codes(node.ask(WriteTxnMarkersRequest(asked), 1)) == {
        7: {"t": {0: NONE, 1: NONE, 200: UNKNOWN}, "gone": {0: UNKNOWN}},
        8: {"__consumer_offsets": {index: NONE, 4: UNKNOWN}},
    }
    assert node.services.partitions.get("__consumer_offsets", index).log.end_offset == 1


def test_no_markers(node: HandlerBroker) -> None:
    assert codes(node.ask(WriteTxnMarkersRequest([]), 1)) == {}


def test_very_many_markers_are_written_in_steps(node: HandlerBroker, replica: Replica) -> None:
    response = node.ask(WriteTxnMarkersRequest([marker(t=list(range(200)))]), 1)
    assert codes(response) == {7: {"t": dict.fromkeys(range(200), NONE)}}


def test_a_marker_that_is_not_replicated_in_time(node: HandlerBroker, replica: Replica) -> None:
    add_follower(replica)
    outcome = node.handle(WriteTxnMarkersRequest([marker(t=[0, 1])]), 1)
    assert is_task(outcome)
    replies: list[Any] = []
    node.services.tasks.start(outcome, replies.append)
    node.time.advance(WAIT_MS - 1)
    assert replies == []
    node.time.advance(1)
    (response,) = replies
    assert codes(over_the_wire(response, 1)) == {7: {"t": {0: ErrorCode.REQUEST_TIMED_OUT, 1: NONE}}}
    drop_followers(replica)
    node.time.advance()
    assert replies == [response]


def test_the_reply_comes_when_the_last_marker_is_replicated(node: HandlerBroker, replica: Replica) -> None:
    add_follower(replica)
    outcome = node.handle(WriteTxnMarkersRequest([marker(t=[0, 1])]), 1)
    assert is_task(outcome)
    replies: list[Any] = []
    node.services.tasks.start(outcome, replies.append)
    drop_followers(replica)
    node.time.advance()
    assert [codes(reply) for reply in replies] == [{7: {"t": {0: NONE, 1: NONE}}}]
