"""The checkpoint of a streaming query: where the query is, and how fast it has been.

Spark replaces whole files and removes old ones, so a reader beside a running query needs no lock: a file that is gone
after the listing is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from headgate.protocol.spark import checkpoint_files
from headgate.protocol.spark.checkpoint_files import BatchOffsets, MalformedCheckpoint, Positions, Progress
from headgate.protocol.topic_partition import TopicPartition

BATCHES_FOR_RATE: Final = 10
"""The last done batches that the rate of a query is measured over."""

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


class CheckpointFiles(Protocol):
    """The files of a checkpoint."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if there is no such folder. Raises OSError."""

    def read(self, path: str) -> bytes | None:
        """The content of a file, up to one byte more than `MAX_FILE_BYTES`; None if there is none. Raises OSError."""


def read(place: str, files: CheckpointFiles, count: int = BATCHES_FOR_RATE) -> Checkpoint:
    """The checkpoint in these files, with its last `count` batches; `place` is their name.

    Raises MalformedCheckpoint, OSError.
    """
    committed = checkpoint_files.batch_numbers(files.names("commits"))
    written = checkpoint_files.batch_numbers(files.names("offsets"))
    metadata = files.read("metadata")
    if metadata is None and not written:
        raise MalformedCheckpoint("no checkpoint of a query: it has no metadata and no offsets")
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


def _batches(files: CheckpointFiles, numbers: Iterable[int]) -> Iterable[tuple[int, BatchOffsets | None]]:
    for number in numbers:
        content = files.read(f"offsets/{number}")
        try:
            yield number, None if content is None else checkpoint_files.parse_offsets(checkpoint_files.decode(content))
        except MalformedCheckpoint as error:
            raise MalformedCheckpoint(f"offsets/{number}: {error}") from None


def _initial(files: CheckpointFiles, planned: BatchOffsets | None) -> Positions:
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
