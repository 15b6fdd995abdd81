"""What was staged in the present turn: written together, before any answer to it leaves.

Producers of small batches cost the broker little but a write each. So a turn of the loop first takes what all its
connections sent, and then writes once for each partition. Everything else that may look into a log or answer a client
comes after `commit`.
"""

import logging
from typing import Protocol

from gateway.replication.partition import Partition
from protocol.errors import ErrorCode, KafkaError
from storage.staged import Staged

logger = logging.getLogger("headgate.replication")


class Row(Protocol):
    """A part of a response that tells of an append."""

    def refuse(self, error: ErrorCode, message: str | None) -> None:
        """Say that nothing was appended after all."""


class Appends:
    """The appends that still have to be written, and the rows of responses that promise them.

    `is_open`: there are some, and no answer may leave.
    """

    __slots__ = ("_promises", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._promises: list[tuple[Partition, Staged, Row]] = []

    def promise(self, partition: Partition, row: Row) -> None:
        """`row` says of what was staged just now that it is appended; a failure of the write turns it into that."""
        staged = partition.log.staged
        if staged is not None:
            self.is_open = True
            self._promises.append((partition, staged, row))

    def commit(self) -> None:
        """Write everything. Rows whose write failed then say so."""
        if not self.is_open:
            return
        self.is_open = False
        promises, self._promises = self._promises, []
        for partition, _, _ in promises:
            if partition.log.staged is not None:
                try:
                    partition.write_staged()
                except KafkaError as error:  # it stands in `Staged.error`, as that of an earlier write may
                    logger.error("refused to producers: %s", error.message)
        for _, staged, row in promises:
            if staged.error is not None:
                row.refuse(staged.error.code, staged.error.message)
