"""The marker writer: ends transactions in all their partitions, and tries each partition until its marker is written.

    Prepare is below the high watermark ── write(effect) ── a marker for each partition ── done ── Complete
                                                            │ failed: again, after a pause
                                                            └ the coordinator is fenced: given up

This writer knows the partitions of this broker alone. A cluster has another one behind the same seam
(`effects.MarkerWriter`), with WriteTxnMarkers for the partitions of other leaders.

What becomes of a partition:

| the partition, or its error | then |
|---|---|
| was deleted | done |
| INVALID_PRODUCER_EPOCH | done: a producer gets a higher epoch only after its transaction has ended everywhere |
| TRANSACTION_COORDINATOR_FENCED | a later coordinator ends the transaction: this one stops |
| anything else | tried again, after pauses of up to a second |

Kafka gives the transaction up after INVALID_PRODUCER_EPOCH as well; its id then has no further transaction until the
coordinator is loaded anew. That error comes from a log that outlived the end of `__transaction_state` in a power cut.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection
from functools import partial

from headgate.gateway.coordinator.shard_loader import CoordinatorServices
from headgate.gateway.coordinator.transactions.effects import WriteMarkers
from headgate.gateway.coordinator.transactions.markers import Marker, PartitionMarkers
from headgate.gateway.metadata.store import MetadataStore
from headgate.gateway.runtime.backoff import Backoff
from headgate.gateway.runtime.tasks import SLICE_MS
from headgate.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger("headgate.transactions")

FIRST_PAUSE_MS = 20.0
LONGEST_PAUSE_MS = 1_000.0
WARN_EVERY = 60
"""Attempts between two warnings about one transaction; with the longest pause a minute."""


class _Ending:
    """One transaction that ends.

    missing  topics and indexes of the partitions that do not have the marker yet
    refused  those of them whose marker was refused, and is written again after the pause
    """

    __slots__ = ("attempts", "backoff", "done", "marker", "missing", "refused", "transactional_id")

    def __init__(self, effect: WriteMarkers, coordinator_epoch: int, done: Callable[[], None]) -> None:
        self.transactional_id = effect.transactional_id
        self.marker = Marker(
            effect.producer_id,
            effect.producer_epoch,
            effect.is_commit,
            coordinator_epoch,
            effect.transaction_version,
        )
        self.missing = {(topic, index) for topic, indexes in effect.partitions.items() for index in indexes}
        self.refused: set[tuple[str, int]] = set()
        self.done = done
        self.attempts = 0
        self.backoff = Backoff(FIRST_PAUSE_MS, LONGEST_PAUSE_MS)


class RetryingMarkerWriter:
    """A `MarkerWriter` for the partitions of this broker."""

    def __init__(self, markers: PartitionMarkers, metadata: MetadataStore, services: CoordinatorServices) -> None:
        self._markers = markers
        self._metadata = metadata
        self._clock = services.clock
        self._scheduler = services.scheduler
        self._endings: dict[str, _Ending] = {}
        self._queue: deque[tuple[_Ending, str, int]] = deque()
        self._is_scheduled = False

    def write(self, effect: WriteMarkers, coordinator_epoch: int, done: Callable[[], None]) -> None:
        """Write every marker, then call `done` once. A later effect of the same id replaces an earlier one.

        The markers of all transactions that end in one turn are written together.
        """
        ending = self._endings[effect.transactional_id] = _Ending(effect, coordinator_epoch, done)
        self._attempt(ending, ending.missing)

    def _attempt(self, ending: _Ending, places: Collection[tuple[str, int]]) -> None:
        """Write the marker into these partitions."""
        for place in sorted(places):
            if self._exists(*place):
                self._queue.append((ending, *place))
            else:
                ending.missing.discard(place)
        if ending.missing:
            self._schedule()
        else:
            self._end(ending)

    def _is_replaced(self, ending: _Ending) -> bool:
        return self._endings.get(ending.transactional_id) is not ending

    def _exists(self, topic: str, index: int) -> bool:
        known = self._metadata.image.topics.get(topic)
        return known is not None and index < len(known.partitions)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._scheduler.call_soon(self._run)

    def _run(self) -> None:
        """Append what is queued, for about a millisecond, and write it."""
        self._is_scheduled = False
        began_ms = self._clock.monotonic_ms()
        while self._queue:
            self._append(*self._queue.popleft())
            if self._clock.monotonic_ms() - began_ms > SLICE_MS:
                break
        self._markers.commit()
        if self._queue:
            self._is_scheduled = True
            self._scheduler.call_after(0.0, self._run)  # everybody else has a turn

    def _append(self, ending: _Ending, topic: str, index: int) -> None:
        if self._is_replaced(ending):
            return
        written = partial(self._written, ending, topic, index)
        try:
            self._markers.append(ending.marker, topic, index, written)
        except Exception:  # a fault of ours must not leave a transaction open for ever
            logger.exception("a marker cannot be written to %s-%d", topic, index)
            written(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a fault of the broker, see its log"))

    def _written(self, ending: _Ending, topic: str, index: int, error: KafkaError | None) -> None:
        if self._is_replaced(ending):
            return
        if error is not None:
            self._refused(ending, topic, index, error)
            return
        ending.missing.discard((topic, index))
        if not ending.missing:
            self._end(ending)

    def _refused(self, ending: _Ending, topic: str, index: int, error: KafkaError) -> None:
        transactional_id, reason = ending.transactional_id, error.message
        if error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
            logger.warning("the transaction of %r is over in %s-%d: %s", transactional_id, topic, index, reason)
            self._written(ending, topic, index, None)
        elif error.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            del self._endings[transactional_id]
            message = "a later coordinator ends the transaction of %r, which has a marker in %s-%d: %s"
            logger.error(message, transactional_id, topic, index, reason)
        else:
            if not ending.refused:
                self._pause(ending, f"{topic}-{index}: {reason}")
            ending.refused.add((topic, index))

    def _pause(self, ending: _Ending, reason: str) -> None:
        """Write refused markers again a little later, while others are on their way."""
        if not ending.attempts % WARN_EVERY:
            message = "markers of the transaction of %r are refused, and written again: %s"
            logger.warning(message, ending.transactional_id, reason)
        ending.attempts += 1
        self._scheduler.call_after(ending.backoff.next_wait_ms(), partial(self._attempt_again, ending))

    def _attempt_again(self, ending: _Ending) -> None:
        if not self._is_replaced(ending):
            refused, ending.refused = ending.refused, set()
            self._attempt(ending, refused)

    def _end(self, ending: _Ending) -> None:
        """All markers are written. The record of it is another write, in a callback of its own."""
        del self._endings[ending.transactional_id]
        self._scheduler.call_soon(ending.done)
