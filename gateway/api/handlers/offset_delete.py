"""OffsetDelete: forget offsets of a group (KIP-496)."""

from typing import Any

from headgate.gateway.api.context import Context
from headgate.gateway.api.handlers import handles
from headgate.gateway.api.handlers.each import check_group_id
from headgate.gateway.coordinator.groups import offset_requests
from headgate.protocol.messages.offset_delete import OffsetDeleteRequest


@handles(OffsetDeleteRequest, versions="0")
def offset_delete(request: OffsetDeleteRequest, context: Context) -> Any:
    """Have the group decide, and answer when what it wrote is below the high watermark."""
    check_group_id(request.group_id)
    return context.broker.groups.submit(
        request.group_id, lambda shard, ticket: offset_requests.delete(shard, request, ticket)
    )
