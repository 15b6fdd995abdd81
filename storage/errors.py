"""What can be wrong with a store. Each sentence says what happened, to which thing, and what to do next."""

from __future__ import annotations


class StorageError(Exception):
    """The store, or a part of it, cannot be used."""


class DirectoryLocked(StorageError):
    """Another process uses the data directory; `process_id` is None where it did not say."""

    def __init__(self, directory: str, process_id: int | None) -> None:
        self.process_id = process_id
        who = "another process" if process_id is None else f"process {process_id}"
        super().__init__(f"the data directory {directory} is in use by {who}; stop it, or choose another log.dirs")


class WrongDirectory(StorageError):
    """A data directory is another node's, or of another cluster: nothing of it may be touched."""


class CorruptLog(StorageError):
    """A partition's log is damaged where it was already safe on disk: it stays closed, all others go on."""


class UnsupportedLog(StorageError):
    """A partition's log holds something that this version does not know; it is left as it is."""


class NotALog(StorageError):
    """A directory that is called like a partition's holds files, and none of a log: it is left as it is."""


class BadFile(StorageError):
    """A small file of the store is not what its name says."""
