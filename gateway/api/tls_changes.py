"""Changes of the settings of TLS: a thread tries the stores before anything is stored, as Kafka does (KIP-226)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from headgate.gateway.api.config_resources import Resource
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.metadata.planning.configs import changed_broker_config
from headgate.gateway.runtime.tasks import Outcome, Task, value_of
from headgate.protocol.errors import ErrorCode, KafkaError

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
