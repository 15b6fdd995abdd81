"""ListGroups, DescribeGroups and DeleteGroups in every version over the wire; and groups over a whole broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from headgate.gateway.api import authorized_operations
from headgate.gateway.tests.builders import HandlerBroker
from headgate.gateway.tests.harness import MemoryBroker, WireClient, run_broker
from headgate.gateway.tests.requests import commit_request
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_groups import DeleteGroupsRequest
from headgate.protocol.messages.describe_groups import DescribeGroupsRequest
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.list_groups import ListGroupsRequest
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


@pytest.fixture
def node(tmp_path: Path) -> Iterator[HandlerBroker]:
    """A broker with a group that has a member, "busy", and one that has only an offset, "simple"."""
    node = HandlerBroker(tmp_path, group_initial_rebalance_delay_ms="0")
    node.services.metadata.create_topic("t", 1)
    node.ask(commit_request("simple", {0: 5}), 8)
    member = node.ask(joining(node.ask(joining(), 5).member_id), 5).member_id
    node.ask(SyncGroupRequest("busy", 1, member, assignments=[SyncGroupRequestAssignment(member, b"all")]), 3)
    yield node
    node.close()


def joining(member_id: str = "") -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"wants")]
    return JoinGroupRequest("busy", 10_000, 60_000, member_id, None, "consumer", protocols)


def listed(node: HandlerBroker, version: int = 5, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> Any:
    response = node.ask(ListGroupsRequest(list(states), list(types)), version)
    assert response.error_code == ErrorCode.NONE
    return sorted((row.group_id, row.protocol_type, row.group_state, row.group_type) for row in response.groups)


# ListGroups


@pytest.mark.parametrize("version", range(6))
def test_all_groups(node: HandlerBroker, version: int) -> None:
    state, kind = version >= 4, version >= 5
    assert listed(node, version) == [
        ("busy", "consumer", "Stable" * state, "classic" * kind),
        ("simple", "", "Empty" * state, "classic" * kind),
    ]


@pytest.mark.parametrize(
    "states, types, groups",
    [
        (("Stable",), (), ["busy"]),
        (("EMPTY", "dead"), (), ["simple"]),
        (("no such state",), (), []),
        ((), ("Classic",), ["busy", "simple"]),
        ((), ("consumer", "share"), []),
        (("stable",), ("classic", "consumer"), ["busy"]),
    ],
)
def test_filters(node: HandlerBroker, states: tuple[str, ...], types: tuple[str, ...], groups: list[str]) -> None:
    assert [row[0] for row in listed(node, 5, states, types)] == groups


# DescribeGroups


@pytest.mark.parametrize("version", range(7))
def test_a_group_and_one_that_is_not_there(node: HandlerBroker, version: int) -> None:
    busy, none = node.ask(DescribeGroupsRequest(["busy", "none"]), version).groups
    assert (busy.error_code, busy.group_id, busy.group_state) == (ErrorCode.NONE, "busy", "Stable")
    assert (busy.protocol_type, busy.protocol_data) == ("consumer", "range")
    (member,) = busy.members
    assert (member.client_id, member.client_host) == ("test", "/192.0.2.9")
    assert (member.member_metadata, member.member_assignment) == (b"wants", b"all")
    assert (none.group_id, none.group_state, none.members) == ("none", "Dead", [])
    assert none.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
    assert none.error_message == ("group none not found" if version >= 6 else None)


@pytest.mark.parametrize("version", [3, 6])
def test_what_a_client_may_do_is_told_if_it_asks(node: HandlerBroker, version: int) -> None:
    asked = node.ask(DescribeGroupsRequest(["busy"], include_authorized_operations=True), version).groups
    assert [row.authorized_operations for row in asked] == [authorized_operations.GROUP]
    unasked = node.ask(DescribeGroupsRequest(["busy"]), version).groups
    assert [row.authorized_operations for row in unasked] == [authorized_operations.UNKNOWN]


# DeleteGroups


@pytest.mark.parametrize("version", range(4))
def test_only_a_group_without_members_is_deleted(node: HandlerBroker, version: int) -> None:
    rows = node.ask(DeleteGroupsRequest(["busy", "simple", "none"]), version).results
    assert [(row.group_id, row.error_code) for row in rows] == [
        ("busy", ErrorCode.NON_EMPTY_GROUP),
        ("simple", ErrorCode.NONE),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert [row.error_message is not None for row in rows] == ([True, False, True] if version >= 3 else [False] * 3)
    assert [row[0] for row in listed(node)] == ["busy"]
    fetched = node.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("simple", topics=None)]), 8)
    assert fetched.groups[0].topics == []
    node.restart()
    assert [row[0] for row in listed(node)] == ["busy"]


def test_the_topic_of_groups_gets_no_more_partitions(node: HandlerBroker) -> None:
    """Every group would belong to another partition, and its offsets be lost."""
    wanted = CreatePartitionsTopic("__consumer_offsets", 51, None)
    (row,) = node.ask(CreatePartitionsRequest([wanted], 1_000), 3).results
    assert row.error_code == ErrorCode.INVALID_PARTITIONS
    (group,) = node.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("simple", topics=None)]), 8).groups
    assert group.topics[0].partitions[0].committed_offset == 5


def test_a_group_that_is_named_often_is_described_once(node: HandlerBroker) -> None:
    rows = node.ask(DescribeGroupsRequest(["busy", "simple", *["busy"] * 1_000]), 5).groups
    assert [row.group_id for row in rows] == ["busy", "simple"]


def test_of_a_group_that_is_named_twice_the_second_is_gone(node: HandlerBroker) -> None:
    rows = node.ask(DeleteGroupsRequest(["simple", "simple"]), 2).results
    assert [row.error_code for row in rows] == [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND]


# Over memory streams, with trio's mock clock


async def _member(broker: MemoryBroker, name: str) -> tuple[WireClient, str]:
    client = broker.connect(name)
    given = await client.ask(joining(), 5)
    assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return client, given.member_id


@pytest.mark.slow
def test_a_group_lives_in_a_broker_and_dies_by_its_clock(tmp_path: Path) -> None:
    """Two members share a generation; one falls silent; its session ends; the other rebalances, commits, and reads."""

    async def scenario(broker: MemoryBroker) -> None:
        admin = broker.connect()
        await admin.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1_000), 5)
        assert (await admin.ask(FindCoordinatorRequest(key="busy"), 3)).error_code == ErrorCode.NONE
        (first, one), (second, two) = await _member(broker, "first"), await _member(broker, "second")
        answers: list[Any] = []

        async def join(client: WireClient, member_id: str) -> None:
            answers.append(await client.ask(joining(member_id), 5))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(join, first, one)
            nursery.start_soon(join, second, two)
        assert {(answer.error_code, answer.generation_id) for answer in answers} == {(ErrorCode.NONE, 1)}
        leader, generation = answers[0].leader, 1
        lead, led, silent = (first, second, two) if leader == one else (second, first, one)
        assignments = [SyncGroupRequestAssignment(one, b"1"), SyncGroupRequestAssignment(two, b"2")]
        await led.send(SyncGroupRequest("busy", generation, silent), 3)
        synced = await lead.ask(SyncGroupRequest("busy", generation, leader, assignments=assignments), 3)
        other = await led.receive()
        assert {synced.assignment, other.assignment} == {b"1", b"2"}

        codes = []
        for _ in range(8):  # the other says nothing for 16 s; its session is 10 s
            await trio.sleep(2)
            codes.append((await lead.ask(HeartbeatRequest("busy", generation, leader), 4)).error_code)
        assert codes[:4] == [ErrorCode.NONE] * 4
        assert codes[-1] == ErrorCode.REBALANCE_IN_PROGRESS
        alone = await lead.ask(joining(leader), 5)
        assert ([row.member_id for row in alone.members], alone.generation_id) == ([leader], generation + 1)
        refused = await led.ask(HeartbeatRequest("busy", generation, silent), 4)
        assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID

        assert (await admin.ask(commit_request("simple", {0: 42}), 8)).topics[0].partitions[
            0
        ].error_code == ErrorCode.NONE

    async def afterwards(broker: MemoryBroker) -> None:
        client = broker.connect()
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("simple", topics=None)])
        while (answer := await client.ask(asked, 8)).groups[0].error_code != ErrorCode.NONE:
            assert answer.groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await trio.sleep(0.01)
        assert answer.groups[0].topics[0].partitions[0].committed_offset == 42
        # The second generation was never synced, so the log has the first one: with the member that had gone
        (busy,) = (await client.ask(DescribeGroupsRequest(["busy"]), 5)).groups
        assert (busy.group_state, len(busy.members)) == ("Stable", 2)

    settings = {"offsets_topic_num_partitions": "2", "group_initial_rebalance_delay_ms": "1000"}
    run_broker(tmp_path, scenario, **settings)
    run_broker(tmp_path, afterwards, **settings)
