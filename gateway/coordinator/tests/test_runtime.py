"""All coordinators of a broker: where a group belongs, the topic that is made for them, many groups in one request."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.internal_topic import MAX_KEY_BYTES, partition_of
from headgate.gateway.metadata.store import MetadataStore
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import HandlerBroker, parked, refusal
from headgate.gateway.tests.requests import commit_request
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.heartbeat import HeartbeatResponse
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headgate.storage.segment.segment import Segment

pytestmark = pytest.mark.every_metadata_store

TOPIC = "__consumer_offsets"


def commit(node: HandlerBroker, group: str, offset: int, topic: str = "t", version: int = 9) -> int:
    code: int = node.ask(commit_request(group, {0: offset}, topic), version).topics[0].partitions[0].error_code
    return code


def fetch(node: HandlerBroker, *groups: str) -> list[tuple[int, dict[str, int]]]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None) for group in groups])
    return [
        (row.error_code, {topic.name: topic.partitions[0].committed_offset for topic in row.topics})
        for row in node.ask(request, 8).groups
    ]


# The topic


def test_the_topic_is_made_when_it_is_first_asked_for(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path, offsets_topic_num_partitions="7", offsets_topic_segment_bytes="4096")
    assert TOPIC not in node.services.metadata.image.topics
    node.ask(FindCoordinatorRequest(key="g"), 3)
    topic = node.services.metadata.image.topics[TOPIC]
    assert len(topic.partitions) == 7
    assert all(len(state.replicas) == 1 for state in topic.partitions)
    assert topic.configs == {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "4096"}
    node.close()


def test_fifty_partitions_at_rest_are_small(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path, offsets_topic_num_partitions="50")
    node.ask(FindCoordinatorRequest(key="g"), 3)
    assert len(node.services.metadata.image.topics[TOPIC].partitions) == 50
    files = [path for path in tmp_path.rglob(f"{TOPIC}-*/*") if path.is_file()]
    assert len({path.parent for path in files}) == 50
    blocks = sum(path.stat().st_blocks * 512 for path in tmp_path.rglob(f"{TOPIC}-*"))
    assert blocks + sum(path.stat().st_blocks * 512 for path in files) < 1_000_000
    node.close()


def test_while_the_topic_cannot_be_made_clients_come_again(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(MetadataStore, "create_topic", fails)
        assert refusal(node, FindCoordinatorRequest(key="g"), 3) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        rows = node.ask(FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4).coordinators
        assert [row.error_code for row in rows] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert node.ask(FindCoordinatorRequest(key="g"), 3).error_code == ErrorCode.NONE


def test_a_deleted_topic_takes_all_groups_with_it(served: HandlerBroker) -> None:
    commit(served, "g", 7)
    served.services.metadata.delete_topic(TOPIC)
    served.time.advance()
    assert fetch(served, "g") == [(0, {})]
    assert commit(served, "g", 8) == ErrorCode.NONE
    assert fetch(served, "g") == [(0, {"t": 8})]


def test_a_stop_lets_go_of_all_groups(served: HandlerBroker) -> None:
    commit(served, "g", 7)
    served.services.groups.stop()
    assert fetch(served, "g") == [(ErrorCode.NOT_COORDINATOR, {})]


def test_an_offline_partition_has_its_coordinator_when_it_is_back(
    served: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(served, "g", 7)
    offline = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the segment is damaged")

    def get(*_: object) -> None:
        raise offline

    groups, image = served.services.groups, served.services.metadata.image
    with monkeypatch.context() as patched:
        patched.setattr(served.services.partitions, "get", get)
        groups.follow(image, image, {TOPIC})
        assert fetch(served, "g") == [(ErrorCode.NOT_COORDINATOR, {})]  # see handlers/offset_fetch.py
        response: Any = groups.gather(["g"], lambda *_: Decision(), list[Any])
        assert response[0].code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert fetch(served, "g")[0][0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    served.time.advance()
    assert fetch(served, "g") == [(0, {"t": 7})]


# Requests


def test_groups_are_where_they_belong_over_restarts(served: HandlerBroker) -> None:
    for number in range(20):
        assert commit(served, f"g{number}", number) == ErrorCode.NONE
    served.restart()
    assert fetch(served, *(f"g{number}" for number in range(20))) == [(0, {"t": number}) for number in range(20)]
    log = served.services.partitions.get(TOPIC, partition_of("g3", 4)).log
    assert log.end_offset > 0


@pytest.mark.parametrize("group, code", [("g" * MAX_KEY_BYTES, 0), ("\u20ac" * 10_923, 24), ("g" * 32_768, 24)])
def test_an_id_must_fit_into_the_key_of_a_record(served: HandlerBroker, group: str, code: int) -> None:
    row: Any = served.services.groups.gather(
        [group], lambda _, __, ticket: Decision.reply(ticket, HeartbeatResponse()), lambda rows: rows[0]
    )
    assert row == HeartbeatResponse() if code == ErrorCode.NONE else row.code == code


def test_commits_of_a_turn_are_written_before_anybody_looks(served: HandlerBroker) -> None:
    """The handler leaves the write to the end of the turn; `ask` ends it as the dispatcher does."""
    assert commit(served, "g", 1) == ErrorCode.NONE
    assert commit(served, "g", 2) == ErrorCode.NONE
    replica = served.services.partitions.get(TOPIC, partition_of("g", 4))
    assert replica.log.staged is None
    assert replica.log.end_offset == 2


def test_a_full_disk_at_the_end_of_the_turn(served: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was replayed and answered before its write takes back both; with a real log under it."""
    assert commit(served, "g", 1) == ErrorCode.NONE

    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Segment, "append", fails)
        assert commit(served, "g", 2) == ErrorCode.NOT_COORDINATOR
        assert fetch(served, "g") == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})]
    for _ in range(3):
        served.time.advance()
    assert fetch(served, "g") == [(0, {"t": 1})]
    assert commit(served, "g", 3) == ErrorCode.NONE
    served.restart()
    assert fetch(served, "g") == [(0, {"t": 3})]


