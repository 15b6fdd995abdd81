"""Producer ids: every one is handed out once, also over restarts (KIP-98, and KIP-730 for the blocks)."""

from __future__ import annotations

from typing import Protocol


class ProducerIdBlocks(Protocol):
    """Where blocks come from: the metadata, which writes a block down before it gives it."""

    def next_producer_id_block(self) -> tuple[int, int]:
        """The first id of a block that nobody has had, and how many ids there are in it."""
        ...


class ProducerIds:
    """Hands out the ids of one block, then of the next. What a stop leaves of a block is never used."""

    def __init__(self, blocks: ProducerIdBlocks) -> None:
        self._blocks = blocks
        self._next = self._end = 0

    def next(self) -> int:
        """A producer id that was never given before. Raises what the metadata raises if a block cannot be written."""
        if self._next == self._end:
            first, length = self._blocks.next_producer_id_block()
            self._next, self._end = first, first + length
        producer_id = self._next
        self._next += 1
        return producer_id
