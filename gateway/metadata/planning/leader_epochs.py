"""Plans that raise leader epochs: of all partitions at a start, of single ones later (KIP-101, KIP-320).

Pure: an image in, records out. `gateway.metadata.registration` says why the epochs rise.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.gateway.metadata.image import Image, raised_by
from headgate.gateway.metadata.records import partition_records
from headgate.protocol.internal.metadata import MetadataRecord, RegisterBrokerRecord
from headgate.storage.disk.checkpoint import TopicPartition


def register_broker(node_id: int, rack: str | None, incarnation_id: bytes, broker_epoch: int) -> RegisterBrokerRecord:
    """The registration of one start (KIP-631). The replay raises the epoch of every partition that the broker leads."""
    return RegisterBrokerRecord(
        broker_id=node_id, incarnation_id=incarnation_id, broker_epoch=broker_epoch, rack=rack, fenced=False
    )


def raise_leader_epochs(image: Image, latest_epochs: Mapping[TopicPartition, int]) -> list[MetadataRecord]:
    """Records that raise the leader epoch of each partition above the epoch given with the partition.

    Partitions that the image does not have are skipped.
    """
    records: list[MetadataRecord] = []
    for (name, index), latest_epoch in latest_epochs.items():
        topic = image.topics.get(name)
        if topic is not None and index < len(topic.partitions):
            state = topic.partitions[index]
            raised = raised_by(state, 1)._replace(leader_epoch=max(state.leader_epoch, latest_epoch) + 1)
            records += partition_records(topic.topic_id, index, (raised,))
    return records
