"""Pending deletions: renamed segment files, and directories of deleted partitions, that are still on the disk.

They stay for `file.delete.delay.ms`, for readers that have planned to open them. The removal of a large file takes
long: so the loop takes the due entries, a thread removes them, and the loop puts failed ones back. A start finds such
files by their suffix, and need not wait for readers.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from headgate.storage.files import NO_ROOM, Files

logger = logging.getLogger("headgate.storage")

RETRY_MS = 60_000.0
"""The delay before a failed removal is retried."""


class Entry(NamedTuple):
    """A path, its delay, and whether it is a directory."""

    path: str
    delay_ms: float
    is_directory: bool


class Removal:
    """One removal. Any thread may call `run`; `left` then has the entries that could not be removed."""

    __slots__ = ("_entries", "_files", "left")

    def __init__(self, files: Files, entries: list[Entry]) -> None:
        self._files = files
        self._entries = entries
        self.left: list[Entry] = []

    def run(self) -> None:
        """Remove the entries. A failure is logged."""
        for entry in self._entries:
            remove = self._files.remove_tree if entry.is_directory else self._files.remove
            try:
                remove(entry.path)
            except FileNotFoundError:
                continue
            except OSError as error:
                logger.warning("%s cannot be removed; the broker retries: %s", entry.path, error)
                self.left.append(entry)


class PendingDeletions:
    """The deleted files of one data directory. Delays are counted from the first `take` after `add`."""

    __slots__ = ("_due", "_files", "_new", "_numbers")

    def __init__(self, files: Files) -> None:
        self._files = files
        self._new = deque[Entry]()
        self._due: list[tuple[float, int, Entry]] = []
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._new) + len(self._due)

    def __iter__(self) -> Iterator[str]:
        yield from (entry.path for entry in self._new)
        yield from (entry.path for _, _, entry in self._due)

    def add(self, path: str, delay_ms: float = 0.0, *, is_directory: bool = False) -> None:
        """Remove a file or a directory after this time. May be called in any thread."""
        self._new.append(Entry(path, delay_ms, is_directory))

    def rename(self, path: str, ending: str, delay_ms: float) -> None:
        """Append an ending to the name of a file now, and remove the file after this time. May be called again.

        Any thread may call this. Does nothing if the file does not exist. Raises OSError.
        """
        try:
            self._files.rename(path, path + ending)
        except FileNotFoundError:  # no such file, or an earlier attempt has renamed it
            return
        except OSError as error:
            if error.errno not in NO_ROOM:  # a longer name may need room in the directory
                raise
            self._files.remove(path)
            return
        self.add(path + ending, delay_ms)

    def extend(self, other: PendingDeletions) -> None:
        """Take over the unscheduled entries of another instance."""
        while other._new:
            self._new.append(other._new.popleft())

    def take(self, now_ms: float, *, at_once: bool = False) -> Removal | None:
        """The due removal by a monotonic clock; of everything with `at_once`. None if nothing is due."""
        while self._new:
            entry = self._new.popleft()
            self._put(now_ms + entry.delay_ms, entry)
        entries = []
        while self._due and (at_once or self._due[0][0] <= now_ms):
            entries.append(heapq.heappop(self._due)[2])
        return Removal(self._files, entries) if entries else None

    def end_removal(self, removal: Removal, now_ms: float) -> None:
        """End a removal after its run: failed entries are retried."""
        for entry in removal.left:
            self._put(now_ms + RETRY_MS, entry)

    def _put(self, due_ms: float, entry: Entry) -> None:
        heapq.heappush(self._due, (due_ms, next(self._numbers), entry))
