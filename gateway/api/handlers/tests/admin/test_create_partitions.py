"""CreatePartitions."""

import pytest

from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)

pytestmark = pytest.mark.every_metadata_store


def grow(name: str, count: int, *brokers: list[int]) -> CreatePartitionsTopic:
    assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in brokers] or None
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def ask(
    node: HandlerBroker, version: int, *topics: CreatePartitionsTopic, validate_only: bool = False
) -> dict[str, tuple[int, str | None]]:
    request = CreatePartitionsRequest(topics=list(topics), timeout_ms=1_000, validate_only=validate_only)
    return {row.name: (row.error_code, row.error_message) for row in node.ask(request, version).results}


def count(node: HandlerBroker, name: str) -> int:
    return len(node.services.metadata.image.topics[name].partitions)


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("a", 1)
    node.services.metadata.create_topic("b", 2)
    assert ask(node, version, grow("a", 3), grow("b", 3, [0])) == {"a": (0, None), "b": (0, None)}
    assert (count(node, "a"), count(node, "b")) == (3, 3)
    assert node.services.partitions.get("a", 2).high_watermark == 0


def test_only_validated(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("a", 1)
    assert ask(node, 3, grow("a", 3), validate_only=True) == {"a": (0, None)}
    assert count(node, "a") == 1


@pytest.mark.parametrize(
    "wanted, code",
    [
        (grow("a", 2), ErrorCode.INVALID_PARTITIONS),
        (grow("a", 1), ErrorCode.INVALID_PARTITIONS),
        (grow("a", 20_000), ErrorCode.POLICY_VIOLATION),
        (grow("unknown", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (grow("unknown", 2, [0]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (grow("a", 3, [0], [0]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow("a", 3, [9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow("a", 3, [0, 0]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_is_refused_stops_no_other(node: HandlerBroker, wanted: CreatePartitionsTopic, code: ErrorCode) -> None:
    node.services.metadata.create_topic("a", 2)
    node.services.metadata.create_topic("b", 1)
    rows = ask(node, 3, wanted, grow("b", 2))
    assert rows[wanted.name][0] == code
    assert rows[wanted.name][1]
    assert rows["b"] == (0, None)
    assert (count(node, "a"), count(node, "b")) == (2, 2)


def test_a_topic_that_is_named_twice_does_not_grow(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("a", 1)
    assert ask(node, 3, grow("a", 2), grow("a", 3))["a"][0] == ErrorCode.INVALID_REQUEST
    assert count(node, "a") == 1
