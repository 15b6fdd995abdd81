"""A search in the messages of a topic, page by page: events with rows, with the progress, and with the end.

    {"event": "start", "ranges", "offsets_total", "problems"}
    {"event": "rows", "rows": [...]}
    {"event": "progress", "offsets_scanned", "offsets_total", "records_scanned", "records_matched",
     "expressions_failed", "bytes_scanned", "bytes_total_estimate", "seconds",
     "partitions": [[number, offset, end], ...], "rest"}
    {"event": "end", "reason": "limit" | "all" | "time", ..., "rest": ranges of the next page, or null}

A search reads at most `READ_BYTES_PER_S`, so that it takes little of the brokers and of their disks.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from headgate.protocol.errors import KafkaError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.messages import rows as rows_of
from headgate.tools.console.messages.fetching import PieceFetcher
from headgate.tools.console.messages.query import MessageQuery, format_ranges
from headgate.tools.console.messages.ranges import SearchRanges, estimate_bytes, find_ranges
from headgate.tools.console.messages.record_batches import ABORTED, FetchedMessage, FetchedPiece, PieceReader
from headgate.tools.console.messages.rows import DecodedMessage, MessageDecoder
from headgate.tools.console.messages.scan import (
    BackwardScan,
    ForwardScan,
    FoundRow,
    OffsetSpan,
    PartitionReading,
)

READ_BYTES_PER_S: Final = 32 << 20
LONGEST_S: Final = 60.0
"""For one page; the next one goes on."""
_PROGRESS_S: Final = 0.25
_FIRST_BYTES, _MOST_BYTES, _ROUND_BYTES, _LEAST_BYTES = 64 << 10, 1 << 20, 4 << 20, 16 << 10
_SHOWN_PARTITIONS: Final = 64
_LARGE_OFFSETS: Final = 20_000
"""Of such a search people want to know the bytes, which takes a request more."""

Event = dict[str, Any]


class SearchClock(NamedTuple):
    """The clock of a search."""

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Pace:
    """Keeps a reader below a rate."""

    def __init__(self, bytes_per_s: float, time_: SearchClock) -> None:
        self._bytes_per_s = bytes_per_s
        self._time = time_
        self._free_at_s = time_.now_s()

    def spend(self, count: int) -> None:
        """Wait until so many bytes more may be read."""
        now_s = self._time.now_s()
        self._free_at_s = max(self._free_at_s, now_s) + count / self._bytes_per_s
        if self._free_at_s > now_s + 0.01:
            self._time.sleep(self._free_at_s - now_s)


class Counters:
    """What a search has done so far."""

    def __init__(self) -> None:
        self.records_scanned = self.bytes_scanned = 0


class QueryReader:
    """Reads pieces, and finds the messages of a query in them."""

    def __init__(self, query: MessageQuery, decoder: MessageDecoder, counters: Counters) -> None:
        self._is_committed = query.is_committed
        self._decoder = decoder
        self._counters = counters

    def examine(self, message: FetchedMessage) -> DecodedMessage | None:
        """The message if it is one of the query's."""
        self._counters.records_scanned += 1
        if self._is_committed and (message.transaction == ABORTED or message.header.is_control):
            return None
        decoded = self._decoder.decode(message)
        return decoded if self._decoder.match(decoded) else None

    def read(
        self, number: int, piece: FetchedPiece, bounds: OffsetSpan, most: int, *, is_backward: bool
    ) -> PartitionReading:
        """At most `most` rows of a piece, the first or the last ones. Raises KafkaError."""
        self._counters.bytes_scanned += len(piece.data)
        reader = PieceReader(number, piece)
        found: deque[tuple[int, DecodedMessage]] = deque(maxlen=most)
        times: list[int] = []
        next_offset, has_dropped = None, False
        for message in reader.messages(bounds.start):
            if message.record.offset >= bounds.end:
                next_offset = bounds.end
                break
            timestamp = message.header.max_timestamp if message.fault else message.record.timestamp
            if timestamp >= 0:
                times.append(timestamp)
            decoded = self.examine(message)
            if decoded is not None:
                has_dropped |= len(found) == most
                found.append((timestamp, decoded))
                if len(found) == most and not is_backward:
                    next_offset = _next_offset(message)
                    break
        if next_offset is None:
            next_offset = bounds.end if piece.is_last else reader.next_offset
        first = piece.offset if reader.first_offset is None else reader.first_offset
        rows = [found_row(decoded, timestamp) for timestamp, decoded in found]
        oldest, newest = min(times, default=None), max(times, default=None)
        return PartitionReading(rows, first, next_offset, oldest, newest, has_dropped)


def found_row(decoded: DecodedMessage, timestamp: int) -> FoundRow:
    message = decoded.message
    return FoundRow(timestamp, message.record.offset, _next_offset(message), rows_of.row(decoded))


