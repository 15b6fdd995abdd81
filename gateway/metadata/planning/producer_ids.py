"""The plan that takes a block of producer ids (KIP-730). Pure: an image in, records out."""

from __future__ import annotations

from headgate.gateway.metadata.image import Image
from headgate.protocol.internal.metadata import MetadataRecord, ProducerIdsRecord

BLOCK_SIZE = 1000


def take_producer_ids(image: Image, node_id: int) -> tuple[range, list[MetadataRecord]]:
    """The next block that no broker has taken. No id may be handed out before the records are stored."""
    block = range(image.next_producer_id, image.next_producer_id + BLOCK_SIZE)
    return block, [ProducerIdsRecord(broker_id=node_id, next_producer_id=block.stop)]
