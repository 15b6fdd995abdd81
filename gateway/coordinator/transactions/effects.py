"""The effect of a transaction that ends: a marker in each of its partitions. Coordinator and writer share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from headgate.gateway.runtime.tasks import Task

PartitionsByTopic = Mapping[str, Sequence[int]]
"""Topic -> indexes of partitions, both in ascending order."""


class WriteMarkers(NamedTuple):
    """End a transaction in all its partitions. Its Prepare record is below the high watermark.

    producer_epoch       of the markers; with `transaction_version` 2 above the epoch of the batches (KIP-890)
    transaction_version  of the protocol that ended the transaction; 0 and 1 are the same protocol
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    partitions: PartitionsByTopic
    transaction_version: int


class MarkerWriter(Protocol):
    """The seam to the leaders of the partitions. A cluster changes this seam alone."""

    def write(self, effect: WriteMarkers, coordinator_epoch: int) -> Task[bool]:
        """Write every marker, with any number of attempts. Returns False if a later coordinator ends the transaction.

        A deleted partition needs no marker. `coordinator_epoch` is the leader epoch of the coordinator's partition.

        A later effect of the same transactional id cancels the task: a reloaded shard performs its effects again. After
        the end of the later task no marker of the earlier one may reach a partition: in the old protocol the next
        transaction has the same epoch, and the marker would end it.
        """