def _next_offset(message: FetchedMessage) -> int:
    """The offset after a message; after its batch, if that cannot be read."""
    after = message.record.offset + 1
    return after if message.fault is None else max(after, message.header.last_offset + 1)


class MessageSearch:
    """One page of a search."""

    def __init__(
        self, cluster: Cluster, query: MessageQuery, decoder: MessageDecoder, time_: SearchClock | None = None
    ) -> None:
        self._cluster = cluster
        self._query = query
        self._time = time_ or SearchClock()
        self._decoder = decoder
        self._counters = Counters()
        self._reader = QueryReader(query, decoder, self._counters)
        self._pace = Pace(READ_BYTES_PER_S, self._time)
        self._began_s = self._time.now_s()
        self._shown_s = self._began_s
        self._bytes = _FIRST_BYTES
        self._failures: list[str] = []
        self._matched = 0
        self._log_bytes: int | None = None

    def run(self) -> Iterator[Event]:
        """The events. Raises ClientError, BadParameter before the first one."""
        found = find_ranges(self._cluster, self._query)
        self._scan = (BackwardScan if self._query.is_backward else ForwardScan)(found.ranges, self._query.limit)
        self._fetcher = PieceFetcher(
            self._cluster,
            self._query.topic,
            found.stable,
            is_committed=self._query.is_committed,
            sleep=self._time.sleep,
        )
        self._total = _offsets(found.ranges)
        if self._total >= _LARGE_OFFSETS:
            self._log_bytes = estimate_bytes(self._cluster, self._query.topic, found)
        yield self._start(found)
        is_late = False
        while self._scan.is_open and not is_late:
            self._read_round()
            yield from self._rows(self._scan.take())
            if self._time.now_s() - self._shown_s >= _PROGRESS_S:
                self._shown_s = self._time.now_s()
                yield self._progress("progress")
            is_late = self._time.now_s() - self._began_s >= LONGEST_S
        yield from self._rows(self._scan.drain())
        rest = self._scan.rest()
        reason = "all" if not rest else "time" if is_late else "limit"
        yield {**self._progress("end"), "reason": reason, "problems": self._failures}

    def _rows(self, found: list[FoundRow]) -> Iterator[Event]:
        self._matched += len(found)
        if found:
            yield {"event": "rows", "rows": [each.row for each in found]}

    def _start(self, found: SearchRanges) -> Event:
        self._failures += found.problems
        return {
            "event": "start",
            "ranges": format_ranges({number: range_ for number, range_ in found.ranges.items() if range_.offsets}),
            "offsets_total": self._total,
            "problems": found.problems,
        }

    def _read_round(self) -> None:
        """One fetch of the partitions that are behind."""
        wanted = self._scan.wanted()
        if not wanted:
            return
        partition_bytes = max(_LEAST_BYTES, min(self._bytes, _ROUND_BYTES // len(wanted)))
        self._bytes = min(_MOST_BYTES, 2 * self._bytes)
        pieces, failures = self._fetcher.fetch(wanted, partition_bytes)
        for number, failure in failures.items():
            self._fail(number, failure.text)
        for number, piece in pieces.items():
            self._add(number, piece)
        self._pace.spend(sum(len(piece.data) for piece in pieces.values()))

    def _add(self, number: int, piece: FetchedPiece) -> None:
        bounds = self._scan.bounds(number)
        try:
            reading = self._reader.read(number, piece, bounds, self._scan.quota, is_backward=self._query.is_backward)
        except KafkaError as error:
            self._fail(number, error.message)
            return
        if reading.next_offset <= piece.offset and not reading.rows:
            self._fail(number, f"the broker's answer has nothing at offset {piece.offset}")
            return
        self._scan.add(number, reading)

    def _fail(self, number: int, text: str) -> None:
        self._failures.append(f"{self._query.topic}-{number} cannot be read further: {text}")
        self._scan.fail(number)

    def _progress(self, event: str) -> Event:
        rest, counters = self._scan.rest(), self._counters
        scanned = self._total - _offsets(rest)
        return {
            "event": event,
            "offsets_scanned": scanned,
            "offsets_total": self._total,
            "records_scanned": counters.records_scanned,
            "records_matched": self._matched,
            "expressions_failed": self._decoder.failed_expressions,
            "bytes_scanned": counters.bytes_scanned,
            "bytes_total_estimate": self._log_bytes,
            "seconds": round(self._time.now_s() - self._began_s, 3),
            "partitions": [[number, *range_] for number, range_ in list(rest.items())[:_SHOWN_PARTITIONS]],
            "rest": format_ranges(rest) or None,
        }


def _offsets(ranges: dict[int, OffsetSpan]) -> int:
    return sum(range_.offsets for range_ in ranges.values())
