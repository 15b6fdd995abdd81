"""What a path means: a data directory, a partition's directory in one, or a single file."""

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

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

# <topic>-<partition>.<id>-<what becomes of it>, as Apache Kafka has them too; deleted long names are cut
_LEAVING = re.compile(r"(?P<name>.+)\.[0-9a-zA-Z]{22,32}-(?P<state>delete|future|stray)")

# Linux, 64 bits: what kind of lock, whence, from where, how long, whose
_FLOCK = struct.Struct("hhqqi4x")


class NotFound(Exception):
    """A path is nothing that the commands know; the sentence says what it would have to be."""


class PartitionDirectory(NamedTuple):
    """A partition's directory. `state`: "" for one in use, else delete, future or stray, as its name ends."""

    directory: str
    topic: str
    partition: int
    state: str = ""

    @property
    def key(self) -> TopicPartition:
        """As the checkpoints have it."""
        return self.topic, self.partition

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass
class DataDirectory:
    """What a data directory says of its partitions, and what of that cannot be read (`problems`)."""

    path: str
    is_clean: bool = False
    recovery_points: Mapping[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: Mapping[TopicPartition, int] = field(default_factory=dict)
    start_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    cleaned: Mapping[TopicPartition, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    is_read: bool = True
    """False: the system refused to read one of its small files, so that nothing may be changed by what they say."""
    holder: int | None = None
    """The process id of the broker that has it now, if that can be told."""

    @classmethod
    def read(cls, files: Files, path: str) -> DataDirectory:
        """Look at the small files; there may be none of them."""
        data = cls(path, is_clean=files.exists(f"{path}/{CLEAN_SHUTDOWN}"))
        with data._told(f"{path}/{LOCK}"):
            data.holder = _holder(f"{path}/{LOCK}")
        data.recovery_points = data._offsets(files, RECOVERY_POINTS)
        data.high_watermarks = data._offsets(files, HIGH_WATERMARKS)
        data.start_offsets = data._offsets(files, START_OFFSETS)
        data.cleaned = data._offsets(files, CLEANED_OFFSETS)
        with data._told(f"{path}/{layout.META_PROPERTIES}"):
            layout.read_meta(files, path)
        return data

    def _offsets(self, files: Files, name: str) -> Mapping[TopicPartition, int]:
        path = f"{self.path}/{name}"
        with self._told(path):
            return {} if is_empty(files, path) else checkpoint.read_offsets(files, path)
        return {}

    @contextlib.contextmanager
    def _told(self, path: str) -> Iterator[None]:
        """What is wrong with a file stands in `problems`."""
        try:
            yield
        except BadFile as error:
            self.problems.append(str(error))
        except OSError as error:
            self.problems.append(reason(error, path))
            self.is_read = False


class Place(NamedTuple):
    """A data directory with the partitions of it that are meant, those that cannot be read among them."""

    data: DataDirectory
    partitions: Sequence[PartitionDirectory]


def reason(error: OSError, path: str) -> str:
    """What the system refused, and of which file: of `path`, where the error does not say."""
    return f"{error.filename or path}: {error.strerror or error}"


def is_empty(files: Files, path: str) -> bool:
    """Whether a file has nothing in it at all: so Apache Kafka makes those in which there is nothing to be said yet."""
    return files.exists(path) and not files.size(path)


def _holder(path: str) -> int | None:
    """Who holds the POSIX lock that brokers, Headgate's and Kafka's, have on a file; it is asked for, and not taken."""
    if fcntl is None or sys.platform != "linux" or not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        asked = fcntl.fcntl(file, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0))
    kind, *_, process_id = _FLOCK.unpack(asked)
    return None if kind == fcntl.F_UNLCK else process_id


def find(
    files: Files, paths: Sequence[str], topics: Collection[str], partitions: Collection[int]
) -> Iterator[Place | str]:
    """What each path means: partitions, or the path of one file.

    Of data directories only these topics and partitions are taken, all if none are named; each has to be in one of
    them. What one says of its partitions is read once, however many paths lead there. One that cannot be read has that
    for its problem, and no partitions. Raises NotFound.
    """
    known: dict[Path, DataDirectory] = {}
    whole: dict[str, Sequence[PartitionDirectory]] = {}
    is_all_read = True
    for given in paths:
        path = given.rstrip("/") or "/"
        try:
            if Path(path).is_file():
                yield path
                continue
            if not Path(path).is_dir():
                raise NotFound(f"there is no {path}")
            above, found = _directory(files, path)
            real = Path(above).resolve()
            if real not in known:
                known[real] = DataDirectory.read(files, above)
        except OSError as error:
            yield Place(DataDirectory(path, problems=[reason(error, path)], is_read=False), [])
            is_all_read = False
            continue
        if above == path:
            whole[path] = found
            found = [one for one in found if _is_named(one, topics, partitions)]
        yield Place(known[real], found)
    if is_all_read:
        _check_named(whole, topics, partitions)


def _is_named(one: PartitionDirectory, topics: Collection[str], partitions: Collection[int]) -> bool:
    return (not topics or one.topic in topics) and (not partitions or one.partition in partitions)


def _check_named(
    whole: Mapping[str, Sequence[PartitionDirectory]], topics: Collection[str], partitions: Collection[int]
) -> None:
    """Raises NotFound for what is in none of these data directories."""
    if not whole:
        return
    found = [one for each in whole.values() for one in each]
    where = f"{', '.join(whole)} {'has' if len(whole) == 1 else 'have'}"
    advice = f"`headgate log ls {' '.join(whole)}` lists all"
    missing = sorted(set(topics) - {one.topic for one in found})
    if missing:
        raise NotFound(f"{where} no partition of {', '.join(missing)}; {advice}")
    absent = sorted(set(partitions) - {one.partition for one in found if _is_named(one, topics, partitions)})
    if absent:
        whose = f" of {', '.join(sorted(topics))}" if topics else ""
        raise NotFound(f"{where} no partition {', '.join(map(str, absent))}{whose}; {advice}")


def _directory(files: Files, path: str) -> tuple[str, list[PartitionDirectory]]:
    """The data directory, and what is in it, or the one partition that is meant."""
    names, real = [entry.name for entry in Path(path).iterdir()], Path(path).resolve()
    own = _parse(str(real))
    if own is not None and any(map(layout.is_of_log, names)):
        above = parent(path)
        is_above = Path(above).resolve() == real.parent  # not so of ".", nor of a link
        return above if is_above else str(real.parent), [own._replace(directory=path)]
    parsed = (_parse(f"{path}/{name}") for name in names)
    partitions_of = (one for one in parsed if one is not None and _may_be_one(files, one.directory))
    found = sorted(partitions_of, key=lambda one: (one.key, one.directory))
    if not found and not files.exists(f"{path}/{layout.META_PROPERTIES}"):
        raise NotFound(f"{path} is neither a data directory nor a partition's: nothing in it is named <topic>-<number>")
    return path, found


def _may_be_one(files: Files, directory: str) -> bool:
    """Whether what is called like a partition's directory is one; so is what cannot be read: who reads it tells why."""
    try:
        return not layout.is_no_partition(files.list(directory))
    except FileNotFoundError:
        return Path(directory).is_symlink()  # else it went meanwhile
    except OSError:
        return True


def _parse(path: str) -> PartitionDirectory | None:
    name = path.rpartition("/")[2]
    leaving = _LEAVING.fullmatch(name)
    key = layout.parse_partition(leaving["name"] if leaving else name)
    return None if key is None else PartitionDirectory(path, *key, leaving["state"] if leaving else "")


def partition_of(path: str) -> PartitionDirectory | None:
    """Of which partition a file is, by the directory that it is in; None if that is no partition's."""
    return _parse(parent(str(Path(path).resolve())))
