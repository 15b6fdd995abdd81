"""OffsetCommit, OffsetFetch, OffsetDelete as a pure machine: a state and a request, then these records and this reply.

Where Kafka's rule is not obvious, the test says whose it is; `test_offsets_like_kafka.py` has its bytes.
"""

from __future__ import annotations

from typing import Any

import pytest

from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.offset_requests import LONGEST_METADATA_BYTES
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.groups.tests.groups import Desk, state_of_offsets, topic_id
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headgate.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from headgate.protocol.wire import ZERO_UUID

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_ID
NOWHERE = b"nowhere".ljust(16, b"\0")


class Members:
    """A group that answers what a test wants, and remembers what it was asked."""

    kind, protocol_type, due_ms = "classic", "consumer", float("inf")

    def __init__(self, error: ErrorCode | None = None, topics: tuple[str, ...] = (), state: str = "Stable") -> None:
        self.group_id, self.state = "g", state
        self.error, self.topics = error, topics
        self.asked: tuple[Any, ...] = ()

    def _answer(self, *asked: Any) -> None:
        self.asked = asked
        if self.error is not None:
            raise KafkaError(self.error)

    def check_commit(self, *asked: Any) -> None:
        self._answer(*asked)

    def check_fetch(self, *asked: Any) -> None:
        self._answer(*asked)

    def check_offset_delete(self) -> None:
        self._answer()

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.topics


@pytest.fixture
def desk() -> Desk:
    return Desk(topics={"t": 3, "u": 1})


def with_members(desk: Desk, *args: Any, **options: Any) -> Members:
    """The desk's group "g" has members."""
    group = Members(*args, **options)
    desk.shard.groups["g"] = group  # type: ignore[assignment]
    return group


def partition(index: int, offset: int = 7, **options: Any) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(index, offset, **options)


def named(version: int, name: str, *partitions: Any) -> OffsetCommitRequestTopic:
    """A topic as that version names it."""
    if version >= 10:
        return OffsetCommitRequestTopic("", topic_id(name), list(partitions))
    return OffsetCommitRequestTopic(name, partitions=list(partitions))


def commit(desk: Desk, version: int, *topics: OffsetCommitRequestTopic, **options: Any) -> OffsetCommitResponse:
    request = OffsetCommitRequest("g", topics=list(topics), **options)
    decision = offset_requests.commit(desk.shard, request, version, desk.ticket(), desk.now_ms)
    ((_, response),) = desk.run(decision)
    assert isinstance(response, OffsetCommitResponse)
    assert state_of_offsets(desk.rebuilt().offsets) == state_of_offsets(desk.shard.offsets)
    return response


def commit_rows(response: OffsetCommitResponse) -> list[tuple[str | bytes, list[tuple[int, int]]]]:
    """Name or id, and (partition, error) in the order of the response."""
    return [
        (
            topic.name if topic.topic_id == ZERO_UUID else topic.topic_id,
            [(row.partition_index, row.error_code) for row in topic.partitions],
        )
        for topic in response.topics
    ]


def fetch(
    desk: Desk,
    version: int,
    topics: dict[str | bytes, list[int]] | None,
    stable: bool = False,
    group: str = "g",
    member: str | None = None,
    epoch: int = -1,
) -> OffsetFetchResponseGroup:
    asked = None
    if topics is not None:
        asked = [
            OffsetFetchRequestTopics(topic_id=key, partition_indexes=indexes)
            if isinstance(key, bytes)
            else OffsetFetchRequestTopics(key, partition_indexes=indexes)
            for key, indexes in topics.items()
        ]
    wanted = OffsetFetchRequestGroup(group, member, epoch, asked)
    decision = offset_requests.fetch(desk.shard, wanted, version, desk.ticket(), stable)
    assert not decision.records
    ((_, row),) = decision.replies
    assert isinstance(row, OffsetFetchResponseGroup)
    assert row.group_id == group
    return row


Fetched = list[tuple[str | bytes, list[tuple[int, int, int, str | None, int]]]]


def fetch_rows(response: OffsetFetchResponseGroup, by_id: bool = False) -> Fetched:
    """Name or id, and (partition, offset, epoch, metadata, error)."""
    assert response.error_code == NONE
    return [
        (
            topic.topic_id if by_id else topic.name,
            [
                (row.partition_index, row.committed_offset, row.committed_leader_epoch, row.metadata, row.error_code)
                for row in topic.partitions
            ],
        )
        for topic in response.topics
    ]


def nothing(index: int, error: int = NONE) -> tuple[int, int, int, str, int]:
    return index, -1, -1, "", error


# What is written


