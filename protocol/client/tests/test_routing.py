"""Who answers a request, from the bytes of scripted brokers."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.client.routing import ANY_BROKER, Routing
from headgate.protocol.client.tests.scripted_peer import connected, drive
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.find_coordinator import GROUP, Coordinator, FindCoordinatorResponse
from headgate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headgate.protocol.schema import Message
from headgate.protocol.topic_partition import TopicPartition

A0, A1, A2, B0 = (TopicPartition(*key) for key in (("a", 0), ("a", 1), ("a", 2), ("b", 0)))
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Brokers:
    """Two brokers and a topic of two partitions; `asked` has the requests."""

    def __init__(self) -> None:
        self.leaders = [0, 1]
        self.controller = 1
        self.asked: list[Any] = []

    def answer(self, request: Any, version: int) -> Message:
        self.asked.append(request)
        if isinstance(request, MetadataRequest):
            return self._metadata(request)
        keys = request.coordinator_keys if version >= 4 else [request.key]
        rows = [
            Coordinator(key, 1, "::1", 9093, 0, None)
            if key != "none"
            else Coordinator(key, -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, "wait")
            for key in keys
        ]
        code, message = rows[0].error_code, rows[0].error_message
        return FindCoordinatorResponse(0, code, message, rows[0].node_id, rows[0].host, rows[0].port, rows)

    def _metadata(self, request: MetadataRequest) -> Message:
        names = ["a"] if request.topics is None else [topic.name for topic in request.topics]
        partitions = [
            MetadataResponsePartition(partition_index=number, leader_id=leader)
            for number, leader in enumerate(self.leaders)
        ]
        topics = [
            MetadataResponseTopic(name=name, partitions=partitions)
            if name == "a"
            else MetadataResponseTopic(name=name, error_code=UNKNOWN)
            for name in names
        ]
        brokers = [MetadataResponseBroker(0, "h", 9092), MetadataResponseBroker(1, "::1", 9093)]
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=self.controller, topics=topics)


def test_partitions_are_routed_to_their_leaders() -> None:
    routing, brokers, connection = Routing(), Brokers(), connected()
    nodes, failed = drive(connection, routing.find_leaders(connection, [A0, A1, A2, B0]), brokers.answer, slice_bytes=1)
    assert nodes == {0: [A0], 1: [A1]}
    assert {key: failure.code for key, failure in failed.items()} == {A2: UNKNOWN, B0: UNKNOWN}
    assert routing.addresses == {0: "h:9092", 1: "[::1]:9093"}
    assert routing.cluster_id == "c"


def test_known_leaders_are_asked_for_after_they_expire() -> None:
    routing, brokers, connection = Routing(), Brokers(), connected()
    for _ in range(2):
        drive(connection, routing.find_leaders(connection, [A0]), brokers.answer)
    assert len(brokers.asked) == 1
    brokers.leaders = [1, -1]
    routing.expire()
    nodes, failed = drive(connection, routing.find_leaders(connection, [A0, A1]), brokers.answer)
    assert nodes == {1: [A0]}
    assert failed == {A1: Failure(ErrorCode.NONE, "the partition has no leader at the moment")}
    assert len(brokers.asked) == 2


@pytest.mark.parametrize("version", [1, 3, 4])
def test_no_request_creates_a_topic(version: int) -> None:
    routing, brokers, connection = Routing(), Brokers(), connected(Metadata=(0, version))
    drive(connection, routing.find_topics(connection, ["a"]), brokers.answer)
    [request] = brokers.asked
    assert (request.topics is None) == (version < 4)
    assert version < 4 or not request.allow_auto_topic_creation


@pytest.mark.parametrize("version", range(7))
def test_groups_are_routed_to_their_coordinators(version: int) -> None:
    routing, brokers, connection = Routing(), Brokers(), connected(FindCoordinator=(0, version))
    routes = routing.find_coordinators(connection, ["x", "none", "y"], GROUP)
    nodes, failed = drive(connection, routes, brokers.answer)
    assert nodes == {1: ["x", "y"]}
    assert failed["none"].code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert routing.addresses == {1: "[::1]:9093"}
    assert len(brokers.asked) == (1 if version >= 4 else 3)


def test_the_controller_is_the_named_broker_or_any() -> None:
    routing, brokers, connection = Routing(), Brokers(), connected()
    assert drive(connection, routing.find_controller(connection, ["t"]), brokers.answer) == ({1: ["t"]}, {})
    brokers.controller = 5
    assert drive(connection, routing.find_controller(connection, ["t"]), brokers.answer) == ({ANY_BROKER: ["t"]}, {})


def test_a_broker_without_a_usable_version_is_refused() -> None:
    routing, connection = Routing(), connected(Metadata=(0, 0))
    with pytest.raises(KafkaError, match="it has Metadata 0, this needs 1-12"):
        drive(connection, routing.find_topics(connection, ["a"]), Brokers().answer)
