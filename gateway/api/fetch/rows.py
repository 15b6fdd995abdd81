"""The rows of a fetch: each is one partition, with a piece of a segment file, or with an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.gateway.api.broker_endpoints import leader_of
from headgate.gateway.api.refusals import known_code, refusal
from headgate.gateway.replication.replica import LOG_END, READ_COMMITTED, Replica
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import AbortedTransaction, EpochEndOffset, FetchPartition, PartitionData
from headgate.protocol.messages.produce import LeaderIdAndEpoch, NodeEndpoint
from headgate.storage.segment.file_slice import FileSlice

if TYPE_CHECKING:
    from headgate.gateway.api.context import HandlerContext
    from headgate.gateway.api.fetch_sessions import TopicKey
    from headgate.gateway.api.transactions.default_isolation import IsolationOf
    from headgate.gateway.replication.progress import FollowerFetch
    from headgate.gateway.runtime.tasks import WaitList

_BLANK = PartitionData()
# The default instances: the writer skips them without a look at their fields.
NO_LEADER, NO_SNAPSHOT, NO_DIVERGENCE = _BLANK.current_leader, _BLANK.snapshot_id, _BLANK.diverging_epoch
NO_ENDPOINTS: list[NodeEndpoint] = []

HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""The errors with a leader hint (KIP-951)."""
STORAGE_ERROR_SINCE = 6
"""The first version that has KAFKA_STORAGE_ERROR (KIP-112)."""


