"""ConsumerGroupDescribe: consumer groups with their members, and the members' current and target assignments (KIP-848).

v1 member types (KIP-1099)
"""

from headgate.gateway.api.authorization import AclOperation, AclResource, Authorization
from headgate.gateway.api.authorization_rules import authorize_group_operations, elements, every
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import describe_groups_each
from headgate.gateway.coordinator.groups.consumer import targets
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.metadata import features
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def _authorize_topics(authorization: Authorization) -> None:
    """Require DESCRIBE on each topic of a member; a group with a denied topic has an error in place of its members."""

    def hide(response: ConsumerGroupDescribeResponse) -> None:
        response.groups = [_hidden(group) if is_denied(group) else group for group in response.groups]

    def is_denied(group: DescribedGroup) -> bool:
        return not all(authorization.allows(AclOperation.DESCRIBE, AclResource.TOPIC, name) for name in _topics(group))

    authorization.amends.append(hide)


def _topics(group: DescribedGroup) -> set[str]:
    return {
        name
        for member in group.members
        for name in (
            *member.subscribed_topic_names,
            *(row.topic_name for row in member.assignment.topic_partitions),
            *(row.topic_name for row in member.target_assignment.topic_partitions),
        )
    }


def _hidden(group: DescribedGroup) -> DescribedGroup:
    message = "The group has described topic(s) that the client is not authorized to describe."
    return DescribedGroup(ErrorCode.TOPIC_AUTHORIZATION_FAILED, message, group.group_id)


@handles(
    ConsumerGroupDescribeRequest,
    versions="0-1",
    authorize=every(
        elements(AclOperation.DESCRIBE, AclResource.GROUP, "group_ids", "groups"),
        _authorize_topics,
        authorize_group_operations,
    ),
)
def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: HandlerContext
) -> Outcome[ConsumerGroupDescribeResponse]:
    """Describe every named group once. A group of another kind counts as not found."""
    features.check_is_on(features.GROUP_VERSION, context.broker.metadata.image)

    def refused(group_id: str, error: KafkaError) -> DescribedGroup:
        return DescribedGroup(error.code, error.message, group_id)

    return describe_groups_each(
        request.group_ids,
        _describe,
        refused,
        lambda rows: ConsumerGroupDescribeResponse(groups=rows),
        context,
        with_operations=request.include_authorized_operations,
    )


def _describe(shard: GroupShard, group_id: str) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group.describe(shard.topics, targets.supported(shard.settings)[0])
    message = f"group {group_id} is not a consumer group" if group is not None else f"group {group_id} not found"
    return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id)
