"""CreatePartitions: add partitions to topics.

v2 flexible   v3 quota errors (KIP-599)
"""

from functools import partial
from operator import attrgetter
from typing import Any

from headgate.gateway.api.authorization import AclOperation, AclResource
from headgate.gateway.api.authorization_rules import elements
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import each_in_turns, unrepeated
from headgate.gateway.api.throttling import charge_partitions, counts_partitions
from headgate.gateway.metadata.image import INTERNAL_TOPICS
from headgate.gateway.metadata.store import Change
from headgate.gateway.runtime.tasks import Outcome, Task, at_once_if_few, value_of
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


@handles(
    CreatePartitionsRequest,
    versions="0-3",
    authorize=elements(AclOperation.ALTER, AclResource.TOPIC, "topics", "results", attrgetter("name")),
    in_steps=True,
)
def create_partitions(request: CreatePartitionsRequest, context: HandlerContext) -> Outcome[CreatePartitionsResponse]:
    """Raise each topic's number of partitions, or with `validate_only` check each."""
    return at_once_if_few(_create_partitions(request, context), len(request.topics))


def _create_partitions(request: CreatePartitionsRequest, context: HandlerContext) -> Task[Any]:
    def answer(wanted: CreatePartitionsTopic) -> tuple[CreatePartitionsTopicResult, Change]:
        context.broker.metadata.require_controller()
        return CreatePartitionsTopicResult(name=wanted.name), _create(wanted, request.validate_only, context)

    def respond(rows: list[CreatePartitionsTopicResult]) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(results=rows)

    name = attrgetter("name")
    once = yield from unrepeated(request.topics, name, answer, name, "Duplicate topic name.")
    return (yield from value_of(each_in_turns(*once, _refuse, respond, request.timeout_ms, context)))


def _create(wanted: CreatePartitionsTopic, validate_only: bool, context: HandlerContext) -> Change:
    metadata = context.broker.metadata
    if wanted.name in INTERNAL_TOPICS and wanted.name in metadata.image.topics:
        # A group's partition depends on the number: after a change every group would seem to be new
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"the number of partitions of {wanted.name} cannot be changed")
    assignments = None
    if wanted.assignments is not None:
        present = len(metadata.image.topic(wanted.name).partitions)
        assignments = {index: row.broker_ids for index, row in enumerate(wanted.assignments, start=present)}
    create = partial(metadata.create_partitions, wanted.name, wanted.count, assignments)
    if counts_partitions(context):  # only what is valid counts
        present = len(metadata.planned.topic(wanted.name).partitions)
        charge_partitions(context, len(create(validate_only=True).image.topics[wanted.name].partitions) - present)
    return create(validate_only=validate_only)


def _refuse(wanted: CreatePartitionsTopic, code: ErrorCode, message: str) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=wanted.name, error_code=code, error_message=message)
