"""Partitions whose files a thread makes and renames: what is seen meanwhile, and what the next change finds."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from headgate.gateway.metadata.image import CONSUMER_OFFSETS, Topic
from headgate.gateway.replication import replica_manager as partitions_module
from headgate.gateway.replication.leadership import Leadership
from headgate.gateway.replication.replica_manager import PREPARE_MS
from headgate.gateway.runtime.scheduler import StoppedError
from headgate.gateway.runtime.tasks import run
from headgate.gateway.tests.builders import HandlerBroker, records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.disk import layout
from headgate.storage.files import Files

NOW_MS = 1_700_000_000_000
NONE, STORAGE = ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR
UNKNOWN, NOT_LEADER = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER


class Desk:
    """A node whose threads run when they are told to."""

    def __init__(self, node: HandlerBroker) -> None:
        self.node = node
        self.metadata, self.partitions = node.services.metadata, node.services.partitions
        self.threads = node.time.scheduler.hold_slices()
        self.waiting = self.threads.waiting
        self.partitions.go_on_in_threads()

    def next_turn(self) -> None:
        self.node.time.advance()

    def run_one(self, number: int = 0) -> None:
        """End what is in one thread, which is begun with what came before it."""
        self.next_turn()
        self.threads.run_one(number=number)
        self.next_turn()

    def run_all(self) -> None:
        self.next_turn()
        while self.waiting:
            self.run_one()

    def code(self, topic: str = "t", index: int = 0) -> ErrorCode:
        try:
            self.partitions.get(topic, index)
        except KafkaError as error:
            return error.code
        return NONE

    def append(self, topic: str = "t", index: int = 0) -> None:
        batch = records(b"v")
        self.partitions.get(topic, index).append(batch, 1, NOW_MS)

    def names(self) -> list[str]:
        """The directories of topics, and what was made of them: t-0, delete, stray."""
        return self.names_in(self.node.config.log_directories[0])

    @staticmethod
    def names_in(directory: str) -> list[str]:
        found = Path(directory).glob("[a-z]*-*")
        return sorted(
            path.name.rpartition("-")[2] if "." in path.name else path.name for path in found if path.is_dir()
        )


@pytest.fixture
def desk(node: HandlerBroker) -> Iterator[Desk]:
    yield Desk(node)
    node.time.scheduler.release()


class Full:
    """A disk that takes nothing."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(layout, "write_topic_id", self.refuse)

    def refuse(self, *_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_new_topic_is_seen_when_its_files_are_there(desk: Desk) -> None:
    change = desk.metadata.create_topic("t", 2)
    assert not change.is_settled
    assert "t" not in desk.metadata.image.topics
    assert "t" in desk.metadata.planned.topics
    assert desk.names() == []
    assert desk.code() == NOT_LEADER
    desk.run_all()
    assert (change.is_settled, change.error) == (True, None)
    assert desk.metadata.planned is desk.metadata.image
    assert len(desk.metadata.image.topics["t"].partitions) == 2
    assert desk.names() == ["t-0", "t-1"]
    assert [desk.code("t", index) for index in (0, 1)] == [NONE, NONE]
    assert not desk.partitions.opening


def test_many_are_made_some_at_a_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions_module, "AT_ONCE", 2)
    desk.metadata.create_topic("t", 5)
    there = []
    while desk.waiting:
        assert len(desk.waiting) == 1
        desk.run_one()
        there.append(len(desk.names()))
    assert there == [2, 4, 5]
    desk.metadata.create_partitions("t", 6)
    desk.run_all()
    assert [desk.code("t", index) for index in range(6)] == [NONE] * 6
    desk.metadata.delete_topic("t")
    assert [desk.code("t", index) for index in range(6)] == [UNKNOWN] * 6
    left = []
    while desk.waiting:
        desk.run_one()
        left.append(desk.names().count("delete"))
    assert left == [2, 4, 6]


def test_changes_are_seen_in_their_order(desk: Desk) -> None:
    desk.metadata.create_topic("a", 1)
    desk.run_all()
    desk.metadata.create_topic("b", 1)
    later = desk.metadata.change_topic_configs("a", {"retention.ms": "5"})
    assert desk.metadata.image.topics["a"].configs == {}
    desk.run_all()
    assert later.is_settled
    assert "b" in desk.metadata.image.topics
    assert desk.metadata.image.topics["a"].configs == {"retention.ms": "5"}


