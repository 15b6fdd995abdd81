from __future__ import annotations

from typing import Any

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult
from headgate.tools.doctor.cluster.replicas import ClusterState, check_cluster

BROKERS = {1: "a:1", 2: "b:1", 3: "c:1"}


def topic(*partitions: MetadataResponsePartition, name: str = "orders") -> MetadataResponseTopic:
    return MetadataResponseTopic(name=name, partitions=list(partitions))


def partition(number: int, **changed: Any) -> MetadataResponsePartition:
    fields = {"leader_id": 1, "replica_nodes": [1, 2], "isr_nodes": [1, 2], **changed}
    return MetadataResponsePartition(partition_index=number, **fields)


def check(*topics: MetadataResponseTopic, **changed: Any) -> dict[str, CheckResult]:
    state = ClusterState("id", 1, BROKERS, topics)._replace(**changed)
    return {row.check: row for row in check_cluster(state) if row.state != OK}


def test_a_sound_cluster() -> None:
    assert check(topic(partition(0), partition(1, leader_id=2))) == {}


def test_no_controller() -> None:
    assert check(controller=-1)["controller"].state == WRONG
    assert check(controller=9)["controller"].state == WRONG


def test_a_broker_that_is_down() -> None:
    found = check(
        topic(partition(0, replica_nodes=[1, 4], isr_nodes=[1]), partition(1, replica_nodes=[4, 1], isr_nodes=[1]))
    )
    assert found["brokers"].found == "broker 4 is down, and has 2 replicas"
    assert found["replicas"].found.startswith("replicas behind: broker 4 lacks 2; orders-0")


def test_partitions_without_a_leader() -> None:
    found = check(topic(*(partition(number, leader_id=-1) for number in range(7))))
    assert found["leaders"].found == "no leader: orders-0, orders-1, orders-2, orders-3, orders-4, and 2 more"


def test_leaders_without_the_listener_of_the_client() -> None:
    hidden = partition(0, error_code=ErrorCode.LISTENER_NOT_FOUND, leader_id=3)
    found = check(topic(hidden))
    assert list(found) == ["listeners"]
    assert "the leaders of orders-0" in found["listeners"].found


def test_a_broker_that_lives_behind_another_listener() -> None:
    found = check(topic(partition(0, replica_nodes=[1, 4], isr_nodes=[1, 4])))
    assert list(found) == ["listeners"]
    assert found["listeners"].found.startswith("broker 4 lives, and has no listener")


def test_internal_topics_with_one_replica_are_a_note() -> None:
    single = topic(partition(0, replica_nodes=[1], isr_nodes=[1]), name="__consumer_offsets")
    assert check(single)["replicas"].state == NOTE
    assert check(single, addresses={1: "a:1"}) == {}


def test_topics_without_a_state_are_a_note() -> None:
    failed = MetadataResponseTopic(name="odd", error_code=ErrorCode.UNKNOWN_SERVER_ERROR, partitions=[])
    assert check(failed)["topics"].state == NOTE
