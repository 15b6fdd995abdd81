"""The times of the oldest unread records, from the logs of this broker, followers' logs included.

The header of the batch that a group reads next has the time in most cases, and a small batch is decoded at once. A
thread reads bytes that are not in memory, and another one decodes a large batch, in slices; the next search finds
the result. A hanging disk keeps one thread, and no survey.

A time stays known while its group stays at the same offset, for `KEPT_MS`: compaction may remove the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.protocol.errors import KafkaError
from headgate.protocol.lag.measurement import UNKNOWN_TIMESTAMP
from headgate.protocol.lag.oldest_unread import UnreadResult, first_record, search_records, time_by_header
from headgate.protocol.records.batch import HEADER_SIZE, read_header
from headgate.protocol.steps import Steps
from headgate.storage.files import WouldBlock
from headgate.storage.segment.file_slice import FileSlice

KEPT_MS: Final = 60_000.0
BATCHES_AT_ONCE: Final = 16
"""The batches of one step: some 0.4 ms."""
SMALL_BYTES: Final = 2_048
"""A batch up to this size is decoded by the loop."""
MAX_READS_AT_ONCE: Final = 64
"""Reads of one disk, and batches that threads decode, between two searches."""


class UnreadPosition(NamedTuple):
    """The first unread offset of a group in a partition."""

    topic: str
    partition: int
    offset: int


class HostedPartitions(Protocol):
    """The replicas of this broker, led or followed."""

    def hosted(self, topic: str, index: int) -> Replica | None:
        """The replica of a partition; None if there is none here."""


class _Read(NamedTuple):
    """A read that waits for the disk, in a thread; then `release`."""

    run: Callable[[], None]
    release: Callable[[], None]


class UnreadTimes:
    """The times by position. Between `begin` and the next one the positions of one survey are looked up."""

    def __init__(self, partitions: HostedPartitions, scheduler: Scheduler) -> None:
        self._partitions = partitions
        self._scheduler = scheduler
        self._times: dict[UnreadPosition, int] = {}
        self._before: dict[UnreadPosition, int] = {}
        self._passed: dict[UnreadPosition, int] = {}
        """The next offset to look at, where a decoded batch had no record: compaction has removed them."""
        self._forgotten_ms = 0.0
        self._waiting: dict[str, list[_Read]] = {}
        self._reading: set[str] = set()
        self._decoding: set[UnreadPosition] = set()
        self._when_read: list[Callable[[None], object]] = []

    def begin(self, now_ms: float) -> None:
        """Begin a survey. Times of positions that it does not look up are forgotten."""
        self._before, self._times = self._times, {}
        if now_ms - self._forgotten_ms >= KEPT_MS:
            self._before.clear()
            self._passed.clear()
            self._forgotten_ms = now_ms

    def find(self, position: UnreadPosition) -> int | None:
        """The time of a position in ms; None if it is not known, or not yet."""
        return self._times.get(position)

    def is_here(self, position: UnreadPosition) -> bool:
        """Whether a log of this broker has the offset; a follower's may not have it yet."""
        replica = self._partitions.hosted(position.topic, position.partition)
        return replica is not None and replica.log.start_offset <= position.offset < replica.log.written_end

    def note(self, position: UnreadPosition, timestamp: int) -> None:
        """Note a time from another broker."""
        self._times[position] = timestamp

    def look_up(self, wanted: Mapping[UnreadPosition, int]) -> Steps[dict[UnreadPosition, int]]:
        """Look up positions, each with the end of its partition. Returns those that are read by their end: no record.

        `find` has the others, except those of other brokers, and those that threads read now.
        """
        read_by_end: dict[UnreadPosition, int] = {}
        count = 0
        for position, end in wanted.items():
            known = self._before.get(position)
            if known is not None:
                self._times[position] = known
                continue
            replica = self._partitions.hosted(position.topic, position.partition)
            if replica is None or position in self._times or position in self._decoding:
                continue
            offset, result = self._passed.get(position, position.offset), None
            while offset >= 0:
                result = self._examine(replica, position, offset, end)
                offset = -1 if result is None else result.next_offset
                count += 1
                if count % BATCHES_AT_ONCE == 0:
                    yield
            if result is not None and result.timestamp is None:
                read_by_end[position] = end
            elif result is not None and result.timestamp is not None:
                self._times[position] = result.timestamp
        self._start_reads()
        return read_by_end

    def _examine(self, replica: Replica, position: UnreadPosition, offset: int, end: int) -> UnreadResult | None:
        """The result at an offset of a log; None if it has to be read first, or if a follower's log lacks it."""
        log = replica.log
        try:
            if not log.start_offset <= offset < log.written_end:
                return None
            piece = log.read(offset, 1, min(end, log.written_end), at_least_one=True, blocking=False)
        except WouldBlock as cold:
            cold.forget_plan()
            self._read_later(cold.disk, _Read(cold.warm, cold.release))
            return None
        except KafkaError:
            return UnreadResult(UNKNOWN_TIMESTAMP)
        return UnreadResult(None) if piece is None else self._examine_slice(piece, position, offset, end)

    def _examine_slice(self, piece: FileSlice, position: UnreadPosition, offset: int, end: int) -> UnreadResult | None:
        """The result in one batch. The slice is released, or kept for a thread."""
        try:
            head = piece.read_cached(0, HEADER_SIZE)
            if head is None:
                self._read_slice(piece)
                return None
            result = time_by_header(read_header(head), offset, end)
            if result is None and piece.length <= SMALL_BYTES:
                data = piece.read_cached(0, piece.length)
                if data is not None:
                    result = first_record(data, offset, end)
        except (KafkaError, OSError):  # an older format, or damage; consumers will meet the error
            result = UnreadResult(UNKNOWN_TIMESTAMP)
        if result is not None:
            piece.release()
        elif piece.is_cached(0, piece.length):
            self._decode(piece, position, offset, end)
        else:
            self._read_slice(piece)
        return result

    # Threads

    def when_read(self, resume: Callable[[None], object]) -> None:
        """Call `resume` once no thread reads or decodes for this survey."""
        if self._reading or self._decoding:
            self._when_read.append(resume)
        else:
            resume(None)

    @property
    def is_reading(self) -> bool:
        """Whether threads read or decode."""
        return bool(self._reading or self._decoding)

    def _read_slice(self, piece: FileSlice) -> None:
        self._read_later(piece.disk, _Read(partial(piece.warm, 0, piece.length), piece.release))

    def _read_later(self, disk: str, read: _Read) -> None:
        waiting = self._waiting.setdefault(disk, [])
        if len(waiting) < MAX_READS_AT_ONCE and disk not in self._reading:
            waiting.append(read)
        else:
            read.release()

    def _start_reads(self) -> None:
        """Have a thread for each disk read what the search has missed, unless the disk's threads are busy."""
        waiting, self._waiting = self._waiting, {}
        for disk, reads in waiting.items():
            if self._scheduler.reads(disk).is_full:
                for read in reads:
                    read.release()
            elif reads:
                self._reading.add(disk)
                self._scheduler.reads(disk).in_thread(partial(_run, reads), partial(self._have_read, disk, reads))

    def _have_read(self, disk: str, reads: list[_Read], _result: object) -> None:
        for read in reads:
            read.release()
        self._reading.discard(disk)
        self._ended()

    def _decode(self, piece: FileSlice, position: UnreadPosition, offset: int, end: int) -> None:
        if len(self._decoding) >= MAX_READS_AT_ONCE:
            piece.release()
            return
        self._decoding.add(position)
        self._scheduler.in_slices(_decode(piece, offset, end), partial(self._have_decoded, piece, position))

    def _have_decoded(self, piece: FileSlice, position: UnreadPosition, result: Any) -> None:
        piece.release()
        self._decoding.discard(position)
        if not isinstance(result, UnreadResult):  # damage: consumers will meet the error
            self._times[position] = UNKNOWN_TIMESTAMP
        elif result.timestamp is not None:
            self._times[position] = result.timestamp
        elif result.next_offset >= 0:
            self._passed[position] = result.next_offset
        self._ended()

    def _ended(self) -> None:
        if not self.is_reading:
            waiting, self._when_read = self._when_read, []
            for resume in waiting:
                resume(None)


def _run(reads: list[_Read]) -> None:
    for read in reads:
        read.run()


def _decode(piece: FileSlice, offset: int, end: int) -> Steps[UnreadResult | None]:
    data = piece.read()
    yield
    return (yield from search_records(data, offset, end))
