"""ListConfigResources."""

import pytest

from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.list_config_resources import ListConfigResourcesRequest

pytestmark = pytest.mark.every_metadata_store


def ask(node: HandlerBroker, version: int, *types: int) -> tuple[int, list[tuple[int, str]]]:
    response = node.ask(ListConfigResourcesRequest(resource_types=list(types)), version)
    return response.error_code, [(row.resource_type, row.resource_name) for row in response.config_resources]


def test_what_has_settings(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    both = [(ResourceType.TOPIC, "t"), (ResourceType.BROKER, "0")]
    assert ask(node, 1) == (ErrorCode.NONE, [*both, (ResourceType.BROKER_LOGGER, "0")])
    assert ask(node, 1, ResourceType.TOPIC, ResourceType.TOPIC) == (ErrorCode.NONE, both[:1])
    assert ask(node, 1, ResourceType.GROUP, ResourceType.CLIENT_METRICS) == (ErrorCode.NONE, [])


def test_groups_that_have_settings_of_their_own(node: HandlerBroker) -> None:
    metadata = node.services.metadata
    metadata.change_group_configs("g", {"consumer.session.timeout.ms": "50000"})
    metadata.change_group_configs("was", {"consumer.session.timeout.ms": "50000"})
    metadata.change_group_configs("was", {"consumer.session.timeout.ms": None})
    assert ask(node, 1, ResourceType.GROUP) == (ErrorCode.NONE, [(ResourceType.GROUP, "g")])


def test_version_0_knows_client_metrics_only(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    assert ask(node, 0) == (ErrorCode.NONE, [])


def test_an_unknown_type(node: HandlerBroker) -> None:
    assert ask(node, 1, 99) == (ErrorCode.UNSUPPORTED_VERSION, [])
