"""One batch, exactly once: a new epoch, the marker's verdict, the tasks, positions and marker, the commit.

    begin       InitProducerId: aborts what an earlier try left open, and fences its tasks
    decide      the marker of the last batch: write, skip, or refuse
    run tasks   they add partitions and write, with the producer's id and epoch
    check       the leaders have as many records of this transaction as the tasks report
    mark        positions of the query as offsets of a group, and the marker
    commit      EndTxn: records, positions and marker become visible together

Whatever fails on the way, or is killed, leaves a transaction that never commits; whatever fails after the commit finds
the marker and skips the batch. So a failure without an answer is tried again from the beginning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from headgate.protocol.records import batch
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.sink import transaction
from headgate.spark.sink.batch_log import PARTITION, BatchLog, ensure_topic
from headgate.spark.sink.connection import Connection, SinkFailed
from headgate.spark.sink.marker import (
    BatchDecision,
    MarkerPositions,
    QueryBatch,
    SinkMarker,
    SinkRefused,
    decide,
    encode_marker,
)
from headgate.spark.sink.transaction import Fenced, TransactionalProducer, TransactionWriter
from headgate.tools.client.client import ClientError
from headgate.tools.groups.offsets import CommittedOffsets

TRANSACTIONAL_ID_PREFIX = "headgate-spark-"
_ABORT_TIMEOUT_S = 10.0
_log = logging.getLogger(__name__)

RunTasks: TypeAlias = Callable[[TransactionalProducer], Mapping[TopicPartition, int]]
"""Writes all rows with this producer; returns the number of written records by partition."""


class WriteOutcome(NamedTuple):
    """What became of a batch. `is_written`: False if an earlier try had written the batch already."""

    is_written: bool
    records: int
    tries: int
    seconds: float


class TransactionTooLong(SinkRefused):
    """The brokers have ended the transaction before its batch was written."""


class ExactlyOnce:
    """Writes batches under one name. `group`: of the positions; None: they are only in the marker."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        *,
        group: str | None = None,
        timeout_ms: int,
        tries: int = 3,
        accept_gap: bool = False,
        clock_s: Callable[[], float],
        now_ms: Callable[[], int],
    ) -> None:
        self._connection, self._name, self._group = connection, name, group
        self._timeout_ms, self._tries, self._accept_gap = timeout_ms, tries, accept_gap
        self._clock_s, self._now_ms = clock_s, now_ms
        self._log_of_batches: BatchLog | None = None
        self._is_open = False

    @property
    def transactional_id(self) -> str:
        return TRANSACTIONAL_ID_PREFIX + self._name

    def write(self, run_tasks: RunTasks, query_batch: QueryBatch | None = None) -> WriteOutcome:
        """Write a batch of a query, or rows without a marker. Raises SinkRefused, SinkFailed, or an error of the tasks.

        A batch is tried again after a failure that another try may not meet. Rows without a marker are too, up to the
        commit: without a marker, an unanswered commit looks like a failed one.
        """
        began_s = self._clock_s()
        for number in range(1, self._tries + 1):
            began_try_s = self._clock_s()
            try:
                records = self._try_once(run_tasks, query_batch)
                return WriteOutcome(records is not None, records or 0, number, self._clock_s() - began_s)
            except Exception as error:
                spent_s = self._clock_s() - began_try_s
                if not isinstance(error, SinkRefused) and spent_s * 1000 >= self._timeout_ms:
                    raise self._too_long(spent_s) from error
                if number == self._tries or not is_worth_another_try(error):
                    # The winner of two runs under one name must not be fenced by the other one
                    if self._is_open and not _is_of(error, "Fenced"):
                        self._abandon()
                    raise
                _log.warning("%s: try %d of %d failed, the next one begins: %s", self._name, number, self._tries, error)
        raise AssertionError("the last try returns or raises")

    def _try_once(self, run_tasks: RunTasks, query_batch: QueryBatch | None) -> int | None:
        """The number of written records; None for a batch that was written before."""
        if query_batch is not None and self._log_of_batches is None:
            ensure_topic(self._connection)
            self._log_of_batches = BatchLog(self._connection, self._name)
        self._is_open = False
        if query_batch is not None:
            self._refuse_early(query_batch)
        producer = transaction.begin(self._connection, self.transactional_id, self._timeout_ms)
        if query_batch is not None:
            assert self._log_of_batches is not None
            if self._decide(self._log_of_batches.last(is_fenced=True), query_batch) is BatchDecision.SKIP:
                return None
        self._is_open = True
        written = {partition: count for partition, count in run_tasks(producer).items() if count}
        transaction.check_written(self._connection, producer, written)
        if query_batch is not None:
            self._mark(producer, query_batch)
        elif not written:
            return 0
        self._commit(producer, has_marker=query_batch is not None)
        return sum(written.values())

    def _refuse_early(self, query_batch: QueryBatch) -> None:
        """Refuse a batch before its producer fences the query that the name belongs to."""
        assert self._log_of_batches is not None
        try:
            self._decide(self._log_of_batches.last(is_fenced=False), query_batch)
        except SinkRefused:
            # The coordinator answers EndTxn before it writes the control batches, so this marker may be committed
            unfinished = self._log_of_batches.unfinished()
            if unfinished is None:
                raise
            self._decide(unfinished, query_batch)

    def _decide(self, marker: SinkMarker | None, query_batch: QueryBatch) -> BatchDecision:
        if marker is None and self._group is not None and query_batch.batch_id > 0:
            # The topic of the markers may have been lost; the same transactions committed the group's offsets
            marker = marker_of_group(self._connection.committed_offsets(self._group), query_batch)
            query_batch = query_batch._replace(before=None)
        return decide(self._name, marker, query_batch, accept_gap=self._accept_gap)

    def _mark(self, producer: TransactionalProducer, query_batch: QueryBatch) -> None:
        """Add the positions and the marker to the transaction."""
        positions = self._known_positions(query_batch.positions)
        if self._group is not None and positions:
            metadata = f"query {query_batch.query_id} batch {query_batch.batch_id}"  # as `marker_of_group` reads it
            transaction.commit_positions(self._connection, producer, self._group, positions, metadata)
        now_ms = self._now_ms()
        query_id, batch_id, ends, others, _ = query_batch
        value = encode_marker(SinkMarker(query_id, batch_id, ends, now_ms, others))
        record = batch.Record(timestamp=now_ms, key=self._name.encode(), value=value)
        TransactionWriter(self._connection, producer).write(
            {PARTITION: (1, batch.build([record], is_transactional=True))}
        )

    def _known_positions(self, positions: MarkerPositions) -> dict[TopicPartition, int]:
        """The positions in topics of this cluster: a group has no offsets of topics elsewhere."""
        return {
            TopicPartition(topic, number): offset
            for topic, offsets in positions.items()
            if (count := self._connection.partition_count(topic))
            for number, offset in offsets.items()
            if number < count and offset >= 0
        }

    def _commit(self, producer: TransactionalProducer, *, has_marker: bool) -> None:
        try:
            transaction.end(self._connection, producer, is_commit=True)
        except Fenced:
            raise
        except SinkFailed as error:
            if has_marker:
                raise
            raise SinkRefused(
                f"it is not known whether the rows were written: the commit was not answered ({error}). Compare before "
                "you write them again; with a name and `once` the sink finds out by itself"
            ) from error

    def _too_long(self, spent_s: float) -> TransactionTooLong:
        return TransactionTooLong(
            f"the batch of {self._name!r} was not written: it took {spent_s:.0f} s, and the brokers end a transaction "
            f"after kafka.transaction.timeout.ms={self._timeout_ms}. Make batches smaller (maxOffsetsPerTrigger), or "
            "raise the timeout, up to the brokers' transaction.max.timeout.ms"
        )

    def _abandon(self) -> None:
        """Abort by a new epoch: readers of committed records need not wait for the timeout, and zombies are fenced."""
        try:
            with Connection(
                self._connection.bootstrap, _ABORT_TIMEOUT_S, security=self._connection.security
            ) as connection:
                transaction.begin(connection, self.transactional_id, self._timeout_ms)
        except (SinkFailed, SinkRefused, ClientError) as error:  # a refused login too: the caller raises the cause
            _log.warning(
                "%s: the open transaction ends by its timeout, as it could not be aborted: %s", self._name, error
            )


