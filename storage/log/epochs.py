"""Leader epochs and their start offsets (`leader-epoch-checkpoint`): the leader that wrote each record.

A follower asks for the end of an epoch, to truncate records that another leader never had. Source: KIP-101, KIP-279,
KIP-320; Kafka's `LeaderEpochFileCache`.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable

from headgate.storage.disk import checkpoint
from headgate.storage.errors import BadFile
from headgate.storage.files import NO_ROOM, Files

logger = logging.getLogger("headgate.storage")

FILE_NAME = "leader-epoch-checkpoint"
NO_EPOCH = -1
NO_OFFSET = -1

_making_locks = threading.Lock()


class Epochs:
    """The epochs of one log. Epochs and start offsets both increase.

    An append changes the epochs in memory. A thread writes them at the next checkpoint or before the next flush: so the
    file is on the disk before any record is reported as flushed; until then a start finds the epochs in the batches.
    The file of a new log is not synced alone: creating a thousand partitions must not block the disk.
    """

    __slots__ = (
        "_changes", "_directory", "_entries", "_files", "_has_file", "_lock", "_written", "is_synced", "latest",
    )  # fmt: skip

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._entries: tuple[tuple[int, int], ...] = ()  # most logs have none: an empty list takes memory
        self.latest = NO_EPOCH
        """The newest epoch; -1 for none. A plain attribute, as every append reads it."""
        self.is_synced = True
        """Whether the next flush may leave out the file."""
        self._lock: threading.Lock | None = None  # of the file
        self._has_file = False
        self._changes = self._written = 0  # the number of changes, and of written ones

    def load(self, entries: Iterable[tuple[int, int]]) -> None:
        """Take the entries of the file."""
        self._take(entries)
        self._has_file = bool(self._entries)

    def _take(self, entries: Iterable[tuple[int, int]]) -> None:
        self._entries = tuple(entries)
        self.latest = self._entries[-1][0] if self._entries else NO_EPOCH

    def replace(self, entries: Iterable[tuple[int, int]], *, always: bool = False) -> None:
        """Replace entries and file, if they differ, or `always`. Raises OSError, and then nothing has changed."""
        changed = tuple(entries)
        if always or changed != self._entries:
            with self._locked():
                checkpoint.replace(self._files, self.path, _text(changed))
                self._keep(changed)
                self._written, self._has_file = self._changes, True
            self.is_synced = True

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) in order."""
        return list(self._entries)

    @property
    def path(self) -> str:
        return f"{self._directory}/{FILE_NAME}"

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that a leader of `epoch` writes from `start_offset` on.

        Contradicting entries are removed; a known epoch stays.
        """
        if epoch <= self.latest or epoch < 0:
            return
        self._keep((*self._below(start_offset), (epoch, start_offset)))
        self.is_synced = False

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest epoch at most `epoch`, and its end offset; (-1, -1) if unknown.

        The latest epoch ends at the end of the log.
        """
        if epoch < 0 or not self._entries or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end
        after = bisect_right(self._entries, epoch, key=lambda entry: entry[0])
        end_offset = self._entries[after][1]
        return (self._entries[after - 1][0] if after else epoch), end_offset

    def end_offset_led(self, epoch: int, leader_epoch: int, log_end: int) -> tuple[int, int]:
        """The largest epoch at most `epoch`, and its end offset, if the leader has the epoch `leader_epoch`.

        A leader's epoch begins at the log's end when the leader takes over, although only its first record adds the
        entry. (-1, -1) for an epoch above the leader's.
        """
        if epoch < self.latest:
            return self.end_offset_for(epoch, log_end)
        if epoch > leader_epoch or epoch < 0:
            return NO_EPOCH, NO_OFFSET
        is_known = epoch == leader_epoch or self.latest == NO_EPOCH
        return epoch if is_known else self.latest, log_end

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`; -1 if unknown."""
        after = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        return self._entries[after - 1][0] if after else NO_EPOCH

    def truncate_to(self, end_offset: int) -> None:
        """Remove the epochs from `end_offset` on, the new end of the log, on the disk too. Raises OSError."""
        self.replace(self._below(end_offset))

    def forget_behind(self, end_offset: int) -> None:
        """Remove the epochs from `end_offset` on, in memory."""
        kept = self._below(end_offset)
        if kept != self._entries:
            self._keep(kept)
            self.is_synced = False

    def _below(self, end_offset: int) -> tuple[tuple[int, int], ...]:
        return tuple(entry for entry in self._entries if entry[1] < end_offset)

    def start_from(self, start_offset: int) -> None:
        """Let the log begin at `start_offset`: older epochs are removed, and the epoch there begins there."""
        after = bisect_right(self._entries, start_offset, key=lambda entry: entry[1])
        if after:
            changed = ((self._entries[after - 1][0], start_offset), *self._entries[after:])
            if changed != self._entries:
                self._keep(changed)

    def keep(self, entries: Iterable[tuple[int, int]], *, always: bool = False) -> None:
        """`replace` for entries taken from the log's batches: they are valid even if the disk has no room for the file.

        Entries that only extend the file are written with the next checkpoint, as after an append: until then the
        batches have them. A wait for the disk here doubled the start of 3,000 partitions after a kill: 4.6 s.
        """
        changed = tuple(entries)
        if self._has_file and not always and changed != self._entries == changed[: len(self._entries)]:
            self._keep(changed)
            self.is_synced = False
            return
        try:
            self.replace(changed, always=always)
        except OSError as error:
            logger.warning("%s cannot be written for now: %s", self.path, error)
            self._keep(changed)

    def _keep(self, entries: Iterable[tuple[int, int]]) -> None:
        self._take(entries)
        self._changes += 1

    def note_synced(self) -> None:
        """Note that the file is on the disk, or is about to be synced."""
        self.is_synced = True

    @property
    def is_stale(self) -> bool:
        """Whether the file is older than the entries."""
        return self._changes != self._written

    def begin_write(self, *, needs_room: bool = True) -> Callable[[], None]:
        """A write of the present epochs, for any thread. The write raises OSError.

        Afterwards the file is on the disk, unless it is a log's first. If not `needs_room`, a full disk leaves out the
        first file: the batches have the epochs.
        """
        number, content = self._changes, _text(self._entries)

        def write() -> None:
            with self._locked():
                if number <= self._written:
                    return
                if self._has_file:
                    checkpoint.replace(self._files, self.path, content)
                elif not self._make(content, needs_room):
                    return
                self._written, self._has_file = number, True

        return write

    def _make(self, content: bytes, needs_room: bool) -> bool:
        """Write the first file; False if there was no room for it."""
        try:
            with checkpoint.removed_on_error(self._files, self.path):
                self._files.write(self.path, content)
        except OSError as error:
            if needs_room or error.errno not in NO_ROOM:
                raise
            return False
        return True

    def _locked(self) -> threading.Lock:
        """The lock of the file, created at first use: most logs are never written to again."""
        with _making_locks:
            self._lock = self._lock or threading.Lock()
            return self._lock


def _text(entries: Iterable[tuple[int, int]]) -> bytes:
    return checkpoint.text(f"{epoch} {start_offset}" for epoch, start_offset in entries)


def read_entries(files: Files, directory: str) -> list[tuple[int, int]] | None:
    """The entries in the file of a partition's directory; None without a file. Raises BadFile."""
    path = f"{directory}/{FILE_NAME}"
    try:
        rows = checkpoint.read_lines(files, path)
        entries = None if rows is None else [(int(epoch), int(start_offset)) for epoch, start_offset in rows]
    except ValueError as error:
        raise BadFile(f"{path} has a row that is not an epoch and an offset: {error}") from None
    if entries is not None and entries != sorted(set(entries)):
        raise BadFile(f"{path} is not in order")
    return entries
