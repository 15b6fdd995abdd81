"""Appends: their states, and the queue of those that wait for the high watermark."""

from typing import Any

import pytest

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
from headgate.gateway.tests.builders import HandlerBroker, reach, records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.log.pending_write import AppendInfo

NOW_MS = 1_700_000_000_000


@pytest.fixture
def replica(node: HandlerBroker) -> Replica:
    node.services.metadata.create_topic("t", 1, configs={"headgate.flush": "commit"})
    return node.services.partitions.get("t", 0)


def info(last_offset: int) -> AppendInfo:
    return AppendInfo(last_offset, last_offset, -1, 0, NOW_MS, is_duplicate=False)


@pytest.mark.parametrize("acks, state", [(0, COMMITTED), (1, COMMITTED), (ACKS_ALL, WRITTEN)])
def test_only_acks_all_waits_for_the_high_watermark(replica: Replica, acks: int, state: Any) -> None:
    append = Append(replica, acks)
    assert append.state is PENDING
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
    late.acknowledge()
    assert (append.state, late.state, replica.converting) == (FAILED, FAILED, 0)


def test_an_append_is_acknowledged_in_a_later_epoch_of_the_lead(replica: Replica) -> None:
    replica.append(records(b"v"), 1, NOW_MS)
    append = await_offset(replica, 1, None)
    replica.leader_epoch += 1
    reach(replica, 1)
    assert append.state is COMMITTED


def test_an_append_of_a_lead_that_ended_is_not_acknowledged(replica: Replica) -> None:
    replica.append(records(b"v"), 1, NOW_MS)
    append = await_offset(replica, 1, None)
    replica.resign(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
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
        replica.append(records(b"v"), 1, NOW_MS)
    there, gone = (await_offset(replica, end_offset, None) for end_offset in (2, 3))
    replica.fail_lost_appends()
    assert (there.state, gone.state, replica.uncommitted) == (WRITTEN, FAILED, 1)
    reach(replica, 2)
    assert there.state is COMMITTED
