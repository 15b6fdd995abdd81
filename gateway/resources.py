"""Kinds of things that have settings, as DescribeConfigs and its kin number them.

Source: org.apache.kafka.common.config.ConfigResource.Type.
"""

from enum import IntEnum
from typing import Protocol

from gateway.context import Context
from gateway.metadata.image import Topic
from protocol.errors import ErrorCode, KafkaError


class ResourceType(IntEnum):
    """An int8 on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(Protocol):
    """What a request names: a kind of thing, and which one."""

    resource_type: int
    resource_name: str


def altered_topic(resource: Resource, context: Context) -> Topic:
    """The topic whose settings are to be changed.

    Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST for anything that is no topic.
    """
    if resource.resource_type != ResourceType.TOPIC:
        message = "only settings of topics can be changed while the broker runs; set others in its server.properties"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return context.broker.metadata.image.topic(resource.resource_name)
