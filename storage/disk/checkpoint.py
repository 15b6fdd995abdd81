"""Small files that are replaced as a whole, and Kafka's text form of them.

    0                      version
    2                      lines that follow
    payments 0 1544        topic, partition, offset
    payments 1 1230

A replacement writes `<name>.tmp`, syncs it, renames it, and syncs the directory. A crash leaves the old or the new
content, never a mixture. Source: Apache Kafka's `CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial

from headgate.storage.errors import BadFile
from headgate.storage.files import Files, parent

TEMPORARY_SUFFIX = ".tmp"
VERSION = "0"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"

TopicPartition = tuple[str, int]


def replace(files: Files, path: str, data: bytes) -> None:
    """Replace a file atomically, and wait until it is on the disk. Raises OSError."""
    temporary = path + TEMPORARY_SUFFIX
    with removed_on_error(files, temporary):
        files.write(temporary, data, sync=True)
        files.rename(temporary, path)
    files.sync_directory(parent(path))


@contextlib.contextmanager
def removed_on_error(files: Files, path: str) -> Iterator[None]:
    """Remove a file whose writing the disk refuses: half of it is worth nothing, and a full disk wants its room."""
    try:
        yield
    except OSError:
        with contextlib.suppress(OSError):
            files.remove(path)
        raise


def text(lines: Iterable[str]) -> bytes:
    """The content of a file of Kafka's checkpoint form."""
    rows = list(lines)
    return "".join(f"{line}\n" for line in (VERSION, str(len(rows)), *rows)).encode()


def read_lines(files: Files, path: str, *, may_be_empty: bool = False) -> list[list[str]] | None:
    """The rows of a checkpoint file, split at blanks; None if there is no file. Raises BadFile.

    `may_be_empty`: an empty file has no rows.
    """
    try:
        content = files.read(path)
        if may_be_empty and not content:
            return []
        version, count, *rows, end = content.decode().split("\n")
    except FileNotFoundError:
        return None
    except ValueError:
        raise BadFile(f"{path} has no version and count in its first two lines") from None
    if end:
        raise BadFile(f"{path} is cut in its last line")
    if version != VERSION:
        raise BadFile(f"{path} has version {version!r}; {VERSION} is known here")
    if not count.isdigit() or int(count) != len(rows):
        raise BadFile(f"{path} should have {count} rows and has {len(rows)}")
    return [row.split() for row in rows]


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint of one offset for each partition."""
    rows = (f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
    replace(files, path, text(rows))


def forget_partition(files: Files, directory: str, key: TopicPartition) -> None:
    """Take a partition out of all checkpoints of a data directory that no process uses.

    A new log of that name would seem to have lost its end otherwise. Raises OSError.
    """
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS, START_OFFSETS, CLEANED_OFFSETS):
        path = f"{directory}/{name}"
        with contextlib.suppress(BadFile):  # which counts as empty
            offsets = read_offsets(files, path)
            if key in offsets:
                write_offsets(files, path, {one: offset for one, offset in offsets.items() if one != key})


class OffsetCheckpoint:
    """A checkpoint of one offset for each partition, written in any thread: the latest of several states stays."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._lock = threading.Lock()
        self._begun = self._written = 0
        self._content: Mapping[TopicPartition, int] | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the file may be older than the latest state that was begun."""
        return self._begun != self._written

    def begin(self, offsets: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """A write of these offsets, which must not change afterwards. Run it once. It raises OSError."""
        self._begun += 1
        return partial(self._write, self._begun, offsets)

    def _write(self, number: int, offsets: Mapping[TopicPartition, int]) -> None:
        with self._lock:
            if number < self._written:
                return
            if offsets != self._content:
                self._content = None  # unknown until the write has succeeded
                write_offsets(self._files, self._path, offsets)
            self._content, self._written = offsets, number  # equal ones too: these are held anyway


def offsets_of(keys: Container[TopicPartition], offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {key: offset for key, offset in offsets.items() if key in keys}


def run_all(works: Iterable[Callable[[], None]], refusals: tuple[type[Exception], ...] = (OSError,)) -> None:
    """Run all of them, even if some are refused. Raises the last of the refusals."""
    failure: Exception | None = None
    for work in works:
        try:
            work()
        except refusals as error:
            failure = error
    if failure is not None:
        raise failure


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """Partition -> offset; empty if there is no file, or nothing in it, as Apache Kafka makes one. Raises BadFile."""
    try:
        rows = read_lines(files, path, may_be_empty=True) or ()
        return {(sys.intern(topic), int(partition)): int(offset) for topic, partition, offset in rows}
    except ValueError as error:
        raise BadFile(f"{path} has a row that is not a topic, a partition and an offset: {error}") from None
