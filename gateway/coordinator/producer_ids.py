"""Producer ids: each id is handed out once, also across restarts (KIP-98; KIP-730 for the blocks)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from headgate.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from headgate.gateway.metadata.store import Change, MetadataStore


class ProducerIds:
    """Hands out the ids of one block, then of the next. A stop leaves the rest of the block unused for ever."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self._block = range(0)
        self._change: Change | None = None

    def next(self) -> tuple[int, Change | None]:
        """A producer id that was never handed out before, and the change that reserves its block.

        The change is None if the block is already reserved. Otherwise the client may see the id once the change has
        settled without an error. Raises KafkaError if the metadata refuse the block.
        """
        self._take_block()
        return self._pop(), self._change

    def next_settled(self) -> int:
        """A producer id that was never handed out before, of a block that is taken for good.

        Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS while a block is being reserved, after which clients retry; and
        the error of a refused block.
        """
        self._take_block()
        if self._change is not None and not self._change.is_settled:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "a block of producer ids is being taken")
        return self._pop()

    def prepare(self) -> Change | None:
        """Reserve an id for `next_settled`. Returns the change to wait for; None if an id is available."""
        with suppress(KafkaError):  # `next_settled` raises it again, if an id is needed at all
            self._take_block()
        return self._change

    def _take_block(self) -> None:
        """Reserve a block, unless an id is left. Raises KafkaError."""
        change = self._change
        if change is not None and change.error is not None:  # the ids of a refused block may be another broker's
            self._block, self._change = range(0), None
        elif change is not None and change.is_settled:
            self._change = None  # the change holds an image
        if not self._block:
            self._block, self._change = self._metadata.take_producer_ids()

    def _pop(self) -> int:
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id
