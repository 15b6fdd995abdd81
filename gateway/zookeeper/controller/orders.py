"""Decisions about reassignments that tools order of the controller, where the cluster has one broker. Pure.

`kafka-reassign-partitions` before 3.0 writes these orders if it runs with `--zookeeper`, and waits until the controller
has deleted them.
"""

from __future__ import annotations

from typing import NamedTuple

from headgate.gateway.metadata.image import Image, PartitionState, raised_by
from headgate.gateway.metadata.records import partition_records
from headgate.gateway.zookeeper.layout.admin import PartitionReassignments
from headgate.protocol.internal.metadata import MetadataRecord


class OrderDecision(NamedTuple):
    """The records that carry out an order, and the reasons why parts of it are refused. Without records it is done."""

    records: list[MetadataRecord]
    refusals: list[str]


def reassign(image: Image, node_id: int, order: PartitionReassignments) -> OrderDecision:
    """Refuse to move partitions to other brokers. Brokers that are gone may be removed from the replicas."""
    records: list[MetadataRecord] = []
    refusals = []
    for (name, index), replicas in order.replicas.items():
        state = _state(image, name, index)
        dead = [broker for broker in replicas if broker != node_id]
        if state is None:
            refusals.append(f"{name}-{index} does not exist")
        elif state.replicas == replicas:
            continue
        elif dead or not replicas:
            refusals.append(f"{name}-{index} cannot have the replicas {list(replicas)}: broker {node_id} is alone")
        elif state.leader != node_id:
            refusals.append(f"{name}-{index} has no copy on broker {node_id}")
        else:
            moved = raised_by(state, 1)._replace(replicas=replicas, isr=replicas)
            records += partition_records(image.topics[name].topic_id, index, (moved,))
    return OrderDecision(records, refusals)


def _state(image: Image, name: str, index: int) -> PartitionState | None:
    topic = image.topics.get(name)
    return topic.partitions[index] if topic is not None and index < len(topic.partitions) else None
