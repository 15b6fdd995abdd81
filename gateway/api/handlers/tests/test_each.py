"""An error is the value of its partition, and stops no other."""

import logging
from typing import cast

import pytest

from headgate.gateway.api.handlers.each import AT_ONCE, MAX_PENDING, PENDING_PAUSE_MS, each_in_turns, each_row
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.store import Change, ChangeState
from headgate.gateway.runtime.tasks import WaitList, is_task
from headgate.gateway.tests.builders import HandlerBroker, parked
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest
from headgate.protocol.steps import Steps, finish

pytestmark = pytest.mark.every_metadata_store


def test_every_partition_has_its_row(node: HandlerBroker, caplog: pytest.LogCaptureFixture) -> None:
    def answer(number: int) -> str:
        if number == 1:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another is")
        if number == 2:
            raise OSError(28, "No space left on device")
        return f"{number} is fine"

    with caplog.at_level(logging.CRITICAL):
        rows = each_row(
            node.services, [0, 1, 2, 3], answer, lambda number, code, message: f"{number} {code.name}: {message}"
        )
    assert rows == [
        "0 is fine",
        "1 NOT_LEADER_OR_FOLLOWER: another is",
        "2 KAFKA_STORAGE_ERROR: the store failed: No space left on device",
        "3 is fine",
    ]


def test_why_the_store_refuses_stands_in_the_log(node: HandlerBroker, caplog: pytest.LogCaptureFixture) -> None:
    refusals = [
        KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another is"),
        KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk of t-0 refuses: no space"),
    ]

    def answer(error: KafkaError) -> None:
        raise error

    each_row(node.services, refusals, answer, lambda error, code, message: None)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "storage error for a client: the disk of t-0 refuses: no space")
    ]


def test_a_fault_of_ours_is_no_value(node: HandlerBroker) -> None:
    with pytest.raises(ZeroDivisionError):
        each_row(node.services, [0], lambda number: 1 // number, lambda number, code, message: 0)


def settled(row: str) -> tuple[str, Change]:
    """A row whose change is done."""
    change = Change([], Image.empty())
    change.state = ChangeState.SETTLED
    return row, change


class InTurns:
    """Forty items of which each takes 0.6 ms, and what is said of them."""

    def __init__(self, node: HandlerBroker, timeout_ms: int = 60_000) -> None:
        self.node = node
        self.done: list[int] = []
        self.replies: list[list[str]] = []
        outcome = each_in_turns(range(40), self.answer, self.refuse, list, timeout_ms, node.context(0))
        assert is_task(outcome)
        node.services.tasks.start(outcome, self.replies.append)

    def answer(self, number: int) -> tuple[str, Change]:
        self.node.time.clock.elapsed_ms += 0.6
        self.done.append(number)
        if number == 30:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "not this one")
        return settled(f"{number} is done")

    def refuse(self, number: int, code: ErrorCode, message: str) -> str:
        return f"{number} {code.name}"


def test_many_are_gone_through_with_turns_for_others_in_between(node: HandlerBroker) -> None:
    asked = InTurns(node)
    assert asked.done == []
    turns = 0
    while not asked.replies:
        before = len(asked.done)
        node.time.advance()
        assert len(asked.done) - before <= 2
        turns += 1
    assert turns >= 20
    (rows,) = asked.replies
    wanted = [f"{number} is done" for number in range(40)]
    wanted[30] = "30 INVALID_REQUEST"
    assert rows == wanted


@pytest.mark.parametrize("is_stopping", [True, False])
def test_who_no_longer_waits_is_told_what_was_not_done(node: HandlerBroker, is_stopping: bool) -> None:
    asked = InTurns(node, timeout_ms=0)
    node.time.advance()
    if is_stopping:
        node.services.tasks.expire_all()
    else:
        node.time.clock.elapsed_ms += 1_000
        node.time.advance()
    (rows,) = asked.replies
    done = sum(row.endswith("is done") for row in rows)
    assert 0 < done < 40
    assert rows[done:] == [f"{number} REQUEST_TIMED_OUT" for number in range(done, 40)]
    for _ in range(40):
        node.time.advance()
    assert asked.done == list(range(40))
    assert asked.replies == [rows]