def marker_of_group(offsets: CommittedOffsets, query_batch: QueryBatch) -> SinkMarker | None:
    """The marker that the offsets of a group stand for; None if no batch of the query committed them.

    A group has no offsets of topics elsewhere. Such a partition counts as equal, so only the number decides about it.
    """
    batches = {partition: _batch_in_metadata(row.metadata, query_batch.query_id) for partition, row in offsets.items()}
    last = max(batches.values(), default=-1)
    if last < 0:
        return None
    positions = {topic: dict(row) for topic, row in query_batch.positions.items()}
    for partition, number in batches.items():
        if number == last:
            positions.setdefault(partition.topic, {})[partition.number] = offsets[partition].offset
    return SinkMarker(query_batch.query_id, last, positions, 0, None)


def _batch_in_metadata(text: str, query_id: str) -> int:
    """The batch of the query that the text beside an offset names; -1 for any other text."""
    words = text.split(" ")
    is_named = len(words) == 4 and words[:3] == ["query", query_id, "batch"]
    return int(words[3]) if is_named and words[3].isascii() and words[3].isdecimal() else -1


def is_worth_another_try(error: Exception) -> bool:
    """False for refusals, and when another run has taken over the name."""
    return not (isinstance(error, SinkRefused) or _is_of(error, "SinkRefused") or _is_of(error, "Fenced"))


def _is_of(error: Exception, name: str) -> bool:
    """True for an error of this class, also of a task: Spark's text then has the traceback of the worker."""
    return type(error).__name__ == name or f".{name}: " in str(error)