@pytest.mark.parametrize("version", range(1, 11))
def test_a_simple_consumer_makes_its_group(desk: Desk, version: int) -> None:
    response = commit(desk, version, named(version, "t", partition(1, 42, committed_metadata="note")))
    key = topic_id("t") if version >= 10 else "t"
    assert commit_rows(response) == [(key, [(1, NONE)])]
    stored_id = topic_id("t") if version >= 10 else ZERO_UUID
    value = OffsetCommitValue(42, -1, "note", desk.timestamp_ms, -1, stored_id)
    assert desk.batches == [[(OffsetCommitKey("g", "t", 1), value)]]
    group = desk.shard.groups["g"]
    assert (group.kind, group.protocol_type, group.state) == ("classic", "", "Empty")
    assert fetch_rows(fetch(desk, 8, {"t": [1]})) == [("t", [(1, 42, -1, "note", NONE)])]


def test_a_commit_is_one_batch_in_the_order_of_the_request(desk: Desk) -> None:
    topics = [named(8, "u", partition(0)), named(8, "t", partition(2), partition(0))]
    assert commit_rows(commit(desk, 8, *topics)) == [("u", [(0, NONE)]), ("t", [(2, NONE), (0, NONE)])]
    (batch,) = desk.batches
    assert [(key.topic, key.partition) for key, _ in batch] == [("u", 0), ("t", 2), ("t", 0)]  # type: ignore[attr-defined]


def test_the_last_of_two_offsets_for_one_partition_counts(desk: Desk) -> None:
    commit(desk, 8, named(8, "t", partition(0, 5), partition(0, 3)))
    assert fetch_rows(fetch(desk, 8, {"t": [0]})) == [("t", [(0, 3, -1, "", NONE)])]


def test_an_offset_may_go_back_and_may_be_anything(desk: Desk) -> None:
    for offset in (9, 2, 0, -1, (1 << 63) - 1):
        commit(desk, 8, named(8, "t", partition(0, offset)))
        assert fetch_rows(fetch(desk, 8, {"t": [0]})) == [("t", [(0, offset, -1, "", NONE)])]


def test_leader_epoch_and_missing_metadata(desk: Desk) -> None:
    commit(desk, 6, named(6, "t", partition(0, committed_leader_epoch=4, committed_metadata=None)))
    ((_, value),) = desk.records
    assert value == OffsetCommitValue(7, 4, "", desk.timestamp_ms)
    assert fetch_rows(fetch(desk, 8, {"t": [0]})) == [("t", [(0, 7, 4, "", NONE)])]


def test_an_empty_group_id_is_one_like_any_other(desk: Desk) -> None:
    request = OffsetCommitRequest("", topics=[named(8, "t", partition(0, 5))])
    desk.run(offset_requests.commit(desk.shard, request, 8, desk.ticket(), desk.now_ms))
    assert fetch_rows(fetch(desk, 8, {"t": [0]}, group="")) == [("t", [(0, 5, -1, "", NONE)])]


def test_v1_may_say_when_it_was(desk: Desk) -> None:
    commit(desk, 1, named(1, "t", partition(0, commit_timestamp=123), partition(1)))
    assert [value.commit_timestamp for _, value in desk.records] == [123, desk.timestamp_ms]  # type: ignore[union-attr]
    assert [value.expire_timestamp for _, value in desk.records] == [-1, -1]  # type: ignore[union-attr]


@pytest.mark.parametrize("retention, expires", [(60_000, 60_000), (0, 0), (-2, -2)])
def test_a_retention_of_its_own(desk: Desk, retention: int, expires: int) -> None:
    commit(desk, 3, named(3, "t", partition(0)), retention_time_ms=retention)
    ((_, value),) = desk.records
    assert value == OffsetCommitValue(7, -1, "", desk.timestamp_ms, desk.timestamp_ms + expires)


@pytest.mark.parametrize("retention, expires", [((1 << 63) - 1, (1 << 63) - 1), (-(1 << 63), 0)])
def test_a_retention_beyond_time_is_forever_or_over(desk: Desk, retention: int, expires: int) -> None:
    commit(desk, 3, named(3, "t", partition(0)), retention_time_ms=retention)
    ((_, value),) = desk.records
    assert value is not None
    assert value.expire_timestamp == expires  # type: ignore[attr-defined]


# Metadata


