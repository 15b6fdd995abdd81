"""The group coordinator of a broker: topics that change, offsets that expire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.coordinator.internal_topic import partition_of
from headgate.gateway.coordinator.tests.test_runtime import commit, fetch
from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.gateway.tests.builders import HandlerBroker, refusal
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headgate.protocol.messages.delete_groups import DeleteGroupsRequest
from headgate.protocol.messages.list_groups import ListGroupsRequest


def test_offsets_of_a_deleted_topic_go_also_from_the_log(served: HandlerBroker) -> None:
    commit(served, "g", 1)
    commit(served, "g", 2, topic="u")
    served.services.metadata.delete_topic("t")
    served.time.advance()
    served.time.advance()
    assert fetch(served, "g") == [(0, {"u": 2})]
    served.restart()
    assert fetch(served, "g") == [(0, {"u": 2})]


def test_consumer_groups_hear_of_topics_that_come_grow_and_go(served: HandlerBroker) -> None:
    """The next heartbeat of a member has the partitions of the topics as they are then."""
    metadata = served.services.metadata

    def beat(epoch: int, **options: Any) -> Any:
        response = served.ask(ConsumerGroupHeartbeatRequest("g", "m", epoch, **options), 1)
        assert response.error_code == ErrorCode.NONE
        return response

    def partitions() -> dict[str, list[int]]:
        rows = response.assignment.topic_partitions
        return {metadata.image.topic_names[row.topic_id]: sorted(row.partitions) for row in rows}

    response = beat(0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t", "later"], topic_partitions=[])
    assert partitions() == {"t": [0]}
    metadata.create_partitions("t", 3)
    served.time.advance()
    response = beat(response.member_epoch)
    assert partitions() == {"t": [0, 1, 2]}
    metadata.create_topic("later", 2)
    served.time.advance()
    response = beat(response.member_epoch)
    assert partitions() == {"t": [0, 1, 2], "later": [0, 1]}


def test_expired_offsets_go_and_the_group_with_the_last(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path, offsets_retention_minutes="1", offsets_retention_check_interval_ms="10000")
    node.services.metadata.create_topic("t", 1)
    commit(node, "g", 1)
    node.time.advance(59_000)
    assert fetch(node, "g") == [(0, {"t": 1})]
    for _ in range(3):
        node.time.advance(10_000)
    assert fetch(node, "g") == [(0, {})]
    assert node.ask(ListGroupsRequest(), 5).groups == []
    node.restart()
    assert fetch(node, "g") == [(0, {})]
    node.close()


def test_a_deleted_group_stays_deleted(served: HandlerBroker) -> None:
    commit(served, "g", 1)
    rows = served.ask(DeleteGroupsRequest(["g", "nowhere"]), 2).results
    assert [(row.group_id, row.error_code) for row in rows] == [("g", 0), ("nowhere", ErrorCode.GROUP_ID_NOT_FOUND)]
    served.restart()
    assert served.ask(ListGroupsRequest(), 5).groups == []


def test_the_first_offset_that_a_group_has_not_read(served: HandlerBroker) -> None:
    groups = served.services.groups
    assert groups.first_unread(["g"], "t", 0) == 0, "nobody has asked for a coordinator yet"
    commit(served, "g", 7)
    commit(served, "h", 5)
    assert groups.first_unread(["g"], "t", 0) == 7
    assert groups.first_unread(["g", "h"], "t", 0) == 5
    for topic, partition, others in (
        ("t", 1, ["g"]),
        ("u", 0, ["g"]),
        ("t", 0, ["g", "nobody"]),
        ("t", 0, ["x" * 9000]),
    ):
        assert groups.first_unread(others, topic, partition) == 0
    served.restart()
    assert groups.first_unread(["g"], "t", 0) in (0, 7)
    assert served.services.groups.first_unread(["g"], "t", 0) == 7


def test_while_a_part_is_loaded_groups_are_not_listed(served: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(served, "g", 1)
    partition = served.services.partitions.get(CONSUMER_OFFSETS, partition_of("g", 4))
    served.services.groups.log_was_truncated(partition)
    assert refusal(served, ListGroupsRequest(), 5) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert fetch(served, "g") == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})]
    served.services.metadata.delete_topic("t")  # while it is loaded
    for _ in range(3):
        served.time.advance()
    assert fetch(served, "g") == [(0, {})]


def test_a_topic_that_is_deleted_and_made_again_during_a_load_has_no_offsets(served: HandlerBroker) -> None:
    commit(served, "g", 1)
    partition = served.services.partitions.get(CONSUMER_OFFSETS, partition_of("g", 4))
    served.services.groups.log_was_truncated(partition)
    served.services.metadata.delete_topic("t")
    served.time.scheduler.run_soon()
    assert fetch(served, "g") == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})]
    served.services.metadata.create_topic("t", 1)
    for _ in range(3):
        served.time.advance()
    assert fetch(served, "g") == [(0, {})]
    commit(served, "g", 2)
    assert fetch(served, "g") == [(0, {"t": 2})]


def forget(node: HandlerBroker, deleted_ms: Mapping[str, int]) -> list[str]:
    """Remove the offsets of deleted topics. The result says, in time, that this has ended."""
    ended: list[str] = []
    node.services.tasks.start(node.services.groups.forget_topics(deleted_ms), lambda _: ended.append("ended"))
    return ended


def test_newer_offsets_outlive_the_note_of_a_deletion(served: HandlerBroker) -> None:
    """A broker that starts finds a note of a deletion: what was committed since then is of a new topic."""
    commit(served, "g", 1)
    deleted_ms = served.time.clock.now_ms()
    served.time.advance(1)
    commit(served, "g", 2, topic="u")
    ended: list[str] = []
    served.services.tasks.start(
        served.services.groups.forget_topics({"t": deleted_ms, "u": deleted_ms}), lambda _: ended.append("ended")
    )
    for _ in range(4):
        served.time.advance()
    assert fetch(served, "g") == [(0, {"u": 2})]
    assert ended == ["ended"]


@pytest.fixture
def full(served: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The log of the groups refuses writes until `undo`."""
    commit(served, "g", 1)
    commit(served, "g", 2, topic="u")
    log = type(served.services.partitions.get(CONSUMER_OFFSETS, partition_of("g", 4)))

    def refuse(self: Any) -> None:
        if self.topic == CONSUMER_OFFSETS:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(log, "check_writable", refuse)
        yield patched


