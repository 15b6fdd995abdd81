"""IncrementalAlterConfigs: single settings of topics and groups."""

import logging
from functools import partial
from pathlib import Path

import pytest

from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.incremental_alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

pytestmark = pytest.mark.every_metadata_store

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def change(name: str, *configs: tuple[str, int, str | None], kind: int = ResourceType.TOPIC) -> AlterConfigsResource:
    return AlterConfigsResource(kind, name, [AlterableConfig(*config) for config in configs])


def ask(
    node: HandlerBroker, *resources: AlterConfigsResource, version: int = 1, validate_only: bool = False
) -> list[tuple[str, int]]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    rows = node.ask(request, version).responses
    assert all((row.error_message is None) == (row.error_code == ErrorCode.NONE) for row in rows)
    return [(row.resource_name, row.error_code) for row in rows]


def configs(node: HandlerBroker, name: str = "t") -> dict[str, str]:
    return dict(node.services.metadata.image.topics[name].configs)


@pytest.fixture
def topic(node: HandlerBroker) -> HandlerBroker:
    """A broker with topic t, which keeps records for a second."""
    node.services.metadata.create_topic("t", 1, configs={"retention.ms": "1000"})
    return node


@pytest.mark.parametrize("version", [0, 1])
def test_settings_are_set_and_taken_away(topic: HandlerBroker, version: int) -> None:
    changes = change("t", ("segment.bytes", SET, "5000"), ("retention.ms", DELETE, None), ("preallocate", DELETE, None))
    assert ask(topic, changes, version=version) == [("t", ErrorCode.NONE)]
    assert configs(topic) == {"segment.bytes": "5000"}
    assert topic.services.partitions.get("t", 0).log.config.segment_bytes == 5_000


def test_only_validated(topic: HandlerBroker) -> None:
    assert ask(topic, change("t", ("retention.ms", SET, "5")), validate_only=True) == [("t", ErrorCode.NONE)]
    assert configs(topic) == {"retention.ms": "1000"}


