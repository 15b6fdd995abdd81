"""DescribeConfigs: topics, groups and this broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

pytestmark = pytest.mark.every_metadata_store

TOPIC, BROKER, GROUP = 2, 4, 32
OF_TOPIC, STATIC, DEFAULT, OF_GROUP = 1, 4, 5, 8


@pytest.fixture
def described(tmp_path: Path) -> Iterator[HandlerBroker]:
    """A broker with two settings of its own, and topic t with one."""
    node = HandlerBroker(tmp_path, log_retention_hours="1", num_partitions="2")
    node.services.metadata.create_topic("t", 1, configs={"cleanup.policy": "compact"})
    yield node
    node.close()


def ask(node: HandlerBroker, version: int, kind: int, name: str, keys: list[str] | None = None, **options: bool) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    (result,) = node.ask(DescribeConfigsRequest(resources=[resource], **options), version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def rows(result: Any) -> dict[str, Any]:
    assert result.error_code == ErrorCode.NONE
    assert result.error_message is None
    return {row.name: row for row in result.configs}


@pytest.mark.parametrize("version", range(5))
def test_a_topic(described: HandlerBroker, version: int) -> None:
    found = rows(ask(described, version, TOPIC, "t"))
    values = {name: found[name].value for name in ("cleanup.policy", "retention.ms", "segment.bytes")}
    assert values == {"cleanup.policy": "compact", "retention.ms": "3600000", "segment.bytes": "1073741824"}
    sources = [found[name].config_source for name in values]
    assert sources == ([OF_TOPIC, STATIC, DEFAULT] if version else [-1, -1, -1])
    assert [found[name].is_default for name in values] == ([False] * 3 if version else [False, False, True])
    assert found["cleanup.policy"].config_type == (7 if version >= 3 else 0)


@pytest.mark.parametrize("version", range(5))
def test_this_broker(described: HandlerBroker, version: int) -> None:
    found = rows(ask(described, version, BROKER, "0"))
    assert (found["num.partitions"].value, found["log.retention.hours"].value) == ("2", "1")
    assert found["num.partitions"].read_only
    if version:
        assert (found["num.partitions"].config_source, found["message.max.bytes"].config_source) == (STATIC, DEFAULT)


@pytest.mark.parametrize("version", range(5))
def test_synonyms_and_documentation_only_when_asked(described: HandlerBroker, version: int) -> None:
    plain = rows(ask(described, version, TOPIC, "t"))["retention.ms"]
    assert (plain.synonyms, plain.documentation) == ([], None if version >= 3 else "")
    result = ask(described, version, TOPIC, "t", include_synonyms=True, include_documentation=True)
    full = rows(result)["retention.ms"]
    told = [(synonym.name, synonym.value, synonym.source) for synonym in full.synonyms]
    retention = [("log.retention.hours", "1", STATIC), ("log.retention.hours", "168", DEFAULT)]
    assert told == (retention if version else [])
    assert bool(full.documentation) == (version >= 3)


def test_only_the_settings_that_are_named(described: HandlerBroker) -> None:
    assert set(rows(ask(described, 4, TOPIC, "t", ["retention.ms", "no.such"]))) == {"retention.ms"}
    assert set(rows(ask(described, 4, BROKER, "0", ["num.partitions", "no.such"]))) == {"num.partitions"}
    assert len(rows(ask(described, 4, TOPIC, "t", []))) > 10


def test_what_was_changed_for_all_brokers_is_nothing(described: HandlerBroker) -> None:
    assert rows(ask(described, 4, BROKER, "")) == {}


@pytest.mark.parametrize(
    "kind, name, code",
    [
        (TOPIC, "unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "1", ErrorCode.INVALID_REQUEST),
        (BROKER, "zero", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described(described: HandlerBroker, kind: int, name: str, code: ErrorCode) -> None:
    result = ask(described, 4, kind, name)
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message


def test_a_resource_that_is_named_many_times_is_told_once(described: HandlerBroker) -> None:
    def told(*keys: list[str] | None) -> list[int]:
        resources = [
            DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=k) for k in keys
        ]
        results = described.ask(DescribeConfigsRequest(resources=resources), 4).results
        return [len(result.configs) for result in results]

    assert told(["retention.ms"], ["segment.bytes"], ["retention.ms"]) == [2]
    (all_settings,) = told(None)
    assert told(["retention.ms"], [], ["segment.bytes"]) == [all_settings]


def test_a_group_has_its_own_settings_before_those_of_the_broker(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path, group_consumer_heartbeat_interval_ms="7000")
    session, interval = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    before = rows(ask(node, 4, GROUP, "g", [session, interval], include_synonyms=True))
    assert {name: (row.value, row.config_source) for name, row in before.items()} == {
        session: ("45000", DEFAULT),
        interval: ("7000", STATIC),
    }
    node.services.metadata.change_group_configs("g", {session: "50000"})
    row = rows(ask(node, 4, GROUP, "g", [session], include_synonyms=True))[session]
    assert (row.value, row.config_source, row.read_only) == ("50000", OF_GROUP, False)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in row.synonyms] == [
        (session, "50000", OF_GROUP),
        (f"group.{session}", "45000", DEFAULT),
    ]
    node.close()