def _pass(node: HandlerBroker, seconds: int) -> None:
    for _ in range(10 * seconds):
        node.time.advance(100)


def test_offsets_that_the_log_refuses_to_remove_go_later(
    served: HandlerBroker, full: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    served.services.metadata.delete_topic("t")
    _pass(served, 30)
    assert caplog.text.count("has offsets of deleted topics yet, and the broker tries again") == 1
    assert "no space left on device" in caplog.text
    full.undo()
    served.services.metadata.create_topic("t", 1)
    _pass(served, 3)
    assert fetch(served, "g") == [(0, {"u": 2})]


def test_a_deletion_has_ended_once_its_tombstones_are_written(served: HandlerBroker, full: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    deleted_ms = served.time.clock.now_ms()
    served.services.tasks.start(
        served.services.groups.forget_topics({"t": deleted_ms}), lambda _: ended.append("ended")
    )
    _pass(served, 5)
    assert ended == []
    full.undo()
    _pass(served, 3)
    assert (ended, fetch(served, "g")) == (["ended"], [(0, {"u": 2})])


def test_a_load_in_between_ends_no_deletion(served: HandlerBroker) -> None:
    commit(served, "g", 1)
    groups = served.services.groups
    ended = forget(served, {"t": served.time.clock.now_ms()})
    for index in range(4):
        groups.log_was_truncated(served.services.partitions.get(CONSUMER_OFFSETS, index))
    _pass(served, 3)
    assert (ended, fetch(served, "g")) == (["ended"], [(0, {})])
