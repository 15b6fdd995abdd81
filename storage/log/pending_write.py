"""Batches that a log has accepted but not yet written: many small appends become one write.

The main cost of a small append is its system call. So a log may stage several batches, and write them at once. Until
then its end offset and its producers are ahead of its file; a failed write restores them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from headgate.protocol.errors import KafkaError
from headgate.protocol.records.batch import HEADER_SIZE
from headgate.storage.files import File
from headgate.storage.log.producers import Producer, Producers
from headgate.storage.segment.segment import Written
from headgate.storage.segment.transaction_index import AbortedTransaction

MAX_STAGED_BYTES = 1 << 17
MAX_BATCHES = MAX_STAGED_BYTES // HEADER_SIZE


class AppendInfo(NamedTuple):
    """The place of appended batches. log_append_time_ms is -1 with CreateTime."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    max_timestamp: int
    is_duplicate: bool


class Owner(Protocol):
    """The replica that appends to a log, and has threads wait for the disk."""

    def sync_soon(self) -> None:
        """Have the log flushed soon."""

    def write_epochs_soon(self) -> None:
        """Have the leader epochs written to their file soon."""

    def run_roll(self, roll: Callable[[], None]) -> None:
        """Run the roll that an append needs first, or raise an exception, which ends the append."""


class PendingWrite:
    """The next write, and the state that a failure restores.

    The limits bound additions without another check of the segment: bytes, highest timestamp, highest offset. All
    batches have one leader epoch. `owner` has the log flushed after the write; without an owner the log flushes itself.
    """

    __slots__ = (
        "_file",
        "_leader_epoch",
        "_position",
        "_producers",
        "aborted",
        "error",
        "first_offset",
        "is_replicated",
        "max_bytes",
        "max_offset",
        "max_timestamp",
        "owner",
        "parts",
        "size",
        "written",
    )

    def __init__(self, first_offset: int, leader_epoch: int, owner: Owner | None = None) -> None:
        self.first_offset = first_offset
        self.owner = owner
        self.parts: list[memoryview | bytes] = []
        self.written: list[Written] = []
        self.aborted: tuple[AbortedTransaction, ...] = ()
        """The aborted transactions that end in these batches."""
        self.size = 0
        self.is_replicated = False
        """Whether the leader made the batches, and this broker follows."""
        self.error: KafkaError | None = None
        """The error of the write, or of the flush after the write."""
        self.max_bytes = self.max_timestamp = self.max_offset = 0
        self._file: File | None = None
        self._position = 0
        self._leader_epoch = leader_epoch
        self._producers: dict[int, Producer | None] = {}

    def has_bytes(self, size: int) -> bool:
        """Whether so many more bytes fit."""
        return self.size + size <= self.max_bytes

    def has_room(self, size: int, timestamp: int, last_offset: int, leader_epoch: int) -> bool:
        """Whether so many bytes of batches, up to a timestamp and an offset, fit."""
        return (
            self.size + size <= self.max_bytes
            and timestamp <= self.max_timestamp
            and last_offset < self.max_offset
            and leader_epoch <= self._leader_epoch
        )

    def add(self, part: memoryview | bytes, size: int, last_offset: int, timestamp: int) -> None:
        """Add one batch of `size` bytes."""
        self.parts.append(part)
        self.written.append((size, last_offset, timestamp))
        self.size += size

    def add_run(self, part: memoryview, written: Sequence[Written]) -> None:
        """Add batches that follow each other in one buffer."""
        self.parts.append(part)
        self.written += written
        self.size += len(part)

    def remember(self, producers: Producers, producer_id: int) -> None:
        """Keep a producer's state from before the first of its batches here."""
        if producer_id not in self._producers:
            producer = producers.by_id.get(producer_id)
            self._producers[producer_id] = producer.copy() if producer is not None else None

    def restore(self, producers: Producers) -> None:
        """Undo the effect of these batches on the producers."""
        for producer_id, producer in self._producers.items():
            producers.restore(producer_id, producer, self.first_offset)

    def content(self) -> memoryview | bytes:
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)

    def place(self, file: File, position: int) -> None:
        """Set the place of the write. The file is held open."""
        self._file, self._position = file, position

    def write(self) -> None:
        """Write, in any thread. Raises OSError."""
        assert self._file is not None
        self._file.write_at(self.content(), self._position)

    def release(self) -> None:
        if self._file is not None:
            self._file.release()
            self._file = None
