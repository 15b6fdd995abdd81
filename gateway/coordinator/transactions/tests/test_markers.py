"""Markers in the partitions of a broker: in logs, and through the group coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch
from headgate.gateway.coordinator.internal_topic import partition_of
from headgate.gateway.coordinator.tests.test_runtime import commit
from headgate.gateway.coordinator.transactions.markers import Marker
from headgate.gateway.replication.append import ACKS_ALL
from headgate.gateway.replication.replica import Replica
from headgate.gateway.tests.builders import (
    HandlerBroker,
    add_follower,
    drop_followers,
    led_elsewhere,
)
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue
from headgate.protocol.messages.heartbeat import HeartbeatResponse
from headgate.protocol.records.batch import Record, build
from headgate.storage.files import File
from headgate.storage.log.validation import BROKER

NOW_MS = 1_700_000_000_000
OFFSETS = "__consumer_offsets"
COMMIT = Marker(7, 3, is_commit=True, coordinator_epoch=5, transaction_version=0)
ABORT = COMMIT._replace(is_commit=False)
RAISED = COMMIT._replace(transaction_version=2)


@pytest.fixture
def replica(node: HandlerBroker) -> Replica:
    """Partition 0 of t, in which producer 7 has a transaction open."""
    node.services.metadata.create_topic("t", 2)
    opened = node.services.partitions.get("t", 0)
    write(opened)
    return opened


def write(replica: Replica, producer_id: int = 7, epoch: int = 3, sequence: int = 0) -> None:
    data = build(
        [Record(timestamp=NOW_MS, value=b"x")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    replica.append(memoryview(data), ACKS_ALL, NOW_MS, BROKER)


def append(node: HandlerBroker, marker: Marker, topic: str = "t", index: int = 0, *, commits: bool = True) -> list[Any]:
    """What the caller is told, in time: None, or the code of an error."""
    told: list[Any] = []

    def written(error: KafkaError | None) -> None:
        told.append(None if error is None else error.code)

    node.services.markers.append(marker, topic, index, written)
    if commits:
        node.services.markers.write_staged()
    return told


@pytest.mark.parametrize("marker", [COMMIT, ABORT])
def test_a_marker_ends_the_transaction(node: HandlerBroker, replica: Replica, marker: Marker) -> None:
    assert replica.last_stable_offset == 0
    assert append(node, marker) == [None]
    assert replica.last_stable_offset == replica.high_watermark == 2
    producer = replica.log.producers.by_id[7]
    assert (producer.epoch, producer.coordinator_epoch, producer.transaction_start) == (3, 5, -1)
    piece = replica.read(0, 1 << 20, 1, at_least_one=True)
    assert piece is not None
    assert replica.aborted(0, piece) == ([] if marker.is_commit else [(7, 0)])


def test_markers_of_a_turn_are_written_together(
    node: HandlerBroker, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(replica, producer_id=8)
    writes: list[int] = []
    monkeypatch.setattr(File, "write_at", lambda *_: writes.append(1))
    told = [append(node, marker, commits=False) for marker in (COMMIT, COMMIT._replace(producer_id=8))]
    assert told == [[], []]
    node.services.markers.write_staged()
    assert told == [[None], [None]]
    assert len(writes) == 1


def test_a_marker_of_an_older_coordinator_is_fenced(node: HandlerBroker, replica: Replica) -> None:
    assert append(node, COMMIT) == [None]
    assert append(node, COMMIT._replace(coordinator_epoch=4)) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    assert append(node, COMMIT._replace(producer_epoch=2)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert replica.log.end_offset == 2


def test_a_raised_epoch_may_come_again_but_not_into_the_next_transaction(node: HandlerBroker, replica: Replica) -> None:
    """KIP-1228: the next transaction has the epoch of the marker, which may be on its way still."""
    assert append(node, RAISED) == [ErrorCode.INVALID_PRODUCER_EPOCH], "not raised above the transaction's"
    ended = RAISED._replace(producer_epoch=4)
    assert append(node, ended) == append(node, ended) == [None]
    write(replica, epoch=4)
    assert append(node, ended) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert replica.log.producers.by_id[7].transaction_start == 3
    assert append(node, ended._replace(transaction_version=1)) == [None], "older protocols have no such rule"


def test_a_partition_without_the_transaction_takes_the_marker(node: HandlerBroker, replica: Replica) -> None:
    assert append(node, RAISED, index=1) == [None]
    assert node.services.partitions.get("t", 1).log.end_offset == 1


def test_errors_of_partitions_are_told(node: HandlerBroker, replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert append(node, COMMIT, "gone") == append(node, COMMIT, index=2) == append(node, COMMIT, OFFSETS) == [unknown]
    led_elsewhere(node, 5, "u")
    assert append(node, COMMIT, "u") == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    def fails(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(File, "write_at", fails)
    assert append(node, COMMIT) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert replica.log.producers.by_id[7].transaction_start == 0


def test_a_marker_waits_for_the_high_watermark(node: HandlerBroker, replica: Replica) -> None:
    add_follower(replica)
    told = append(node, COMMIT)
    assert told == []
    drop_followers(replica)
    assert told == [None]


def test_a_slow_disk_holds_up_its_own_partitions_only(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path, log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}")
    node.services.metadata.create_topic("t", 2)
    slow, quick = (node.services.partitions.get("t", index) for index in (0, 1))
    assert slow.disk is not quick.disk
    write(slow)
    write(quick)
    threads = node.time.scheduler.hold()
    slow.disk.is_slow = True
    late, soon = append(node, COMMIT, index=0), append(node, COMMIT, index=1)
    assert (late, soon) == ([], [None])
    threads.run_all()
    assert late == [None]
    node.close()


# Groups


@pytest.fixture
def served(node: HandlerBroker) -> HandlerBroker:
    """A group has committed offset 1, and producer 7 offset 9 in a transaction."""
    node.services.metadata.create_topic("t", 1)
    commit(node, "g", 1)
    records = [(OffsetCommitKey("g", "t", 0), OffsetCommitValue(9, -1, "", NOW_MS))]
    node.services.groups.submit(
        "g",
        lambda _, ticket: Decision(list(records), [(ticket, HeartbeatResponse())], producer=ProducerIdAndEpoch(7, 3)),
    )
    return node


def offset(node: HandlerBroker) -> int:
    (shard,) = (shard for shard in node.services.groups.shards() if shard.offsets.groups)
    return shard.offsets.of("g")["t", 0].offset


def load(node: HandlerBroker) -> None:
    """Have all shards loaded."""
    for _ in range(4):
        node.time.advance()


INDEX = partition_of("g", 4)


@pytest.mark.parametrize("marker, expected", [(COMMIT, 9), (ABORT, 1), (RAISED._replace(producer_epoch=4), 9)])
def test_a_marker_for_offsets_goes_through_their_coordinator(
    served: HandlerBroker, marker: Marker, expected: int
) -> None:
    groups = served.services.groups
    shard = groups.shard_of(INDEX)
    assert append(served, marker, OFFSETS, INDEX) == [None]
    assert (offset(served), groups.shard_of(INDEX) is shard) == (expected, True)
    served.restart()
    assert offset(served) == expected


def test_refused_markers_of_offsets(served: HandlerBroker) -> None:
    assert append(served, RAISED, OFFSETS, INDEX) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert append(served, COMMIT, OFFSETS, INDEX) == [None]
    older = COMMIT._replace(coordinator_epoch=4)
    assert append(served, older, OFFSETS, INDEX) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    assert append(served, COMMIT, OFFSETS, 4) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_coordinator_that_is_loaded_is_asked_again_later(served: HandlerBroker) -> None:
    served.services.groups.log_was_truncated(served.services.partitions.get(OFFSETS, INDEX))
    assert append(served, COMMIT, OFFSETS, INDEX) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    load(served)
    assert append(served, COMMIT, OFFSETS, INDEX) == [None]


def test_a_staged_marker_of_offsets_that_is_not_written(served: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(File, "write_at", fails)
        assert append(served, COMMIT, OFFSETS, INDEX) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    load(served)
    assert offset(served) == 1
    assert append(served, COMMIT, OFFSETS, INDEX) == [None]
    assert offset(served) == 9


def test_a_marker_of_offsets_waits_for_a_slow_disk(served: HandlerBroker) -> None:
    threads = served.time.scheduler.hold()
    served.services.partitions.get(OFFSETS, INDEX).disk.is_slow = True
    told = append(served, COMMIT, OFFSETS, INDEX)
    assert told == []
    threads.run_all()
    served.time.advance()
    assert (told, offset(served)) == ([None], 9)
