"""The computation of a job: collects the keys of the dirty part, then rewrites each group of segments as one."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.protocol.records import Buffer, batch, control
from headgate.protocol.records.batch import BatchHeader
from headgate.protocol.steps import Steps
from headgate.storage.cleanup.compaction import planning
from headgate.storage.cleanup.compaction.batch_cleaner import BatchCleaner, Counts
from headgate.storage.cleanup.compaction.batches import Batches, marker
from headgate.storage.cleanup.compaction.compaction_job import Collected, Damaged, Job, Rewritten
from headgate.storage.cleanup.compaction.keys import Keys
from headgate.storage.disk.pool import Pool
from headgate.storage.segment import replacement
from headgate.storage.segment.replacement import CLEANED_SUFFIX
from headgate.storage.segment.segment import Segment, Written
from headgate.storage.segment.transaction_index import AbortedTransaction
from headgate.storage.segment.transactions import Transactions

MAX_SEGMENT_BYTES = 0x7FFF_FFFF
WRITE_BYTES = 1024 * 1024


class Computation:
    """The computation of one job: `collect` first, then `rewrite` of each group in order."""

    def __init__(self, pool: Pool, job: Job) -> None:
        self._pool = pool
        self._job = job
        self._batches = Batches(pool, job)
        self._keys = Keys(job)
        self._cleaner: BatchCleaner  # made by `collect`
        self._facts = {facts.base_offset: facts for facts in job.segments}
        self._written = Transactions()  # the transactions in the rewritten batches
        self._written_bytes = 0

    @property
    def moved_bytes(self) -> int:
        """The bytes read and written so far."""
        return self._batches.read_bytes + self._written_bytes

    def collect(self) -> Steps[Collected]:
        """Collect the keys, and group the segments to rewrite; yields often. Raises OSError, Damaged."""
        job, keys = self._job, self._keys
        yield from keys.collect(self._batches)
        end_offset = keys.latest + 1
        wanted = [(facts, end) for facts, end in job.ended if facts.base_offset < end_offset]
        segments, last = [facts for facts, _ in wanted], wanted[-1][1]
        self._cleaner = BatchCleaner(job, keys, last)
        groups = planning.grouped(segments, last, min(job.segment_bytes, MAX_SEGMENT_BYTES), job.segment_index_bytes)
        if job.first_dirty == job.first_uncleanable and not job.has_transactions:
            groups = [group for group in groups if len(group) > 1]  # nothing is dirty: this job only merges
        bases = [[facts.base_offset for facts in group] for group in groups]
        return Collected(end_offset, bases, self._batches.read_bytes, keys.share)

    def rewrite(self, bases: Sequence[int]) -> Steps[Rewritten]:
        """Write the segments of a group, given by their base offsets, as one; yields often. Raises OSError, Damaged."""
        job, files = self._job, self._pool.files
        replacement.remove(files, job.directory, bases[0])
        new = _NewSegment(Segment.create(self._pool, job.directory, bases[0], job.now_ms, CLEANED_SUFFIX), job)
        counts = self._cleaner.counts = Counts()
        is_changed = len(bases) > 1
        is_made = False
        try:
            for base in bases:
                is_changed |= yield from self._rewrite_segment(base, new, is_last_segment=base == bases[-1])
            new.end()
            self._written_bytes += new.segment.size
            if is_changed and new.segment.size:
                self._finish(new, bases[-1])
                is_made = True
        finally:
            new.segment.close()
            if not is_made:
                replacement.remove(files, job.directory, bases[0])
        read_bytes = sum(self._facts[base].size for base in bases)
        counted = (counts.records, counts.kept_records, counts.unreadable_batches)
        return Rewritten(is_made, new.sizes, read_bytes, *counted)

    def _rewrite_segment(self, base: int, new: _NewSegment, *, is_last_segment: bool) -> Steps[bool]:
        """Clean the batches of a segment into a new one. Returns whether any batch has changed."""
        facts, is_changed = self._facts[base], False
        for header, view, end in self._batches.of(facts):
            is_last_of_group = is_last_segment and end == facts.size
            made = yield from self._cleaner.clean(header, view, is_last_of_group=is_last_of_group)
            if made is not view:
                is_changed = True
            if made is not None:
                new_header = header if made is view else batch.read_header(made)
                new.add(made, new_header)
                self._follow(new_header, made, new)
            yield
        return is_changed

    def _follow(self, header: BatchHeader, data: Buffer, new: _NewSegment) -> None:
        """Note the aborted transactions that still have batches, as a rebuild of the transaction index would."""
        if header.attributes & control.TRANSACTION_BITS:
            ended = marker(header, data) if header.is_control else None
            aborted = self._written.follow(header, header.base_offset, ended)
            if aborted is not None:
                new.aborted.append(aborted)

    def _finish(self, new: _NewSegment, last: int) -> None:
        """Sync the new segment, with the modification time of the last old segment, as retention may go by that time.

        The replacement of the old segments syncs the names.
        """
        files = self._pool.files
        new.segment.seal()
        files.set_modified_ms(new.segment.path, files.modified_ms(self._batches.path(last)))
        new.segment.sync()


class _NewSegment:
    """A new segment that is being written."""

    def __init__(self, segment: Segment, job: Job) -> None:
        self.segment = segment
        self._interval_bytes = job.index_interval_bytes
        self._has_transactions = job.has_transactions
        self._parts: list[Buffer] = []
        self._written: list[Written] = []
        self._size = 0
        self.aborted: list[AbortedTransaction] = []

    def add(self, data: Buffer, header: BatchHeader) -> None:
        self._parts.append(data)
        self._written.append((len(data), header.last_offset, header.max_timestamp))
        self._size += len(data)
        if self._size >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if self.segment.size + self._size > MAX_SEGMENT_BYTES:
            raise Damaged(f"{self.segment.path} would be too large for the positions in its index")
        if self._size:
            self.segment.append(b"".join(self._parts), self._written, self._interval_bytes)
        self._parts, self._written, self._size = [], [], 0

    def end(self) -> None:
        """Write the remaining batches, and the transaction index."""
        self._write()
        if self._has_transactions:
            self.segment.follow_transactions(self.aborted)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """The bytes of its `.log`, `.index`, `.timeindex`, `.txnindex`; -1 for a missing file."""
        segment = self.segment
        return (
            segment.size,
            segment.offsets.size,
            segment.times.size,
            -1 if segment.aborted is None else segment.aborted.size,
        )
