"""The batch iterator: batch after batch of a segment, to its end or to the first invalid place.

Recovery, verification and compaction iterate over whole segments; readers find their place by a batch seek, which reads
less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import batch, control
from headgate.protocol.records.batch import BatchHeader
from headgate.protocol.records.control import TRANSACTION_BITS, Marker
from headgate.storage.segment import legacy_messages
from headgate.storage.segment.batch_seek import NO_LIMIT
from headgate.storage.segment.index import MAX_RELATIVE_OFFSET
from headgate.storage.segment.segment_file import SegmentFile
from headgate.storage.segment.transaction_index import AbortedTransaction
from headgate.storage.segment.transactions import Transactions

_WINDOW_BYTES = 4096  # for iteration over headers alone
_CHECKED_WINDOW_BYTES = 1024 * 1024


class BatchIterator:
    """The batches of a segment, one after another, to its end or to the first invalid place.

    Iteration yields (position, header). Afterwards `position` is the end of the valid bytes, `next_offset` the offset
    expected there, and `problem` a sentence if other bytes follow. With `check_crc_from`, the CRC of batches that reach
    this offset or later ones is checked.

    An iterator that rebuilds indexes follows `transactions` from the first transactional batch on. A caller that knows
    the open transactions before that batch sets `transactions` before the iterator yields it; else none count as
    open. None at the end: there was no such batch.
    """

    def __init__(
        self,
        segment: SegmentFile,
        position: int,
        check_crc_from: int = NO_LIMIT,
        index: Callable[[int, int, int], None] | None = None,
        follow_transactions: Callable[[tuple[AbortedTransaction, ...]], None] | None = None,
    ) -> None:
        """`index` and `follow_transactions`: those of the `Segment`, to rebuild its indexes."""
        self.position = position
        self.next_offset = segment.base_offset
        self.check_crc_from = check_crc_from
        self.problem: str | None = None
        self.transactions: Transactions | None = None
        self.is_cut = False
        """Whether the problem is only the beginning of a batch or of a header."""
        self._segment = segment
        self._read_head = segment.read_head
        self._check_crc = legacy_messages.check_crc if segment.has_legacy_format else batch.check_crc
        self._index = index
        self._follow_transactions = follow_transactions
        self._window = memoryview(b"")
        self._start = position

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        segment = self._segment
        while self.position < segment.size:
            try:
                header = self._read_head(self._bytes(batch.HEADER_SIZE))
            except KafkaError as error:
                self.problem = error.message
                self.is_cut = segment.size - self.position < batch.HEADER_SIZE
                return
            self.problem = self._check(header)
            if self.problem:
                return
            if self._index is not None:
                self._index(self.position, header.last_offset, header.max_timestamp)
            self.next_offset = header.last_offset + 1
            yield self.position, header
            if header.attributes & TRANSACTION_BITS and self._follow_transactions is not None:
                self._follow_transactions(self._aborted(header))
            self.position += header.size

    def marker(self, header: BatchHeader) -> Marker | None:
        """The transaction marker in the last yielded batch, if any."""
        if not header.is_control:
            return None
        return control.read(self._bytes(min(header.size, control.MAX_MARKER_BYTES)))

    def _aborted(self, header: BatchHeader) -> tuple[AbortedTransaction, ...]:
        """The transaction that this batch aborts, if any."""
        if self.transactions is None:
            self.transactions = Transactions()
        aborted = self.transactions.follow(header, header.base_offset, self.marker(header))
        return () if aborted is None else (aborted,)

    def _check(self, header: BatchHeader) -> str | None:
        left = self._segment.size - self.position
        if header.size > left:
            self.is_cut = True
            return f"a batch of {header.size} bytes is cut after {left}"
        if header.base_offset < self.next_offset or header.last_offset_delta < 0:
            return f"offsets {header.base_offset} to {header.last_offset} do not follow {self.next_offset - 1}"
        if header.last_offset - self._segment.base_offset > MAX_RELATIVE_OFFSET:  # no checksum covers the base offset
            return f"offset {header.last_offset} is too far from {self._segment.base_offset}, where the segment begins"
        if header.last_offset >= self.check_crc_from and not self._check_crc(self._bytes(header.size)):
            return f"the CRC of the batch with offsets {header.base_offset} to {header.last_offset} is wrong"
        return None

    def _bytes(self, length: int) -> memoryview:
        """Up to `length` bytes at the position, from a window over the file.

        The window is large if whole batches are read.
        """
        at = self.position - self._start
        if at + length > len(self._window):
            window = _CHECKED_WINDOW_BYTES if self.check_crc_from != NO_LIMIT else _WINDOW_BYTES
            self._window = memoryview(self._segment.file.read_at(max(length, window), self.position))
            self._start, at = self.position, 0
        return self._window[at : at + length]
