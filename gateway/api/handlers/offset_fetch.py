"""OffsetFetch: the committed offsets of groups.

v1 from the coordinator   v2 null means all topics, top-level error   v3 throttle   v5 leader epochs (KIP-320)   v6
flexible   v7 require_stable (KIP-447)   v8 many groups (KIP-709)   v9 member epochs (KIP-848)   v10 topic ids (KIP-848)

Version 0 reads from ZooKeeper, and is served with ZooKeeper only. Other versions are answered as version 8; for older
ones the response is converted at the end.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization, denied
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import KEYS_A_STEP
from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.runtime.tasks import PAUSE, Outcome, Task, as_task, at_once_if_few, value_of
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from headgate.protocol.steps import FEW_ITEMS, Steps, lazy_map

_MANY_GROUPS = 8


def _authorize(authorization: Authorization) -> None:
    """Require DESCRIBE on each group and topic. In a request for all topics, denied ones are omitted."""
    request = authorization.request
    if authorization.context.version >= _MANY_GROUPS:
        authorization.split(
            "groups",
            "groups",
            lambda group: authorization.allows(AclOperation.DESCRIBE, AclResource.GROUP, group.group_id),
            lambda groups: [_refused(group, denied(AclResource.GROUP)) for group in groups],
        )
        if authorization.response is None:
            authorization.amends.append(partial(_authorize_topics, authorization))
    else:
        authorization.require(AclOperation.DESCRIBE, AclResource.GROUP, request.group_id)
        authorization.amends.append(partial(_authorize_old_topics, authorization))


def _authorize_topics(authorization: Authorization, response: OffsetFetchResponse) -> None:
    """Hide denied topics in the rows of every group."""
    asked = {group.group_id: group for group in authorization.request.groups}
    for row in response.groups:
        is_of_all = row.group_id in asked and asked[row.group_id].topics is None
        row.topics = _without_denied(row.topics, is_of_all, authorization)


def _authorize_old_topics(authorization: Authorization, response: OffsetFetchResponse) -> None:
    response.topics = _without_denied(response.topics, authorization.request.topics is None, authorization)


def _without_denied(topics: list[Any], is_of_all: bool, authorization: Authorization) -> list[Any]:
    """Topic rows without the denied ones, which are omitted, or have an error and no offsets."""
    rows = []
    for topic in topics:
        name, topic_id = topic.name, getattr(topic, "topic_id", b"")
        decide = authorization.shows_topic if is_of_all else authorization.allows_topic
        if decide(AclOperation.DESCRIBE, name, topic_id):
            rows.append(topic)
        elif not is_of_all:
            for row in topic.partitions:
                row.committed_offset = row.committed_leader_epoch = -1
                row.metadata, row.error_code = "", ErrorCode.TOPIC_AUTHORIZATION_FAILED
            rows.append(topic)
    return rows


@handles(OffsetFetchRequest, versions="0", authorize=_authorize, needs_zookeeper=True)
def offset_fetch_zero(request: OffsetFetchRequest, context: HandlerContext) -> Outcome[OffsetFetchResponse]:
    """Read from the store of the group."""
    stores = context.broker.offset_stores
    assert stores is not None, "without ZooKeeper the version has no route"
    return stores.fetch_zero(request)


@handles(OffsetFetchRequest, versions="1-10", authorize=_authorize, in_steps=True)
def offset_fetch(request: OffsetFetchRequest, context: HandlerContext) -> Outcome[OffsetFetchResponse]:
    """Ask the coordinator of every group; the response waits until earlier records are below the high watermark."""
    elements = request.groups if context.version >= _MANY_GROUPS else request.topics or ()
    outcome = at_once_if_few(_offset_fetch(request, context), len(elements))
    return as_task(outcome) if isinstance(outcome, OffsetFetchResponse) and _is_large(outcome) else outcome


def _offset_fetch(request: OffsetFetchRequest, context: HandlerContext) -> Task[OffsetFetchResponse]:
    if context.version >= _MANY_GROUPS:
        groups = request.groups
        yield from _refuse_repeated(groups)
    else:
        groups = [(yield from _only_group(request))]
    stores = context.broker.offset_stores
    failed = {} if stores is None else (yield from stores.refresh(groups))
    replies = yield from _ask(request, context, groups, failed)
    given = iter(replies)
    rows: list[OffsetFetchResponseGroup] = []
    for group in groups:
        reply = failed.get(group.group_id) or next(given)
        rows.append(_refused(group, reply) if isinstance(reply, KafkaError) else reply)
        if not len(rows) % KEYS_A_STEP:
            yield PAUSE
    version = context.version
    return OffsetFetchResponse(groups=rows) if version >= _MANY_GROUPS else _old(request, version, rows[0])


def _ask(
    request: OffsetFetchRequest,
    context: HandlerContext,
    groups: Sequence[OffsetFetchRequestGroup],
    failed: Mapping[str, KafkaError],
) -> Task[list[OffsetFetchResponseGroup | KafkaError]]:
    """Ask the coordinators of all groups but those that have failed."""
    version = context.version
    asked: dict[str, list[OffsetFetchRequestGroup]] = {}
    keys: list[str] = []
    for number, group in enumerate(reversed(groups), 1):
        if group.group_id not in failed:
            asked.setdefault(group.group_id, []).append(group)
            keys.append(group.group_id)
        if not number % KEYS_A_STEP:
            yield PAUSE

    def decide(shard: GroupShard, group_id: str, ticket: Ticket) -> Decision:
        wanted = asked[group_id].pop()  # a repeated group is asked in the request's order
        return offset_requests.fetch(shard, wanted, version, ticket, request.require_stable)

    keys.reverse()

    replies: list[OffsetFetchResponseGroup | KafkaError] = yield from value_of(
        context.broker.groups.gather(keys, decide, list)
    )
    return replies


def _refuse_repeated(groups: Sequence[OffsetFetchRequestGroup]) -> Steps[None]:
    """Refuse repeated requests for all offsets of a group: a short request must not make a huge response."""
    whole: set[str] = set()
    for number, group in enumerate(groups, 1):
        if group.topics is None:
            if group.group_id in whole:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "the request asks for all offsets of a group more than once"
                )
            whole.add(group.group_id)
        if not number % KEYS_A_STEP:
            yield


def _is_large(response: OffsetFetchResponse) -> bool:
    groups: Sequence[OffsetFetchResponse | OffsetFetchResponseGroup] = response.groups or [response]
    return len(groups) > FEW_ITEMS or any(
        len(group.topics) > FEW_ITEMS or any(len(topic.partitions) > FEW_ITEMS for topic in group.topics)
        for group in groups
    )


def _refused(group: OffsetFetchRequestGroup, error: KafkaError) -> OffsetFetchResponseGroup:
    # Consumers before Kafka 3.9 do not expect COORDINATOR_NOT_AVAILABLE here, and would fail
    lost = error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    return OffsetFetchResponseGroup(group.group_id, error_code=ErrorCode.NOT_COORDINATOR if lost else error.code)


def _only_group(request: OffsetFetchRequest) -> Steps[OffsetFetchRequestGroup]:
    topics = request.topics
    if topics is None:
        return OffsetFetchRequestGroup(request.group_id, topics=None)
    wanted: list[OffsetFetchRequestTopics] = []
    for topic in topics:
        wanted.append(OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes))
        if not len(wanted) % KEYS_A_STEP:
            yield
    return OffsetFetchRequestGroup(request.group_id, topics=wanted)


def _old(request: OffsetFetchRequest, version: int, row: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    if row.error_code != ErrorCode.NONE:
        return request.error_response(version, ErrorCode(row.error_code))
    return OffsetFetchResponse(topics=lazy_map(row.topics, _old_topic))


def _old_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(topic.name, lazy_map(topic.partitions, _old_partition))


def _old_partition(row: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        row.partition_index, row.committed_offset, row.committed_leader_epoch, row.metadata, row.error_code
    )
