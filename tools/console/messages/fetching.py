"""Pieces of partitions from their leaders, with what the brokers say about transactions.

Only a fetch with read_committed names the aborted transactions, and it ends at the last stable offset. So
records before this offset are fetched with read_committed by every reader, and those behind it with read_uncommitted.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.list_offsets import EARLIEST
from headgate.protocol.topic_partition import TopicPartition
from headgate.storage.segment.legacy_messages import read_head
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Answers, Cluster
from headgate.tools.console.messages.record_batches import FetchedPiece
from headgate.tools.groups.offsets import CONSUMER_REPLICA_ID, READ_COMMITTED, READ_UNCOMMITTED, list_offsets

_NEWEST_WITH_NAMES: Final = 12
_OLDEST_WITH_TRANSACTIONS: Final = 4  # Kafka 0.11
_LARGEST_BATCH_BYTES: Final = 128 << 20
_LONGEST_PAUSE_S: Final = 5.0


class PieceFetcher:
    """Fetches pieces of one topic's partitions."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        stable: Mapping[int, int],
        *,
        is_committed: bool,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`stable`: the last stable offsets of partitions. `is_committed`: nothing behind them is fetched."""
        self._cluster = cluster
        self._topic = topic
        self._stable = dict(stable)
        self._is_committed = is_committed
        self._sleep = sleep

    def fetch(
        self, offsets: Mapping[int, int], partition_bytes: int
    ) -> tuple[dict[int, FetchedPiece], dict[int, Failure]]:
        """A piece for each partition, from its offset on; failures by partition. Raises ClientError."""
        wanted = {TopicPartition(self._topic, number): offset for number, offset in offsets.items()}

        def ask(client: Client, partitions: list[TopicPartition]) -> Answers[TopicPartition, FetchedPiece]:
            return self._ask(client, {partition.number: wanted[partition] for partition in partitions}, partition_bytes)

        found, failed = self._cluster.ask_leaders(wanted, ask)
        return (
            {partition.number: piece for partition, piece in found.items()},
            {partition.number: failure for partition, failure in failed.items()},
        )

    def _ask(
        self, client: Client, offsets: dict[int, int], partition_bytes: int
    ) -> Iterator[tuple[TopicPartition, FetchedPiece | Failure]]:
        """The pieces of one leader's partitions; one without a whole batch is fetched again alone."""
        by_isolation: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for number, offset in offsets.items():
            is_stable = self._is_committed or offset < self._stable.get(number, 0)
            by_isolation[READ_COMMITTED if is_stable else READ_UNCOMMITTED][number] = offset
        for isolation, part in by_isolation.items():
            pieces = self._send(client, part, isolation, partition_bytes)
            for number, offset in part.items():
                piece = pieces.get(number)
                if piece is None or (isinstance(piece, FetchedPiece) and not _has_batch(piece)):
                    piece = self._ask_alone(client, number, offset, isolation, partition_bytes)
                yield TopicPartition(self._topic, number), piece

    def _ask_alone(
        self, client: Client, number: int, offset: int, isolation: int, partition_bytes: int
    ) -> FetchedPiece | Failure:
        """A broker sends the first batch whole, whatever its size (KIP-74)."""
        piece = self._send(client, {number: offset}, isolation, partition_bytes).get(number)
        if piece is None:
            return Failure(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the broker throttles the reader")
        if isinstance(piece, Failure) or _has_batch(piece):
            return piece
        if not piece.data:
            return piece._replace(is_last=True)
        try:
            size = read_head(piece.data).size
        except KafkaError:
            size = 0
        if partition_bytes < size <= _LARGEST_BATCH_BYTES:
            return self._ask_alone(client, number, offset, isolation, size)
        return Failure(ErrorCode.CORRUPT_MESSAGE, f"at offset {offset} the broker sends a part of a batch only")

    def _send(
        self, client: Client, offsets: Mapping[int, int], isolation: int, partition_bytes: int
    ) -> dict[int, FetchedPiece | Failure]:
        version = client.version(FetchRequest, newest=_NEWEST_WITH_NAMES, oldest=_OLDEST_WITH_TRANSACTIONS)
        partitions = [
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=partition_bytes)
            for number, offset in offsets.items()
        ]
        request = FetchRequest(
            replica_id=CONSUMER_REPLICA_ID,
            max_bytes=partition_bytes * len(partitions),
            isolation_level=isolation,
            topics=[FetchTopic(topic=self._topic, partitions=partitions)],
        )
        answer = client.ask(request, version)
        if answer.throttle_time_ms > 0:
            self._sleep(min(answer.throttle_time_ms / 1000, _LONGEST_PAUSE_S))
        if answer.error_code:
            failure = Failure.of(answer.error_code)
            return dict.fromkeys(offsets, failure)
        rows = [row for topic in answer.responses for row in topic.partitions if row.partition_index in offsets]
        is_empty = not any(row.records or row.error_code for row in rows)
        if is_empty and answer.throttle_time_ms > 0:
            return {}
        return {row.partition_index: self._piece(row, offsets[row.partition_index], isolation) for row in rows}

    def _piece(self, row: Any, offset: int, isolation: int) -> FetchedPiece | Failure:
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._piece_after_deletion(row.partition_index, offset)
        if row.error_code:
            return Failure.of(row.error_code)
        if row.last_stable_offset >= 0:
            self._stable[row.partition_index] = row.last_stable_offset
        aborted = None
        if isolation == READ_COMMITTED:
            aborted = [(each.producer_id, each.first_offset) for each in row.aborted_transactions or ()]
        ends = row.log_start_offset, row.last_stable_offset, row.high_watermark
        return FetchedPiece(offset, row.records or b"", aborted, *ends)

    def _piece_after_deletion(self, number: int, offset: int) -> FetchedPiece | Failure:
        """Nothing, up to the new start: retention has deleted the offset meanwhile."""
        partition = TopicPartition(self._topic, number)
        starts, failed = list_offsets(self._cluster, [partition], EARLIEST)
        if partition in failed:
            return failed[partition]
        if starts[partition] <= offset:
            return Failure(ErrorCode.OFFSET_OUT_OF_RANGE, f"the partition ends before offset {offset}")
        return FetchedPiece(offset, b"", (), starts[partition], -1, -1)


def _has_batch(piece: FetchedPiece) -> bool:
    """Whether the piece brings its reader forward."""
    if piece.start_offset > piece.offset:
        return True
    try:
        return len(piece.data) > 0 and read_head(piece.data).size <= len(piece.data)
    except KafkaError:
        return len(piece.data) > 64  # damage: the reader names it
