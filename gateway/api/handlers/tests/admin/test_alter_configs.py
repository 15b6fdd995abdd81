"""AlterConfigs: all settings of topics."""

import pytest

from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource

pytestmark = pytest.mark.every_metadata_store


def replace(name: str, kind: int = ResourceType.TOPIC, **configs: str | None) -> AlterConfigsResource:
    rows = [AlterableConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return AlterConfigsResource(kind, name, rows)


def ask(
    node: HandlerBroker, *resources: AlterConfigsResource, version: int = 2, validate_only: bool = False
) -> list[int]:
    request = AlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    return [row.error_code for row in node.ask(request, version).responses]


def configs(node: HandlerBroker) -> dict[str, str]:
    return dict(node.services.metadata.image.topics["t"].configs)


@pytest.fixture
def topic(node: HandlerBroker) -> HandlerBroker:
    """A broker with topic t, which has two settings of its own."""
    node.services.metadata.create_topic("t", 1, configs={"retention.ms": "1000", "segment.bytes": "5000"})
    return node


@pytest.mark.parametrize("version", range(3))
def test_what_is_not_named_goes_back_to_its_default(topic: HandlerBroker, version: int) -> None:
    changes = replace("t", retention_ms="7", cleanup_policy="compact")
    assert ask(topic, changes, version=version) == [ErrorCode.NONE]
    assert configs(topic) == {"retention.ms": "7", "cleanup.policy": "compact"}


def test_only_validated(topic: HandlerBroker) -> None:
    assert ask(topic, replace("t"), validate_only=True) == [ErrorCode.NONE]
    assert len(configs(topic)) == 2


@pytest.mark.parametrize(
    "changes, code",
    [
        (replace("unknown"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (replace("t", no_such="1"), ErrorCode.INVALID_CONFIG),
        (replace("t", retention_ms=None), ErrorCode.INVALID_REQUEST),
        (replace("0", ResourceType.BROKER, num_partitions="2"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_refused_changes_nothing(topic: HandlerBroker, changes: AlterConfigsResource, code: ErrorCode) -> None:
    assert ask(topic, changes) == [code]
    assert len(configs(topic)) == 2


def test_a_resource_that_is_named_twice(topic: HandlerBroker) -> None:
    assert ask(topic, replace("t"), replace("t")) == [ErrorCode.INVALID_REQUEST]
    assert len(configs(topic)) == 2
