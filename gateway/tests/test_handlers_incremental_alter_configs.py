"""IncrementalAlterConfigs: single settings of topics and groups."""

from pathlib import Path

import pytest

from gateway.resources import ResourceType
from gateway.tests.builders import Node
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def change(name: str, *configs: tuple[str, int, str | None], kind: int = ResourceType.TOPIC) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, [AlterableConfig(*config) for config in configs])


def ask(
    node: Node, *resources: AlterConfigsResource, version: int = 1, validate_only: bool = False
) -> list[tuple[str, int]]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    rows = node.ask(request, version).responses
    assert all((row.error_message is None) == (row.error_code == ErrorCode.NONE) for row in rows)
    return [(row.resource_name, row.error_code) for row in rows]


def configs(node: Node, name: str = "t") -> dict[str, str]:
    return dict(node.services.metadata.image.topics[name].configs)


@pytest.fixture
def topic(node: Node) -> Node:
    """A broker with topic t, which keeps records for a second."""
    node.services.metadata.create_topic("t", 1, configs={"retention.ms": "1000"})
    return node


@pytest.mark.parametrize("version", [0, 1])
def test_settings_are_set_and_taken_away(topic: Node, version: int) -> None:
    changes = change("t", ("segment.bytes", SET, "5000"), ("retention.ms", DELETE, None), ("preallocate", DELETE, None))
    assert ask(topic, changes, version=version) == [("t", ErrorCode.NONE)]
    assert configs(topic) == {"segment.bytes": "5000"}
    assert topic.services.partitions.get("t", 0).log.config.segment_bytes == 5_000


def test_only_validated(topic: Node) -> None:
    assert ask(topic, change("t", ("retention.ms", SET, "5")), validate_only=True) == [("t", ErrorCode.NONE)]
    assert configs(topic) == {"retention.ms": "1000"}


def test_lists_grow_and_shrink(topic: Node) -> None:
    ask(topic, change("t", ("cleanup.policy", APPEND, "compact,delete")))
    assert configs(topic)["cleanup.policy"] == "delete,compact"
    ask(topic, change("t", ("cleanup.policy", SUBTRACT, "delete")))
    assert configs(topic)["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    "changes, code",
    [
        (change("unknown", ("retention.ms", SET, "1")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (change("t", ("retention.mss", SET, "1")), ErrorCode.INVALID_CONFIG),
        (change("t", ("retention.ms", SET, "x")), ErrorCode.INVALID_CONFIG),
        (change("t", ("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST),
        (change("t", ("retention.ms", APPEND, "1")), ErrorCode.INVALID_CONFIG),
        (change("t", ("no.such", SUBTRACT, "1")), ErrorCode.INVALID_CONFIG),
        (change("t", ("cleanup.policy", SUBTRACT, "delete")), ErrorCode.INVALID_CONFIG),
        (change("t", ("retention.ms", 9, "1")), ErrorCode.INVALID_REQUEST),
        (change("t", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")), ErrorCode.INVALID_REQUEST),
        (change("0", ("num.partitions", SET, "2"), kind=ResourceType.BROKER), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_refused_changes_nothing_and_stops_no_other(
    topic: Node, changes: AlterConfigsResource, code: ErrorCode
) -> None:
    topic.services.metadata.create_topic("other", 1)
    good = AlterableConfig("segment.bytes", SET, "5000")
    both = AlterConfigsResource(changes.resource_type, changes.resource_name, [good, *changes.configs])
    rows = ask(topic, both, change("other", ("segment.bytes", SET, "6000")))
    assert rows == [(changes.resource_name, code), ("other", ErrorCode.NONE)]
    assert configs(topic) == {"retention.ms": "1000"}
    assert configs(topic, "other") == {"segment.bytes": "6000"}


def test_a_resource_that_is_named_twice(topic: Node) -> None:
    one = change("t", ("retention.ms", SET, "5"))
    assert ask(topic, one, one) == [("t", ErrorCode.INVALID_REQUEST)]
    assert configs(topic) == {"retention.ms": "1000"}


def group(name: str, *configs: tuple[str, int, str | None]) -> AlterConfigsResource:
    return change(name, *configs, kind=ResourceType.GROUP)


def group_configs(node: Node, name: str) -> dict[str, str]:
    return dict(node.services.metadata.image.configs.get((ResourceType.GROUP, name), {}))


def test_settings_of_a_group_that_need_not_exist(node: Node) -> None:
    changes = group("g", (SESSION, SET, "50000"), (INTERVAL, SET, "6000"))
    assert ask(node, changes, validate_only=True) == [("g", ErrorCode.NONE)]
    assert group_configs(node, "g") == {}
    assert ask(node, changes) == [("g", ErrorCode.NONE)]
    assert group_configs(node, "g") == {SESSION: "50000", INTERVAL: "6000"}
    assert ask(node, group("g", (SESSION, DELETE, None))) == [("g", ErrorCode.NONE)]
    node.restart()
    assert group_configs(node, "g") == {INTERVAL: "6000"}


@pytest.mark.parametrize(
    "changes, code",
    [
        (group("", (SESSION, SET, "50000")), ErrorCode.INVALID_REQUEST),
        (group("g", (SESSION, SET, "44999")), ErrorCode.INVALID_CONFIG),
        (group("g", (SESSION, SET, "60001")), ErrorCode.INVALID_CONFIG),
        (group("g", (INTERVAL, SET, "4999")), ErrorCode.INVALID_CONFIG),
        (group("g", (SESSION, SET, "long")), ErrorCode.INVALID_CONFIG),
        (group("g", (SESSION, APPEND, "50000")), ErrorCode.INVALID_CONFIG),
        (group("g", ("share.session.timeout.ms", SET, "50000")), ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_a_group_cannot_have(node: Node, changes: AlterConfigsResource, code: ErrorCode) -> None:
    assert ask(node, changes) == [(changes.resource_name, code)]
    assert group_configs(node, changes.resource_name) == {}


def test_a_session_must_outlast_the_interval_of_its_heartbeats(tmp_path: Path) -> None:
    bounds = {"group_consumer_min_session_timeout_ms": "5000", "group_consumer_max_heartbeat_interval_ms": "30000"}
    node = Node(tmp_path, **bounds)
    assert ask(node, group("g", (SESSION, SET, "5000"))) == [("g", ErrorCode.INVALID_CONFIG)]
    assert ask(node, group("g", (SESSION, SET, "5001"))) == [("g", ErrorCode.NONE)]
    assert ask(node, group("g", (INTERVAL, SET, "5001"))) == [("g", ErrorCode.INVALID_CONFIG)]
    node.close()