@pytest.mark.parametrize(
    "metadata, code",
    [
        ("x" * 10, NONE),
        ("x" * 11, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("\u20ac" * 10, NONE),
        ("\U0001f600" * 5, NONE),
        ("\U0001f600" * 5 + "x", ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_metadata_is_counted_in_characters_of_java(metadata: str, code: ErrorCode) -> None:
    desk = Desk(topics={"t": 3}, settings=GroupSettings(offset_metadata_max_bytes=10))
    bad, good = partition(0, committed_metadata=metadata), partition(1, committed_metadata="ok")
    assert commit_rows(commit(desk, 8, named(8, "t", bad, good))) == [("t", [(0, code), (1, NONE)])]
    assert len(desk.records) == (2 if code == NONE else 1)


@pytest.mark.parametrize("size, code", [(0, NONE), (1, ErrorCode.OFFSET_METADATA_TOO_LARGE)])
def test_metadata_has_to_fit_what_old_clients_read(size: int, code: ErrorCode) -> None:
    desk = Desk(topics={"t": 1}, settings=GroupSettings(offset_metadata_max_bytes=1 << 20))
    metadata = "x" * (LONGEST_METADATA_BYTES + size)
    assert commit_rows(commit(desk, 8, named(8, "t", partition(0, committed_metadata=metadata)))) == [
        ("t", [(0, code)])
    ]


# Topics and partitions that are not there: answered first, as Kafka's front does


@pytest.mark.parametrize("version", [1, 9])
def test_unknown_topics_stand_first(desk: Desk, version: int) -> None:
    topics = [
        named(version, "t", partition(3), partition(1), partition(-1)),
        named(version, "gone", partition(0)),
        named(version, "u", partition(0)),
        named(version, "empty"),
    ]
    assert commit_rows(commit(desk, version, *topics)) == [
        ("t", [(3, UNKNOWN), (-1, UNKNOWN), (1, NONE)]),
        ("gone", [(0, UNKNOWN)]),
        ("empty", []),
        ("u", [(0, NONE)]),
    ]
    assert [(key.topic, key.partition) for key, _ in desk.records] == [("t", 1), ("u", 0)]  # type: ignore[attr-defined]


def test_a_topic_that_is_named_twice(desk: Desk) -> None:
    """It has two rows, as in Kafka, unless something was refused: then one."""
    twice = [named(8, "t", partition(0)), named(8, "u", partition(0)), named(8, "t", partition(1))]
    assert commit_rows(commit(desk, 8, *twice)) == [("t", [(0, NONE)]), ("u", [(0, NONE)]), ("t", [(1, NONE)])]
    assert commit_rows(commit(desk, 8, *twice, named(8, "t", partition(-1)))) == [
        ("t", [(-1, UNKNOWN), (0, NONE), (1, NONE)]),
        ("u", [(0, NONE)]),
    ]


def test_a_known_topic_without_partitions_is_not_answered(desk: Desk) -> None:
    assert commit(desk, 8, named(8, "t")).topics == []
    assert commit_rows(commit(desk, 8, named(8, "t"), named(8, "u", partition(0)))) == [("u", [(0, NONE)])]


def test_ids_that_nobody_has(desk: Desk) -> None:
    unknown = OffsetCommitRequestTopic("", NOWHERE, [partition(0)])
    none = OffsetCommitRequestTopic("", ZERO_UUID, [partition(0)])
    response = commit(desk, 10, named(10, "t", partition(0), partition(9)), unknown, none)
    assert [(topic.topic_id, topic.partitions[0].error_code) for topic in response.topics] == [
        (topic_id("t"), UNKNOWN),
        (NOWHERE, UNKNOWN_ID),
        (ZERO_UUID, UNKNOWN_ID),
    ]
    assert [row.error_code for row in response.topics[0].partitions] == [UNKNOWN, NONE]


def test_if_nothing_is_known_the_group_is_not_asked(desk: Desk) -> None:
    group = with_members(desk, ErrorCode.UNKNOWN_MEMBER_ID)
    assert commit_rows(commit(desk, 8, named(8, "gone", partition(0)))) == [("gone", [(0, UNKNOWN)])]
    assert group.asked == ()
    assert "g" in desk.shard.groups
    assert not desk.records


# The group's word


@pytest.mark.parametrize("version, code", [(1, ErrorCode.ILLEGAL_GENERATION), (8, ErrorCode.ILLEGAL_GENERATION)])
def test_members_of_no_group_before_kip_848(desk: Desk, version: int, code: ErrorCode) -> None:
    response = commit(desk, version, named(version, "t", partition(0)), generation_id_or_member_epoch=0, member_id="m")
    assert commit_rows(response) == [("t", [(0, code)])]
    assert not desk.records
    assert not desk.shard.groups


@pytest.mark.parametrize("version", [9, 10])
def test_members_of_no_group_since_kip_848(desk: Desk, version: int) -> None:
    response = commit(desk, version, named(version, "t", partition(0)), generation_id_or_member_epoch=0)
    assert [row.error_code for topic in response.topics for row in topic.partitions] == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert not desk.records


def test_the_group_is_told_who_commits(desk: Desk) -> None:
    group = with_members(desk)
    who = {"generation_id_or_member_epoch": 4, "member_id": "m", "group_instance_id": "i"}
    assert commit_rows(commit(desk, 7, named(7, "t", partition(0)), **who)) == [("t", [(0, NONE)])]
    assert group.asked == ("m", "i", 4, 7, desk.now_ms)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
    ],
)
def test_an_error_of_the_group_stands_at_all_that_exists(desk: Desk, code: ErrorCode) -> None:
    with_members(desk, code)
    topics = [named(9, "t", partition(0), partition(3)), named(9, "u", partition(0))]
    assert commit_rows(commit(desk, 9, *topics)) == [("t", [(3, UNKNOWN), (0, code)]), ("u", [(0, code)])]
    assert not desk.records


# Fetch


@pytest.fixture
def filled(desk: Desk) -> Desk:
    commit(desk, 8, named(8, "t", partition(0, 5, committed_leader_epoch=2), partition(2, 6)))
    commit(desk, 8, named(8, "u", partition(0, 7, committed_metadata="note")))
    return desk


def test_what_was_asked_in_that_order(filled: Desk) -> None:
    assert fetch_rows(fetch(filled, 8, {"u": [0], "gone": [3], "t": [2, 1, 0]})) == [
        ("u", [(0, 7, -1, "note", NONE)]),
        ("gone", [nothing(3)]),
        ("t", [(2, 6, -1, "", NONE), nothing(1), (0, 5, 2, "", NONE)]),
    ]


def test_all_of_a_group(filled: Desk) -> None:
    assert fetch_rows(fetch(filled, 8, None)) == [
        ("t", [(0, 5, 2, "", NONE), (2, 6, -1, "", NONE)]),
        ("u", [(0, 7, -1, "note", NONE)]),
    ]
    assert fetch(filled, 8, {}).topics == []


@pytest.mark.parametrize("version", [1, 8, 9])
def test_a_group_that_is_not_there_has_no_offsets(filled: Desk, version: int) -> None:
    assert fetch_rows(fetch(filled, version, {"t": [0, 1]}, group="other")) == [("t", [nothing(0), nothing(1)])]
    assert fetch_rows(fetch(filled, version, None, group="other")) == []
    assert list(filled.shard.groups) == ["g"]


def test_members_are_checked(filled: Desk) -> None:
    group = with_members(filled)
    assert fetch_rows(fetch(filled, 9, {"u": [0]}, member="m", epoch=3)) == [("u", [(0, 7, -1, "note", NONE)])]
    assert group.asked == ("m", 3)
    group.error = ErrorCode.STALE_MEMBER_EPOCH
    row = fetch(filled, 9, {"u": [0]}, member="m", epoch=3)
    assert (row.error_code, row.topics) == (ErrorCode.STALE_MEMBER_EPOCH, [])


def test_topics_by_id(filled: Desk) -> None:
    asked: dict[str | bytes, list[int]] = {NOWHERE: [0, 1], topic_id("u"): [0], ZERO_UUID: [4]}
    assert fetch_rows(fetch(filled, 10, asked), by_id=True) == [
        (topic_id("u"), [(0, 7, -1, "note", NONE)]),
        (NOWHERE, [nothing(0, UNKNOWN_ID), nothing(1, UNKNOWN_ID)]),
        (ZERO_UUID, [nothing(4, UNKNOWN_ID)]),
    ]


def test_all_by_id_leaves_out_what_has_none(filled: Desk) -> None:
    filled.topics.set("t", 0)
    assert fetch_rows(fetch(filled, 10, None), by_id=True) == [(topic_id("u"), [(0, 7, -1, "note", NONE)])]
    assert [name for name, _ in fetch_rows(fetch(filled, 9, None))] == ["t", "u"]


def test_the_offset_of_an_earlier_topic_of_that_name_is_none(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(desk, 10, named(10, "t", partition(0, 5)))
    assert fetch_rows(fetch(desk, 10, {topic_id("t"): [0]}), by_id=True) == [(topic_id("t"), [(0, 5, -1, "", NONE)])]
    again = b"t, a second time"
    monkeypatch.setattr(desk.topics, "id_of", lambda name: again)
    assert fetch_rows(fetch(desk, 10, {again: [0]}), by_id=True) == [(again, [nothing(0)])]
    assert fetch_rows(fetch(desk, 9, {"t": [0]})) == [("t", [(0, 5, -1, "", NONE)])]


def test_an_offset_that_was_committed_by_name_is_that_of_any_id(desk: Desk) -> None:
    commit(desk, 9, named(9, "t", partition(0, 5)))
    assert fetch_rows(fetch(desk, 10, {topic_id("t"): [0]}), by_id=True) == [(topic_id("t"), [(0, 5, -1, "", NONE)])]


def test_offsets_of_open_transactions_are_not_stable(filled: Desk) -> None:
    filled.shard.offsets.pending["g"] = {7: {"t": {0: b"", 1: b""}}}
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert fetch_rows(fetch(filled, 8, {"t": [0, 1, 2]}, stable=True)) == [
        ("t", [nothing(0, unstable), nothing(1, unstable), (2, 6, -1, "", NONE)])
    ]
    assert fetch_rows(fetch(filled, 8, {"t": [0, 1]})) == [("t", [(0, 5, 2, "", NONE), nothing(1)])]
    assert [row[-1] for row in fetch_rows(fetch(filled, 8, None, stable=True))[0][1]] == [unstable, NONE]


# Delete


def delete(desk: Desk, topics: dict[str, list[int]], group: str = "g") -> OffsetDeleteResponse:
    asked = [
        OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index) for index in indexes])
        for name, indexes in topics.items()
    ]
    request = OffsetDeleteRequest(group, asked)
    ((_, response),) = desk.run(offset_requests.delete(desk.shard, request, desk.ticket()))
    assert isinstance(response, OffsetDeleteResponse)
    assert state_of_offsets(desk.rebuilt().offsets) == state_of_offsets(desk.shard.offsets)
    return response


