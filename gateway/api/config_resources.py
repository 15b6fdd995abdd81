"""The resource of a request about configs: the topic, broker or group, or the error for a wrong name."""

from typing import Protocol

from headgate.gateway.api.context import HandlerContext
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
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the name of the topic is empty")
    check_name(resource.resource_name)
    return context.broker.metadata.planned.topic(resource.resource_name)


def altered_broker(resource: Resource, context: HandlerContext) -> int | None:
    """The broker whose configs the request changes; None, for an empty name, means all brokers.

    Raises KafkaError(INVALID_REQUEST) for a broker other than this one.
    """
    return None if not resource.resource_name else this_broker(resource, context)


def this_broker(resource: Resource, context: HandlerContext) -> int:
    """The id of this broker. Raises KafkaError(INVALID_REQUEST) for any other name."""
    node_id = context.broker.config.node_id
    if resource.resource_name != str(node_id):
        message = f"this is broker {node_id}; broker {resource.resource_name[:20]!r} must get the request itself"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return node_id


def altered_group(resource: Resource) -> str:
    """The group whose configs the request changes. Raises KafkaError(INVALID_REQUEST) without a name."""
    if not resource.resource_name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the name of the group is empty")
    return resource.resource_name


def has_no_settings(resource: Resource) -> KafkaError:
    """The error for any other type of resource."""
    return KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} has no settings here")
