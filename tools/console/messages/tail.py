"""Live: messages as they come, from the end of the log on. At most so many a second are shown; the others are counted.

A reader that cannot keep up goes on near the end: people want to see what happens now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from headgate.protocol.errors import KafkaError
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.messages import rows as rows_of
from headgate.tools.console.messages.fetching import PieceFetcher
from headgate.tools.console.messages.query import MessageQuery
from headgate.tools.console.messages.ranges import find_ranges
from headgate.tools.console.messages.record_batches import FetchedPiece, PieceReader
from headgate.tools.console.messages.rows import DecodedMessage, MessageDecoder
from headgate.tools.console.messages.scan import PARTITIONS_AT_ONCE, OffsetSpan
from headgate.tools.console.messages.search import READ_BYTES_PER_S, Counters, Event, Pace, QueryReader, SearchClock

LONGEST_S: Final = 3_600.0
_PAUSE_S: Final = 0.5
_ROWS_AT_ONCE: Final = 100
_PARTITION_BYTES: Final = 256 << 10
_MOST_BEHIND: Final = 20_000
_KEPT_BEHIND: Final = 500


class Tail:
    """The messages of a query from now on."""

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
        self._matched = self._skipped_offsets = self._skipped_rows = 0
        self._failures: dict[int, str] = {}

    def run(self) -> Iterator[Event]:
        """The events, until LONGEST_S have passed. Raises ClientError."""
        began_s = self._time.now_s()
        found = find_ranges(self._cluster, self._query)
        self._positions = {number: range_.end for number, range_ in found.ranges.items()}
        self._fetcher = PieceFetcher(
            self._cluster,
            self._query.topic,
            found.stable,
            is_committed=self._query.is_committed,
            sleep=self._time.sleep,
        )
        yield {"event": "start", "ranges": "", "offsets_total": None, "problems": found.problems}
        while self._time.now_s() - began_s < LONGEST_S:
            rows = self._read_round()
            if rows:
                yield {"event": "rows", "rows": [rows_of.row(each) for each in rows]}
            yield self._progress("progress", began_s)
            if len(rows) < _ROWS_AT_ONCE:
                self._time.sleep(_PAUSE_S)
        yield {**self._progress("end", began_s), "reason": "time", "rest": None}

    def _read_round(self) -> list[DecodedMessage]:
        """The newest messages since the last round, the oldest first."""
        found: deque[DecodedMessage] = deque(maxlen=_ROWS_AT_ONCE)
        numbers = list(self._positions)
        for start in range(0, len(numbers), PARTITIONS_AT_ONCE):
            wanted = {number: self._positions[number] for number in numbers[start : start + PARTITIONS_AT_ONCE]}
            try:
                pieces, failures = self._fetcher.fetch(wanted, _PARTITION_BYTES)
            except ClientError as error:
                pieces, failures = {}, {}
                self._failures = dict.fromkeys(wanted, str(error))
            self._failures |= {number: failure.text for number, failure in failures.items()}
            for number, piece in pieces.items():
                self._failures.pop(number, None)
                self._read(number, piece, found)
            self._pace.spend(sum(len(piece.data) for piece in pieces.values()))
        return sorted(found, key=lambda each: each.record.timestamp)

    def _read(self, number: int, piece: FetchedPiece, found: deque[DecodedMessage]) -> None:
        self._counters.bytes_scanned += len(piece.data)
        reader = PieceReader(number, piece)
        try:
            for message in reader.messages(piece.offset):
                decoded = self._reader.examine(message)
                if decoded is not None:
                    self._matched += 1
                    self._skipped_rows += len(found) == found.maxlen
                    found.append(decoded)
        except KafkaError as error:
            self._failures[number] = error.message
            return
        self._positions[number] = self._near_end(max(piece.offset, reader.next_offset), piece)

    def _near_end(self, position: int, piece: FetchedPiece) -> int:
        end = piece.stable_offset if self._query.is_committed else piece.end_offset
        behind = OffsetSpan(position, end).offsets
        if behind <= _MOST_BEHIND:
            return position
        self._skipped_offsets += behind - _KEPT_BEHIND
        return end - _KEPT_BEHIND

    def _progress(self, event: str, began_s: float) -> Event:
        counters = self._counters
        return {
            "event": event,
            "records_scanned": counters.records_scanned,
            "records_matched": self._matched,
            "expressions_failed": self._decoder.failed_expressions,
            "bytes_scanned": counters.bytes_scanned,
            "rows_skipped": self._skipped_rows,
            "offsets_skipped": self._skipped_offsets,
            "seconds": round(self._time.now_s() - began_s, 3),
            "partitions": [],
            "problems": [f"{self._query.topic}-{number}: {text}" for number, text in sorted(self._failures.items())][
                :20
            ],
            "rest": None,
        }
