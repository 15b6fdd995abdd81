"""The keys of a log's dirty part, each with its last offset, and what they say of a batch.

The offsets alone tell most batches of the dirty part: those are the records that are left of it. A record of the clean
part is looked up by its key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import record_filter
from headgate.protocol.records.batch import BatchHeader
from headgate.protocol.steps import Steps
from headgate.storage.cleanup.compaction.batches import Batches, kind, records
from headgate.storage.cleanup.compaction.job import Job
from headgate.storage.cleanup.compaction.planning import CleanedTransactions, SegmentFacts
from headgate.storage.segment.transaction_index import NO_OFFSET

MOST_UNPLAIN = 100_000


class Keys:
    """The keys of a job, once they are collected. `latest`: the last offset up to which that went.

    `last_offsets`: of each of the job's unsafe producers the end of its last batch of records in that part.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._capacity = max(1, job.table_bytes // record_filter.ENTRY_BYTES)
        self.table: record_filter.OffsetMap = {}
        self.latest = job.first_dirty - 1
        self.last_offsets = dict.fromkeys(job.unsafe_producers, -1)
        # What is left of the dirty part, and the batches of it of which that does not tell all: those that did not
        # count, and those with deletions. Where they are too many, they are all of one kind.
        self._survivors: list[int] = []
        self._unplain: set[int] = set()
        self._plain_until = NO_OFFSET

    def collect(self, batches: Batches) -> Steps[None]:
        """The keys of the dirty part, or of as much of it as there is room for; yields often. Raises OSError, Damaged.

        Records of aborted transactions do not count, as they stand for nothing.
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
        """Take up the keys of one segment; whether it ended before because there was no more room."""
        for header, view, _ in batches.of(facts):
            if header.last_offset < self._job.first_dirty:
                continue
            if header.is_control:
                transactions.marker_may_go(header, kind(header, view))
            elif transactions.may_go(header):
                self._note_unplain(header)
            elif header.records_count:
                found = yield from self._found(header, view)
                if not self._has_room(found.table):
                    return True
                self.table.update(found.table)
                if not found.is_plain:
                    self._note_unplain(header)
            self.latest = header.last_offset
            if header.producer_id in self.last_offsets and not header.is_control:
                self.last_offsets[header.producer_id] = header.last_offset
            yield
        return False

    def _found(self, header: BatchHeader, view: memoryview) -> Steps[record_filter.KeyOffsets]:
        try:
            return (yield from record_filter.key_offsets_steps(header, records(header, view)))
        except KafkaError:
            return record_filter.KeyOffsets({}, is_plain=False)

    def _has_room(self, more: record_filter.OffsetMap) -> bool:
        """A single batch always has, or there would be no end of it."""
        table = self.table
        if not table or len(table) + len(more) <= self._capacity:
            return True
        return len(table) + sum(key not in table for key in more) <= self._capacity

    def _note_unplain(self, header: BatchHeader) -> None:
        if len(self._unplain) < MOST_UNPLAIN:
            self._unplain.add(header.base_offset)
        else:
            self._plain_until = min(self._plain_until, header.base_offset)

    @property
    def share(self) -> float:
        """How much of the room for them they take."""
        return len(self.table) / self._capacity

    # What they say

    def is_plain(self, header: BatchHeader) -> bool:
        """Whether the offsets of survivors tell all of this batch."""
        base_offset = header.base_offset
        is_collected = header.last_offset >= self._job.first_dirty and base_offset <= self.latest
        return is_collected and base_offset < self._plain_until and base_offset not in self._unplain

    def survivors(self, header: BatchHeader) -> Sequence[int]:
        """The offsets of records that are left of a plain batch."""
        survivors = self._survivors
        first = bisect_left(survivors, header.base_offset)
        return survivors[first : bisect_right(survivors, header.last_offset, first)]
