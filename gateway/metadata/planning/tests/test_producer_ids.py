"""Blocks of producer ids."""

from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.planning.producer_ids import BLOCK_SIZE, take_producer_ids


def test_blocks_follow_each_other() -> None:
    image, firsts = Image.empty(), []
    for node_id in (0, 7, 0):
        block, records = take_producer_ids(image, node_id)
        firsts.append(block.start)
        assert len(block) == BLOCK_SIZE
        image = image.apply_all(records)
    assert firsts == [0, BLOCK_SIZE, 2 * BLOCK_SIZE]