class PartitionReader:
    """Reads partitions for one fetch."""

    __slots__ = (
        "_context",
        "_isolation_of",
        "_partitions",
        "endpoints",
        "follower",
        "is_urgent",
        "isolation_level",
        "replica",
    )

    def __init__(self, context: HandlerContext, isolation_level: int, isolation_of: IsolationOf | None = None) -> None:
        """`isolation_of`: the level for each partition, of a client that cannot ask for one."""
        self._context = context
        self._partitions = context.broker.partitions
        self._isolation_of = isolation_of
        self.follower: FollowerFetch | None = None
        """The sender of the fetch, if a broker sends it to replicate."""
        self.isolation_level = isolation_level
        """The level for the partition that was found last."""
        self.replica: Replica | None = None
        """The partition of the last row; None if that row has an error."""
        self.is_urgent = False
        """Whether a row must be sent without a wait: it has an error or a diverging epoch."""
        self.endpoints = NO_ENDPOINTS
        """The leaders that rows name."""

    def read(
        self, key: TopicKey, wanted: FetchPartition, max_bytes: int, is_first: bool, blocking: bool = True
    ) -> PartitionData:
        """Read one partition; an error or a diverging epoch sets `is_urgent`.

        Raises WouldBlock if not `blocking`.
        """
        diverging, records, self.replica = NO_DIVERGENCE, None, None
        aborted: list[AbortedTransaction] = []
        offset = wanted.fetch_offset
        try:
            replica = self.find(key, wanted.partition)
            if wanted.current_leader_epoch != -1:
                replica.check_leader_epoch(wanted.current_leader_epoch)
            epoch, log = wanted.last_fetched_epoch, replica.log
            # Without a call if the client has the latest epoch, and no record that this log lacks
            if epoch >= 0 and not (epoch == log.epochs.latest <= replica.leader_epoch and offset <= log.end_offset):
                diverging = _diverging(replica, wanted)
            if self.follower is not None and diverging is NO_DIVERGENCE:
                in_sync_replicas = self._partitions.leadership.in_sync_replicas
                in_sync_replicas.note_fetch(replica, self.follower, offset, wanted.log_start_offset)
            if diverging is not NO_DIVERGENCE:
                self.is_urgent = True
            elif max_bytes > 0 or is_first:
                records = replica.read(offset, max_bytes, self.isolation_level, is_first, blocking)
                if self.isolation_level == READ_COMMITTED and records and log.has_transactions:
                    ranges = replica.aborted(offset, records, blocking)
                    aborted = [AbortedTransaction(*transaction) for transaction in ranges]
        except (KafkaError, OSError) as error:
            return self._refused(key, wanted, error)
        self.replica = replica
        return PartitionData(
            wanted.partition,
            ErrorCode.NONE,
            replica.high_watermark,
            replica.last_stable_offset,
            log.start_offset,
            diverging,
            NO_LEADER,
            NO_SNAPSHOT,
            aborted,
            -1,
            b"" if records is None else records,
        )

    def serve_follower(self, follower: FollowerFetch) -> None:
        """Read to the end of the log, for a broker that replicates it; its offsets say what it has."""
        self.follower, self._isolation_of, self.isolation_level = follower, None, LOG_END

    def waiters(self, replica: Replica) -> WaitList:
        """The list that is touched when the partition may have more for this fetch."""
        if self.follower is None or replica.progress is None:
            return replica.waiters
        return replica.progress.waiters

    def count_out(self, key: TopicKey, index: int, size: int) -> None:
        """Count bytes of records that are about to be sent: for their partition, or as replicated."""
        partitions = self._partitions
        if self.follower is not None:
            partitions.replicated_bytes_out += size
            return
        topic = key if isinstance(key, str) else self._topic(key)
        replica = partitions.online.get((topic, index))
        if replica is not None:
            replica.log.count_read(size)
            client = self._context.client
            if topic not in client.topics_read:
                client.note_read(topic)

    def find(self, key: TopicKey, index: int) -> Replica:
        """The partition; sets `isolation_level`. Raises KafkaError."""
        partitions = self._partitions
        partition = partitions.get(key if isinstance(key, str) else partitions.topic_name(key), index)
        if self._isolation_of is not None:
            self.isolation_level = self._isolation_of(partition)
        return partition

    def refuse_records(
        self, key: TopicKey, wanted: FetchPartition, row: PartitionData, error: KafkaError | OSError
    ) -> None:
        """Let a row have an error in place of records that cannot be converted."""
        self.is_urgent = True
        code = self._known(refusal(self._context.broker, error, self._topic(key), wanted.partition)[0])
        # Fetching clients have one error for unreadable records, whatever the cause.
        row.error_code = ErrorCode.CORRUPT_MESSAGE if isinstance(error, KafkaError) else code
        replace_records(row, b"")

    def _refused(self, key: TopicKey, wanted: FetchPartition, error: KafkaError | OSError) -> PartitionData:
        self.is_urgent = True
        self._context.broker.note_failure(self._context.client, "Fetch", self._topic(key), error)
        code, _ = refusal(self._context.broker, error, self._topic(key), wanted.partition)
        row = PartitionData(wanted.partition, code, -1, records=b"")
        if code in HINTED:
            topic = key if isinstance(key, str) else self._partitions.topic_name(key)
            leader_id, leader_epoch, endpoint = leader_of(self._context, topic, wanted.partition)
            row.current_leader = LeaderIdAndEpoch(leader_id, leader_epoch)
            if endpoint is not None and endpoint.node_id not in [known.node_id for known in self.endpoints]:
                self.endpoints = [*self.endpoints, NodeEndpoint(*endpoint)]
        else:
            row.error_code = self._known(code)
        return row

    def _topic(self, key: TopicKey) -> str:
        """The topic name of a key; empty if the topic is unknown."""
        if isinstance(key, str):
            return key
        try:
            return self._partitions.topic_name(key)
        except KafkaError:
            return ""

    def _known(self, code: ErrorCode) -> ErrorCode:
        return known_code(code, self._context.version, STORAGE_ERROR_SINCE)


def release(row: PartitionData) -> None:
    """Release the file of a row that is not sent."""
    if isinstance(row.records, FileSlice):
        row.records.release()


def release_all(rows: list[PartitionData]) -> None:
    """Release the files of rows that are not sent."""
    for row in rows:
        release(row)


def replace_records(row: PartitionData, records: bytes | bytearray) -> None:
    """Send these bytes instead of the piece."""
    release(row)
    row.records = records


def _diverging(replica: Replica, wanted: FetchPartition) -> EpochEndOffset:
    """Where the client's log diverges from this leader's; NO_DIVERGENCE if it does not (KIP-595).

    Raises KafkaError(OFFSET_OUT_OF_RANGE) for an epoch that this leader does not know, as Kafka does.
    """
    epoch, end_offset = replica.end_offset_for(wanted.last_fetched_epoch)
    if epoch < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"leader epoch {wanted.last_fetched_epoch} is unknown")
    if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return NO_DIVERGENCE
    return EpochEndOffset(epoch=epoch, end_offset=end_offset)
