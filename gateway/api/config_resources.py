"""The resource that a request about configs names: the topic, broker or group, or the error for a wrong name."""

from typing import Protocol

from headgate.gateway.api.context import Context
from headgate.gateway.metadata.image import Topic
from headgate.gateway.metadata.new_topics import check_name
from headgate.protocol.errors import ErrorCode, KafkaError


class Resource(Protocol):
    """What a request names: a kind of thing, and which one."""

    resource_type: int
    resource_name: str


def altered_topic(resource: Resource, context: Context) -> Topic:
    """The topic whose settings are to be changed.

    Raises KafkaError: INVALID_REQUEST without a name, INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION.
    """
    if not resource.resource_name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the topic whose settings are to be changed is not named")
    check_name(resource.resource_name)
    return context.broker.metadata.planned.topic(resource.resource_name)


def altered_broker(resource: Resource, context: Context) -> int | None:
    """The broker whose settings are to be changed; None, for an empty name, means all.

    Raises KafkaError(INVALID_REQUEST) for another one.
    """
    return None if not resource.resource_name else this_broker(resource, context)


def this_broker(resource: Resource, context: Context) -> int:
    """The id of this broker. Raises KafkaError(INVALID_REQUEST) if another one is meant, or none."""
    node_id = context.broker.config.node_id
    if resource.resource_name != str(node_id):
        message = f"this is broker {node_id}; broker {resource.resource_name[:20]!r} must be asked itself"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return node_id


def altered_group(resource: Resource) -> str:
    """The group whose settings are to be changed. Raises KafkaError(INVALID_REQUEST) without a name."""
    if not resource.resource_name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the group whose settings are meant is not named")
    return resource.resource_name


def has_no_settings(resource: Resource) -> KafkaError:
    """What is answered for any other kind of thing."""
    return KafkaError(ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} has no settings here")
