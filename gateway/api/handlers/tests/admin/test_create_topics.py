"""CreateTopics: what is made, what is refused, what is told."""

from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headgate.protocol.wire import ZERO_UUID

pytestmark = pytest.mark.every_metadata_store

VERSIONS = range(8)


def topic(name: str, partitions: int = 1, replicas: int = 1, **configs: str | None) -> CreatableTopic:
    rows = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=rows)


def assigned(
    name: str, *brokers: list[int], first: int = 0, partitions: int = -1, replicas: int = -1
) -> CreatableTopic:
    rows = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in enumerate(brokers, first)
    ]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, assignments=rows)


def create(node: HandlerBroker, version: int, *topics: CreatableTopic, validate_only: bool = False) -> dict[str, Any]:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=1_000, validate_only=validate_only)
    return {row.name: row for row in node.ask(request, version).topics}


def partitions_of(node: HandlerBroker, name: str) -> int:
    return len(node.services.metadata.image.topics[name].partitions)


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_are_created(node: HandlerBroker, version: int) -> None:
    rows = create(node, version, topic("a", 2), topic("b", 1, retention_ms="1000"))
    made = node.services.metadata.image.topics
    for name, count in (("a", 2), ("b", 1)):
        row = rows[name]
        assert (row.error_code, row.error_message) == (ErrorCode.NONE, None if version >= 1 else "")
        assert row.topic_id == (made[name].topic_id if version >= 7 else ZERO_UUID)
        assert (row.num_partitions, row.replication_factor) == ((count, 1) if version >= 5 else (-1, -1))
        assert partitions_of(node, name) == count
    assert made["b"].configs == {"retention.ms": "1000"}
    assert node.services.partitions.get("a", 1).log.end_offset == 0


@pytest.mark.parametrize("version", [5, 7])
def test_the_settings_of_the_new_topic_are_told(node: HandlerBroker, version: int) -> None:
    row = create(node, version, topic("a", 1, cleanup_policy="compact"))["a"]
    told = {config.name: (config.value, config.config_source) for config in row.configs}
    assert told["cleanup.policy"] == ("compact", 1)  # of the topic
    assert told["retention.ms"] == ("604800000", 5)  # by default
    assert not any(config.is_sensitive or config.read_only for config in row.configs)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_only_validated(node: HandlerBroker, version: int) -> None:
    row = create(node, version, topic("a", 3), validate_only=True)["a"]
    assert (row.error_code, row.topic_id) == (ErrorCode.NONE, ZERO_UUID)
    assert row.num_partitions == (3 if version >= 5 else -1)
    assert "a" not in node.services.metadata.image.topics


def test_defaults(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path, num_partitions="4", default_replication_factor="3")
    row = create(node, 7, topic("a", -1, -1))["a"]
    assert (row.error_code, row.num_partitions, row.replication_factor) == (ErrorCode.NONE, 4, 1)
    node.close()


def test_an_assignment_by_hand(node: HandlerBroker) -> None:
    row = create(node, 7, assigned("a", [0], [0]))["a"]
    assert (row.error_code, row.num_partitions, row.replication_factor) == (ErrorCode.NONE, 2, 1)


@pytest.mark.parametrize(
    "wanted, code",
    [
        pytest.param(topic("there"), ErrorCode.TOPIC_ALREADY_EXISTS, id="exists"),
        pytest.param(topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION, id="bad name"),
        pytest.param(topic("is.there"), ErrorCode.INVALID_TOPIC_EXCEPTION, id="collides"),
        pytest.param(topic("__headgate_metadata"), ErrorCode.INVALID_REQUEST, id="the broker's own"),
        pytest.param(topic("a", 0), ErrorCode.INVALID_PARTITIONS, id="no partitions"),
        pytest.param(topic("a", -2), ErrorCode.INVALID_PARTITIONS, id="less than none"),
        pytest.param(topic("a", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, id="no replicas"),
        pytest.param(topic("a", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR, id="more replicas than brokers"),
        pytest.param(topic("a", 1, 1, retention_mss="1"), ErrorCode.INVALID_CONFIG, id="unknown config"),
        pytest.param(topic("a", 1, 1, retention_ms="x"), ErrorCode.INVALID_CONFIG, id="bad config"),
        pytest.param(topic("a", 1, 1, retention_ms=None), ErrorCode.INVALID_CONFIG, id="null config"),
        pytest.param(assigned("a", [0], partitions=1), ErrorCode.INVALID_REQUEST, id="assigned and counted"),
        pytest.param(assigned("a", [0], replicas=1), ErrorCode.INVALID_REQUEST, id="assigned and replicated"),
        pytest.param(assigned("a", [5]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="unknown broker"),
        pytest.param(assigned("a", [0, 0]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="a broker twice"),
        pytest.param(assigned("a", [0], first=1), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="not from 0"),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_what_is_refused_stops_no_other(
    node: HandlerBroker, wanted: CreatableTopic, code: ErrorCode, validate_only: bool
) -> None:
    node.services.metadata.create_topic("there", 1)
    node.services.metadata.create_topic("is_there", 1)
    rows = create(node, 7, wanted, topic("other"), validate_only=validate_only)
    assert rows[wanted.name].error_code == code
    assert rows[wanted.name].error_message
    assert rows["other"].error_code == ErrorCode.NONE
    assert "a" not in node.services.metadata.image.topics


def test_a_partition_that_is_assigned_twice(node: HandlerBroker) -> None:
    once = assigned("a", [0])
    wanted = CreatableTopic("a", -1, -1, once.assignments * 2)
    assert create(node, 7, wanted)["a"].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_topic_that_is_named_twice_is_not_created(node: HandlerBroker) -> None:
    request = CreateTopicsRequest(topics=[topic("a"), topic("b"), topic("a", 2)])
    rows = [(row.name, row.error_code) for row in node.ask(request, 7).topics]
    assert rows == [("a", ErrorCode.INVALID_REQUEST), ("b", ErrorCode.NONE)]
    assert set(node.services.metadata.image.topics) == {"b"}


def test_too_many_partitions_in_one_request(node: HandlerBroker) -> None:
    rows = create(node, 7, topic("a", 9_999), topic("b", -1), topic("c", 1))
    assert {row.error_code for row in rows.values()} == {ErrorCode.POLICY_VIOLATION}
    assert not node.services.metadata.image.topics
