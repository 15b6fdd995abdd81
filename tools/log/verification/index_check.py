"""Check the entries of a segment's indexes against the batches, for any index interval.

An entry of the offset index is right if a batch begins at the entry's position and all batches before end before the
entry's offset. An entry of the time index is right if no record before the entry's offset is later than the entry's
timestamp, and a record up to the offset has this timestamp. From the same batches Apache Kafka makes other entries than
Headgate, equally right.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.protocol.records.batch import BatchHeader
from headgate.storage.errors import BadFile
from headgate.storage.segment import transaction_index

IndexEntries = Sequence[tuple[int, int]]


class IndexCheck:
    """Counts the wrong entries of the indexes. Call `observe` with every batch of the segment, in order.

    `offsets`: (relative offset, position) and `times`: (timestamp in ms, relative offset), as in the files.
    """

    def __init__(self, base_offset: int, offsets: IndexEntries, times: IndexEntries) -> None:
        self._base_offset = base_offset
        self._offsets, self._times = offsets, times
        self._at_offset = self._at_time = 0
        self._latest = -1
        self._end_offset = base_offset
        self._indexed = 0
        self._longest, self._shortest = 0, 1 << 31
        self._wrong_offsets = self._wrong_times = 0

    def observe(self, position: int, header: BatchHeader) -> None:
        """Check the entries up to the next batch, which begins at `position`."""
        self._observe_offsets(position)
        times, last = self._times, header.last_offset - self._base_offset
        latest = max(self._latest, header.max_timestamp)
        while self._at_time < len(times) and times[self._at_time][1] <= last:
            self._wrong_times += not self._latest <= times[self._at_time][0] <= latest
            self._at_time += 1
        self._latest, self._end_offset = latest, header.last_offset + 1

    def _observe_offsets(self, position: int) -> None:
        offsets = self._offsets
        while self._at_offset < len(offsets) and offsets[self._at_offset][1] < position:
            self._at_offset += 1
            self._wrong_offsets += 1
        if self._at_offset == len(offsets) or offsets[self._at_offset][1] != position:
            self._longest = max(self._longest, position - self._indexed)
            return
        self._wrong_offsets += offsets[self._at_offset][0] + self._base_offset < self._end_offset and position > 0
        self._at_offset += 1
        self._shortest = min(self._shortest, position - self._indexed)
        self._indexed = position

    @property
    def wrong_offset_entries(self) -> int:
        """The number of wrong entries of the offset index, including entries after the last batch."""
        return self._wrong_offsets + len(self._offsets) - self._at_offset

    @property
    def wrong_time_entries(self) -> int:
        """The number of wrong entries of the time index, including entries after the last batch."""
        return self._wrong_times + len(self._times) - self._at_time

    @property
    def interval_bytes(self) -> int | None:
        """An index interval that gives exactly the entries of the offset index; None if no interval does."""
        return self._longest if self._longest < self._shortest else None


def is_equivalent_index(stored: bytes, rebuilt: bytes, *, may_have_more: bool = False) -> bool:
    """True if a stored index of aborted transactions serves consumers as well as the index rebuilt from the batches.

    Compaction removes records, and with them the proof that a transaction began so early or was open. An index from
    before the compaction still has this knowledge: it names transactions of which a consumer meets no record. So with
    `may_have_more`, for a compacted log, the stored index may have entries for transactions with only a marker left.
    """
    try:
        expected, found = transaction_index.parse(rebuilt), transaction_index.parse(stored)
    except BadFile:
        return False
    known = {(one.producer_id, one.last_offset): one for one in found}
    matched = [(one, known.get((one.producer_id, one.last_offset))) for one in expected]
    return (len(expected) == len(found) or may_have_more) and all(
        other is not None
        and other.first_offset <= one.first_offset
        and other.last_stable_offset <= one.last_stable_offset
        for one, other in matched
    )
