"""Streaming queries of Spark as groups, `spark:<name>`, by their checkpoints: `headgate.spark.checkpoints`.

A query has read what its last done batch ends with. Each checkpoint is read by a thread. A folder that does not answer
keeps its thread; at `MAX_HANGING` of them no more begin. A checkpoint that cannot be read has an error, and no lag.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from headgate.gateway.lag.readers import NO_TIME, Committed, GroupReading
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tasks import Task, at_most, gather
from headgate.protocol.spark import checkpoint
from headgate.protocol.spark.checkpoint import Checkpoint
from headgate.protocol.spark.checkpoint_files import MAX_FILE_BYTES, MalformedCheckpoint
from headgate.storage.files import Files

KIND: Final = "spark"
READ_MS: Final = 1_000.0
"""The longest wait of a survey for a checkpoint."""
MAX_HANGING: Final = 4


class CheckpointFolder:
    """The files of a checkpoint on a disk of this machine."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if there is no such folder. Raises OSError."""
        try:
            return [*self._files.list(f"{self._path}/{folder}")]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, path: str) -> bytes | None:
        """The content of a file; None if there is none. Raises OSError, MalformedCheckpoint."""
        full_path = f"{self._path}/{path}"
        try:
            size = self._files.size(full_path)
            if size > MAX_FILE_BYTES:
                raise MalformedCheckpoint(f"{path} has {size} bytes, more than {MAX_FILE_BYTES >> 20} MiB")
            return self._files.read(full_path)
        except (FileNotFoundError, NotADirectoryError):
            return None


class SparkQueries:
    """Reads the checkpoints of a broker's settings, by the names of their queries."""

    def __init__(self, files: Files, scheduler: Scheduler, directories: Mapping[str, str]) -> None:
        self._files = files
        self._scheduler = scheduler
        self._directories = directories
        self._reading: set[str] = set()

    def read(self) -> Task[Sequence[GroupReading]]:
        """All queries, in the order of the settings."""
        return (yield from gather(map(self._read, self._directories), MAX_HANGING))

    def unread(self) -> list[GroupReading]:
        """All queries, for a survey that waits for nothing."""
        return [
            GroupReading(f"{KIND}:{name}", KIND, error=f"{directory} is not read yet")
            for name, directory in self._directories.items()
        ]

    def _read(self, name: str) -> Task[GroupReading]:
        reading = GroupReading(f"{KIND}:{name}", KIND)
        directory = self._directories[name]
        if name in self._reading:
            reading.error = f"{directory} does not answer"
        elif len(self._reading) >= MAX_HANGING:
            reading.error = f"{directory} is not read while {len(self._reading)} other checkpoints do not answer"
        else:
            found = yield at_most(self._scheduler, READ_MS, partial(self._begin, name))
            take_checkpoint(reading, directory, found)
        return reading

    def _begin(self, name: str, resume: Callable[[Any], None]) -> None:
        def ended(result: Any) -> None:
            self._reading.discard(name)
            resume((result,))

        self._reading.add(name)
        directory = self._directories[name]
        read = partial(checkpoint.read, directory, CheckpointFolder(self._files, directory), 1)
        self._scheduler.in_thread(read, ended)


def take_checkpoint(reading: GroupReading, directory: str, found: tuple[Any] | None) -> None:
    """Give a query the offsets of its checkpoint, or the reason why there are none."""
    result = None if found is None else found[0]
    if isinstance(result, Checkpoint):
        batches = {batch.number: batch.planned_ms for batch in result.batches}
        time_ms = batches.get(-1 if result.progress.done is None else result.progress.done, 0) or NO_TIME
        for key, offset in result.offsets.items():
            reading.offsets.setdefault(key.topic, {})[key.number] = Committed(offset, time_ms)
        if not result.offsets:
            reading.error = f"{directory} has no offsets of Kafka's topics yet"
    elif isinstance(result, OSError):
        reading.error = f"cannot read {directory}: {result.strerror or result}"
    elif isinstance(result, BaseException):
        reading.error = f"cannot read {directory}: {result}"
    else:
        reading.error = f"{directory} does not answer"
