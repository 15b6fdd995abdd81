"""Aborted batches: the batches of aborted transactions in a piece of a log, as a read_committed consumer finds them.

A fetch names the aborted transactions that reach into its batches, each by its producer and first offset (KIP-98). A
transaction is aborted from its first offset on, until the marker of its producer. Source: Apache Kafka's
`CompletedFetch` of the consumer.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.protocol.records import Buffer, control
from headgate.protocol.records.batch import BatchHeader


class AbortedBatches:
    """Takes the batches of a piece in order, and finds the aborted ones."""

    __slots__ = ("_ahead", "_producers")

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        """`transactions`: (producer id, first offset) of each, in any order."""
        self._ahead = sorted(transactions, key=_first_offset, reverse=True)
        self._producers: set[int] = set()

    def includes(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether the next batch belongs to an aborted transaction. A marker does not."""
        ahead, producers = self._ahead, self._producers
        while ahead and ahead[-1][1] <= header.last_offset:
            producers.add(ahead.pop()[0])
        if header.producer_id not in producers or not header.is_transactional:
            return False
        if not header.is_control:
            return True
        marker = control.read(batch)
        if marker is not None and not marker.is_commit:
            producers.discard(header.producer_id)
        return False


def _first_offset(transaction: tuple[int, int]) -> int:
    return transaction[1]
