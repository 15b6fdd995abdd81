"""Markers in the partitions of this broker: each ends one transaction in one partition (KIP-98).

A marker is appended like a batch of a client, by the present writer of the partition: small ones of a turn are
written together, and while a disk is slow a thread of that disk writes. A marker is written once it is below the high
watermark. The offsets of groups are the state of shards, so that a marker for `__consumer_offsets` is a decision of the
group coordinator: a batch beside the coordinator would have the shard loaded again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple, Protocol, cast

from headgate.gateway.coordinator.decision import Decision, ProducerIdAndEpoch, Ticket
from headgate.gateway.coordinator.groups.group_coordinator import GroupCoordinator
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.shard_loader import CoordinatorServices
from headgate.gateway.metadata.image import CONSUMER_OFFSETS
from headgate.gateway.replication.append import ACKS_ALL, Append
from headgate.gateway.replication.replica import Replica
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.tasks import Task, is_task
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.write_txn_markers import WritableTxnMarkerPartitionResult
from headgate.protocol.records import control
from headgate.storage.log.validation import BROKER, BatchFacts

RAISES_EPOCHS = 2
"""The transaction version from which on a marker has a higher epoch than the batches (KIP-890)."""

Written = Callable[[KafkaError | None], None]
"""Called once: with None if the marker is below the high watermark, else with the reason why it is not."""

_NOT_READY = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}
"""Errors of the group coordinator; a transaction coordinator knows NOT_LEADER_OR_FOLLOWER instead, as in Kafka."""


class Marker(NamedTuple):
    """The end of a producer's transaction, for any partition."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int

    @property
    def has_raised_epoch(self) -> bool:
        """Whether the epoch is above that of the transaction's batches."""
        return self.transaction_version >= RAISES_EPOCHS

    @property
    def record(self) -> control.Marker:
        """The content of the control batch."""
        return control.Marker(self.is_commit, self.coordinator_epoch)


Check = Callable[[GroupShard], None]
"""Raises KafkaError if a marker would commit offsets of the shard that the other store does not have."""


class OtherStore(Protocol):
    """A second store of offsets, which gets those of a transaction before the marker."""

    def before_marker(self, index: int, producer_id: int, locks: ExitStack) -> Check | Task[Check]:
        """Lock the producer's pending offsets of a partition, and write them to the store.

        The marker's decision calls the check, which is the result alone if there are no such offsets. The caller
        releases `locks` once the marker is appended. Raises KafkaError, as the task does.
        """


class PartitionMarkers:
    """Writes markers into the partitions that this broker leads."""

    def __init__(
        self,
        services: CoordinatorServices,
        partitions: ReplicaManager,
        groups: GroupCoordinator,
        other_store: OtherStore | None = None,
    ) -> None:
        self._services = services
        self._partitions = partitions
        self._groups = groups
        self._other_store = other_store
        self._staged: list[tuple[WritableTxnMarkerPartitionResult, Written]] = []

    def append(self, marker: Marker, topic: str, index: int, resume: Written) -> None:
        """Append a marker to a partition. Never raises; `write_staged` has to follow in the same callback.

        The errors: those of `ReplicaManager.get` and of an append, INVALID_PRODUCER_EPOCH and
        TRANSACTION_COORDINATOR_FENCED for a marker of the past.
        """
        try:
            if topic == CONSUMER_OFFSETS:
                self._end_in_group_shard(marker, index, resume)
            else:
                self._append(marker, topic, index, resume)
        except (KafkaError, OSError) as error:
            resume(_error_of(error))

    def write_staged(self) -> None:
        self._services.batcher.write_all()
        staged, self._staged = self._staged, []
        for row, resume in staged:
            resume(_error_of(KafkaError(ErrorCode(row.error_code)) if row.error_code else None))

    def _append(self, marker: Marker, topic: str, index: int, resume: Written) -> None:
        replica, now_ms, record = self._partitions.get(topic, index), self._services.clock.now_ms(), marker.record
        batch = control.build(
            record, producer_id=marker.producer_id, producer_epoch=marker.producer_epoch, timestamp=now_ms
        )
        data, facts = memoryview(batch), BatchFacts(record, marker.has_raised_epoch)
        writer = replica.writer()
        if writer is not None:
            writer.append(data, ACKS_ALL, now_ms, _append_of(replica, resume).end_write, BROKER, facts)
            return
        info = replica.stage_fresh(data, facts, now_ms)
        staged = replica.log.staged
        assert staged is not None  # a marker is small
        if replica.commits_at_write:
            row = WritableTxnMarkerPartitionResult(index, ErrorCode.NONE)
            self._services.batcher.promise(replica, staged, partial(_refuse, row))
            self._staged.append((row, resume))
        else:
            self._services.batcher.await_write(staged, _append_of(replica, resume), info)

    def _end_in_group_shard(self, marker: Marker, index: int, resume: Written) -> None:
        if self._other_store is None or not marker.is_commit:
            self._decide_in_group_shard(marker, index, resume)
            return
        locks = ExitStack()
        outcome = self._other_store.before_marker(index, marker.producer_id, locks)
        if not is_task(outcome):
            self._decide_in_group_shard(marker, index, resume, cast("Check", outcome))
            return

        def ended(result: Exception | None) -> None:
            if result is not None:
                resume(_error_of(result))

        self._services.tasks.start(self._end_in_both_stores(outcome, locks, marker, index, resume), ended)

    def _end_in_both_stores(
        self, before: Task[Check], locks: ExitStack, marker: Marker, index: int, resume: Written
    ) -> Task[None]:
        with locks:
            check = yield from before
            self._decide_in_group_shard(marker, index, resume, check)
            self.write_staged()

    def _decide_in_group_shard(self, marker: Marker, index: int, resume: Written, check: Check | None = None) -> None:
        row = WritableTxnMarkerPartitionResult(index, ErrorCode.NONE)

        def decide(shard: GroupShard, ticket: Ticket) -> Decision:
            if check is not None:
                check(shard)
            producer = ProducerIdAndEpoch(marker.producer_id, marker.producer_epoch)
            return Decision(
                replies=[(ticket, row)],
                producer=producer,
                marker=marker.record,
                has_raised_epoch=marker.has_raised_epoch,
            )

        outcome = self._groups.submit_to(index, "", decide, partial(WritableTxnMarkerPartitionResult, index))
        if is_task(outcome):
            self._services.tasks.start(outcome, lambda reply: resume(_error_of(reply)))
        else:  # the write may be staged, and change the row when it fails
            self._staged.append((row, resume))


def _append_of(replica: Replica, resume: Written) -> Append:
    return Append(replica, ACKS_ALL, lambda ended: resume(_error_of(ended.error)))


def _refuse(row: WritableTxnMarkerPartitionResult, error: ErrorCode, _: str | None) -> None:
    row.error_code = error


def _error_of(result: object) -> KafkaError | None:
    """The error in a result, as a transaction coordinator knows it; None for a result without an error."""
    if not isinstance(result, Exception):
        return None
    if isinstance(result, OSError):
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(result))
    if not isinstance(result, KafkaError):
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(result))
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, result.message) if result.code in _NOT_READY else result
