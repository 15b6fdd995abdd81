"""The meaning of a path: a data directory, a partition's directory in one, or a single file."""

from __future__ import annotations

import contextlib
import re
import struct
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from headgate.storage.directory.log_directory import CLEAN_SHUTDOWN, LOCK
from headgate.storage.disk import checkpoint, layout
from headgate.storage.disk.checkpoint import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    TopicPartition,
)
from headgate.storage.errors import BadFile
from headgate.storage.files import Files, parent
from headgate.tools.output import UsageError

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

# <topic>-<partition>.<id>-<state>, as in Apache Kafka; a deleted partition with a long name has a shortened name
_SUFFIXED = re.compile(r"(?P<name>.+)\.[0-9a-zA-Z]{22,32}-(?P<state>delete|future|stray)")

# struct flock of Linux, 64 bits: type, whence, start, length, process id
_FLOCK = struct.Struct("hhqqi4x")


class PartitionDirectory(NamedTuple):
    """A partition's directory. `state`: the suffix of the name: delete, future, stray, or "" for a directory in use."""

    directory: str
    topic: str
    partition: int
    state: str = ""

    @property
    def key(self) -> TopicPartition:
        """The key in the checkpoints."""
        return self.topic, self.partition

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass
class DataDirectory:
    """The checkpoints of a data directory. `problems`: sentences about files that cannot be read."""

    path: str
    is_clean: bool = False
    recovery_points: Mapping[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: Mapping[TopicPartition, int] = field(default_factory=dict)
    start_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    cleaner_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    is_readable: bool = True
    """False: the system refused to read a checkpoint or meta.properties, so no repair may rely on them."""
    lock_holder: int | None = None
    """The process id of the broker that holds the lock; None without such a broker, or on other systems than Linux."""

    @classmethod
    def read(cls, files: Files, path: str) -> DataDirectory:
        """Read the checkpoints and the lock; each of the files may be missing."""
        data = cls(path, is_clean=files.exists(f"{path}/{CLEAN_SHUTDOWN}"))
        with data._collect_problem(f"{path}/{LOCK}"):
            data.lock_holder = lock_holder(f"{path}/{LOCK}")
        data.recovery_points = data._offsets(files, RECOVERY_POINTS)
        data.high_watermarks = data._offsets(files, HIGH_WATERMARKS)
        data.start_offsets = data._offsets(files, START_OFFSETS)
        data.cleaner_offsets = data._offsets(files, CLEANED_OFFSETS)
        with data._collect_problem(f"{path}/{layout.META_PROPERTIES}"):
            layout.read_meta(files, path)
        return data

    def _offsets(self, files: Files, name: str) -> Mapping[TopicPartition, int]:
        path = f"{self.path}/{name}"
        with self._collect_problem(path):
            return {} if is_empty(files, path) else checkpoint.read_offsets(files, path)
        return {}

    @contextlib.contextmanager
    def _collect_problem(self, path: str) -> Iterator[None]:
        """Append errors about a file to `problems`."""
        try:
            yield
        except BadFile as error:
            self.problems.append(str(error))
        except OSError as error:
            self.problems.append(describe_os_error(error, path))
            self.is_readable = False


class Selection(NamedTuple):
    """A data directory and the selected partitions in it, including partitions that cannot be read."""

    data: DataDirectory
    partitions: Sequence[PartitionDirectory]


def describe_os_error(error: OSError, path: str) -> str:
    """The system's message and the file; `path` stands in for an error without a file name."""
    return f"{error.filename or path}: {error.strerror or error}"


def is_empty(files: Files, path: str) -> bool:
    """True for a file of zero bytes: Apache Kafka creates checkpoints empty until the first entry."""
    return files.exists(path) and not files.size(path)


def lock_holder(path: str) -> int | None:
    """The process id of the holder of a file's POSIX lock, as Headgate and Kafka take it. The lock is not acquired."""
    if fcntl is None or sys.platform != "linux" or not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        asked = fcntl.fcntl(file, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0))
    kind, *_, process_id = _FLOCK.unpack(asked)
    return None if kind == fcntl.F_UNLCK else process_id


