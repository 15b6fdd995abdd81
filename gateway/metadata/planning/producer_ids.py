"""The plan that takes a block of producer ids (KIP-730). Pure: an image in, records out."""

from __future__ import annotations

from typing import NamedTuple

from headgate.gateway.metadata.image import Image
from headgate.protocol.internal.metadata import MetadataRecord, ProducerIdsRecord

BLOCK_SIZE = 1000


class PlannedProducerIds(NamedTuple):
    """Producer ids from `first` on, `size` of them. No id may be handed out before the records are stored."""

    first: int
    size: int
    records: list[MetadataRecord]


def take_producer_ids(image: Image, node_id: int) -> PlannedProducerIds:
    """The next block that no broker has taken, for the broker `node_id`."""
    first = image.next_producer_id
    return PlannedProducerIds(
        first, BLOCK_SIZE, [ProducerIdsRecord(broker_id=node_id, next_producer_id=first + BLOCK_SIZE)]
    )
