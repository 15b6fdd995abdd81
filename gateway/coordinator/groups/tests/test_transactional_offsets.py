"""Offsets that a transaction commits, in the log of a broker: as TxnOffsetCommit and WriteTxnMarkers have them."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Ticket
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.internal_topic import partition_of
from headgate.gateway.coordinator.tests.test_runtime import TOPIC, commit, fetch
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue
from headgate.protocol.messages.heartbeat import HeartbeatResponse
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headgate.protocol.records.control import Marker

PRODUCER = ProducerIdAndEpoch(4_000, 2)


@pytest.fixture
def served(node: HandlerBroker) -> HandlerBroker:
    """A broker on which a group has committed offset 1."""
    node.services.metadata.create_topic("t", 1)
    commit(node, "g", 1)
    return node


def write(node: HandlerBroker, offset: int, producer: ProducerIdAndEpoch = PRODUCER) -> Any:
    """The offset as a part of a transaction."""
    records = [(OffsetCommitKey("g", "t", 0), OffsetCommitValue(offset, -1, "", node.time.clock.now_ms()))]

    def decide(_: GroupShard, ticket: Ticket) -> Decision:
        return Decision(list(records), [(ticket, HeartbeatResponse())], producer=producer)

    return node.services.groups.submit("g", decide)


def mark(
    node: HandlerBroker, *, is_commit: bool, producer: ProducerIdAndEpoch = PRODUCER, coordinator_epoch: int = 0
) -> Any:
    """The end of the transaction in the log of the group."""

    def decide(_: GroupShard, ticket: Ticket) -> Decision:
        marker = Marker(is_commit, coordinator_epoch)
        return Decision(replies=[(ticket, HeartbeatResponse())], producer=producer, marker=marker)

    return node.services.groups.submit_to(partition_of("g", 4), "", decide)


def stable(node: HandlerBroker) -> tuple[int, int]:
    """(error code, offset) of a fetch that requires a stable offset."""
    topics = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)], require_stable=True)
    (partition,) = node.ask(request, 8).groups[0].topics[0].partitions
    return partition.error_code, partition.committed_offset


@pytest.mark.parametrize("is_commit, offset", [(True, 7), (False, 1)])
def test_offsets_are_pending_until_the_marker(served: HandlerBroker, is_commit: bool, offset: int) -> None:
    write(served, 7)
    assert fetch(served, "g") == [(0, {"t": 1})]
    assert stable(served) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    mark(served, is_commit=is_commit)
    assert stable(served) == (ErrorCode.NONE, offset)
    served.restart()
    assert stable(served) == (ErrorCode.NONE, offset)


def test_the_log_knows_the_transaction(served: HandlerBroker) -> None:
    log = served.services.partitions.get(TOPIC, partition_of("g", 4)).log
    write(served, 7)
    assert (log.stable_offset, log.end_offset) == (1, 2)
    mark(served, is_commit=True)
    assert (log.stable_offset, log.end_offset) == (3, 3)
    producer = log.producers.by_id[PRODUCER.producer_id]
    assert (producer.epoch, producer.last_sequence, producer.transaction_start) == (2, -1, -1)


def test_an_older_epoch_writes_nothing(served: HandlerBroker) -> None:
    write(served, 7)
    mark(served, is_commit=True, coordinator_epoch=3)
    end_offset = served.services.partitions.get(TOPIC, partition_of("g", 4)).log.end_offset
    with pytest.raises(KafkaError) as refused_write:
        write(served, 8, ProducerIdAndEpoch(PRODUCER.producer_id, 1))
    with pytest.raises(KafkaError) as refused_marker:
        mark(served, is_commit=True, coordinator_epoch=2)
    assert refused_write.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused_marker.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert served.services.partitions.get(TOPIC, partition_of("g", 4)).log.end_offset == end_offset
    assert stable(served) == (ErrorCode.NONE, 7)


@pytest.mark.parametrize("is_commit, offset", [(True, 7), (False, 1)])
def test_a_transaction_that_is_open_over_a_restart_goes_on(served: HandlerBroker, is_commit: bool, offset: int) -> None:
    write(served, 7)
    served.restart()
    assert stable(served) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    mark(served, is_commit=is_commit)
    assert stable(served) == (ErrorCode.NONE, offset)


def test_a_marker_needs_a_partition(served: HandlerBroker) -> None:
    with pytest.raises(KafkaError) as raised:
        served.services.groups.submit_to(99, "", lambda *_: Decision())
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