def test_a_slow_disk_is_written_to_by_threads(served: HandlerBroker) -> None:
    assert commit(served, "g", 1) == ErrorCode.NONE
    threads = served.time.scheduler.hold()
    disk = served.services.partitions.get(TOPIC, partition_of("g", 4)).disk
    assert disk is not None
    disk.is_slow = True
    heard: list[Any] = []
    waiting = served.handle(commit_request("g", {0: 2}), 8)
    assert is_task(waiting)
    served.services.tasks.start(waiting, heard.append)
    reading = served.handle(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), 8)
    assert is_task(reading)
    served.services.tasks.start(reading, heard.append)
    served.time.advance()
    assert heard == []
    assert len(threads.waiting) == 1
    threads.run_one()
    committed, fetched = heard
    assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert fetched.groups[0].topics[0].partitions[0].committed_offset == 2


# Many groups in one request


def test_an_error_of_one_group_stops_no_other(served: HandlerBroker) -> None:
    commit(served, "g", 1)

    def decide(_: GroupShard, group_id: str, ticket: Ticket) -> Decision:
        if group_id == "bad":
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        return Decision.reply(ticket, HeartbeatResponse())

    replies: Any = served.services.groups.gather(["g", "bad", "h" * 40_000], decide, list[Any])
    assert replies[0] == HeartbeatResponse()
    assert [error.code for error in replies[1:]] == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID]


def test_many_groups_wait_for_the_last(served: HandlerBroker) -> None:
    tickets: dict[str, Ticket] = {}

    def park(_: GroupShard, group_id: str, ticket: Ticket) -> Decision:
        tickets[group_id] = ticket
        return Decision()

    def answer(group_id: str) -> None:
        reply = HeartbeatResponse(throttle_time_ms=ord(group_id))
        served.services.groups.submit(
            group_id, lambda _, ticket: Decision([], [(tickets[group_id], reply), (ticket, HeartbeatResponse())])
        )
        served.time.advance()

    heard = parked(served, served.services.groups.gather(["a", "b"], park, list))
    answer("b")
    assert heard == []
    answer("a")
    assert heard == [[HeartbeatResponse(throttle_time_ms=97), HeartbeatResponse(throttle_time_ms=98)]]


def test_many_groups_at_a_stop(served: HandlerBroker) -> None:
    heard = parked(served, served.services.groups.gather(["a", "b"], lambda *_: Decision(), list))
    served.services.tasks.expire_all()
    assert [error.code for error in heard[0]] == [ErrorCode.NOT_COORDINATOR] * 2