def delete_rows(response: OffsetDeleteResponse) -> list[tuple[str, list[tuple[int, int]]]]:
    assert response.error_code == NONE
    return [
        (topic.name, [(row.partition_index, row.error_code) for row in topic.partitions]) for topic in response.topics
    ]


def test_offsets_are_forgotten(filled: Desk) -> None:
    filled.batches.clear()
    before = filled.shard.offsets.of("g")
    request = OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(2)])])
    decision = offset_requests.delete(filled.shard, request, filled.ticket())
    assert filled.shard.offsets.of("g") == before  # deciding changes nothing
    filled.run(decision)
    assert filled.batches == [[(OffsetCommitKey("g", "t", 2), None)]]
    assert before.keys() - filled.shard.offsets.of("g").keys() == {("t", 2)}


def test_what_has_no_offset_is_deleted_without_a_record(filled: Desk) -> None:
    filled_records = len(filled.records)
    assert delete_rows(delete(filled, {"t": [1, 0]})) == [("t", [(1, NONE), (0, NONE)])]
    assert [key for key, _ in filled.records[filled_records:]] == [OffsetCommitKey("g", "t", 0)]


def test_a_group_stays_when_its_last_offset_is_deleted(filled: Desk) -> None:
    delete(filled, {"t": [0, 2], "u": [0]})
    assert state_of_offsets(filled.shard.offsets) == {}
    assert list(filled.shard.groups) == ["g"]


