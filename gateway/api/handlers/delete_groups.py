"""DeleteGroups: delete groups without members, with their offsets (KIP-229).

v2 flexible   v3 error messages
"""

from headgate.gateway.api.authorization import AclOperation, AclResource
from headgate.gateway.api.authorization_rules import elements
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


@handles(
    DeleteGroupsRequest,
    versions="0-3",
    authorize=elements(AclOperation.DELETE, AclResource.GROUP, "groups_names", "results"),
)
def delete_groups(request: DeleteGroupsRequest, context: HandlerContext) -> Outcome[DeleteGroupsResponse]:
    """Delete every named group with its offsets, or return an error for the group."""
    group_ids = request.groups_names

    def assemble(rows: list[DeletableGroupResult | KafkaError]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=[_result(*pair) for pair in zip(group_ids, rows, strict=True)])

    stores = context.broker.offset_stores
    gather = context.broker.groups.gather if stores is None else stores.gather
    return gather(group_ids, delete_group, assemble)


def delete_group(shard: GroupShard, group_id: str, ticket: Ticket) -> Decision:
    """The tombstones of a group without members, and of its offsets. Raises KafkaError."""
    group = shard.groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} not found")
    group.check_delete()
    # The group's tombstone is last: a group that a crash left half deleted can be deleted again
    records = [*shard.offsets.tombstones(group_id), *group.tombstones()]
    return Decision(records, [(ticket, DeletableGroupResult(group_id))], is_atomic=False)


def _result(group_id: str, row: DeletableGroupResult | KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id, row.code, row.message) if isinstance(row, KafkaError) else row
