"""The order in which the partitions of a search are read, and in which found messages are shown. Pure.

Messages of several partitions are shown by time: the oldest first, or the newest. A partition's time goes on with its
offsets, also where a producer's clock went back: so what is shown of a partition is always all that it has up to an
offset, and a search that was stopped goes on there. The partitions that are behind in time are read next. A found
message is shown once no partition can have an earlier one.

    scan = ForwardScan(ranges, limit)           # or BackwardScan
    while scan.is_open:
        for number, offset in scan.wanted().items():
            ...                                 # fetch at the offset, and pass what lies within scan.bounds(number)
            scan.add(number, reading)
        for found in scan.take():
            ...
    scan.rest()                                 # the ranges of the next page
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

PARTITIONS_AT_ONCE: Final = 32
_LARGEST_WINDOW: Final = 65_536
_SMALLEST_WINDOW: Final = 16


class OffsetSpan(NamedTuple):
    """Offsets from `start` to before `end`."""

    start: int
    end: int

    @property
    def offsets(self) -> int:
        return max(0, self.end - self.start)


class FoundRow(NamedTuple):
    """A found message: its time in ms (negative: none), its offset, and the offset of the next read after it."""

    timestamp_ms: int
    offset: int
    next_offset: int
    row: Any


class PartitionReading(NamedTuple):
    """What one read of a partition has found.

    `first_offset`: of the first batch. `next_offset`: everything before was examined. `oldest_ms`, `newest_ms`: the
    times of all examined messages; None for none. `has_dropped`: there are rows before the given ones.
    """

    rows: Sequence[FoundRow]
    first_offset: int
    next_offset: int
    oldest_ms: int | None = None
    newest_ms: int | None = None
    has_dropped: bool = False


class _Partition:
    """`left`: the offsets to examine. `order`: no later row of the partition comes before it; it rises.

    `rows`: found and not shown yet, each with its order.
    """

    def __init__(self, number: int, left: OffsetSpan) -> None:
        self.number = number
        self.left = left
        self.order = -math.inf
        self.rows: deque[tuple[float, FoundRow]] = deque()
        self.has_failed = False

    @property
    def is_read(self) -> bool:
        """Whether no more rows come."""
        return self.has_failed or not self.left.offsets

    def add(self, order: float, found: FoundRow) -> None:
        """Add a row after the others; a row without a time, or with one before theirs, has the order of the last."""
        self.order = max(self.order, order)
        self.rows.append((self.order, found))


P = TypeVar("P", bound=_Partition)


class Scan(ABC, Generic[P]):
    """What both directions share."""

    def __init__(self, ranges: Mapping[int, OffsetSpan], limit: int) -> None:
        """`limit`: so many rows are shown."""
        self._left = limit
        # So many rows of one partition are read at once: enough for a partition with four times its share
        self.quota = min(limit, max(1, 4 * limit // max(1, len(ranges))))
        self._partitions = {number: self._partition(number, range_) for number, range_ in ranges.items()}

    @property
    def is_open(self) -> bool:
        """Whether rows are to be found still, and wanted."""
        return self._left > 0 and any(each.rows or not each.is_read for each in self._partitions.values())

    @property
    def rows_held(self) -> int:
        """Found rows that are not shown yet."""
        return sum(len(each.rows) for each in self._partitions.values())

    def wanted(self) -> dict[int, int]:
        """The partitions to read next, each with the offset of the fetch."""
        behind = [each for each in self._partitions.values() if not each.is_read and len(each.rows) < self.quota]
        behind.sort(key=lambda each: each.order)
        return {each.number: self._cursor(each) for each in behind[:PARTITIONS_AT_ONCE]}

    def take(self) -> list[FoundRow]:
        """The next rows in order, as far as no other row can come before them."""
        floor = min((each.order for each in self._partitions.values() if not each.is_read), default=math.inf)
        found: list[FoundRow] = []
        while self._left > 0:
            heads = [(each.rows[0][0], each.number) for each in self._partitions.values() if each.rows]
            if not heads or min(heads)[0] > floor:
                break
            found.append(self._show(min(heads)[1]))
        return found

    def drain(self) -> list[FoundRow]:
        """All found rows, when a bound ends the search: a later page may have rows that belong between them."""
        pending = sorted((order, each.number) for each in self._partitions.values() for order, _ in each.rows)
        return [self._show(number) for _, number in pending[: self._left]]

    def _show(self, number: int) -> FoundRow:
        self._left -= 1
        return self._partitions[number].rows.popleft()[1]

    def fail(self, number: int) -> None:
        """Leave out a partition that cannot be read; a next page tries again."""
        self._partitions[number].has_failed = True

    def rest(self) -> dict[int, OffsetSpan]:
        """What a next page has to search: everything but the shown rows and what lies before them in order."""
        ranges = {number: self._rest(each) for number, each in self._partitions.items()}
        return {number: range_ for number, range_ in ranges.items() if range_.offsets}

    @abstractmethod
    def bounds(self, number: int) -> OffsetSpan:
        """The offsets of the messages that the next `add` takes."""

    @abstractmethod
    def add(self, number: int, reading: PartitionReading) -> None:
        """Take what one read of a partition has found."""

    @abstractmethod
    def _partition(self, number: int, left: OffsetSpan) -> P: ...

    @abstractmethod
    def _cursor(self, partition: P) -> int: ...

    @abstractmethod
    def _rest(self, partition: P) -> OffsetSpan: ...


class ForwardScan(Scan[_Partition]):
    """The oldest messages first."""

    def bounds(self, number: int) -> OffsetSpan:
        return self._partitions[number].left

    def add(self, number: int, reading: PartitionReading) -> None:
        partition = self._partitions[number]
        start, end = partition.left
        for found in reading.rows:
            partition.add(found.timestamp_ms if found.timestamp_ms >= 0 else -math.inf, found)
            if len(partition.rows) >= self.quota:
                partition.left = OffsetSpan(min(found.next_offset, end), end)
                return
        partition.left = OffsetSpan(min(max(reading.next_offset, start), end), end)
        if reading.newest_ms is not None:
            partition.order = max(partition.order, reading.newest_ms)

    def _partition(self, number: int, left: OffsetSpan) -> _Partition:
        return _Partition(number, left)

    def _cursor(self, partition: _Partition) -> int:
        return partition.left.start

    def _rest(self, partition: _Partition) -> OffsetSpan:
        start = partition.rows[0][1].offset if partition.rows else partition.left.start
        return OffsetSpan(start, partition.left.end)


class _Window(_Partition):
    """A partition with the window at its end that is being read: from `low`, now at `cursor`."""

    def __init__(self, number: int, left: OffsetSpan, size: int, quota: int) -> None:
        super().__init__(number, left)
        self.size = size
        self.found: deque[FoundRow] = deque(maxlen=quota)
        self.open()

    def open(self) -> None:
        self.low = self.cursor = max(self.left.start, self.left.end - self.size)
        self.found.clear()
        self.is_begun = self.has_dropped = False
        self.oldest_ms = math.inf

    def close(self) -> None:
        """Turn the found rows round, and open the window before."""
        for found in reversed(self.found):
            self.add(-found.timestamp_ms if found.timestamp_ms >= 0 else -math.inf, found)
        if not self.found:
            self.size = min(_LARGEST_WINDOW, 4 * self.size)
        if self.has_dropped:
            self.low = self.found[0].offset
        elif self.oldest_ms < math.inf:
            self.order = max(self.order, -self.oldest_ms)
        self.left = OffsetSpan(self.left.start, self.low)
        self.open()


class BackwardScan(Scan[_Window]):
    """The newest messages first: windows of offsets from the end to the start, each read forward."""

    def bounds(self, number: int) -> OffsetSpan:
        window = self._partitions[number]
        # The first batch may begin before the window: its messages need no other read
        return OffsetSpan(window.cursor if window.is_begun else window.left.start, window.left.end)

    def add(self, number: int, reading: PartitionReading) -> None:
        window = self._partitions[number]
        if not window.is_begun:
            window.is_begun = True
            window.low = max(window.left.start, min(window.low, reading.first_offset))
        if reading.has_dropped:
            window.found.clear()
            window.has_dropped = True
        for found in reading.rows:
            window.has_dropped |= len(window.found) == window.found.maxlen
            window.found.append(found)
        if reading.oldest_ms is not None:
            window.oldest_ms = min(window.oldest_ms, reading.oldest_ms)
        window.cursor = max(window.cursor, reading.next_offset)
        if window.cursor >= window.left.end:
            window.close()

    def _partition(self, number: int, left: OffsetSpan) -> _Window:
        return _Window(number, left, max(_SMALLEST_WINDOW, self.quota), self.quota)

    def _cursor(self, partition: _Window) -> int:
        return partition.cursor

    def _rest(self, partition: _Window) -> OffsetSpan:
        end = partition.rows[0][1].offset + 1 if partition.rows else partition.left.end
        return OffsetSpan(partition.left.start, end)