def test_offsets_in_use_stay(filled: Desk) -> None:
    with_members(filled, topics=("t",))
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete_rows(delete(filled, {"t": [0, 1], "u": [0]})) == [
        ("t", [(0, subscribed), (1, subscribed)]),
        ("u", [(0, NONE)]),
    ]
    assert set(filled.shard.offsets.of("g")) == {("t", 0), ("t", 2)}


def test_deletion_of_what_does_not_exist_is_answered_first(filled: Desk) -> None:
    assert delete_rows(delete(filled, {"t": [0, 9], "gone": [0], "none": [], "u": [0]})) == [
        ("t", [(9, UNKNOWN), (0, NONE)]),
        ("gone", [(0, UNKNOWN)]),
        ("none", []),
        ("u", [(0, NONE)]),
    ]


def test_deletion_in_no_group(filled: Desk) -> None:
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        delete(filled, {"t": [0], "gone": [0]}, "other")


def test_deletion_that_the_group_refuses(filled: Desk) -> None:
    with_members(filled, ErrorCode.NON_EMPTY_GROUP)
    with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
        delete(filled, {"t": [0]})


def test_offsets_of_open_transactions_are_deleted_too(filled: Desk) -> None:
    filled.shard.offsets.pending["g"] = {7: {"t": {1: b""}}}
    count = len(filled.records)
    delete(filled, {"t": [1]})
    assert [key for key, _ in filled.records[count:]] == [OffsetCommitKey("g", "t", 1)]
