"""Producer ids: every id is handed out once, also across restarts (KIP-98; KIP-730 for the blocks)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.gateway.metadata.planning.producer_ids import take_producer_ids

if TYPE_CHECKING:
    from headgate.gateway.metadata.store import Change, MetadataStore


class ProducerIds:
    """Hands out the ids of one block, then of the next. A stop leaves the rest of a block unused for ever."""

    def __init__(self, metadata: MetadataStore, node_id: int) -> None:
        self._metadata = metadata
        self._node_id = node_id
        self._next = self._end = 0
        self._change: Change | None = None

    def next(self) -> tuple[int, Change | None]:
        """A producer id that was never handed out before, and the change that takes its block.

        The client may see the id once the change has settled without an error; None has. Raises KafkaError if the
        metadata refuse the block.
        """
        change = self._change
        if change is not None and change.error is not None:  # the block was not taken: its ids may be another's
            self._next, self._change = self._end, None
        elif change is not None and change.is_settled:
            self._change = None  # it holds an image
        if self._next == self._end:
            block = take_producer_ids(self._metadata.planned, self._node_id)
            self._change = self._metadata.submit(block.records)
            self._next, self._end = block.first, block.first + block.size
        producer_id = self._next
        self._next += 1
        return producer_id, self._change