def resolve_paths(
    files: Files, paths: Sequence[str], topics: Collection[str], partitions: Collection[int]
) -> Iterator[Selection | str]:
    """The meaning of each path: a selection of partitions, or the path of a single file.

    `topics` and `partitions` narrow data directories, an empty collection selects all; each name must be in at least
    one of the directories. Each data directory is read once, however many paths lead there. A directory that cannot be
    read becomes a selection with a problem and without partitions. Raises UsageError.
    """
    known: dict[Path, DataDirectory] = {}
    data_directories: dict[str, Sequence[PartitionDirectory]] = {}
    is_all_read = True
    for given in paths:
        path = given.rstrip("/") or "/"
        try:
            if Path(path).is_file():
                yield path
                continue
            if not Path(path).is_dir():
                raise UsageError(f"there is no {path}")
            above, found = _directory(files, path)
            real = Path(above).resolve()
            if real not in known:
                known[real] = DataDirectory.read(files, above)
        except OSError as error:
            yield Selection(DataDirectory(path, problems=[describe_os_error(error, path)], is_readable=False), [])
            is_all_read = False
            continue
        if above == path:
            data_directories[path] = found
            found = [one for one in found if _is_named(one, topics, partitions)]
        yield Selection(known[real], found)
    if is_all_read:
        _check_named(data_directories, topics, partitions)


def _is_named(one: PartitionDirectory, topics: Collection[str], partitions: Collection[int]) -> bool:
    return (not topics or one.topic in topics) and (not partitions or one.partition in partitions)


def _check_named(
    data_directories: Mapping[str, Sequence[PartitionDirectory]], topics: Collection[str], partitions: Collection[int]
) -> None:
    """Raise UsageError for topics and partitions that are in none of these data directories."""
    if not data_directories:
        return
    found = [one for each in data_directories.values() for one in each]
    where = f"{', '.join(data_directories)} {'has' if len(data_directories) == 1 else 'have'}"
    advice = f"`headgate log ls {' '.join(data_directories)}` lists all"
    missing = sorted(set(topics) - {one.topic for one in found})
    if missing:
        raise UsageError(f"{where} no partition of {', '.join(missing)}; {advice}")
    absent = sorted(set(partitions) - {one.partition for one in found if _is_named(one, topics, partitions)})
    if absent:
        whose = f" of {', '.join(sorted(topics))}" if topics else ""
        raise UsageError(f"{where} no partition {', '.join(map(str, absent))}{whose}; {advice}")


def _directory(files: Files, path: str) -> tuple[str, list[PartitionDirectory]]:
    """The data directory of a path, with all its partitions or the one partition of the path. Raises UsageError."""
    names, real = [entry.name for entry in Path(path).iterdir()], Path(path).resolve()
    own = _parse(str(real))
    if own is not None and any(map(layout.is_of_log, names)):
        above = parent(path)
        is_above = Path(above).resolve() == real.parent  # False for "." and for a link
        return above if is_above else str(real.parent), [own._replace(directory=path)]
    parsed = (_parse(f"{path}/{name}") for name in names)
    partition_directories = (one for one in parsed if one is not None and _may_be_one(files, one.directory))
    found = sorted(partition_directories, key=lambda one: (one.key, one.directory))
    if not found and not files.exists(f"{path}/{layout.META_PROPERTIES}"):
        raise UsageError(
            f"{path} is neither a data directory nor a partition's: nothing in it is named <topic>-<number>"
        )
    return path, found


def _may_be_one(files: Files, directory: str) -> bool:
    """True for a partition's directory, by its content; also for one that cannot be read: the reader reports why."""
    try:
        return not layout.is_no_partition(files.list(directory))
    except FileNotFoundError:
        return Path(directory).is_symlink()  # any other directory was deleted since the listing
    except OSError:
        return True


def _parse(path: str) -> PartitionDirectory | None:
    name = path.rpartition("/")[2]
    suffixed = _SUFFIXED.fullmatch(name)
    key = layout.parse_partition(suffixed["name"] if suffixed else name)
    return None if key is None else PartitionDirectory(path, *key, suffixed["state"] if suffixed else "")


def partition_of(path: str) -> PartitionDirectory | None:
    """The partition of a file, by the name of the file's directory; None if this is no partition's directory."""
    return _parse(parent(str(Path(path).resolve())))
