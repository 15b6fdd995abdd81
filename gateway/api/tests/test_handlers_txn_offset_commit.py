"""TxnOffsetCommit over the wire, with the log and the coordinator behind it."""

from __future__ import annotations

import pytest

from headgate.gateway.coordinator.internal_topic import partition_of
from headgate.gateway.coordinator.transactions.markers import Marker
from headgate.gateway.tests.builders import Node
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from headgate.storage.files import File

NONE = ErrorCode.NONE
OFFSETS = "__consumer_offsets"
INDEX = partition_of("g", 4)


def request(node: Node, offset: int = 42, *, producer_id: int = 7, epoch: int = 3) -> TxnOffsetCommitRequest:
    metadata = node.services.metadata
    if "t" not in metadata.image.topics:
        metadata.create_topic("t", 2)
    rows = [TxnOffsetCommitRequestPartition(1, offset, 3, "note")]
    topics = [TxnOffsetCommitRequestTopic("t", metadata.image.topics["t"].topic_id, rows)]
    return TxnOffsetCommitRequest("id", "g", producer_id, epoch, topics=topics)


def codes(response: TxnOffsetCommitResponse) -> list[int]:
    return [row.error_code for topic in response.topics for row in topic.partitions]


def stable(node: Node) -> tuple[int, int]:
    """(error code, offset) of a fetch that requires a stable offset."""
    topics = [OffsetFetchRequestTopics("t", partition_indexes=[1])]
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)], require_stable=True)
    (partition,) = node.ask(asked, 8).groups[0].topics[0].partitions
    return partition.error_code, partition.committed_offset


def end(node: Node, *, is_commit: bool, epoch: int = 3) -> None:
    told: list[object] = []
    node.services.markers.append(Marker(7, epoch, is_commit, 5, 0), OFFSETS, INDEX, told.append)
    node.services.markers.commit()
    assert told == [None]


@pytest.mark.parametrize("is_commit, offset", [(True, 42), (False, -1)])
@pytest.mark.parametrize("version", range(7))
def test_every_version_is_pending_until_the_marker(node: Node, version: int, is_commit: bool, offset: int) -> None:
    assert codes(node.ask(request(node), version)) == [NONE]
    assert stable(node) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    end(node, is_commit=is_commit)
    assert stable(node) == (NONE, offset)


def test_the_log_has_an_open_transaction(node: Node) -> None:
    node.ask(request(node), 3)
    log = node.services.partitions.get(OFFSETS, INDEX).log
    producer = log.producers.by_id[7]
    assert (producer.epoch, producer.last_sequence, producer.transaction_start) == (3, -1, 0)
    assert log.stable_offset == 0


def test_an_older_epoch_of_the_producer_is_fenced(node: Node) -> None:
    node.ask(request(node), 3)
    end(node, is_commit=True)
    assert codes(node.ask(request(node, epoch=2), 3)) == [ErrorCode.INVALID_PRODUCER_EPOCH]


def test_an_aborted_transaction_leaves_the_group_where_it_was(node: Node) -> None:
    node.ask(request(node, 10), 3)
    end(node, is_commit=True)
    node.ask(request(node, 20), 3)
    node.restart()
    end(node, is_commit=False)
    assert stable(node) == (NONE, 10)


@pytest.mark.parametrize("version, code", [(1, 15), (2, 14)])
def test_old_producers_do_not_know_that_a_load_takes_time(node: Node, version: int, code: int) -> None:
    """KAFKA-7296: producers of before 2.3 fail when they hear COORDINATOR_LOAD_IN_PROGRESS."""
    node.ask(request(node), 3)
    node.services.groups._coordinators[INDEX].reload("a test wants it")
    assert codes(node.ask(request(node), version)) == [code]


def test_offsets_of_a_turn_are_written_together_and_may_fail(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.ask(request(node), 3)

    def fails(*_: object) -> None:
        raise OSError(28, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(File, "write_at", fails)
        assert codes(node.ask(request(node, 50), 3)) == [ErrorCode.NOT_COORDINATOR]
    node.restart()
    end(node, is_commit=True)
    assert stable(node) == (NONE, 42)
