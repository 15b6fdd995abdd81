"""OffsetFetch over the wire, with the coordinators of the groups behind it."""

from typing import Any

import pytest

from headgate.gateway.api.tests.large import Loop
from headgate.gateway.coordinator.internal_topic import partition_of
from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.gateway.tests.builders import (
    HandlerBroker,
    add_follower,
    offsets_partitions,
    parked,
)
from headgate.gateway.tests.requests import commit_request
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

NONE, NOT_COORDINATOR = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR
NOTHING = (-1, -1, "")


@pytest.fixture
def filled(node: HandlerBroker) -> HandlerBroker:
    """Groups "g" and "h" with offsets of a topic "t" of two partitions."""
    node.services.metadata.create_topic("t", 2)
    for group, index, offset in (("g", 1, 42), ("h", 0, 7)):
        node.ask(commit_request(group, {index: offset}, leader_epoch=3, metadata="note"), 8)
    return node


def topic_id(node: HandlerBroker) -> bytes:
    return node.services.metadata.image.topics["t"].topic_id


def request(node: HandlerBroker, version: int, topics: dict[str, list[int]] | None, *groups: str) -> OffsetFetchRequest:
    """Ask for the same of every group, in the way of the version; only "t" has an id."""
    if version < 8:
        old = None if topics is None else [OffsetFetchRequestTopic(name, indexes) for name, indexes in topics.items()]
        return OffsetFetchRequest(groups[0], old)
    ids = {"t": topic_id(node)}
    new = (
        None
        if topics is None
        else [OffsetFetchRequestTopics(name, ids.get(name, b"\xff" * 16), indexes) for name, indexes in topics.items()]
    )
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=new) for group in groups])


def rows(topics: Any) -> dict[str | bytes, list[tuple[int, tuple[int, int, str], int]]]:
    """By name or id: (partition, (offset, epoch, metadata), error)."""
    return {
        topic.name or topic.topic_id: [
            (row.partition_index, (row.committed_offset, row.committed_leader_epoch, row.metadata), row.error_code)
            for row in topic.partitions
        ]
        for topic in topics
    }


@pytest.mark.parametrize("version", range(1, 11))
def test_every_version_is_answered(filled: HandlerBroker, version: int) -> None:
    response = filled.ask(request(filled, version, {"t": [0, 1], "gone": [3]}, "g"), version)
    epoch = 3 if version >= 5 else -1
    expected: dict[str | bytes, Any] = {
        "t": [(0, NOTHING, NONE), (1, (42, epoch, "note"), NONE)],
        "gone": [(3, NOTHING, NONE)],
    }
    if version >= 10:
        unknown = [(3, NOTHING, ErrorCode.UNKNOWN_TOPIC_ID)]
        expected = {topic_id(filled): expected["t"], b"\xff" * 16: unknown}
    topics = response.topics
    if version >= 8:
        (group,) = response.groups
        assert (group.group_id, group.error_code) == ("g", NONE)
        topics = group.topics
    assert rows(topics) == expected
    assert response.error_code == NONE


@pytest.mark.parametrize("version", range(2, 11))
def test_all_topics(filled: HandlerBroker, version: int) -> None:
    response = filled.ask(request(filled, version, None, "g"), version)
    topics = response.topics if version < 8 else response.groups[0].topics
    epoch = 3 if version >= 5 else -1
    assert rows(topics) == {topic_id(filled) if version >= 10 else "t": [(1, (42, epoch, "note"), NONE)]}


@pytest.mark.parametrize("version", [8, 9])
def test_many_groups_are_answered_in_order(filled: HandlerBroker, version: int) -> None:
    count = filled.config.offsets_topic_num_partitions
    assert len({partition_of(group, count) for group in ("g", "h", "a")}) == 3
    response = filled.ask(request(filled, version, {"t": [0]}, "h", "a", "g"), version)
    assert [(group.group_id, rows(group.topics)["t"]) for group in response.groups] == [
        ("h", [(0, (7, 3, "note"), NONE)]),
        ("a", [(0, NOTHING, NONE)]),
        ("g", [(0, NOTHING, NONE)]),
    ]


def test_no_groups_at_all(filled: HandlerBroker) -> None:
    assert filled.ask(OffsetFetchRequest(groups=[]), 8).groups == []


