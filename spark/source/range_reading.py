"""Reads the range of one task as Arrow batches, and decides what happens where records are gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headgate.spark.reading.log_reader import FetchedBatches, IsolationLevel, OffsetOutOfRange, OffsetRange, TopicReader
from headgate.spark.source.planning import DATA_LOSS, RangeTask, Report
from headgate.spark.source.pushed_filters import NumberRange

if TYPE_CHECKING:
    import pyarrow as pa


class _Pieces:
    """The pieces of a range. They end where records are gone, so that all rows before the gap are still handed out."""

    def __init__(self, pieces: Iterator[FetchedBatches], position: int) -> None:
        self._pieces = pieces
        self.position = position
        self.gap: OffsetOutOfRange | None = None

    def __iter__(self) -> Iterator[FetchedBatches]:
        try:
            for piece in self._pieces:
                self.position = max(self.position, piece.next_offset)
                yield piece
        except OffsetOutOfRange as error:
            self.gap = error


def read_range(
    reader: TopicReader,
    task: RangeTask,
    names: Sequence[str],
    isolation: IsolationLevel,
    report: Report,
    times: NumberRange | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a task with the columns `names`. Raises LogUnavailable, UnreadableRecords, and DataLost by `report`.

    A range that begins at the log start begins at the new log start if retention was faster.
    """
    from headgate.spark.records.columns import TimeRange, columns

    skipping = TimeRange(*times) if times is not None and times != NumberRange() else None
    wanted = task.wanted
    while wanted.start_offset < wanted.end_offset:
        pieces = _Pieces(iter(reader.read(wanted, isolation)), wanted.start_offset)
        yield from columns(pieces, wanted, names, times=skipping)
        if pieces.gap is None:
            return
        resumed = _resume(wanted, pieces)
        if resumed is None or not (task.is_from_start and pieces.position == task.wanted.start_offset):
            report(f"{pieces.gap}. {DATA_LOSS}")
        if resumed is None:
            return
        wanted = resumed


def _resume(wanted: OffsetRange, pieces: _Pieces) -> OffsetRange | None:
    """The rest of the range after a gap; None if nothing of it is there."""
    assert pieces.gap is not None
    start = pieces.gap.bounds.start_offset
    if not pieces.position < start < wanted.end_offset:
        return None
    return wanted._replace(start_offset=start)
