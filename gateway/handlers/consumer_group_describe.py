"""ConsumerGroupDescribe: consumer groups with their members, what they read, and what they are to read (KIP-848).

v1 member types (KIP-1099)
"""

from gateway import operations
from gateway.context import Context
from gateway.coordinator import targets
from gateway.coordinator.consumer_group import ConsumerGroup
from gateway.coordinator.decision import Decision, Ticket
from gateway.coordinator.groups import Shard
from gateway.handlers import handles
from gateway.waiting import Waiting
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


@handles(ConsumerGroupDescribeRequest, versions="0-1")
def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: Context
) -> ConsumerGroupDescribeResponse | Waiting:
    """Describe every group that is named, once. A group that is not there, or is of another kind, is not found."""
    group_ids = list(dict.fromkeys(request.group_ids))

    def decide(shard: Shard, group_id: str, ticket: Ticket) -> Decision:
        return Decision.reply(ticket, _describe(shard, group_id))

    def assemble(rows: list[DescribedGroup | KafkaError]) -> ConsumerGroupDescribeResponse:
        told = [_told(group_id, row) for group_id, row in zip(group_ids, rows, strict=True)]
        if request.include_authorized_operations:
            for row in told:
                row.authorized_operations = operations.UNKNOWN if row.error_code else operations.GROUP
        return ConsumerGroupDescribeResponse(groups=told)

    response: ConsumerGroupDescribeResponse | Waiting = context.broker.groups.gather(group_ids, decide, assemble)
    return response


def _describe(shard: Shard, group_id: str) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group.describe(shard.topics, targets.supported(shard.settings)[0])
    message = f"group {group_id} is not a consumer group" if group is not None else f"group {group_id} not found"
    return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, message, group_id)


def _told(group_id: str, row: DescribedGroup | KafkaError) -> DescribedGroup:
    return DescribedGroup(row.code, row.message, group_id) if isinstance(row, KafkaError) else row