def test_a_group_may_be_asked_for_twice(filled: HandlerBroker) -> None:
    first, second = (OffsetFetchRequestTopics("t", partition_indexes=[index]) for index in (0, 1))
    groups = [OffsetFetchRequestGroup("g", topics=[first]), OffsetFetchRequestGroup("g", topics=[second])]
    response = filled.ask(OffsetFetchRequest(groups=groups), 9)
    assert [rows(group.topics)["t"] for group in response.groups] == [
        [(0, NOTHING, NONE)],
        [(1, (42, 3, "note"), NONE)],
    ]


def test_a_group_may_not_be_asked_for_all_it_has_twice(filled: HandlerBroker) -> None:
    everything = OffsetFetchRequestGroup("g", topics=None)
    response = filled.ask(OffsetFetchRequest(groups=[everything, everything]), 9)
    assert {group.error_code for group in response.groups} == {ErrorCode.INVALID_REQUEST}
    other = OffsetFetchRequestGroup("h", topics=None)
    response = filled.ask(OffsetFetchRequest(groups=[everything, other]), 9)
    assert [(group.group_id, group.error_code) for group in response.groups] == [("g", NONE), ("h", NONE)]


def reload(node: HandlerBroker, group: str) -> None:
    index = partition_of(group, node.config.offsets_topic_num_partitions)
    node.services.groups.log_was_truncated(node.services.partitions.get(CONSUMER_OFFSETS, index))


def test_a_group_that_is_loaded_holds_no_other_back(filled: HandlerBroker) -> None:
    reload(filled, "h")
    response = filled.ask(request(filled, 8, {"t": [1]}, "h", "g"), 8)
    assert [(group.error_code, len(group.topics)) for group in response.groups] == [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0),
        (NONE, 1),
    ]


def test_where_old_versions_have_their_errors(filled: HandlerBroker) -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    reload(filled, "g")
    assert rows(filled.ask(request(filled, 1, {"t": [1]}, "g"), 1).topics) == {"t": [(1, NOTHING, loading)]}
    for version in range(2, 8):
        response = filled.ask(request(filled, version, {"t": [1]}, "g"), version)
        assert (response.error_code, response.topics) == (loading, [])


@pytest.mark.parametrize("version", [7, 8])
def test_what_may_be_lost_is_not_told(filled: HandlerBroker, version: int) -> None:
    for replica in offsets_partitions(filled):
        add_follower(replica)
    filled.handle(commit_request("g", {1: 43}), 8)
    replies = parked(filled, filled.handle(request(filled, version, {"t": [1]}, "g"), version))
    filled.time.advance(filled.config.offsets_commit_timeout_ms - 1)
    assert replies == []
    filled.time.advance(1)
    (response,) = replies
    assert (response.groups[0] if version >= 8 else response).error_code == NOT_COORDINATOR


MANY = 300


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 5, 8, 9])
def test_many_offsets_are_of_one_moment(node: HandlerBroker, version: int) -> None:
    """They are told in steps; what is committed and forgotten meanwhile is not among them."""

    def commit(offset: int, *indexes: int) -> None:
        request = commit_request("g", dict.fromkeys(indexes, offset), leader_epoch=3, metadata="note")
        loop.ask(request, 8).finish()

    node.services.metadata.create_topic("t", MANY)
    loop = Loop(node)
    commit(1, *range(MANY - 1))
    for topics in (None, {"t": [*range(MANY)] * 4}) if version > 1 else ({"t": [*range(MANY)] * 4},):
        asked = loop.ask(request(node, version, topics, "g"), version)
        loop.turn()
        assert not asked.replies
        commit(2, 0, MANY - 2, MANY - 1)
        loop.ask_a_bystander()
        assert not asked.replies
        assert asked.finish() > 2
        response = asked.response
        (told,) = (response.groups[0] if version >= 8 else response).topics
        offsets = {row.partition_index: row.committed_offset for row in told.partitions}
        offsets.pop(MANY - 1, None)
        assert offsets == dict.fromkeys(range(MANY - 1), 1)
        commit(1, 0, MANY - 2)
    again = loop.ask(request(node, version, {"t": [MANY - 1]}, "g"), version).response
    assert (again.groups[0] if version >= 8 else again).topics[0].partitions[0].committed_offset == 2


def test_many_groups_are_asked_in_steps(filled: HandlerBroker) -> None:
    loop = Loop(filled)
    names = ["g", "h", *(f"group-{number}" for number in range(MANY))]
    asked = loop.ask(request(filled, 8, {"t": [0, 1]}, *names), 8)
    assert asked.finish() > MANY // 4
    told = [[row.committed_offset for row in group.topics[0].partitions] for group in asked.response.groups]
    assert told == [[-1, 42], [7, -1], *[[-1, -1]] * MANY]
