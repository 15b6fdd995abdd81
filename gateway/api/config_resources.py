"""The resource of a request about configs: the topic, broker or group, or the error for a wrong name."""

from typing import Protocol

from headgate.gateway.api.context import HandlerContext
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.metadata.image import Topic
from headgate.gateway.metadata.new_topics import check_name
from headgate.protocol.errors import ErrorCode, KafkaError


class Resource(Protocol):
    """The type and the name of a resource in a request."""

    resource_type: int
    resource_name: str


def altered_topic(resource: Resource, context: HandlerContext) -> Topic:
    """The topic whose configs the request changes.

    Raises KafkaError: INVALID_REQUEST without a name, INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION.
    """
    if not resource.resource_name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_name(resource.resource_name)
    return context.broker.metadata.planned.topic(resource.resource_name)


def altered_broker(resource: Resource, context: HandlerContext) -> int | None:
    """The broker whose configs the request changes; None, for an empty name, means all brokers.

    Raises KafkaError(INVALID_REQUEST) for a broker other than this one.
    """
    return None if not resource.resource_name else this_broker(resource, context)


def this_broker(resource: Resource, context: HandlerContext) -> int:
    """The id of this broker. Raises KafkaError(INVALID_REQUEST) for any other name."""
    node_id, name = context.broker.config.node_id, resource.resource_name
    if name == str(node_id):
        return node_id
    if not name:
        message = "Broker id must not be empty: it must be an integer"
    elif not name.lstrip("-").isdecimal():
        message = f"Broker id must be an integer, but it is: {name[:20]}"
    else:
        message = f"Unexpected broker id, expected {node_id}, but received {name[:20]}; ask that broker itself"
    raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def altered_group(resource: Resource) -> str:
    """The group whose configs the request changes. Raises KafkaError(INVALID_REQUEST) without a name."""
    if not resource.resource_name:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Default group resources are not allowed. Group name must not be empty."
        )
    return resource.resource_name


def has_no_settings(resource: Resource) -> KafkaError:
    """The error for any other type of resource."""
    if resource.resource_type == ResourceType.CLIENT_METRICS:
        message = "no client metrics are collected here, so a subscription would have no effect"
        if not resource.resource_name:
            message = f"Subscription name can't be empty, and {message}"
        return KafkaError(ErrorCode.INVALID_REQUEST, message)
    return KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
