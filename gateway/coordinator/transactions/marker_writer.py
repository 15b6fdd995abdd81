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
from collections.abc import Callable
from functools import partial

from headgate.gateway.coordinator.shard_loader import CoordinatorServices
from headgate.gateway.coordinator.transactions.effects import WriteMarkers
from headgate.gateway.coordinator.transactions.markers import Marker, PartitionMarkers
from headgate.gateway.metadata.store import MetadataStore
from headgate.gateway.runtime.time_slices import SLICE_MS
from headgate.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger("headgate.transactions")

FIRST_PAUSE_MS = 20.0
LONGEST_PAUSE_MS = 1_000.0
WARN_EVERY = 60
"""Attempts between two warnings about one transaction; with the longest pause a minute."""


class _Ending:
    """One transaction that ends: its marker, and the partitions that do not have the marker yet."""

    __slots__ = ("attempts", "done", "marker", "missing", "pause_ms", "refused", "transactional_id", "unanswered")

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
        self.unanswered = 0
        self.done = done
        self.attempts = 0
        self.pause_ms = FIRST_PAUSE_MS
        self.refused: KafkaError | None = None
        """The last error of the present attempt."""


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
        self._attempt(ending)

    def _attempt(self, ending: _Ending) -> None:
        """Write the missing markers, all of them once."""
        if self._is_replaced(ending):
            return
        ending.missing = {place for place in ending.missing if self._exists(*place)}
        if not ending.missing:
            self._end(ending)
            return
        ending.attempts += 1
        ending.unanswered = len(ending.missing)
        ending.refused = None
        self._queue.extend((ending, *place) for place in sorted(ending.missing))
        self._schedule()

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
        ending.unanswered -= 1
        if error is None or error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
            ending.missing.discard((topic, index))
        elif ending.refused is None or error.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            ending.refused = KafkaError(error.code, f"{topic}-{index}: {error.message}")
        if error is not None and error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
            message = "the transaction of %r is over in %s-%d, without the marker: %s"
            logger.warning(message, ending.transactional_id, topic, index, error.message)
        if not ending.unanswered and not self._is_replaced(ending):
            self._attempted(ending)

    def _attempted(self, ending: _Ending) -> None:
        error = ending.refused
        if not ending.missing:
            self._end(ending)
        elif error is not None and error.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            del self._endings[ending.transactional_id]
            message = "the transaction of %r is left to a later coordinator than that of epoch %d: %s"
            logger.error(message, ending.transactional_id, ending.marker.coordinator_epoch, error.message)
        else:
            if ending.attempts == 1 or not ending.attempts % WARN_EVERY:
                message = "%d markers of the transaction of %r are not written yet, and are tried again: %s"
                logger.warning(message, len(ending.missing), ending.transactional_id, error and error.message)
            self._scheduler.call_after(ending.pause_ms, partial(self._attempt, ending))
            ending.pause_ms = min(ending.pause_ms * 2, LONGEST_PAUSE_MS)

    def _end(self, ending: _Ending) -> None:
        """All markers are written. The record of it is another write, in a callback of its own."""
        del self._endings[ending.transactional_id]
        self._scheduler.call_soon(ending.done)