class Changing:
    """A metadata whose changes wait for a disk that a test writes to."""

    def __init__(self, node: HandlerBroker, count: int) -> None:
        self.node = node
        self.changes: list[Change] = []
        self.replies: list[list[str]] = []
        self._image = node.services.metadata.image
        node.services.metadata = self  # type: ignore[assignment]
        outcome = each_in_turns(range(count), self.answer, self.refuse, list, 60_000, node.context(0))
        assert is_task(outcome)
        node.services.tasks.start(outcome, self.replies.append)

    waiters = WaitList()

    def answer(self, number: int) -> tuple[str, Change]:
        self.changes.append(Change([], self._image))
        return f"{number} is done", self.changes[-1]

    def refuse(self, number: int, code: ErrorCode, message: str) -> str:
        return f"{number} {code.name}"

    def write(self, error: KafkaError | None = None) -> None:
        """All that wait get to the disk, or fail."""
        for change in self.changes:
            if not change.is_settled:
                change.error, change.state = error, ChangeState.SETTLED
        self.node.services.tasks.touch(self.waiters)

    def wait(self) -> None:
        for _ in range(3):
            self.node.time.advance(PENDING_PAUSE_MS)


def test_no_more_changes_wait_for_the_disk_than_memory_has_room_for(node: HandlerBroker) -> None:
    count = 2 * MAX_PENDING + 5
    changing = Changing(node, count)
    for made in (MAX_PENDING, 2 * MAX_PENDING, count):
        changing.wait()
        assert len(changing.changes) == made
        assert not changing.replies
        changing.write(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) if made == 2 * MAX_PENDING else None)
    changing.wait()
    (told,) = changing.replies
    if is_task(told):
        told = finish(cast("Steps[list[str]]", told))
    codes = ["is done"] * MAX_PENDING + ["KAFKA_STORAGE_ERROR"] * MAX_PENDING + ["is done"] * 5
    assert list(told) == [f"{number} {code}" for number, code in enumerate(codes)]


def test_a_small_request_may_have_more_changes_than_may_wait(node: HandlerBroker) -> None:
    assert MAX_PENDING < AT_ONCE
    changing = Changing(node, AT_ONCE)
    assert len(changing.changes) == MAX_PENDING
    changing.write(None)
    changing.wait()
    changing.write(None)
    changing.wait()
    assert changing.replies == [[f"{number} is done" for number in range(AT_ONCE)]]


def test_a_fault_of_ours_is_told_at_once(node: HandlerBroker) -> None:
    def fail(number: int) -> tuple[str, Change]:
        return settled(f"{1 // (number - 20)}")

    outcome = each_in_turns(range(40), fail, lambda *_: "", list, 60_000, node.context(0))
    replies = parked(node, outcome)
    node.time.advance()
    node.time.advance()
    assert isinstance(replies[0], ZeroDivisionError)


def test_a_few_are_done_at_once(node: HandlerBroker) -> None:
    rows = each_in_turns(
        [1, 2], lambda number: settled(str(number)), lambda number, code, message: "", list, 0, node.context(0)
    )
    assert rows == ["1", "2"]


@pytest.mark.slow
def test_many_topics_are_made_and_removed_in_turns(node: HandlerBroker) -> None:
    names = [f"t{number}" for number in range(12)]
    for request, version in (
        (CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 60_000), 7),
        (CreatePartitionsRequest([CreatePartitionsTopic(name, 2, None) for name in names], 60_000), 3),
        (DeleteTopicsRequest(topic_names=names, timeout_ms=60_000), 5),
    ):
        replies = parked(node, node.handle(request, version))
        while not replies:
            node.time.advance()
        (rows,) = (
            getattr(replies[0], name) for name in ("topics", "results", "responses") if hasattr(replies[0], name)
        )
        assert [(row.name, row.error_code) for row in rows] == [(name, ErrorCode.NONE) for name in names]
    assert node.services.metadata.image.topics == {}
