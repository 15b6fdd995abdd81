"""Whether what is in the indexes of a segment is true, whatever interval they were made with.

An entry of the offset index is true if a batch begins at its position, and everything before ends before its offset.
One of the time index, if nothing before its offset is later than its timestamp, and something up to it is that late.
Apache Kafka's brokers make other entries than Headgate's from the same batches, which are as good.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.protocol.records.batch import BatchHeader

Pairs = Sequence[tuple[int, int]]


class Truth:
    """Is shown every batch of a segment, in order; then it says how many entries are not true.

    `interval_bytes`: the index interval with which a walk makes the entries of the offset index, if there is one.
    """

    def __init__(self, base_offset: int, offsets: Pairs, times: Pairs) -> None:
        self._base_offset = base_offset
        self._offsets, self._times = offsets, times
        self._at_offset = self._at_time = 0
        self._latest = -1
        self._end_offset = base_offset
        self._indexed = self._previous = 0
        self._longest, self._shortest = 0, 1 << 31
        self._false_offsets = self._false_times = 0

    def see(self, position: int, header: BatchHeader) -> None:
        """The next batch."""
        self._see_offsets(position)
        times, last = self._times, header.last_offset - self._base_offset
        latest = max(self._latest, header.max_timestamp)
        while self._at_time < len(times) and times[self._at_time][1] <= last:
            self._false_times += not self._latest <= times[self._at_time][0] <= latest
            self._at_time += 1
        self._latest, self._end_offset, self._previous = latest, header.last_offset + 1, position

    def _see_offsets(self, position: int) -> None:
        offsets = self._offsets
        while self._at_offset < len(offsets) and offsets[self._at_offset][1] < position:
            self._at_offset += 1
            self._false_offsets += 1
        if self._at_offset == len(offsets) or offsets[self._at_offset][1] != position:
            self._longest = max(self._longest, position - self._indexed)
            return
        self._false_offsets += offsets[self._at_offset][0] + self._base_offset < self._end_offset and position > 0
        self._at_offset += 1
        self._shortest = min(self._shortest, position - self._indexed)
        self._indexed = position

    @property
    def false_offsets(self) -> int:
        """Entries of the offset index that are not true; those of which no batch was seen are not."""
        return self._false_offsets + len(self._offsets) - self._at_offset

    @property
    def false_times(self) -> int:
        """The same of the time index."""
        return self._false_times + len(self._times) - self._at_time

    @property
    def interval_bytes(self) -> int | None:
        """An interval that has these entries as its result."""
        return self._longest if self._longest < self._shortest else None
