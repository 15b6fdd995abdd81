"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup over the wire, in every version; the rules are tested purely."""

from pathlib import Path
from typing import Any

import pytest
import trio

from headgate.gateway.tests.builders import HandlerBroker
from headgate.gateway.tests.harness import MemoryBroker, WireClient, run_broker
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headgate.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headgate.protocol.schema import Message

JOIN = JoinGroupRequest("group", 10_000, 60_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"wants")])
JOIN_VERSIONS, SYNC_VERSIONS, HEARTBEAT_VERSIONS, LEAVE_VERSIONS = range(10), range(6), range(5), range(6)


@pytest.fixture
def node(tmp_path: Path) -> Any:
    node = HandlerBroker(tmp_path, group_initial_rebalance_delay_ms="0")
    yield node
    node.close()


def joining(member_id: str = "", instance_id: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest("group", 10_000, 60_000, member_id, instance_id, "consumer", JOIN.protocols)


def syncing(member_id: str, generation: int, **assignments: bytes) -> SyncGroupRequest:
    rows = [SyncGroupRequestAssignment(*each) for each in assignments.items()]
    return SyncGroupRequest("group", generation, member_id, None, "consumer", "range", rows)


def enter(node: HandlerBroker, version: int = 9) -> Any:
    """Become the one member of a group that waits for its assignment."""
    answer = node.ask(joining(), version)
    if version >= 4:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        answer = node.ask(joining(answer.member_id), version)
    assert answer.error_code == ErrorCode.NONE
    return answer


@pytest.mark.parametrize("version", JOIN_VERSIONS)
def test_join(node: HandlerBroker, version: int) -> None:
    answer = enter(node, version)
    assert answer.generation_id == 1
    assert answer.leader == answer.member_id
    assert answer.protocol_name == "range"
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    assert [(row.member_id, row.metadata) for row in answer.members] == [(answer.member_id, b"wants")]
    assert answer.member_id.startswith("test-")


@pytest.mark.parametrize("version", SYNC_VERSIONS)
def test_sync(node: HandlerBroker, version: int) -> None:
    member_id = enter(node).member_id
    answer = node.ask(SyncGroupRequest("group", 1, member_id, None, *_protocol(version), [_gives(member_id)]), version)
    assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"all")
    assert (answer.protocol_type, answer.protocol_name) == _protocol(version)


@pytest.mark.parametrize("version", HEARTBEAT_VERSIONS)
def test_heartbeat(node: HandlerBroker, version: int) -> None:
    member_id = enter(node).member_id
    assert node.ask(HeartbeatRequest("group", 1, member_id), version).error_code == ErrorCode.NONE
    assert node.ask(HeartbeatRequest("group", 2, member_id), version).error_code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", LEAVE_VERSIONS)
def test_leave(node: HandlerBroker, version: int) -> None:
    member_id = enter(node).member_id
    answer = node.ask(LeaveGroupRequest("group", member_id, [MemberIdentity(member_id)]), version)
    assert answer.error_code == ErrorCode.NONE
    assert [row.error_code for row in answer.members] == ([ErrorCode.NONE] if version >= 3 else [])
    assert node.ask(HeartbeatRequest("group", 1, member_id), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "request_, versions",
    [
        (JoinGroupRequest(session_timeout_ms=10_000), JOIN_VERSIONS),
        (SyncGroupRequest(), SYNC_VERSIONS),
        (HeartbeatRequest(), HEARTBEAT_VERSIONS),
        (LeaveGroupRequest(), LEAVE_VERSIONS),
    ],
)
def test_a_group_needs_a_name(node: HandlerBroker, request_: Message, versions: range) -> None:
    for version in versions:
        assert node.ask(request_, version).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", JOIN_VERSIONS)
def test_errors_of_join_can_be_written_in_every_version(node: HandlerBroker, version: int) -> None:
    answer = node.ask(joining("nobody"), version)
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "nobody")


def test_a_group_lives_through_a_restart(node: HandlerBroker) -> None:
    member_id = enter(node).member_id
    node.ask(syncing(member_id, 1, **{member_id: b"all"}), 5)
    node.restart()
    assert node.ask(HeartbeatRequest("group", 1, member_id), 4).error_code == ErrorCode.NONE
    assert node.ask(syncing(member_id, 1), 5).assignment == b"all"


@pytest.mark.parametrize(
    "error, answer",
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_while_the_group_is_loaded_all_is_well_with_a_heartbeat(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch, error: ErrorCode, answer: ErrorCode
) -> None:
    def submit(*_: Any) -> None:
        raise KafkaError(error)

    monkeypatch.setattr(node.services.groups, "submit", submit)
    assert node.ask(HeartbeatRequest("group", 1, "member"), 4).error_code == answer


def test_members_wait_for_each_other(tmp_path: Path) -> None:
    async def scenario(server: MemoryBroker) -> None:
        one, two = server.connect(), server.connect()
        first, second = await _enter(one), await _enter(two)
        await one.send(joining(first), 9)
        await two.send(joining(second), 9)
        generations = {(await each.receive()).generation_id for each in (one, two)}
        assert len(generations) == 1
        generation = generations.pop()
        await two.send(syncing(second, generation), 5)
        answer = await one.ask(syncing(first, generation, **{first: b"left", second: b"right"}), 5)
        assert answer.assignment == b"left"
        assert (await two.receive()).assignment == b"right"

    run_broker(tmp_path, scenario, group_initial_rebalance_delay_ms="3000")


def test_who_is_reset_before_its_first_generation_is_left_out(tmp_path: Path) -> None:
    async def scenario(server: MemoryBroker) -> None:
        one, two = server.connect(), server.connect()
        first, second = await _enter(one), await _enter(two)
        await two.send(joining(second), 9)
        await one.send(joining(first), 9)
        await trio.sleep(1)
        list(server.broker.server.drivers)[1].abort()  # as a reset does, which a memory stream does not have
        answer = await one.receive()
        assert [row.member_id for row in answer.members] == [first]
        assert answer.leader == first

    run_broker(tmp_path, scenario, group_initial_rebalance_delay_ms="3000")


def test_who_dies_is_found_out_by_the_clock_of_the_broker(tmp_path: Path) -> None:
    async def scenario(server: MemoryBroker) -> None:
        one, two = server.connect(), server.connect()
        began = trio.current_time()
        first, second = await _enter(one), await _enter(two)
        await one.send(joining(first), 9)
        await two.send(joining(second), 9)
        answer = await one.receive()
        await two.stream.aclose()
        await one.ask(syncing(first, answer.generation_id), 5)
        await trio.sleep(9)
        assert (await one.ask(HeartbeatRequest("group", answer.generation_id, first), 4)).error_code == ErrorCode.NONE
        again = await one.ask(joining(first), 9)
        assert [row.member_id for row in again.members] == [first]
        assert 10 <= trio.current_time() - began <= 10 + 6

    run_broker(tmp_path, scenario, group_initial_rebalance_delay_ms="3000")


async def _enter(client: WireClient) -> str:
    answer = await client.ask(joining(), 9)
    while answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        await trio.sleep(0.1)
        answer = await client.ask(joining(), 9)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    member_id: str = answer.member_id
    return member_id


def _protocol(version: int) -> tuple[str | None, str | None]:
    return ("consumer", "range") if version >= 5 else (None, None)


def _gives(member_id: str) -> SyncGroupRequestAssignment:
    return SyncGroupRequestAssignment(member_id, b"all")
