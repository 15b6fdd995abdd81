"""ConsumerGroupDescribe: consumer groups with their members, what they read, and what they are to read (KIP-848).

v1 member types (KIP-1099)
"""

from headgate.gateway.api.context import Context
from headgate.gateway.api.handlers import handles
from headgate.gateway.api.handlers.each import describe_groups_each
from headgate.gateway.coordinator.groups import targets
from headgate.gateway.coordinator.groups.consumer_group import ConsumerGroup
from headgate.gateway.coordinator.groups.shard import Shard
from headgate.gateway.metadata import features
from headgate.gateway.runtime.purgatory import Waiting
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


@handles(ConsumerGroupDescribeRequest, versions="0-1")
def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: Context
) -> ConsumerGroupDescribeResponse | Waiting:
    """Describe every group that is named, once. A group that is not there, or is of another kind, is not found."""
    features.check_is_on(features.GROUP_VERSION, context.broker.metadata.image)

    def refused(group_id: str, error: KafkaError) -> DescribedGroup:
        return DescribedGroup(error.code, error.message, group_id)

    response: ConsumerGroupDescribeResponse | Waiting = describe_groups_each(
        request.group_ids,
        _describe,
        refused,
        lambda rows: ConsumerGroupDescribeResponse(groups=rows),
        context,
        with_operations=request.include_authorized_operations,
    )
    return response


def _describe(shard: Shard, group_id: str) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group.describe(shard.topics, targets.supported(shard.settings)[0])
    message = f"group {group_id} is not a consumer group" if group is not None else f"group {group_id} not found"
    return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id)
