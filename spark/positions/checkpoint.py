"""The checkpoint of a streaming query, read from its folder: where the query is, and how fast it has been.

Spark replaces whole files and removes old ones, so a reader beside a running query needs no lock: a file that is gone
after the listing is left out. A folder with a scheme (`s3://`, `hdfs://`) is read by pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions import checkpoint_files
from headgate.spark.positions.checkpoint_files import BatchOffsets, MalformedCheckpoint, Positions, Progress
from headgate.tools.output import UsageError

BATCHES_FOR_RATE: Final = 10
"""The last done batches that the rate of a query is measured over."""
ALL_BATCHES: Final = 1 << 30

NextOffsets = Mapping[TopicPartition, int]


class CheckpointBatch(NamedTuple):
    """A batch of the offset log: its start in ms since 1970 (0: unknown), and the next offset behind it."""

    number: int
    planned_ms: int
    offsets: NextOffsets


class Checkpoint(NamedTuple):
    """A query by its checkpoint.

    `offsets`: the next offset of each partition after the last done batch. `planned`: the same after the batch
    that Spark runs again at the next start; empty without one. `batches`: the last done batches and the planned one,
    the oldest first. `foreign`: sources that do not read Kafka.
    """

    folder: str
    query_id: str | None
    progress: Progress
    offsets: NextOffsets
    planned: NextOffsets
    batches: Sequence[CheckpointBatch]
    foreign: Sequence[str]


class Folder(Protocol):
    """The files of a checkpoint."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if there is no such folder. Raises OSError."""

    def read(self, path: str) -> bytes | None:
        """The content of a file; None if there is no such file. Raises OSError."""

    def write(self, path: str, data: bytes) -> None:
        """Replace a file as a whole. Raises OSError."""


def open_folder(place: str) -> Folder:
    """The folder at a path or at an address. Raises UsageError."""
    if "://" not in place:
        return LocalFolder(Path(place.removeprefix("file:")))
    if place.startswith("file://"):
        return LocalFolder(Path(place.removeprefix("file://")))
    try:
        from pyarrow import ArrowException, fs
    except ImportError:
        raise UsageError(f"{place} needs pyarrow: pip install 'headgate[spark]', or copy the folder here") from None
    try:
        files, path = fs.FileSystem.from_uri(place)
    except (ArrowException, OSError, ValueError) as error:
        raise UsageError(f"cannot open {place}: {error}") from None
    return ArrowFolder(files, path)


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self, folder: str) -> list[str]:
        try:
            return [path.name for path in (self._path / folder).iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, path: str) -> bytes | None:
        try:
            with (self._path / path).open("rb") as file:
                return file.read(checkpoint_files.MAX_FILE_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, path: str, data: bytes) -> None:
        draft = self._path / f"{path}.new"
        draft.write_bytes(data)
        draft.replace(self._path / path)


class ArrowFolder:
    """A folder of a `pyarrow.fs.FileSystem`."""

    def __init__(self, files: Any, path: str) -> None:
        self._files, self._path = files, path.rstrip("/")

    def names(self, folder: str) -> list[str]:
        from pyarrow import fs

        selector = fs.FileSelector(f"{self._path}/{folder}", allow_not_found=True)
        return [info.base_name for info in self._files.get_file_info(selector)]

    def read(self, path: str) -> bytes | None:
        try:
            with self._files.open_input_stream(f"{self._path}/{path}") as file:
                content: bytes = file.read(checkpoint_files.MAX_FILE_BYTES + 1)
                return content
        except FileNotFoundError:
            return None

    def write(self, path: str, data: bytes) -> None:
        draft = f"{self._path}/{path}.new"
        with self._files.open_output_stream(draft) as file:
            file.write(data)
        self._files.move(draft, f"{self._path}/{path}")


def read_checkpoint(place: str, count: int = BATCHES_FOR_RATE, folder: Folder | None = None) -> Checkpoint:
    """The checkpoint in a folder, with its last `count` batches. Raises UsageError."""
    files = folder or open_folder(place)
    try:
        return _read(place, files, count)
    except MalformedCheckpoint as error:
        raise UsageError(f"{place}: {error}") from None
    except OSError as error:
        raise UsageError(f"cannot read {place}: {error.strerror or error}") from None


def _read(place: str, files: Folder, count: int) -> Checkpoint:
    committed = checkpoint_files.batch_numbers(files.names("commits"))
    written = checkpoint_files.batch_numbers(files.names("offsets"))
    metadata = files.read("metadata")
    if metadata is None and not written:
        raise UsageError(f"{place} is no checkpoint of a query: it has no metadata and no offsets")
    progress = checkpoint_files.find_progress(written, committed)
    if committed and progress.done is None:
        raise MalformedCheckpoint(f"commits has batch {committed[-1]}, but offsets has none of the done batches")
    wanted = [batch_number for batch_number in written if progress.done is not None and batch_number <= progress.done][
        -count:
    ]
    if progress.planned is not None:
        wanted.append(progress.planned)
    found = {number: batch for number, batch in _batches(files, wanted) if batch is not None}
    for number in (progress.done, progress.planned):
        if number is not None and number not in found:
            raise MalformedCheckpoint(f"offsets/{number} is gone; is this checkpoint being deleted?")
    last = found[written[-1]] if written else None
    done = None if progress.done is None else found[progress.done]
    return Checkpoint(
        place,
        checkpoint_files.parse_query_id(checkpoint_files.decode(metadata)) if metadata is not None else None,
        progress,
        _by_partition(_initial(files, last) if done is None else done.positions()),
        _by_partition(found[progress.planned].positions()) if progress.planned is not None else {},
        [
            CheckpointBatch(number, batch.planned_ms, _by_partition(batch.positions()))
            for number, batch in found.items()
        ],
        last.foreign() if last is not None else [],
    )


def _batches(files: Folder, numbers: Iterable[int]) -> Iterable[tuple[int, BatchOffsets | None]]:
    for number in numbers:
        content = files.read(f"offsets/{number}")
        try:
            yield number, None if content is None else checkpoint_files.parse_offsets(checkpoint_files.decode(content))
        except MalformedCheckpoint as error:
            raise MalformedCheckpoint(f"offsets/{number}: {error}") from None


def _initial(files: Folder, planned: BatchOffsets | None) -> Positions:
    """The offsets at which the sources began; none before the first batch is planned."""
    noted = [] if planned is None else [planned.initial_positions()]
    contents = (files.read(f"sources/{name}/0") for name in sorted(files.names("sources")))
    found = (checkpoint_files.parse_initial_positions(content) for content in contents if content is not None)
    return checkpoint_files.lowest([*noted, *(positions for positions in found if positions is not None)])


def _by_partition(positions: Positions) -> NextOffsets:
    return {TopicPartition(*partition): offset for partition, offset in positions.items()}


def rates(batches: Sequence[CheckpointBatch]) -> Mapping[TopicPartition, float]:
    """Records a second by partition over the given batches; empty without enough batches.

    A batch took the time until the start of the next one: so the first and the last batch are bounds alone.
    """
    timed = [batch for batch in batches if batch.planned_ms > 0]
    if len(timed) < 3:
        return {}
    first, second, before_last, last = *timed[:2], *timed[-2:]
    elapsed_s = (last.planned_ms - second.planned_ms) / 1000
    if elapsed_s <= 0:
        return {}
    return {
        partition: max(0, end - first.offsets.get(partition, end)) / elapsed_s
        for partition, end in before_last.offsets.items()
    }
