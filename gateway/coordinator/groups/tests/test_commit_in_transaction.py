"""TxnOffsetCommit as a pure machine: a state and a request, then these records and this reply."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch
from headgate.gateway.coordinator.groups import offset_expiration, offset_requests
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.groups.tests.groups import Desk, topic_id
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue
from headgate.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from headgate.protocol.wire import ZERO_UUID

NONE = ErrorCode.NONE
PRODUCER = ProducerIdAndEpoch(4_000, 2)


@pytest.fixture
def desk() -> Desk:
    return Desk(topics={"t": 3, "u": 1})


def row(index: int, offset: int = 7, metadata: str | None = None) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(index, offset, 5, metadata)


def named(version: int, name: str, *partitions: Any) -> TxnOffsetCommitRequestTopic:
    """A topic as that version names it."""
    if version >= 6:
        return TxnOffsetCommitRequestTopic("", topic_id(name), list(partitions))
    return TxnOffsetCommitRequestTopic(name, partitions=list(partitions))


def decide(
    desk: Desk,
    version: int,
    *topics: TxnOffsetCommitRequestTopic,
    group: str = "g",
    producer: ProducerIdAndEpoch = PRODUCER,
    error: KafkaError | None = None,
    **options: Any,
) -> Decision:
    request = TxnOffsetCommitRequest("id", group, *producer, topics=list(topics), **options)
    return offset_requests.commit_in_transaction(desk.shard, request, version, desk.ticket(), error)


def commit(
    desk: Desk, version: int, *topics: TxnOffsetCommitRequestTopic, **options: Any
) -> list[tuple[Any, int, int]]:
    """(name or id, partition, error) of each row; what was decided is written and replayed."""
    decision = decide(desk, version, *topics, **options)
    assert not decision.records or decision.producer == options.get("producer", PRODUCER)
    for key, value in decision.records:
        desk.shard.replay(key, value, desk.timestamp_ms, decision.producer)
    ((_, response),) = decision.replies
    assert isinstance(response, TxnOffsetCommitResponse)
    return [
        (topic.name if topic.topic_id == ZERO_UUID else topic.topic_id, row.partition_index, row.error_code)
        for topic in response.topics
        for row in topic.partitions
    ]


def fetch(desk: Desk, *, is_stable: bool = False) -> list[tuple[int, int, int]]:
    """(partition, offset, error) of all of t."""
    topics = [OffsetFetchRequestTopics("t", partition_indexes=[0, 1, 2])]
    wanted = OffsetFetchRequestGroup("g", topics=topics)
    ((_, group),) = offset_requests.fetch(desk.shard, wanted, 8, desk.ticket(), is_stable).replies
    return [
        (one.partition_index, one.committed_offset, one.error_code)
        for one in group.topics[0].partitions  # type: ignore[union-attr]
    ]


def end(desk: Desk, *, is_commit: bool, producer: ProducerIdAndEpoch = PRODUCER) -> None:
    desk.shard.replay_marker(producer, is_commit)


@pytest.mark.parametrize("version", range(7))
def test_the_records_are_part_of_the_transaction(desk: Desk, version: int) -> None:
    decision = decide(desk, version, named(version, "t", row(1, 42, "note")))
    stored_id = topic_id("t") if version >= 6 else ZERO_UUID
    value = OffsetCommitValue(42, 5, "note", desk.timestamp_ms, -1, stored_id)
    assert decision.records == [(OffsetCommitKey("g", "t", 1), value)]
    assert (decision.producer, decision.is_atomic) == (PRODUCER, True)


@pytest.mark.parametrize("is_commit, offset", [(True, 42), (False, -1)])
def test_an_offset_counts_once_its_transaction_is_committed(desk: Desk, is_commit: bool, offset: int) -> None:
    assert commit(desk, 3, named(3, "t", row(1, 42))) == [("t", 1, NONE)]
    assert fetch(desk) == [(0, -1, NONE), (1, -1, NONE), (2, -1, NONE)]
    assert fetch(desk, is_stable=True)[1] == (1, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    end(desk, is_commit=is_commit)
    assert fetch(desk, is_stable=True) == [(0, -1, NONE), (1, offset, NONE), (2, -1, NONE)]


def test_the_group_of_a_simple_consumer_is_made(desk: Desk) -> None:
    commit(desk, 0, named(0, "t", row(0)))
    group = desk.shard.groups["g"]
    assert (group.kind, group.protocol_type, group.state) == ("classic", "", "Empty")


@pytest.mark.parametrize("version", [3, 6])
def test_unknown_partitions_are_refused_beside_the_others(desk: Desk, version: int) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 6 else ErrorCode.UNKNOWN_TOPIC_ID
    told = commit(desk, version, named(version, "gone", row(0)), named(version, "t", row(0), row(3)))
    t, gone = (topic_id("t"), topic_id("gone")) if version >= 6 else ("t", "gone")
    assert told == [(gone, 0, unknown), (t, 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (t, 0, NONE)]
    assert list(desk.shard.offsets.pending) == ["g"]


def test_nothing_known_asks_no_group(desk: Desk) -> None:
    decision = decide(desk, 3, named(3, "gone", row(0)), group="", generation_id_or_member_epoch=9)
    assert decision.records == []
    assert commit(desk, 3, named(3, "gone", row(0)), group="") == [("gone", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_an_empty_group_id_is_refused(desk: Desk) -> None:
    assert commit(desk, 3, named(3, "t", row(0)), group="") == [("t", 0, ErrorCode.INVALID_GROUP_ID)]


def test_large_metadata_are_refused_alone() -> None:
    desk = Desk(topics={"t": 3}, settings=GroupSettings(offset_metadata_max_bytes=3))
    told = commit(desk, 3, named(3, "t", row(0, 1, "four"), row(1, 1, "two")))
    assert told == [("t", 0, ErrorCode.OFFSET_METADATA_TOO_LARGE), ("t", 1, NONE)]


def test_an_error_of_the_transaction_is_told_at_every_known_partition(desk: Desk) -> None:
    error = KafkaError(ErrorCode.INVALID_TXN_STATE)
    told = commit(desk, 3, named(3, "t", row(0), row(9)), error=error)
    assert told == [("t", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("t", 0, ErrorCode.INVALID_TXN_STATE)]
    assert desk.shard.offsets.pending == {}


# Members


@pytest.mark.parametrize("version, code", [(3, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_generation_needs_a_group(desk: Desk, version: int, code: ErrorCode) -> None:
    told = commit(desk, version, named(version, "t", row(0)), generation_id_or_member_epoch=0)
    assert [one[2] for one in told] == [code]


class Members:
    """A group that refuses commits, and remembers what it was asked."""

    group_id, kind, due_ms = "g", "consumer", float("inf")

    def __init__(self, error: ErrorCode | None) -> None:
        self._error = error
        self.asked: tuple[Any, ...] = ()

    def check_transactional_commit(self, *asked: Any) -> None:
        self.asked = asked
        if self._error is not None:
            raise KafkaError(self._error)


@pytest.mark.parametrize(
    "version, error, code",
    [
        (3, None, NONE),
        (3, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID),
        (3, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID),
        (5, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION),
        (6, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH),
    ],
)
def test_the_group_checks_its_member(desk: Desk, version: int, error: ErrorCode | None, code: ErrorCode) -> None:
    group = Members(error)
    desk.shard.groups["g"] = group  # type: ignore[assignment]
    options: dict[str, Any] = {"generation_id_or_member_epoch": 4, "member_id": "m", "group_instance_id": "i"}
    told = commit(desk, version, named(version, "t", row(0)), **options)
    assert [one[2] for one in told] == [code]
    assert group.asked == ("m", "i", 4)


# Beside other events


def test_a_later_commit_of_the_group_wins(desk: Desk) -> None:
    commit(desk, 3, named(3, "t", row(0, 42), row(1, 42)))
    desk.shard.replay(OffsetCommitKey("g", "t", 0), OffsetCommitValue(50, commit_timestamp=1), desk.timestamp_ms)
    end(desk, is_commit=True)
    assert fetch(desk) == [(0, 50, NONE), (1, 42, NONE), (2, -1, NONE)]


def test_transactions_of_two_producers_end_by_themselves(desk: Desk) -> None:
    other = ProducerIdAndEpoch(5_000, 0)
    commit(desk, 3, named(3, "t", row(0, 42)))
    commit(desk, 3, named(3, "t", row(1, 43)), producer=other)
    commit(desk, 3, named(3, "t", row(0, 44)), group="h")
    end(desk, is_commit=False, producer=other)
    assert fetch(desk, is_stable=True)[:2] == [(0, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT), (1, -1, NONE)]
    end(desk, is_commit=True)
    assert fetch(desk, is_stable=True)[:2] == [(0, 42, NONE), (1, -1, NONE)]
    assert desk.shard.offsets.of("h")["t", 0].offset == 44
    assert desk.shard.offsets.pending == {}


def test_an_open_transaction_keeps_the_group_and_its_offsets(desk: Desk) -> None:
    desk.shard.replay(OffsetCommitKey("g", "t", 0), OffsetCommitValue(1, commit_timestamp=1), desk.timestamp_ms)
    commit(desk, 3, named(3, "t", row(0, 42)))
    late_ms = desk.timestamp_ms + desk.settings.offsets_retention_ms + 1
    assert [decision.records for decision in offset_expiration.expire(desk.shard, late_ms)] == [[]]
    end(desk, is_commit=False)
    (decision,) = offset_expiration.expire(desk.shard, late_ms)
    assert OffsetCommitKey("g", "t", 0) in [key for key, _ in decision.records]


def test_a_deleted_topic_takes_pending_offsets_along(desk: Desk) -> None:
    commit(desk, 3, named(3, "t", row(0, 42)), named(3, "u", row(0, 43)))
    desk.topics.set("t", 0)
    (decision,) = offset_expiration.forget_topics(desk.shard, {"t": desk.timestamp_ms})
    assert decision.records == [(OffsetCommitKey("g", "t", 0), None)]
    desk.run(decision)
    end(desk, is_commit=True)
    assert {place: value.offset for place, value in desk.shard.offsets.of("g").items()} == {("u", 0): 43}
