"""The keys of a log's dirty part, each with its last offset; they decide which records of a batch survive.

For most batches of the dirty part the offsets alone decide: each record with the last offset of a key survives. The
records of the clean part are looked up by key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import record_filter
from headgate.protocol.records.batch import BatchHeader
from headgate.protocol.steps import Steps
from headgate.storage.cleanup.compaction.batches import Batches, kind, records
from headgate.storage.cleanup.compaction.compaction_job import Job
from headgate.storage.cleanup.compaction.planning import CleanedTransactions, SegmentFacts
from headgate.storage.segment.transaction_index import NO_OFFSET

MAX_NOT_PLAIN = 100_000


class Keys:
    """The keys of a job, after `collect`. `latest`: the last collected offset.

    `last_offsets`: unsafe producer -> last offset of its last batch of records in the collected part, -1 for none.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._capacity = max(1, job.table_bytes // record_filter.ENTRY_BYTES)
        self.table: record_filter.OffsetMap = {}
        self.latest = job.first_dirty - 1
        self.last_offsets = dict.fromkeys(job.unsafe_producers, -1)
        # The surviving offsets of the dirty part, and the base offsets of the batches that these offsets do not decide:
        # batches that did not count, and batches with tombstones. If they are too many, all later batches count so.
        self._survivors: list[int] = []
        self._not_plain: set[int] = set()
        self._plain_until = NO_OFFSET

    def collect(self, batches: Batches) -> Steps[None]:
        """Collect the keys of the dirty part, as far as the table has room; yields often. Raises OSError, Damaged.

        Records of aborted transactions do not count.
        """
        first_dirty = self._job.first_dirty
        transactions = self._job.transactions_since(first_dirty)
        for facts, end in self._job.ended:
            if end > first_dirty:
                if (yield from self._collect(facts, batches, transactions)):
                    break
                self.latest = end - 1
        self._survivors = sorted(self.table.values())

    def _collect(self, facts: SegmentFacts, batches: Batches, transactions: CleanedTransactions) -> Steps[bool]:
        """Collect the keys of one segment. Returns whether the table became full."""
        for header, view, _ in batches.of(facts):
            if header.last_offset < self._job.first_dirty:
                continue
            if header.is_control:
                transactions.marker_may_go(header, kind(header, view))
            elif transactions.may_go(header):
                self._note_not_plain(header)
            elif header.records_count:
                found = yield from self._key_offsets(header, view)
                if not self._has_room(found.table):
                    return True
                self.table.update(found.table)
                if not found.is_plain:
                    self._note_not_plain(header)
            self.latest = header.last_offset
            if header.producer_id in self.last_offsets and not header.is_control:
                self.last_offsets[header.producer_id] = header.last_offset
            yield
        return False

    def _key_offsets(self, header: BatchHeader, view: memoryview) -> Steps[record_filter.KeyOffsets]:
        try:
            return (yield from record_filter.key_offsets_steps(header, records(header, view)))
        except KafkaError:
            return record_filter.KeyOffsets({}, is_plain=False)

    def _has_room(self, more: record_filter.OffsetMap) -> bool:
        """Whether more keys fit. An empty table takes any single batch, or compaction would never advance."""
        table = self.table
        if not table or len(table) + len(more) <= self._capacity:
            return True
        return len(table) + sum(key not in table for key in more) <= self._capacity

    def _note_not_plain(self, header: BatchHeader) -> None:
        if len(self._not_plain) < MAX_NOT_PLAIN:
            self._not_plain.add(header.base_offset)
        else:
            self._plain_until = min(self._plain_until, header.base_offset)

    @property
    def share(self) -> float:
        """The used share of the key table, 0 to 1."""
        return len(self.table) / self._capacity

    # Decisions

    def is_plain(self, header: BatchHeader) -> bool:
        """Whether the offsets of survivors alone decide about this batch."""
        base_offset = header.base_offset
        is_collected = header.last_offset >= self._job.first_dirty and base_offset <= self.latest
        return is_collected and base_offset < self._plain_until and base_offset not in self._not_plain

    def survivors(self, header: BatchHeader) -> Sequence[int]:
        """The offsets of a plain batch's surviving records."""
        survivors = self._survivors
        first = bisect_left(survivors, header.base_offset)
        return survivors[first : bisect_right(survivors, header.last_offset, first)]
