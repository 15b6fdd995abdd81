"""Producer ids: each once, from blocks."""

from random import Random

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.coordinator.producer_ids import ProducerIds
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.planning.producer_ids import BLOCK_SIZE
from headgate.gateway.metadata.store import Change, MetadataStore
from headgate.protocol.errors import ErrorCode, KafkaError

FAILURE = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")


class Blocks(MetadataStore):
    """Metadata that are written at once, unless a test says otherwise."""

    def __init__(self) -> None:
        super().__init__(Image.empty(), BrokerConfig.load(""), Random(0))
        self.given = 0
        self.fails = self.is_held = False

    @property
    def end_offset(self) -> int:
        return self.given

    def _write(self, change: Change) -> None:
        if self.fails:
            raise FAILURE
        self.given += 1
        if not self.is_held:
            self._written(change, None)

    def end(self, change: Change, error: KafkaError | None = None) -> None:
        self._written(change, error)


def some(producer_ids: ProducerIds, count: int) -> list[int]:
    return [producer_ids.next()[0] for _ in range(count)]


def test_ids_are_those_of_the_blocks_in_order() -> None:
    assert some(ProducerIds(Blocks()), 2 * BLOCK_SIZE + 1) == list(range(2 * BLOCK_SIZE + 1))


def test_a_block_is_taken_only_when_it_is_needed() -> None:
    blocks = Blocks()
    producer_ids = ProducerIds(blocks)
    assert blocks.given == 0
    some(producer_ids, BLOCK_SIZE)
    assert blocks.given == 1
    producer_ids.next()
    assert blocks.given == 2


def test_after_a_restart_the_rest_of_a_block_is_left_out() -> None:
    blocks = Blocks()
    (before,) = some(ProducerIds(blocks), 1)
    assert some(ProducerIds(blocks), 1) == [before + BLOCK_SIZE]


def test_no_id_is_given_where_its_block_could_not_be_written() -> None:
    blocks = Blocks()
    producer_ids = ProducerIds(blocks)
    blocks.fails = True
    with pytest.raises(KafkaError):
        producer_ids.next()
    blocks.fails = False
    assert some(producer_ids, 1) == [0]


def test_a_block_that_could_not_be_written_is_not_used() -> None:
    """Another one begins where it would have."""
    blocks = Blocks()
    producer_ids = ProducerIds(blocks)
    blocks.is_held = True
    producer_id, change = producer_ids.next()
    assert producer_id == 0
    assert change is not None
    assert not change.is_settled
    assert producer_ids.next() == (1, change), "which is of the same block"
    blocks.end(change, FAILURE)
    assert (change.is_settled, change.error) == (True, FAILURE)
    blocks.is_held = False
    assert some(producer_ids, 4) == [0, 1, 2, 3]
    assert producer_ids.next() == (4, None), "the block is on the disk"


def test_a_settled_id_is_of_a_block_that_is_on_the_disk() -> None:
    blocks = Blocks()
    producer_ids = ProducerIds(blocks)
    blocks.is_held = True
    for _ in range(2):
        with pytest.raises(KafkaError) as refused:
            producer_ids.next_settled()
        assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert blocks.given == 1
    _, change = producer_ids.next()
    assert change is not None
    blocks.end(change)
    assert [producer_ids.next_settled(), producer_ids.next()] == [1, (2, None)]


def test_a_settled_id_is_not_of_a_block_that_could_not_be_written() -> None:
    blocks = Blocks()
    producer_ids = ProducerIds(blocks)
    blocks.is_held = True
    _, change = producer_ids.next()
    assert change is not None
    blocks.end(change, FAILURE)
    blocks.is_held = False
    assert producer_ids.next_settled() == 0
    blocks.fails = True
    some(producer_ids, BLOCK_SIZE - 1)
    with pytest.raises(KafkaError, match="no room"):
        producer_ids.next_settled()


def test_a_block_is_taken_ahead_of_the_next_settled_id() -> None:
    blocks = Blocks()
    producer_ids = ProducerIds(blocks)
    blocks.is_held = True
    change = producer_ids.prepare()
    assert change is not None
    assert producer_ids.prepare() is change
    blocks.end(change)
    assert producer_ids.prepare() is None
    assert (producer_ids.next_settled(), blocks.given) == (0, 1)
    blocks.fails = True
    some(producer_ids, BLOCK_SIZE - 1)
    assert producer_ids.prepare() is None, "whoever needs an id hears why there is none"