def test_lists_grow_and_shrink(topic: HandlerBroker) -> None:
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
        (change("t", ("retention.ms", 9, "1")), ErrorCode.INVALID_REQUEST),
        (change("t", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")), ErrorCode.INVALID_REQUEST),
        (change("", ("retention.ms", SET, "1")), ErrorCode.INVALID_REQUEST),
        (change("a b", ("retention.ms", SET, "1")), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (change("m", ("interval.ms", SET, "1"), kind=ResourceType.CLIENT_METRICS), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_refused_changes_nothing_and_stops_no_other(
    topic: HandlerBroker, changes: AlterConfigsResource, code: ErrorCode
) -> None:
    topic.services.metadata.create_topic("other", 1)
    good = AlterableConfig("segment.bytes", SET, "5000")
    both = AlterConfigsResource(changes.resource_type, changes.resource_name, [good, *changes.configs])
    rows = ask(topic, both, change("other", ("segment.bytes", SET, "6000")))
    assert rows == [(changes.resource_name, code), ("other", ErrorCode.NONE)]
    assert configs(topic) == {"retention.ms": "1000"}
    assert configs(topic, "other") == {"segment.bytes": "6000"}


def test_a_resource_that_is_named_twice(topic: HandlerBroker) -> None:
    one = change("t", ("retention.ms", SET, "5"))
    assert ask(topic, one, one) == [("t", ErrorCode.INVALID_REQUEST)]
    assert configs(topic) == {"retention.ms": "1000"}


def group(name: str, *configs: tuple[str, int, str | None]) -> AlterConfigsResource:
    return change(name, *configs, kind=ResourceType.GROUP)


def group_configs(node: HandlerBroker, name: str) -> dict[str, str]:
    return dict(node.services.metadata.image.configs.get((ResourceType.GROUP, name), {}))


def test_settings_of_a_group_that_need_not_exist(node: HandlerBroker) -> None:
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
        (group("g", ("share.session.timeout.ms", SET, "0")), ErrorCode.INVALID_CONFIG),
        (group("g", ("share.sessions", SET, "1")), ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_a_group_cannot_have(node: HandlerBroker, changes: AlterConfigsResource, code: ErrorCode) -> None:
    assert ask(node, changes) == [(changes.resource_name, code)]
    assert group_configs(node, changes.resource_name) == {}


def test_a_session_must_outlast_the_interval_of_its_heartbeats(tmp_path: Path) -> None:
    bounds = {"group_consumer_min_session_timeout_ms": "5000", "group_consumer_max_heartbeat_interval_ms": "30000"}
    node = HandlerBroker(tmp_path, **bounds)
    assert ask(node, group("g", (SESSION, SET, "5000"))) == [("g", ErrorCode.INVALID_CONFIG)]
    assert ask(node, group("g", (SESSION, SET, "5001"))) == [("g", ErrorCode.NONE)]
    assert ask(node, group("g", (INTERVAL, SET, "5001"))) == [("g", ErrorCode.INVALID_CONFIG)]
    node.close()


def of_broker(name: str, *configs: tuple[str, int, str | None]) -> AlterConfigsResource:
    return change(name, *configs, kind=ResourceType.BROKER)


def test_a_brokers_settings_take_effect_at_once_and_survive_a_restart(topic: HandlerBroker) -> None:
    topic.services.metadata.create_topic("plain", 1)
    setting = ("message.max.bytes", SET, "1234")
    assert ask(topic, of_broker("", setting), validate_only=True) == [("", ErrorCode.NONE)]
    assert topic.config.message_max_bytes == 1_048_588

    assert ask(topic, of_broker("", setting, ("log.retention.ms", SET, "77"))) == [("", ErrorCode.NONE)]
    for _ in range(2):
        logs = [topic.services.partitions.get(name, 0).log.config for name in ("plain", "t")]
        assert [log.max_message_bytes for log in logs] == [1234, 1234]
        assert [log.retention_ms for log in logs] == [77, 1000]
        assert topic.config.message_max_bytes == 1234
        topic.restart()

    assert ask(topic, of_broker("0", ("message.max.bytes", SET, "99"))) == [("0", ErrorCode.NONE)]
    assert topic.config.message_max_bytes == 99
    assert ask(topic, of_broker("0", ("message.max.bytes", DELETE, None))) == [("0", ErrorCode.NONE)]
    assert ask(topic, of_broker("", ("message.max.bytes", DELETE, None))) == [("", ErrorCode.NONE)]
    assert topic.services.partitions.get("plain", 0).log.config.max_message_bytes == 1_048_588


@pytest.mark.parametrize(
    "changes, code",
    [
        (of_broker("0", ("num.partitions", SET, "2")), ErrorCode.INVALID_REQUEST),
        (of_broker("", ("num.partitions", SET, "2")), ErrorCode.INVALID_REQUEST),
        (of_broker("7", ("message.max.bytes", SET, "2")), ErrorCode.INVALID_REQUEST),
        (of_broker("0", ("mesage.max.bytes", SET, "2")), ErrorCode.INVALID_CONFIG),
        (of_broker("0", ("message.max.bytes", APPEND, "2")), ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_a_broker_cannot_have(node: HandlerBroker, changes: AlterConfigsResource, code: ErrorCode) -> None:
    good = AlterableConfig("log.retention.ms", SET, "5")
    both = AlterConfigsResource(changes.resource_type, changes.resource_name, [good, *changes.configs])
    assert ask(node, both) == [(changes.resource_name, code)]
    assert node.config.log_retention_ms is None


def test_a_brokers_list_grows_from_what_it_started_with(node: HandlerBroker) -> None:
    assert ask(node, of_broker("", ("log.cleanup.policy", APPEND, "compact"))) == [("", ErrorCode.NONE)]
    assert node.config["log.cleanup.policy"] == ("delete", "compact")
    assert ask(node, of_broker("", ("log.cleanup.policy", SUBTRACT, "delete,compact"))) == [("", ErrorCode.NONE)]
    assert node.config["log.cleanup.policy"] == ()


def test_a_loggers_level(node: HandlerBroker) -> None:
    logger = logging.getLogger("headgate.of_this_test")
    level = partial(change, "0", kind=ResourceType.BROKER_LOGGER)
    assert ask(node, level((logger.name, SET, "ERROR")), validate_only=True) == [("0", ErrorCode.NONE)]
    assert logger.level == logging.NOTSET
    assert ask(node, level((logger.name, SET, "ERROR"))) == [("0", ErrorCode.NONE)]
    assert logger.level == logging.ERROR
    assert ask(node, level((logger.name, SET, "DEBUG"), ("root", SET, "LOUD"))) == [("0", ErrorCode.INVALID_CONFIG)]
    assert ask(node, level((logger.name, APPEND, "DEBUG"))) == [("0", ErrorCode.INVALID_REQUEST)]
    assert logger.level == logging.ERROR
    assert ask(node, level((logger.name, DELETE, None))) == [("0", ErrorCode.NONE)]
    assert logger.level == logging.NOTSET
