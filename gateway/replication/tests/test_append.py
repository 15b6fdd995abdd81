"""Appends: their states, and the queue of those that wait for the high watermark."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api.delayed_produce import DelayedProduce
from headgate.gateway.api.handlers import load
from headgate.gateway.replication.append import (
    ACKS_ALL,
    COMMITTED,
    CONVERTING,
    FAILED,
    PENDING,
    WRITTEN,
    Append,
    CommitQueue,
    await_offset,
)
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.purgatory import Waiting
from headgate.gateway.tests.builders import Node
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.records.batch import Record, build
from headgate.storage.log.pending_write import AppendInfo

NOW_MS = 1_700_000_000_000
PARKED = 1_000


@pytest.fixture
def replica(node: Node) -> Replica:
    node.services.metadata.create_topic("t", 1, configs={"headgate.flush": "commit"})
    return node.services.partitions.get("t", 0)


def info(last_offset: int) -> AppendInfo:
    return AppendInfo(last_offset, last_offset, -1, 0, NOW_MS, is_duplicate=False)


def batch() -> memoryview:
    return memoryview(build([Record(timestamp=NOW_MS, value=b"v")]))


def reach(replica: Replica, offset: int) -> None:
    """Have everything before an offset on the disk."""
    replica.log.recovery_point = offset
    replica.advance()


@pytest.mark.parametrize("acks, state", [(0, COMMITTED), (1, COMMITTED), (ACKS_ALL, WRITTEN)])
def test_only_acks_all_waits_for_the_high_watermark(replica: Replica, acks: int, state: Any) -> None:
    append = Append(replica, acks)
    assert (append.state, append.leader_epoch) == (PENDING, replica.leader_epoch)
    append.end_write(info(0))
    assert append.state is state
    assert replica.uncommitted == (state is WRITTEN)


def test_the_listener_hears_of_a_conversion_and_of_the_end(replica: Replica) -> None:
    append, heard = Append(replica, 1), list[Any]()

    append.listener = lambda heard_of: heard.append(heard_of.state)
    append.begin_conversion()
    assert (append.state, replica.converting) == (CONVERTING, 1)
    append.end_conversion()
    append.end_conversion()
    append.end_write(info(0))
    append.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    assert heard == [PENDING, COMMITTED]
    assert replica.converting == 0


def test_an_append_that_was_given_up_stays_so(replica: Replica) -> None:
    append, late = Append(replica, ACKS_ALL), Append(replica, ACKS_ALL)
    append.begin_conversion()
    append.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    append.end_conversion()
    append.end_write(info(0))
    late.end_write(info(0))
    late.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    late.commit()
    assert (append.state, late.state, replica.converting) == (FAILED, FAILED, 0)


def test_an_append_of_an_older_leader_epoch_is_not_acknowledged(replica: Replica) -> None:
    replica.append(batch(), 1, NOW_MS)
    append = await_offset(replica, 1, None)
    replica.leader_epoch += 1
    reach(replica, 1)
    assert append.state is FAILED
    assert isinstance(append.error, KafkaError)
    assert append.error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_appends_are_committed_in_the_order_of_their_offsets(replica: Replica) -> None:
    queue, heard = CommitQueue(), list[int]()
    for end_offset in (3, 1, 2, 2):
        append = Append(replica, ACKS_ALL)
        append.end_offset, append.state = end_offset, WRITTEN
        append.listener = lambda ended: heard.append(ended.end_offset)
        queue.add(append)
    queue.advance(0)
    assert heard == []
    queue.advance(2)
    assert (heard, len(queue)) == ([1, 2, 2], 1)
    queue.advance(9)
    assert (heard, len(queue)) == ([1, 2, 2, 3], 0)


def test_what_the_log_has_lost_fails_and_the_rest_goes_on_waiting(replica: Replica) -> None:
    for _ in range(2):
        replica.append(batch(), 1, NOW_MS)
    there, gone = (await_offset(replica, end_offset, None) for end_offset in (2, 3))
    replica.fail_lost_appends()
    assert (there.state, gone.state, replica.uncommitted) == (WRITTEN, FAILED, 1)
    reach(replica, 2)
    assert there.state is COMMITTED


class Counted:
    """Counts what is tried: appends, and requests."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.appends = self.requests = 0
        commit, expire = Append.commit, DelayedProduce._expire

        def commit_counted(append: Append) -> None:
            self.appends += 1
            commit(append)

        def expire_counted(delayed: DelayedProduce) -> Any:
            self.requests += 1
            return expire(delayed)

        patch.setattr(Append, "commit", commit_counted)
        patch.setattr(DelayedProduce, "_expire", expire_counted)


@pytest.mark.slow
def test_a_move_of_the_high_watermark_costs_what_it_completes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    node = Node(tmp_path / "data")
    node.services.metadata.create_topic("t", 1, configs={"headgate.flush": "commit"})
    monkeypatch.setattr(node.services.scheduler, "in_thread", lambda *_: None)  # a disk that does not answer
    replica, replies = node.services.partitions.get("t", 0), dict[int, Any]()
    handler = load()[0].ranges[-1].handler
    for number in range(PARKED):
        topic = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch())])
        outcome = handler(ProduceRequest(None, ACKS_ALL, 60_000, [topic]), node.context(9))
        assert isinstance(outcome, Waiting)
        node.services.purgatory.park(outcome, partial(replies.__setitem__, number))
    node.services.appends.commit()
    node.time.advance()
    assert (replica.uncommitted, counted.appends, counted.requests) == (PARKED, 0, 0)
    for number in range(PARKED):
        reach(replica, number + 1)
        node.time.advance()
        assert (counted.appends, counted.requests) == (number + 1, number + 1)
        assert list(replies) == list(range(number + 1))
    assert [reply.responses[0].partition_responses[0].base_offset for reply in replies.values()] == list(range(PARKED))
    assert len(node.services.purgatory) == 0
    monkeypatch.undo()
    node.close()
