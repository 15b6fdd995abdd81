"""The batch cleaner: each batch of a log stays, becomes a batch with fewer records, or is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import Buffer, batch, compression, record_filter
from headgate.protocol.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_SIZE,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    NO_TIMESTAMP,
    BatchHeader,
)
from headgate.protocol.steps import Steps
from headgate.storage.cleanup.compaction import planning
from headgate.storage.cleanup.compaction.batches import kind, records
from headgate.storage.cleanup.compaction.compaction_job import Job
from headgate.storage.cleanup.compaction.keys import Keys
from headgate.storage.cleanup.compaction.planning import BatchRetention, LastBatch
from headgate.storage.config import LONG_MAX
from headgate.storage.segment.transaction_index import NO_OFFSET


@dataclass(slots=True)
class Counts:
    """The counts of records read, records kept, and undecodable batches."""

    records: int = 0
    kept_records: int = 0
    unreadable_batches: int = 0


class BatchCleaner:
    """Cleans all batches of a job up to `end_offset`, in their order. The caller may reset `counts`."""

    def __init__(self, job: Job, keys: Keys, end_offset: int) -> None:
        self._job = job
        self._keys = keys
        self._transactions = job.transactions_since(0)
        self._producers = {producer_id: LastBatch(*last) for producer_id, *last in job.producers}
        # Producer -> first offset of an aborted transaction that ends at or behind `end_offset`. Its records stay;
        # otherwise the transaction index of a later segment would name missing records.
        self._retained_aborts = {
            producer_id: first for producer_id, first, marker in job.aborted if first < end_offset <= marker
        }
        self.counts = Counts()

    def clean(self, header: BatchHeader, view: memoryview, *, is_last_of_group: bool) -> Steps[Buffer | None]:
        """Clean a batch. Returns `view` itself if the batch stays unchanged, None to drop it. Yields now and then."""
        has_nothing_to_mark = False
        if header.is_control:
            has_nothing_to_mark = self._transactions.marker_may_go(header, kind(header, view))
            may_go = has_nothing_to_mark and self._has_passed_horizon(header)
        else:
            may_go = self._transactions.may_go(header)
            if may_go and self._retained_aborts.get(header.producer_id, NO_OFFSET) <= header.base_offset:
                return self._whole(header, view)
        last = self._producers.get(header.producer_id)
        if header.last_offset >= self._keys.last_offsets.get(header.producer_id, NO_OFFSET):
            last = LastBatch(header.producer_epoch, header.last_offset)
        retention = planning.batch_retention(
            header, records_may_go=may_go, is_last_of_group=is_last_of_group, last=last
        )
        if not header.records_count:
            return None if retention in {BatchRetention.DROP, BatchRetention.FILTER} else view
        if retention in {BatchRetention.DROP, BatchRetention.EMPTY}:
            self.counts.records += header.records_count
            return None if retention is BatchRetention.DROP else _empty(header)
        if header.is_control:
            begins_delay = has_nothing_to_mark and header.delete_horizon_ms is None
            made = (yield from self._with_horizon(header, view)) if begins_delay else view
            return self._whole(header, made)
        return (yield from self._filter(header, view, retention))

    def _whole(self, header: BatchHeader, data: Buffer) -> Buffer:
        """Count a batch that keeps all of its records."""
        self.counts.records += header.records_count
        self.counts.kept_records += header.records_count
        return data

    def _has_passed_horizon(self, header: BatchHeader) -> bool:
        """Whether the delete horizon has passed, until which tombstones and markers stay visible."""
        horizon = header.delete_horizon_ms
        return horizon is not None and horizon <= self._job.now_ms

    def _filter(self, header: BatchHeader, view: memoryview, retention: BatchRetention) -> Steps[Buffer | None]:
        """The batch without removable records; the batch itself if it cannot be decoded."""
        keys = self._keys
        try:
            if keys.is_plain(header):
                made, count = yield from self._pick(header, view, keys.survivors(header))
            else:
                made, count = yield from self._look_up(header, view)
        except KafkaError:
            self.counts.unreadable_batches += 1
            return self._whole(header, view)
        self.counts.records += header.records_count
        self.counts.kept_records += count
        return _empty(header) if made is None and retention is BatchRetention.FILTER_KEEP else made

    def _pick(self, header: BatchHeader, view: memoryview, offsets: Sequence[int]) -> Steps[tuple[Buffer | None, int]]:
        """The batch with the records at these offsets, and their number. Most batches need no decompression."""
        if not offsets:
            return None, 0
        if len(offsets) == header.records_count:
            return view, len(offsets)
        kept = yield from record_filter.retain_offsets_steps(header, records(header, view), offsets)
        body = b"".join(kept.parts)
        return (yield from self._rebuild(header, body, kept.count, begins_delay=False)), kept.count

    def _look_up(self, header: BatchHeader, view: memoryview) -> Steps[tuple[Buffer | None, int]]:
        """The batch with the last record of each key, and the number of records. Raises KafkaError."""
        table = None if header.base_offset > self._keys.latest else self._keys.table
        kept = yield from record_filter.filter_steps(
            header, records(header, view), table, keeps_tombstones=not self._has_passed_horizon(header)
        )
        begins_delay = kept.tombstones > 0 and header.delete_horizon_ms is None
        if not kept.count:
            return None, 0
        if kept.count == header.records_count and not begins_delay:
            return view, kept.count
        body = b"".join(kept.parts)
        return (yield from self._rebuild(header, body, kept.count, begins_delay=begins_delay)), kept.count

    def _with_horizon(self, header: BatchHeader, view: memoryview) -> Steps[Buffer]:
        """The marker with its delete horizon."""
        body = bytes(view[HEADER_SIZE:])
        return (yield from self._rebuild(header, body, header.records_count, begins_delay=True))

    def _rebuild(self, header: BatchHeader, body: bytes, count: int, *, begins_delay: bool) -> Steps[Buffer]:
        """The batch with `count` records in `body`. `begins_delay` sets the delete horizon, counted from now.

        Raises KafkaError for timestamps that a header cannot hold.
        """
        newest = record_filter.max_timestamp(header, body, count)
        if not MIN_TIMESTAMP <= newest <= MAX_TIMESTAMP:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"a record has the timestamp {newest}")
        base_timestamp, attributes = header.base_timestamp, header.attributes
        if begins_delay:
            horizon = min(self._job.now_ms + self._job.delete_retention_ms, LONG_MAX)
            body = yield from record_filter.shift_timestamps_steps(body, count, base_timestamp - horizon)
            base_timestamp, attributes = horizon, attributes | DELETE_HORIZON
        codec = header.compression
        packed: Buffer = body
        if codec != compression.NONE:
            packed = yield from compression.compress_steps(codec, body, self._job.levels[codec])
        return batch.with_records(
            header._replace(
                attributes=attributes, base_timestamp=base_timestamp, max_timestamp=newest, records_count=count
            ),
            packed,
        )


def _empty(header: BatchHeader) -> bytearray:
    """A batch without records, which keeps the offsets and the producer state. Source: Kafka's `writeEmptyHeader`."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return batch.with_records(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0), b"")
