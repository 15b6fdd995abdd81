"""A partition's directory at one moment, read only, as the next start of its broker would leave it.

The broker may run: it appends, rolls, deletes and renames meanwhile. The names stay as at the beginning; a file that
is gone raises FileNotFoundError, and the caller lists the directory again. Work on the names, such as the end of an
interrupted compaction, happens in memory (`headgate.tools.log.overlay`).
"""

from __future__ import annotations

from headgate.storage.files import Files
from headgate.storage.recovery.quarantine import TORN_SUFFIX
from headgate.tools.log.overlay import Overlay

_ATTEMPTS = 100


class DirectoryChanges(Exception):
    """The names in a directory change faster than they are read."""


class FrozenFiles(Overlay):
    """The files of one partition's directory."""

    def __init__(self, disk: Files, directory: str) -> None:
        """List the directory. Raises OSError, DirectoryChanges."""
        super().__init__(disk)
        self._directory = directory
        self._names = _list_twice(disk, directory)

    def append(self, path: str, data: bytes | bytearray) -> None:
        if not path.endswith(TORN_SUFFIX):  # the bytes that a recovery cuts off are never read
            super().append(path, data)

    def _list_disk(self, path: str) -> dict[str, int]:
        return dict(self._names) if path == self._directory else super()._list_disk(path)


def _list_twice(disk: Files, directory: str) -> dict[str, int]:
    """The names of two equal listings in a row, with the sizes of the second.

    A file that is renamed during a listing may be missing under both names.
    """
    last = disk.list(directory)
    for _ in range(_ATTEMPTS):
        names = disk.list(directory)
        if names.keys() == last.keys():
            return names
        last = names
    raise DirectoryChanges(f"the files of {directory} change faster than they are listed")