def test_a_disk_that_hangs_keeps_no_change_waiting_for_ever(desk: Desk) -> None:
    desk.metadata.create_topic("t", 2)
    later = desk.metadata.create_topic("u", 1)
    desk.node.time.advance(PREPARE_MS - 1)
    assert "t" not in desk.metadata.image.topics
    desk.node.time.advance(1)
    assert "t" in desk.metadata.image.topics
    assert [desk.code("t", index) for index in (0, 1)] == [NOT_LEADER, NOT_LEADER]
    assert not later.is_settled
    desk.node.time.advance(PREPARE_MS)
    assert later.is_settled
    desk.metadata.delete_topic("t")
    assert [desk.code("t", index) for index in (0, 1)] == [UNKNOWN, UNKNOWN]
    desk.run_all()
    assert desk.names() == ["delete", "delete", "u-0"]
    assert [desk.code("t"), desk.code("u")] == [UNKNOWN, NONE]
    assert not desk.partitions.opening


def test_a_topic_that_is_deleted_while_it_is_made_goes_afterwards(desk: Desk) -> None:
    desk.metadata.create_topic("t", 2)
    desk.metadata.delete_topic("t")
    assert desk.names() == []
    desk.run_one()
    assert "t" not in desk.metadata.image.topics
    assert desk.code() == UNKNOWN
    desk.run_all()
    assert desk.names() == ["delete", "delete"]
    assert desk.metadata.planned is desk.metadata.image


def test_a_topic_recreated_during_its_deletion_is_another(desk: Desk) -> None:
    desk.metadata.create_topic("t", 2)
    desk.run_all()
    desk.append()
    desk.metadata.delete_topic("t")
    desk.metadata.create_topic("t", 2)
    assert desk.names() == ["t-0", "t-1"]
    desk.run_one()
    assert desk.names() == ["delete", "delete"]
    desk.run_all()
    assert desk.names() == ["delete", "delete", "t-0", "t-1"]
    assert desk.partitions.get("t", 0).log.end_offset == 0
    desk.append()
    desk.node.restart()
    assert desk.node.services.partitions.get("t", 0).log.end_offset == 1


