"""Appends to a log as a follower: the batches of the leader's log, byte by byte.

Offsets, leader epochs and CRCs are the leader's. Compaction of the leader leaves gaps between batches; the last batch
of an answer may be cut. Producers, transactions, leader epochs, indexes and rolls follow as after a leader's append.
Source: Apache Kafka's `UnifiedLog.appendAsFollower` and `analyzeAndValidateRecords`.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import MAGIC, NO_PRODUCER_ID, NO_TIMESTAMP, BatchHeader, corrupt
from headgate.storage.log import appending, rolling
from headgate.storage.log.log import Log
from headgate.storage.log.pending_write import AppendInfo, Owner, PendingWrite
from headgate.storage.segment import legacy_messages
from headgate.storage.segment.index import MAX_RELATIVE_OFFSET

ANY_EPOCH = 0x7FFF_FFFF


class UnexpectedAppendOffset(KafkaError):
    """The leader's batches begin below the end of the log: at `first_offset`, up to `last_offset`.

    An empty log that begins within the first batch has to begin again at `first_offset`: see
    `storage.recovery.log_truncation.begin_again`. Source: Kafka's `UnexpectedAppendOffsetException`.
    """

    def __init__(self, log: Log, first_offset: int, last_offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Unexpected offset in append to {log.name}. First offset {first_offset} is less than the next offset "
            f"{log.end_offset}. Last offset in append: {last_offset}. Log start offset = {log.start_offset}",
        )
        self.first_offset, self.last_offset = first_offset, last_offset


class FollowerAppend:
    """The whole batches of an answer, up to the first of an epoch above `leader_epoch`, checked; not written so far."""

    def __init__(self, log: Log, records: memoryview, leader_epoch: int = ANY_EPOCH) -> None:
        """`records` must not change until the last write.

        Raises UnexpectedAppendOffset; KafkaError: CORRUPT_MESSAGE for a batch with a wrong CRC, size or offset.
        """
        self._log = log
        self._records = records
        self._headers = _sound_batches(log, records, leader_epoch)
        self._number = self._position = 0

    @property
    def is_staged(self) -> bool:
        """Whether no batch is left to be staged."""
        return self._number == len(self._headers)

    def write(self, now_ms: int, owner: Owner | None = None) -> None:
        """Write all batches. Raises KafkaError(KAFKA_STORAGE_ERROR): the log then has those before its end offset."""
        while not self.is_staged:
            self.stage(now_ms, owner)
            appending.write_staged(self._log)

    def stage(self, now_ms: int, owner: Owner | None = None) -> AppendInfo:
        """Stage the next batches, as many as one write takes; a roll or a new leader epoch comes before them.

        Raises KafkaError(KAFKA_STORAGE_ERROR), and what `owner.run_roll` raises: then no batch was staged.
        """
        log, first = self._log, self._headers[self._number]
        size = min(first.size, log.config.segment_bytes)  # a larger batch was within the leader's limit
        epoch = first.partition_leader_epoch
        staged = appending.make_room(log, size, first.max_timestamp, first.last_offset, now_ms, epoch, owner)
        together = self._headers[self._number : self._number + _fitting(log, self._headers, self._number, now_ms)]
        end = self._position + sum(header.size for header in together)
        _stage(log, staged, together, self._records[self._position : end])
        self._number, self._position = self._number + len(together), end
        last_offset, timestamp = together[-1].last_offset, max(header.max_timestamp for header in together)
        return AppendInfo(first.base_offset, last_offset, NO_TIMESTAMP, log.start_offset, timestamp, False)


def _sound_batches(log: Log, records: memoryview, leader_epoch: int) -> list[BatchHeader]:
    """The headers of the whole batches, each checked. Raises as `FollowerAppend`."""
    headers: list[BatchHeader] = []
    position, next_offset = 0, log.end_offset
    while (size := legacy_messages.size_at(records, position)) is not None and position + size <= len(records):
        header = legacy_messages.read_head(records, position)
        if header.partition_leader_epoch > leader_epoch:
            break
        if header.base_offset < next_offset and not headers:
            raise UnexpectedAppendOffset(log, header.base_offset, header.last_offset)
        last_offset = header.last_offset
        _check(header, last_offset, records[position : position + size], next_offset)
        headers.append(header)
        position, next_offset = position + size, last_offset + 1
    return headers


def _check(header: BatchHeader, last_offset: int, view: memoryview, next_offset: int) -> None:
    """Check one batch. No checksum covers its base offset."""
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        raise corrupt(f"{_name(header)} does not follow offset {next_offset - 1}")
    if last_offset - next_offset > MAX_RELATIVE_OFFSET:
        raise corrupt(f"{_name(header)} is too far from offset {next_offset}, the next one")
    if not legacy_messages.check_crc(view):
        raise corrupt(f"the CRC of {_name(header)} is wrong")


def _name(header: BatchHeader) -> str:
    return f"the batch with offsets {header.base_offset} to {header.last_offset}"


def _fitting(log: Log, headers: Sequence[BatchHeader], number: int, now_ms: int) -> int:
    """How many batches from a number on go into the active segment with one write; at least one."""
    config, active, first = log.config, log.segments.active, headers[number]
    if not active.size:  # its age begins with the first batch
        return 1
    longest_ms, size, count = rolling.max_age_ms(log), first.size, 1
    for header in headers[number + 1 :]:
        size += header.size
        if (
            rolling.is_due(active, config, longest_ms, size, header.max_timestamp, header.last_offset, now_ms)
            or active.is_full(config.segment_index_bytes, count)
            or header.partition_leader_epoch > log.epochs.latest
            or header.magic != first.magic
        ):
            break
        count += 1
    return count


def _stage(log: Log, staged: PendingWrite, headers: Sequence[BatchHeader], view: memoryview) -> None:
    """Stage batches that are written together."""
    if headers[0].magic < MAGIC:
        log.segments.active.has_legacy_format = True
        log.epochs.forget_behind(0)  # messages have no epoch: without entries a follower truncates by the watermark
    staged.is_replicated = True
    position = 0
    for header in headers:
        if header.producer_id != NO_PRODUCER_ID:
            staged.remember(log.producers, header.producer_id)
            appending.record_producer(log, header, header.base_offset, view[position : position + header.size], staged)
        position += header.size
    staged.add_run(view, [(header.size, header.last_offset, header.max_timestamp) for header in headers])
    log.end_offset = headers[-1].last_offset + 1
