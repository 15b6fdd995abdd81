"""An append of a client's batches, from its beginning to its acknowledgement, and the queue for the high watermark.

An append is written in one of four ways: inline by the loop; by the write batcher at the end of the turn; by a thread
of a slow disk's append queue; or in one of these ways after a conversion. In each of them the append is one `Append`,
in one state:

    CONVERTING ──> PENDING ──> WRITTEN ──> COMMITTED      with acks=0 and acks=1 a write acknowledges the append
         └────────────┴───────────┴──────> FAILED

Two kinds of appends need no object: an append that is written and acknowledged before the handler returns, and one that
waits only for the write at the end of the turn. There the response is the state (`WriteBatcher.promise`): an object
for each would cost a small produce request two percent.

Appends that wait for the high watermark are in a `CommitQueue`, in the order of their offsets: a move of the high
watermark costs only as much as it completes. Fetches that wait for records are in `Replica.waiters`.

This module knows no requests and no responses: a handler renders the state of its appends.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING

from headgate.protocol.errors import ErrorCode, KafkaError, without_frames
from headgate.storage.log.pending_write import AppendInfo

if TYPE_CHECKING:
    from headgate.gateway.replication.replica import Replica

ACKS_ALL = -1


class AppendState(Enum):
    """The progress of an append."""

    CONVERTING = auto()
    PENDING = auto()
    WRITTEN = auto()
    COMMITTED = auto()
    FAILED = auto()


CONVERTING, PENDING, WRITTEN = AppendState.CONVERTING, AppendState.PENDING, AppendState.WRITTEN
COMMITTED, FAILED = AppendState.COMMITTED, AppendState.FAILED


class Append:
    """One append to one partition. `info` has the place of the batches, `error` the reason of a failure."""

    __slots__ = ("end_offset", "error", "info", "listener", "replica", "required_acks", "state")

    def __init__(self, replica: Replica, required_acks: int, listener: Callable[[Append], None] | None = None) -> None:
        """`listener(append)` is called at the end of the conversion, and at the end of the append."""
        self.replica = replica
        self.required_acks = required_acks
        self.state = PENDING
        self.info: AppendInfo | None = None
        self.end_offset = -1
        """The offset after the last record, once known."""
        self.error: KafkaError | OSError | None = None
        self.listener = listener

    def __repr__(self) -> str:
        return f"Append({self.replica.topic}-{self.replica.index}, {self.state.name}, {self.info or self.error})"

    @property
    def has_ended(self) -> bool:
        """Whether the append is committed or has failed."""
        return self.state is COMMITTED or self.state is FAILED

    # Conversion

    def begin_conversion(self) -> None:
        """Convert first: later appends to the partition that need a conversion queue up after this one."""
        self.state = CONVERTING
        self.replica.converting += 1

    def end_conversion(self) -> None:
        """Wait for the write: the batches are converted."""
        if self.state is CONVERTING:
            self.replica.converting -= 1
            self.state = PENDING
            if self.listener is not None:
                self.listener(self)

    # Outcome

    def end_write(self, result: AppendInfo | KafkaError | OSError) -> None:
        """Record the result of the write. A failed append stays failed."""
        if self.state is not PENDING:
            return
        if not isinstance(result, AppendInfo):
            self.fail(result)
            return
        self.info, self.end_offset, self.state = result, result.last_offset + 1, WRITTEN
        if self.required_acks != ACKS_ALL:
            self._end(COMMITTED)
        elif self.replica.high_watermark >= self.end_offset:
            self.acknowledge()
        else:
            self.replica.await_commit(self)

    def acknowledge(self) -> None:
        """Acknowledge: every in-sync replica has the batches. Fail if this broker leads no more.

        A later leader epoch of the same lead changes nothing, as in Kafka: the set has lost a follower. A truncation of
        the leader's log fails its appends (`fail_lost`). Fail too if too few replicas are in sync by now
        (min.insync.replicas).
        """
        if self.state is not WRITTEN:
            return
        try:
            self._check_acknowledgement()
        except KafkaError as error:
            self.fail(error)
        else:
            self._end(COMMITTED)

    def _check_acknowledgement(self) -> None:
        replica = self.replica
        replica.check_leads()
        replica.check_in_sync(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def fail(self, error: KafkaError | OSError) -> None:
        """End with an error: the batches were not appended, or may be lost, or took too long."""
        if self.has_ended:
            return
        if self.state is CONVERTING:
            self.replica.converting -= 1
        self.error = without_frames(error)
        self._end(FAILED)

    def _end(self, state: AppendState) -> None:
        self.state = state
        listener, self.listener = self.listener, None  # the listener holds the whole request
        if listener is not None:
            listener(self)

    def fail_if_lost(self) -> None:
        """Fail an append that will never be committed: the disk lost it, or the topic was deleted."""
        log = self.replica.log
        if log.sync_error is not None:
            self.fail(log.sync_error)
        elif self.end_offset > log.end_offset:
            lost = "the disk lost the records before they were replicated"
            self.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, lost))
        elif log.is_retired and log.flushing is None:
            deleted = "the topic was deleted before the records were on the disk"
            self.fail(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, deleted))


def await_offset(replica: Replica, end_offset: int, listener: Callable[[Append], None] | None) -> Append:
    """An `Append` that stands for everything before `end_offset` that was written without an object."""
    append = Append(replica, ACKS_ALL, listener)
    append.end_offset, append.state = end_offset, WRITTEN
    replica.await_commit(append)
    return append


class CommitQueue:
    """The appends of a partition that wait for its high watermark, by end offset.

    A failed append stays until the high watermark passes it.
    """

    __slots__ = ("_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Append]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, append: Append) -> None:
        """Have `append.acknowledge` called once the high watermark has reached the append's end offset."""
        self._number += 1
        heapq.heappush(self._heap, (append.end_offset, self._number, append))

    def advance(self, high_watermark: int) -> None:
        """Acknowledge the appends that the high watermark has reached."""
        heap = self._heap
        while heap and heap[0][0] <= high_watermark:
            heapq.heappop(heap)[2].acknowledge()

    def fail_all(self, error: KafkaError) -> None:
        """Fail all appends with an error of which each gets a copy."""
        heap, self._heap = self._heap, []
        for _, _, append in heap:
            append.fail(error.copy())

    def fail_lost(self) -> None:
        """Fail the appends that can never be committed; the others keep waiting."""
        for _, _, append in self._heap:
            append.fail_if_lost()
        self._heap = [entry for entry in self._heap if entry[2].state is WRITTEN]
        heapq.heapify(self._heap)
