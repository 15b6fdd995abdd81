"""The errors of log directories and logs. Each text says what happened, to which thing, and what to do next."""

from __future__ import annotations


class StorageError(Exception):
    """A log directory, or a log in it, cannot be used."""


class DirectoryLocked(StorageError):
    """Another process uses the log directory. `process_id` is None if the lock file does not name that process."""

    def __init__(self, directory: str, process_id: int | None) -> None:
        self.process_id = process_id
        who = "another process" if process_id is None else f"process {process_id}"
        super().__init__(f"the data directory {directory} is in use by {who}; stop it, or choose another log.dirs")


class WrongDirectory(StorageError):
    """A log directory belongs to another node or another cluster; the broker must not change it."""


class CorruptLog(StorageError):
    """A log is damaged below its recovery point. Its partition stays offline; other partitions are not affected."""


class UnsupportedLog(StorageError):
    """A log holds something that this version cannot read; the log stays unchanged."""


class NotALog(StorageError):
    """A directory with a partition's name holds files, but none of a log; the directory stays unchanged."""


class BadFile(StorageError):
    """A small file, such as a checkpoint or an index, does not have the content that its name promises."""
