"""Small clusters as views, for the tests of this room."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headgate.gateway.controller.cluster_view import ClusterView, ListenerEndpoint, LiveBroker
from headgate.gateway.controller.controller import ControllerMachine, ControllerSettings
from headgate.gateway.metadata.image import Image, PartitionState
from headgate.gateway.metadata.records import partition_records
from headgate.protocol.internal.metadata import MetadataRecord, TopicRecord
from headgate.protocol.topic_partition import TopicPartition

TOPIC_ID = b"t" * 16
T0 = TopicPartition("t", 0)


def state(
    leader: int, isr: Sequence[int], replicas: Sequence[int] = (1, 2, 3), *, epoch: int = 0, version: int = -1
) -> PartitionState:
    """The version of the node, the partition epoch, is the leader epoch if it is not given."""
    return PartitionState(leader, epoch, tuple(replicas), tuple(isr), epoch if version < 0 else version)


def brokers(*ids: int, epoch: int = 1) -> dict[int, LiveBroker]:
    return {id_: LiveBroker(epoch * 100 + id_, {"INTERNAL": ListenerEndpoint(f"host{id_}", 9092)}) for id_ in ids}


def view(*states: PartitionState, live: Collection[int] = (1, 2, 3), topic: str = "t") -> ClusterView:
    """A cluster with one topic."""
    records: list[MetadataRecord] = [TopicRecord(name=topic, topic_id=TOPIC_ID)]
    return ClusterView(Image.empty().apply_all(records + partition_records(TOPIC_ID, 0, states)), brokers(*live))


def controller(view: ClusterView, *unclean: str) -> ControllerMachine:
    return ControllerMachine(view, ControllerSettings(unclean.__contains__), 0.0)


def settle(machine: ControllerMachine, now_ms: float = 0.0) -> list[tuple[object, object]]:
    """Confirm every write until the machine decides nothing more; returns the replies."""
    replies: list[tuple[object, object]] = []
    while True:
        decision = machine.decide(now_ms)
        replies += decision.replies
        if not decision.records and not decision.has_more:
            return replies
        machine.replay(decision.records)
