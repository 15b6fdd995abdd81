"""The resource of a request about configs: the topic, broker or group, or the error for a wrong name.

Changes of the settings of TLS are tried before anything is stored, as in Kafka (KIP-226): a thread reads the stores.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from headgate.gateway.api.context import HandlerContext
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.metadata.image import Topic
from headgate.gateway.metadata.new_topics import check_name
from headgate.gateway.metadata.planning.configs import changed_broker_config
from headgate.gateway.runtime.tasks import Outcome, Task, value_of
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


A = TypeVar("A")
"""The response."""
Named = TypeVar("Named", bound=Resource)
Check = Callable[[Resource], None]
"""Raises KafkaError(INVALID_REQUEST) for a resource whose stores cannot be used."""


def with_stores_tried(
    resources: Sequence[Named],
    changes_of: Callable[[Named], Mapping[str, str | None]],
    respond: Callable[[Check], Outcome[A]],
    context: HandlerContext,
) -> Outcome[A]:
    """The outcome of `respond`, or a task that first tries the stores of this broker's changes.

    `changes_of` gives the changes of a broker; it may raise KafkaError, which `respond` has to find again.
    """
    broker, node_id = context.broker, context.broker.config.node_id
    own = [one for one in resources if (one.resource_type, one.resource_name) == (ResourceType.BROKER, str(node_id))]
    if broker.tls_reloads is None or len(own) != 1:
        return respond(_accept)
    try:
        changes = changes_of(own[0])
        config = changed_broker_config(broker.metadata.planned, broker.config, node_id, changes)
    except KafkaError:
        return respond(_accept)
    work = broker.tls_reloads.check(config, changes)
    return respond(_accept) if work is None else _try(work, own[0], respond, context)


def _try(
    work: Callable[[], str | None], own: Resource, respond: Callable[[Check], Outcome[A]], context: HandlerContext
) -> Task[A]:
    problem: str | None = yield partial(context.broker.scheduler.in_thread, work)

    def check(resource: Resource) -> None:
        if problem is not None and resource is own:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The new settings cannot be used: {problem}")

    return (yield from value_of(respond(check)))


def _accept(_resource: Resource) -> None:
    """There is nothing to try."""
