"""Orders of a controller and requests of brokers with ZooKeeper, from clients without ClusterAction.

A client that may give orders is a broker: the tests of clusters have those.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from headgate.gateway.api.tests.under_acls.acl_sets import NONE
from headgate.gateway.api.tests.under_acls.questions import Ids, Question
from headgate.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headgate.protocol.messages.alter_partition import AlterPartitionRequest
from headgate.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from headgate.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from headgate.protocol.messages.stop_replica import StopReplicaRequest
from headgate.protocol.messages.update_metadata import UpdateMetadataRequest
from headgate.protocol.schema import Message

CLIENTS = (NONE, "topic-ALL", "cluster-ALTER", "but-cluster-CLUSTER_ACTION", "but-cluster-ALL")
ORDERS: tuple[type[Message], ...] = (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    ControlledShutdownRequest,
    AlterPartitionRequest,
    AllocateProducerIdsRequest,
)


def order_questions() -> Iterator[Question]:
    for order in ORDERS:
        first, last = order.versions
        yield Question("empty", partial(_empty, order), range(first, last + 1), clients=CLIENTS)


def _empty(order: type[Message], _ids: Ids, _version: int) -> Message:
    return order()
