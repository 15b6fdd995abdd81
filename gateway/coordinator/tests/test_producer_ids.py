"""Producer ids: each once, from blocks."""

import pytest

from headgate.gateway.coordinator.producer_ids import ProducerIds
from headgate.gateway.metadata.embedded import Change
from headgate.gateway.metadata.image import Image
from headgate.protocol.errors import ErrorCode, KafkaError


class Blocks:
    """Blocks of three, as the metadata would write them down."""

    def __init__(self) -> None:
        self.given = 0
        self.fails = False
        self.pending: Change | None = None

    def next_producer_id_block(self) -> tuple[int, int]:
        if self.fails:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        self.given += 1
        return (self.given - 1) * 3, 3


def test_ids_are_those_of_the_blocks_in_order() -> None:
    producer_ids = ProducerIds(Blocks())
    assert [producer_ids.next() for _ in range(7)] == [0, 1, 2, 3, 4, 5, 6]


def test_a_block_is_taken_only_when_it_is_needed() -> None:
    blocks = Blocks()
    producer_ids = ProducerIds(blocks)
    assert blocks.given == 0
    for _ in range(3):
        producer_ids.next()
    assert blocks.given == 1
    producer_ids.next()
    assert blocks.given == 2


def test_after_a_restart_the_rest_of_a_block_is_left_out() -> None:
    blocks = Blocks()
    before = ProducerIds(blocks).next()
    assert ProducerIds(blocks).next() == before + 3


def test_no_id_is_given_where_its_block_could_not_be_written() -> None:
    blocks = Blocks()
    producer_ids = ProducerIds(blocks)
    blocks.fails = True
    with pytest.raises(KafkaError):
        producer_ids.next()
    blocks.fails = False
    assert producer_ids.next() == 0


def test_a_block_that_could_not_be_written_is_not_used() -> None:
    """Another one begins where it would have."""
    blocks = Blocks()
    producer_ids = ProducerIds(blocks)
    change = blocks.pending = Change([], Image.empty())
    assert producer_ids.next() == 0
    assert producer_ids.pending is change
    change.error, change.is_settled = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), True
    blocks.given, blocks.pending = 0, None
    assert [producer_ids.next() for _ in range(4)] == [0, 1, 2, 3]
    assert producer_ids.pending is None
