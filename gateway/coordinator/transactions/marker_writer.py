"""The marker writer: ends transactions in all their partitions, and tries each partition until its marker is written.

    Prepare is below the high watermark ── write(effect) ── a marker for each partition ── Complete
                                                            │ refused: again, after a pause
                                                            └ the coordinator is fenced: given up

This broker appends the markers of the partitions that it leads. Other leaders get theirs by WriteTxnMarkers, with those
of all other transactions (`broker_requests.py`). Each attempt looks up the leader again: so the marker of a partition
that moves goes to the next leader.

What becomes of a partition:

| the partition, or its error | then |
|---|---|
| was deleted | done |
| INVALID_PRODUCER_EPOCH | done: a producer gets a higher epoch only after its transaction has ended everywhere |
| TRANSACTION_COORDINATOR_FENCED | a later coordinator ends the transaction: this one stops |
| anything else | tried again, after pauses of up to a second |

Kafka gives the transaction up after INVALID_PRODUCER_EPOCH as well; its id then has no further transaction until the
coordinator is loaded again. That error comes from a log that outlived the end of `__transaction_state` in a power cut.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

from headgate.gateway.coordinator.broker_requests import BrokerRequests, OtherBrokers
from headgate.gateway.coordinator.shard_loader import CoordinatorServices
from headgate.gateway.coordinator.transactions.effects import WriteMarkers
from headgate.gateway.coordinator.transactions.markers import Marker, PartitionMarkers
from headgate.gateway.runtime.backoff import Backoff
from headgate.gateway.runtime.tasks import SLICE_MS, Task, sleep
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from headgate.protocol.schema import Message

logger = logging.getLogger("headgate.transactions")

FIRST_PAUSE_MS = 20.0
LONGEST_PAUSE_MS = 1_000.0
WARN_EVERY = 60
"""Attempts between two warnings about one transaction; with the longest pause a minute."""


class EndingTransaction:
    """One transaction that ends.

    missing  topics and indexes of the partitions that do not have the marker yet
    refused  those of them whose marker was refused, with the reason; it is written again after the pause
    """

    __slots__ = ("_resume", "is_fenced", "marker", "missing", "refused", "transactional_id")

    def __init__(self, effect: WriteMarkers, coordinator_epoch: int) -> None:
        self.transactional_id = effect.transactional_id
        self.marker = Marker(
            effect.producer_id,
            effect.producer_epoch,
            effect.is_commit,
            coordinator_epoch,
            effect.transaction_version,
        )
        self.missing = {(topic, index) for topic, indexes in effect.partitions.items() for index in indexes}
        self.refused: dict[tuple[str, int], str] = {}
        self.is_fenced = False
        """A later coordinator ends the transaction."""
        self._resume: Callable[[None], None] | None = None

    def all_or_refusal(self, resume: Callable[[None], None]) -> None:
        """Wait until no marker is missing, or one was refused."""
        self._resume = resume
        self._check()

    def end_write(self, place: tuple[str, int], error: KafkaError | None) -> None:
        """A marker is written to one partition, or was refused."""
        if place not in self.missing:  # a later coordinator or a later task ends the transaction
            return
        if error is None or self._is_over(place, error):
            self.missing.discard(place)
        else:
            self.refused[place] = error.message
        self._check()

    def _is_over(self, place: tuple[str, int], error: KafkaError) -> bool:
        """Whether the refusal means that the partition needs no marker of this coordinator."""
        if error.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            self.is_fenced = True
            self.missing.clear()
            message = "a later coordinator ends the transaction of %r, which has a marker in %s-%d: %s"
            logger.error(message, self.transactional_id, *place, error.message)
        elif error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
            message = "the transaction of %r is over in %s-%d: %s"
            logger.warning(message, self.transactional_id, *place, error.message)
        return self.is_fenced or error.code is ErrorCode.INVALID_PRODUCER_EPOCH

    def _check(self) -> None:
        if self.refused or not self.missing:
            resume, self._resume = self._resume, None
            if resume is not None:
                resume(None)


class _MissingMarker(NamedTuple):
    """The marker of a transaction for a partition, on its way to another leader."""

    ending: EndingTransaction
    place: tuple[str, int]


class MarkerRequests:
    """The `Gathering` of markers: WriteTxnMarkers with all markers for one leader."""

    version: ClassVar[int | None] = None

    def take(self, queue: deque[_MissingMarker]) -> tuple[Message, Sequence[_MissingMarker]] | None:
        """Take one transaction of each producer id, as the response has one result for a producer id."""
        transactions: dict[int, EndingTransaction] = {}
        topics: dict[int, dict[str, list[int]]] = {}
        taken, left = list[_MissingMarker](), list[_MissingMarker]()
        for missing in queue:
            ending, (topic, index) = missing
            if missing.place not in ending.missing:  # a later coordinator or a later task ends the transaction
                continue
            producer_id = ending.marker.producer_id
            if transactions.setdefault(producer_id, ending) is not ending:
                left.append(missing)
                continue
            topics.setdefault(producer_id, {}).setdefault(topic, []).append(index)
            taken.append(missing)
        queue.clear()
        queue.extend(left)
        if not taken:
            return None
        markers = [_request_row(ending.marker, topics[producer_id]) for producer_id, ending in transactions.items()]
        return WriteTxnMarkersRequest(markers), taken

    def end(self, taken: Sequence[_MissingMarker], answer: Message | KafkaError) -> None:
        """Give each transaction the result of its partitions."""
        if isinstance(answer, KafkaError):
            for ending, place in taken:
                ending.end_write(place, answer)
            return
        assert isinstance(answer, WriteTxnMarkersResponse)
        codes = {
            (result.producer_id, topic.name, row.partition_index): row.error_code
            for result in answer.markers
            for topic in result.topics
            for row in topic.partitions
        }
        for ending, place in taken:
            code = codes.get((ending.marker.producer_id, *place), ErrorCode.UNKNOWN_SERVER_ERROR)
            ending.end_write(place, None if code == ErrorCode.NONE else KafkaError(ErrorCode(code)))


def _request_row(marker: Marker, topics: dict[str, list[int]]) -> WritableTxnMarker:
    return WritableTxnMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.is_commit,
        [WritableTxnMarkerTopic(name, indexes) for name, indexes in topics.items()],
        marker.coordinator_epoch,
        marker.transaction_version,
    )


class RetryingMarkerWriter:
    """A `MarkerWriter` for the partitions of all brokers."""

    def __init__(self, markers: PartitionMarkers, services: CoordinatorServices, brokers: OtherBrokers) -> None:
        self._markers = markers
        self._metadata = brokers.metadata
        self._node_id = brokers.node_id
        self.requests = BrokerRequests("transaction-markers", MarkerRequests(), brokers)
        self._clock = services.clock
        self._scheduler = services.scheduler
        self._queue: deque[tuple[EndingTransaction, tuple[str, int]]] = deque()

    def write(self, effect: WriteMarkers, coordinator_epoch: int) -> Task[bool]:
        """Write every marker. Returns False if a later coordinator ends the transaction.

        A refused marker is written again after a pause, whatever other markers are on their way.
        """
        ending = EndingTransaction(effect, coordinator_epoch)
        backoff = Backoff(FIRST_PAUSE_MS, LONGEST_PAUSE_MS)
        places: Iterable[tuple[str, int]] = ending.missing
        try:
            for attempt in itertools.count():
                self._append_soon(ending, places)
                yield ending.all_or_refusal
                if not ending.missing:
                    break
                if not attempt % WARN_EVERY:
                    _warn(ending)
                yield sleep(self._scheduler, backoff.next_wait_ms())
                places, ending.refused = ending.refused, {}
            return not ending.is_fenced
        finally:
            ending.missing.clear()  # a cancelled task appends no more of them

    def _append_soon(self, ending: EndingTransaction, places: Iterable[tuple[str, int]]) -> None:
        """Append markers at the end of the turn, with those of all other transactions that end in this turn."""
        if not self._queue:
            self._scheduler.call_soon(self._run)
        self._queue.extend((ending, place) for place in sorted(places))

    def _run(self) -> None:
        """Append what is queued, for about a millisecond, and write it."""
        began_ms = self._clock.monotonic_ms()
        while self._queue:
            self._append(*self._queue.popleft())
            if self._clock.monotonic_ms() - began_ms > SLICE_MS:
                break
        if self._queue:
            self._scheduler.call_after(0.0, self._run)  # other work has its turn
        self._markers.write_staged()

    def _append(self, ending: EndingTransaction, place: tuple[str, int]) -> None:
        if place not in ending.missing:
            return
        topic, index = place
        known = self._metadata.image.topics.get(topic)
        if known is None or index >= len(known.partitions):
            self._end_unknown(ending, place)
            return
        leader = known.partitions[index].leader
        if leader != self._node_id:
            self.requests.add(leader, _MissingMarker(ending, place))
            return
        written = partial(ending.end_write, place)
        try:
            self._markers.append(ending.marker, *place, written)
        except Exception:  # a fault of ours must not leave a transaction open for ever
            logger.exception("a marker cannot be written to %s-%d", *place)
            written(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a fault of the broker, see its log"))

    def _end_unknown(self, ending: EndingTransaction, place: tuple[str, int]) -> None:
        """A partition without a state was deleted, unless this broker does not know all topics yet."""
        error = None
        if not self._metadata.knows_topics:
            message = "the controller has not sent the topics of the cluster yet"
            error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        ending.end_write(place, error)


def _warn(ending: EndingTransaction) -> None:
    (topic, index), reason = next(iter(ending.refused.items()))
    message = "markers of the transaction of %r are refused, and written again: %s-%d: %s"
    logger.warning(message, ending.transactional_id, topic, index, reason)
