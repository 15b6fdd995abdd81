"""Types of resources have one number each, wherever they are named."""

from headgate.gateway.config.resource_type import ResourceType
from headgate.protocol.internal.metadata import BROKER_RESOURCE, TOPIC_RESOURCE
from headgate.protocol.messages.list_config_resources import CLIENT_METRICS


def test_the_numbers_are_those_of_the_messages() -> None:
    named = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS)
    assert named == (TOPIC_RESOURCE, BROKER_RESOURCE, CLIENT_METRICS)
