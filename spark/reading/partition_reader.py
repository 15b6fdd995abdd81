"""Reads a range of offsets from the files of one partition, whatever its broker does beside it.

Each segment is opened by name when it is reached, and read to its end through the same open file: neither compaction
nor retention changes an open file. The directory is listed again wherever a segment does not continue at the expected
offset, so that a swapped or deleted segment is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

from headgate.spark.reading.aborted_transactions import IndexTrust, find_aborted
from headgate.spark.reading.batch_cut import BatchCut, cut
from headgate.spark.reading.frozen_files import DirectoryChanges
from headgate.spark.reading.log_reader import (
    Bounds,
    FetchedBatches,
    IsolationLevel,
    LogUnavailable,
    OffsetOutOfRange,
    OffsetRange,
)
from headgate.spark.reading.segment_view import SegmentView
from headgate.storage.errors import StorageError
from headgate.storage.files import File, Files
from headgate.storage.segment.transaction_index import AbortedTransaction

MAX_BATCH_BYTES = 1 << 27
"""A batch is read as a whole. A damaged length may claim much more than any producer sends."""
ATTEMPTS = 50
RETRY_AFTER_S = 0.02
_NOTHING_READ = b""


class SegmentChanged(Exception):
    """A segment is damaged at a place, or was replaced meanwhile; a new listing of the directory shows which."""


class ReadDirectory(NamedTuple):
    """A partition's directory. `log_start`: the log start in the checkpoint. `trust`: the complete indexes."""

    directory: str
    log_start: int
    trust: IndexTrust


class PartitionReader:
    """Reads one range. Raises LogUnavailable, OffsetOutOfRange."""

    def __init__(
        self,
        disk: Files,
        place: ReadDirectory,
        wanted: OffsetRange,
        isolation: IsolationLevel,
        piece_bytes: int,
        sleep: Callable[[float], None],
    ) -> None:
        self._disk = disk
        self._place = place
        self._wanted = wanted
        self._isolation = isolation
        self._piece_bytes = piece_bytes
        self._sleep = sleep
        self._offset = wanted.start_offset
        self._view: SegmentView | None = None

    def pieces(self) -> Generator[FetchedBatches, None, None]:
        """The batches of the range; the last piece ends at or behind its end."""
        end_offset, fruitless = self._wanted.end_offset, 0
        while self._offset < end_offset:
            before, problem = self._offset, ""
            try:
                yield from self._next_segment()
            except (SegmentChanged, FileNotFoundError, DirectoryChanges, StorageError) as error:
                self._view, problem = None, str(error)
            except OSError as error:
                raise self._unavailable(str(error)) from error
            if self._offset > before:
                fruitless = 0
                continue
            fruitless += 1
            if fruitless > ATTEMPTS:
                self._give_up(problem)
            if fruitless > 1:
                self._sleep(RETRY_AFTER_S)

    def _next_segment(self) -> Iterator[FetchedBatches]:
        """The batches of the segment with the present offset, or of the next one that has any."""
        view = self._present_view()
        number = view.owner(self._offset)
        for following in range(number, len(view.bases)):
            before = self._offset
            base_offset = view.bases[following]
            is_last = following + 1 == len(view.bases)
            yield from self._segment(view, base_offset)
            if self._offset >= self._wanted.end_offset:
                return
            if is_last or self._offset > before:
                # The next segment follows at once; else the directory is listed again, for the reason.
                if is_last or view.bases[following + 1] != self._offset:
                    self._view = None
                return

    def _present_view(self) -> SegmentView:
        if self._view is None:
            self._view = SegmentView(self._disk, self._place.directory)
            start = max(self._place.log_start, self._view.bases[0]) if self._view.bases else self._place.log_start
            if self._offset < start:
                raise OffsetOutOfRange(self._wanted, Bounds(start, max(start, self._wanted.end_offset)))
        return self._view

    def _segment(self, view: SegmentView, base_offset: int) -> Iterator[FetchedBatches]:
        path = view.path(base_offset)
        identity = view.files.identity(path)
        file = view.files.open(path)
        try:
            aborted: Sequence[AbortedTransaction] | None = None
            for data, found in self._batches(file, path, view.position(file, base_offset, self._offset)):
                if found.has_transactions and aborted is None and self._isolation is IsolationLevel.READ_COMMITTED:
                    aborted = find_aborted(view, found.first_offset, self._wanted.end_offset, self._place.trust)
                    if view.files.identity(path) != identity:  # the index may belong to the new segment
                        raise SegmentChanged(f"{path} was replaced")
                self._offset = found.next_offset
                batches = memoryview(data)[found.start : found.end]
                yield FetchedBatches(batches, _reaching(aborted or (), found), found.next_offset)
        finally:
            file.release()

    def _batches(self, file: File, path: str, position: int) -> Iterator[tuple[bytes, BatchCut]]:
        """Pieces of the file with the wanted batches in them, up to the end of the file or of the range."""
        length, end_offset = self._piece_bytes, self._wanted.end_offset
        while True:
            data = file.read_at(length, position)
            found = cut(data, self._offset, end_offset)
            position += found.end
            is_at_end = len(data) < length
            if found.end > found.start:
                yield data, found
            del data  # otherwise the next piece would need room for two
            if found.is_done:
                if self._offset < end_offset:  # the next batch begins after the range
                    self._offset = end_offset
                    yield _NOTHING_READ, found._replace(start=0, end=0, next_offset=end_offset, has_transactions=False)
                return
            if found.problem is not None:
                raise SegmentChanged(f"{path}, byte {position}, offset {found.next_offset}: {found.problem}")
            if found.needed > file.size() - position or (is_at_end and not found.needed):
                return  # a broker writes there, or a crash has cut the batch
            if found.needed > MAX_BATCH_BYTES:
                raise SegmentChanged(f"{path}, byte {position}: a batch of {found.needed} bytes is too large")
            length = max(self._piece_bytes, found.needed)

    def _give_up(self, problem: str) -> None:
        """Raise the error for offsets that stay missing."""
        wanted = self._wanted
        if problem:
            raise self._unavailable(problem)
        bases = self._view.bases if self._view is not None else SegmentView(self._disk, self._place.directory).bases
        start = max(self._place.log_start, bases[0] if bases else 0)
        raise OffsetOutOfRange(wanted, Bounds(start, self._offset))

    def _unavailable(self, problem: str) -> LogUnavailable:
        return LogUnavailable(
            f"{self._wanted.partition}: {self._place.directory} cannot be read at offset {self._offset}: {problem}; "
            f"`headgate log verify {self._place.directory}` says what is damaged"
        )


def _reaching(aborted: Sequence[AbortedTransaction], found: BatchCut) -> list[tuple[int, int]]:
    """The transactions that reach into a piece."""
    return [
        (transaction.producer_id, transaction.first_offset)
        for transaction in aborted
        if transaction.first_offset < found.next_offset and transaction.last_offset >= found.first_offset
    ]
