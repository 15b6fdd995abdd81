"""Orders from the difference of two views, for each version."""

from __future__ import annotations

import pytest

from headgate.gateway.controller.orders import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    Sender,
    Stop,
    leader_and_isr,
    stop_replica,
    stops,
    update_metadata,
)
from headgate.gateway.controller.tests.clusters import T0, TOPIC_ID, brokers, state, view
from headgate.gateway.metadata.image import Image
from headgate.protocol import compiler
from headgate.protocol.messages.leader_and_isr import FULL, INCREMENTAL, LeaderAndIsrLiveLeader, LeaderAndIsrRequest
from headgate.protocol.messages.stop_replica import StopReplicaRequest
from headgate.protocol.messages.update_metadata import UpdateMetadataRequest
from headgate.protocol.schema import Message
from headgate.protocol.topic_partition import TopicPartition

SENDER = Sender(1, 7, "INTERNAL")
T1 = TopicPartition("t", 1)


def test_a_new_broker_gets_all_of_its_partitions() -> None:
    request = leader_and_isr(SENDER, 3, None, view(state(1, (1, 3)), state(2, (2,), (2, 1))), 7)
    assert request is not None
    assert (request.type, request.controller_epoch, request.broker_epoch) == (FULL, 7, 103)
    assert request.live_leaders == [LeaderAndIsrLiveLeader(1, "host1", 9092)]
    (topic,) = request.topic_states
    assert (topic.topic_name, topic.topic_id) == ("t", TOPIC_ID)
    (row,) = topic.partition_states
    assert (row.partition_index, row.leader, row.isr, row.is_new) == (0, 1, [1, 3], False)
    nothing = leader_and_isr(SENDER, 3, None, view(), 7)
    assert nothing is not None  # a full order without partitions
    assert not nothing.topic_states


def test_later_orders_have_new_leader_epochs_only() -> None:
    old = view(state(1, (1, 2, 3)), state(1, (1, 2)))
    new = view(state(1, (1, 2), version=1), state(2, (2,), epoch=1), state(3, (3,)))
    request = leader_and_isr(SENDER, 3, old, new, 7)
    assert request is not None
    assert request.type == INCREMENTAL
    rows = [(row.partition_index, row.leader_epoch, row.is_new) for row in request.topic_states[0].partition_states]
    assert rows == [(1, 1, False), (2, 0, True)]
    assert leader_and_isr(SENDER, 3, new, new, 7) is None
    update = update_metadata(SENDER, 3, old, new, 8)
    assert update is not None
    rows_told = [(row.partition_index, row.isr, row.zk_version) for row in update.topic_states[0].partition_states]
    assert rows_told == [(0, [1, 2], 1), (1, [2], 1), (2, [3], 0)]


def test_metadata_name_the_offline_replicas() -> None:
    old = view(state(1, (1, 2)), state(1, (1,), (1,)))
    new = old._replace(brokers=brokers(1, 2))
    request = update_metadata(SENDER, 1, old, new, 8)
    assert request is not None
    assert [broker.id for broker in request.live_brokers] == [1, 2]
    (row,) = request.topic_states[0].partition_states
    assert row.offline_replicas == [3]
    assert update_metadata(SENDER, 1, new, new._replace(stopping=frozenset((2,))), 8) is None


def test_a_deleted_topic_has_the_leader_minus_two() -> None:
    old = view(state(1, (1, 2)))
    gone = old._replace(image=Image.empty())
    request = update_metadata(SENDER, 1, old, gone, 8)
    assert request is not None
    assert request.topic_states[0].topic_id == TOPIC_ID
    assert request.topic_states[0].partition_states[0].leader == LEADER_DURING_DELETE
    assert stops(1, old, gone) == {T0: Stop(EPOCH_DURING_DELETE, is_deleted=True)}
    assert leader_and_isr(SENDER, 1, old, gone, 7) is None
    assert stops(1, None, gone) == {}  # an empty full LeaderAndIsr removes the replica of a broker that was absent


def test_a_topic_made_again_keeps_its_new_replicas() -> None:
    old = view(state(1, (1, 2)), state(1, (1, 2)))
    topic = view(state(1, (1, 2))).image.topics["t"]._replace(topic_id=b"n" * 16)
    new = old._replace(image=old.image._replace(topics={"t": topic}, topic_names={b"n" * 16: "t"}))
    assert stops(1, old, new) == {T1: Stop(EPOCH_DURING_DELETE, is_deleted=True)}
    request = leader_and_isr(SENDER, 1, old, new, 7)
    assert request is not None
    assert request.topic_states[0].topic_id == b"n" * 16


def test_a_moved_replica_is_deleted_a_stopping_one_stays() -> None:
    old = view(state(1, (1, 2)), state(1, (1, 2), epoch=3))
    moved = view(state(1, (1, 2), (1, 2), epoch=1), state(1, (1, 2), epoch=3))
    assert stops(3, old, moved) == {T0: Stop(1, is_deleted=True)}
    assert stops(3, old, old._replace(stopping=frozenset((3,)))) == {
        T0: Stop(0, is_deleted=False),
        T1: Stop(3, is_deleted=False),
    }
    assert stops(2, old, old._replace(stopping=frozenset((2,)))) == {}  # still in the sets


@pytest.mark.parametrize("version", range(8))
def test_every_version_of_leader_and_isr_has_the_partitions(version: int) -> None:
    read = _sent(leader_and_isr(SENDER, 1, None, view(state(1, (1, 2))), version), version)
    assert isinstance(read, LeaderAndIsrRequest)
    rows = read.ungrouped_partition_states
    if version < 2:
        assert rows[0].topic_name == "t"
    else:
        assert read.topic_states[0].topic_name == "t"
        rows = read.topic_states[0].partition_states
    assert [(row.partition_index, row.leader) for row in rows] == [(0, 1)]


@pytest.mark.parametrize("version", range(9))
def test_every_version_of_update_metadata_has_the_brokers(version: int) -> None:
    read = _sent(update_metadata(SENDER, 1, None, view(state(1, (1, 2))), version), version)
    assert isinstance(read, UpdateMetadataRequest)
    found = [
        (broker.v0_host, broker.v0_port) if version == 0 else (broker.endpoints[0].host, broker.endpoints[0].port)
        for broker in read.live_brokers
    ]
    assert found == [("host1", 9092), ("host2", 9092), ("host3", 9092)]
    rows = read.ungrouped_partition_states if version < 5 else read.topic_states[0].partition_states
    assert [row.isr for row in rows] == [[1, 2]]


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_stop_replica_has_the_partitions(version: int) -> None:
    wanted = {T0: Stop(4, is_deleted=True), T1: Stop(5, is_deleted=True)}
    read = _sent(stop_replica(SENDER, 1, wanted, view(), version), version)
    assert isinstance(read, StopReplicaRequest)
    found = [(row.topic_name, row.partition_index) for row in read.ungrouped_partitions]
    found += [(topic.name, index) for topic in read.topics for index in topic.partition_indexes]
    found += [(topic.topic_name, row.partition_index) for topic in read.topic_states for row in topic.partition_states]
    assert found == [("t", 0), ("t", 1)]
    assert version >= 3 or read.delete_partitions
    assert all(row.delete_partition for topic in read.topic_states for row in topic.partition_states)


def _sent(request: Message | None, version: int) -> Message:
    assert request is not None
    out = bytearray()
    compiler.write(request, version, out, [])
    read, end = compiler.read(type(request), version, bytes(out), 0)
    assert end == len(out)
    return read
