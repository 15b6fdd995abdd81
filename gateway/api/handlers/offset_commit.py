"""OffsetCommit: store the offsets of a group.

v1 generation and member, a timestamp for each offset   v2-v4 retention   v3 throttle   v6 leader epochs (KIP-320)   v7
static members (KIP-345)   v8 flexible   v9 member epochs (KIP-848)   v10 topic ids (KIP-848)

Version 0 stores offsets in ZooKeeper, and is served with ZooKeeper only.
"""

from functools import partial

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import committed_topics, every, group
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.coordinator.decision import Decision, Ticket
from headgate.gateway.coordinator.groups import offset_requests
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.runtime.tasks import Outcome
from headgate.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


@handles(
    OffsetCommitRequest,
    versions="0",
    authorize=every(group(AclOperation.READ), committed_topics),
    needs_zookeeper=True,
)
def offset_commit_zero(request: OffsetCommitRequest, context: HandlerContext) -> Outcome[OffsetCommitResponse]:
    """Write to the store of the group; the response waits for it."""
    stores = context.broker.offset_stores
    assert stores is not None, "without ZooKeeper the version has no route"
    return stores.commit_zero(request)


@handles(OffsetCommitRequest, versions="1-10", authorize=every(group(AclOperation.READ), committed_topics), stages=True)
def offset_commit(request: OffsetCommitRequest, context: HandlerContext) -> Outcome[OffsetCommitResponse]:
    """Let the group decide; the response waits until the group's records are below the high watermark."""
    version, clock, stores = context.version, context.broker.clock, context.broker.offset_stores
    if stores is not None:
        dual = stores.dual(request.group_id)
        if dual is not None:
            return stores.commit(dual, request, version)

    def decide(shard: GroupShard, ticket: Ticket) -> Decision:
        return offset_requests.commit(shard, request, version, ticket, clock.monotonic_ms())

    return context.broker.groups.submit(request.group_id, decide, partial(request.error_response, version))
