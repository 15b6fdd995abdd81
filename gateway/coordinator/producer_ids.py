"""Producer ids: every one is handed out once, also over restarts (KIP-98, and KIP-730 for the blocks)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headgate.gateway.metadata.embedded import Change


class ProducerIdBlocks(Protocol):
    """Where blocks come from: the metadata, which writes a block down before it gives it."""

    def next_producer_id_block(self) -> tuple[int, int]:
        """The first id of a block that nobody has had, and how many ids there are in it."""
        ...

    @property
    def pending(self) -> Change | None:
        """What has still to be written before the block may be used; None if nothing has."""
        ...


class ProducerIds:
    """Hands out the ids of one block, then of the next. What a stop leaves of a block is never used."""

    def __init__(self, blocks: ProducerIdBlocks) -> None:
        self._blocks = blocks
        self._next = self._end = 0
        self._change: Change | None = None

    def next(self) -> int:
        """A producer id that was never given before. Raises what the metadata raises if a block cannot be written.

        It may be told when `pending` has succeeded.
        """
        if self._change is not None and self._change.error is not None:  # the block was not taken: another one has it
            self._next, self._change = self._end, None
        if self._next == self._end:
            first, length = self._blocks.next_producer_id_block()
            self._next, self._end = first, first + length
            self._change = self._blocks.pending
        producer_id = self._next
        self._next += 1
        return producer_id

    @property
    def pending(self) -> Change | None:
        """What is still being written of the block that the last id is of."""
        return self._change if self._change is not None and not self._change.is_settled else None