def test_what_the_disk_refuses_is_offline_and_made_by_a_later_try(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []
    came: list[tuple[str, int]] = []
    desk.partitions.events.online.append(lambda *key: came.append(key))
    failed: list[str] = []
    desk.partitions.events.disk_failed.append(lambda directory, _: failed.append(directory))
    with monkeypatch.context() as patch:
        Full(patch)
        desk.metadata.create_topic("t", 2)
        desk.run_all()
        assert failed == list(desk.partitions.directories) * 2
        assert len(desk.metadata.image.topics["t"].partitions) == 2
        assert list(desk.partitions.offline) == [("t", 0), ("t", 1)]
        run(desk.partitions.retry(), told.append)
        assert [desk.code("t", index) for index in (0, 1)] == [STORAGE, STORAGE], "as before, while it is tried"
        desk.run_all()
    assert caplog.text.count("is offline") == 2, "not at every try"
    assert desk.names() == []
    run(desk.partitions.retry(), told.append)
    desk.metadata.change_topic_configs("t", {"max.message.bytes": "1000"})
    desk.run_all()
    assert told == [(0, 2), (2, 0)]
    assert came == [("t", 0), ("t", 1)]
    assert [desk.partitions.get("t", index).log.config.max_message_bytes for index in (0, 1)] == [1000, 1000]
    run(desk.partitions.retry(), told.append)
    assert told[2:] == [(0, 0)]


def test_a_fault_in_one_making_stops_no_other_and_it_is_tried_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_topic_id = layout.write_topic_id

    def fail_first(files: Files, directory: str, topic_id: bytes) -> None:
        if directory.endswith("/t-0"):
            raise ValueError("a fault of ours")
        write_topic_id(files, directory, topic_id)

    with monkeypatch.context() as patch:
        patch.setattr(layout, "write_topic_id", fail_first)
        desk.metadata.create_topic("t", 2)
        desk.run_all()
    assert [desk.code("t", index) for index in (0, 1)] == [STORAGE, NONE]
    assert "a fault of ours" in caplog.text
    run(desk.partitions.retry())
    desk.run_all()
    assert desk.code() == NONE


def test_a_fault_in_taking_up_one_stops_no_other_and_is_tried_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []
    serve = Leadership.serve

    def fail_first(leadership: Leadership, topic: Topic, index: int, *arguments: Any) -> None:
        if index == 0:
            raise ValueError("a fault of ours")
        serve(leadership, topic, index, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Leadership, "serve", fail_first)
        desk.metadata.create_topic("t", 3)
        desk.run_all()
        assert [desk.code("t", index) for index in range(3)] == [STORAGE, NONE, NONE]
        desk.metadata.change_topic_configs("t", {})
        desk.partitions.opened([("t", 0), ("t", 1)])
        run(desk.partitions.retry(), told.append)
    assert "a fault of ours" in caplog.text
    assert desk.code() == STORAGE
    run(desk.partitions.retry(), told.append)
    assert (told, desk.code()) == ([(0, 1), (1, 0)], NONE)


@pytest.mark.parametrize("what", ["begin", "thread"])
def test_what_no_thread_came_to_is_tried_again(desk: Desk, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    with monkeypatch.context() as patch:
        if what == "begin":
            patch.setattr(desk.node.log_manager, "begin_creation", Mock(side_effect=ValueError("a fault of ours")))
        desk.metadata.create_topic("t", 2)
        if what == "thread":
            desk.waiting.pop()[1](RuntimeError("can't start new thread"))
        desk.run_all()
    assert [desk.code("t", index) for index in (0, 1)] == [STORAGE] * 2
    assert not desk.partitions.opening
    run(desk.partitions.retry())
    desk.run_all()
    assert [desk.code("t", index) for index in (0, 1)] == [NONE] * 2


def test_a_topic_deleted_during_a_retry_leaves_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        Full(patch)
        desk.metadata.create_topic("t", 1)
        desk.run_all()
    run(desk.partitions.retry())
    desk.metadata.delete_topic("t")
    assert desk.code() == UNKNOWN
    desk.metadata.create_topic("t", 1)
    desk.run_one()
    assert desk.names() == ["t-0"], "it was made"
    desk.run_one()
    assert desk.names() == ["delete"], "and goes before another is made"
    assert desk.code() == NOT_LEADER
    desk.run_all()
    assert desk.names() == ["delete", "t-0"]
    assert desk.code() == NONE


def test_the_log_of_what_another_node_leads_by_now_stays(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        Full(patch)
        desk.metadata.create_topic("t", 1)
        desk.run_all()
    run(desk.partitions.retry())
    old = desk.metadata.image
    topic = old.topics["t"]
    moved = topic._replace(partitions=(topic.partitions[0]._replace(leader=5),))
    desk.partitions.follow(old, old._replace(topics={**old.topics, "t": moved}), ["t"])
    desk.run_all()
    assert desk.code() == NOT_LEADER
    assert desk.names() == ["t-0"]
    desk.partitions.follow(old._replace(topics={**old.topics, "t": moved}), old, ["t"])
    assert desk.code() == NONE


def test_a_stop_in_the_middle_is_ended_by_the_next_start(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.metadata.create_topic("t", 2)
    desk.node.time.scheduler.is_over = True
    _, done = desk.waiting.pop()
    done(StoppedError("the broker stops"))
    assert desk.metadata.planned is desk.metadata.image
    assert desk.names() == []
    assert "offline" not in caplog.text
    desk.node.restart()
    partitions = desk.node.services.partitions
    assert [partitions.get("t", index).log.end_offset for index in (0, 1)] == [0, 0]


# Several log directories


class TwoDisks(Desk):
    """Log directories a and b: of what waits, what is in which of them."""

    def __init__(self, root: Path) -> None:
        super().__init__(HandlerBroker(root, log_dirs=f"{root}/a,{root}/b"))
        self.a, self.b = self.partitions.directories

    def run_in(self, directory: str) -> None:
        """End all that is in one directory; the other one hangs."""
        is_done = False
        while not is_done:
            self.next_turn()
            number = self._number(directory)
            is_done = number is None
            if number is not None:
                self.run_one(number)

    def _number(self, directory: str) -> int | None:
        works: list[Any] = [work for work, _ in self.waiting]
        parts = [work.args[0].gi_frame.f_locals["runnables"] for work in works]
        numbers = [number for number, part in enumerate(parts) if part[0].directory == directory]
        assert len(numbers) <= 1
        return numbers[0] if numbers else None


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[TwoDisks]:
    disks = TwoDisks(tmp_path)
    yield disks
    disks.node.time.scheduler.release()
    disks.node.close()


def prefer(disks: TwoDisks, directory: str) -> None:
    """Have new partitions made there, if there is nothing against it."""
    for each in (disks.a, disks.b):
        disks.partitions.directories[each].set_full(None if each == directory else KafkaError(STORAGE, "full"))


def test_other_directories_than_the_hung_one_create_and_serve(disks: TwoDisks) -> None:
    first = disks.metadata.create_topic("t", 4)
    second = disks.metadata.create_topic("u", 1)
    disks.run_in(disks.b)
    assert disks.names_in(disks.b) == ["t-0", "t-2"]
    assert [disks.code("t", index) for index in range(4)] == [NONE, NOT_LEADER, NONE, NOT_LEADER]
    assert not first.is_settled, "when all of them are there"
    disks.run_in(disks.a)
    assert first.is_settled
    assert [disks.code("t", index) for index in range(4)] == [NONE] * 4
    disks.run_all()
    assert second.is_settled


def test_a_new_topic_in_one_directory_is_told_while_another_one_hangs(disks: TwoDisks) -> None:
    prefer(disks, disks.a)
    disks.metadata.create_topic("t", 1)
    disks.run_all()
    disks.metadata.delete_topic("t")
    prefer(disks, disks.b)
    change = disks.metadata.create_topic("u", 1)
    disks.run_in(disks.b)
    assert (change.is_settled, disks.code("u")) == (True, NONE)
    assert disks.names_in(disks.a) == ["t-0"]
    disks.run_all()
    assert disks.names_in(disks.a) == ["delete"]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_topic_recreated_elsewhere_does_not_wait_for_the_old_one(disks: TwoDisks, is_stopped: bool) -> None:
    prefer(disks, disks.a)
    disks.metadata.create_topic("t", 1)
    disks.run_all()
    disks.append()
    disks.metadata.delete_topic("t")
    prefer(disks, disks.b)
    disks.metadata.create_topic("t", 1)
    disks.run_in(disks.b)
    assert disks.code() == NONE
    disks.append()
    disks.append()
    assert (disks.names_in(disks.a), disks.names_in(disks.b)) == (["t-0"], ["t-0"])
    if not is_stopped:  # else before the old one was renamed
        disks.run_all()
        assert disks.names_in(disks.a) == ["delete"]
    disks.waiting.clear()
    disks.node.restart()
    log = disks.node.services.partitions.get("t", 0).log
    assert (log.directory, log.end_offset) == (f"{disks.b}/t-0", 2)
    assert "t-0" not in disks.names_in(disks.a)


def test_a_refused_partition_is_not_created_where_the_old_one_leaves(
    disks: TwoDisks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could be made there before that is renamed, which would take its directory away."""
    prefer(disks, disks.a)
    disks.metadata.create_topic("t", 1)
    disks.run_all()
    disks.metadata.delete_topic("t")
    prefer(disks, disks.b)
    with monkeypatch.context() as patch:
        write_topic_id = layout.write_topic_id

        def full(files: Files, directory: str, topic_id: bytes) -> None:
            if directory.startswith(disks.b):
                raise OSError(errno.ENOSPC, "No space left on device")
            write_topic_id(files, directory, topic_id)

        patch.setattr(layout, "write_topic_id", full)
        disks.metadata.create_topic("t", 1)
        disks.run_in(disks.b)
        assert disks.code() == STORAGE
        disks.run_all()
        run(disks.partitions.retry())
        disks.run_all()
    assert disks.names_in(disks.a) == ["delete", "t-0"], "it is, as soon as that is over"
    assert disks.code() == NONE


@pytest.mark.parametrize("is_elsewhere", [True, False])
def test_of_one_name_one_partition_is_made_at_a_time(
    disks: TwoDisks, is_elsewhere: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody knows where the older one will be, if its directory refuses it."""
    prefer(disks, disks.a)
    for _ in range(3):
        disks.metadata.create_topic("t", 1)
        disks.node.time.advance(PREPARE_MS)
        assert disks.code() == NOT_LEADER
        disks.next_turn()
        disks.metadata.delete_topic("t")
        disks.node.time.advance(PREPARE_MS)
        assert disks.code() == UNKNOWN
        prefer(disks, disks.b if is_elsewhere else disks.a)
    disks.partitions._files.add(list, lambda _: None)  # so that the last is not begun in this turn
    disks.metadata.create_topic("t", 1)
    assert len(disks.waiting) == 1
    disks.threads.run_one()
    disks.run_all()
    assert [disks.names_in(disks.a), disks.names_in(disks.b)] == (
        [["delete"], ["t-0"]] if is_elsewhere else [["delete", "t-0"], []]
    ), "the first is deleted; those between were never made"
    assert disks.partitions.get("t", 0).log.topic_id == disks.metadata.planned.topics["t"].topic_id
    assert not [one for one in caplog.records if one.levelname in ("ERROR", "WARNING") and "full" not in one.message]


def test_a_retry_on_a_hung_disk_keeps_no_other_from_its_retry(disks: TwoDisks, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    with monkeypatch.context() as patch:
        Full(patch)
        disks.metadata.create_topic("t", 2)
        disks.run_all()
    run(disks.partitions.retry(), told.append)
    disks.run_in(disks.b)
    assert sorted(disks.code("t", index) for index in (0, 1)) == [NONE, STORAGE]
    assert not told
    disks.node.time.advance(PREPARE_MS)
    assert told == [(1, 1)]
    disks.run_all()
    assert told == [(1, 1)]
    assert [disks.code("t", index) for index in (0, 1)] == [NONE, NONE]


def test_groups_are_there_when_their_topic_is(desk: Desk) -> None:
    groups = desk.node.services.groups
    change = groups.prepare()
    assert change is not None
    assert list(groups.shards()) == [], "there is no group yet, and none is being loaded"
    desk.run_all()
    assert change.is_settled
    assert groups.leader_of("g") == desk.node.config.node_id
    desk.node.time.advance()
    assert len(list(groups.shards())) == 4
    assert [desk.code(CONSUMER_OFFSETS, index) for index in range(4)] == [NONE] * 4
