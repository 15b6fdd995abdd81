"""One task of a load: a range of one partition becomes hidden files and a result. It runs in any process.

A task can run again at any time, also twice at once: each attempt has files of its own, and the first recorded result
counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from headgate.spark.load.formats.decoding import ERROR, Decoding, RejectLimitExceeded
from headgate.spark.load.formats.protobuf_values import python_decoder
from headgate.spark.load.formats.rejected import split_rejected
from headgate.spark.load.origin import LogOrigin
from headgate.spark.load.output.documents import RangeResult
from headgate.spark.load.output.folder import FolderError, OutputFolder, unique
from headgate.spark.load.output.gap_finder import GapFinder, UnexplainedGap, to_int64, with_rejected
from headgate.spark.load.output.load_log import LoadLog, work_folder
from headgate.spark.load.output.planning import LoadRefused
from headgate.spark.load.output.row_files import FileOptions, RowFiles
from headgate.spark.reading.log_reader import IsolationLevel, LogUnavailable, OffsetOutOfRange, OffsetRange, TopicReader
from headgate.spark.records.columns import UnreadableRecords, columns
from headgate.tools.client.client import ClientError
from headgate.tools.log.offset_gaps import Gap

TASK_ERRORS = (
    ClientError,
    FolderError,
    LoadRefused,
    LogUnavailable,
    OffsetOutOfRange,
    RejectLimitExceeded,
    UnexplainedGap,
    UnreadableRecords,
)
"""The errors of a task whose texts are for the user."""


class LoadJob(NamedTuple):
    """What all tasks of a load share. `compacted`: for each topic whether its cleanup policy is compaction.

    `needs_key`: a record without a key is rejected.
    """

    folder: str
    number: int
    origin: LogOrigin
    isolation: IsolationLevel
    compacted: Mapping[str, bool]
    topic_ids: Mapping[str, bytes]
    files: FileOptions
    decoding: Decoding
    fails_on_data_loss: bool = True
    needs_key: bool = False


def load_range(job: LoadJob, index: int, wanted: OffsetRange, output: OutputFolder | None = None) -> None:
    """Load a range, and record its result. Raises TASK_ERRORS."""
    attempt = Attempt(job, index, wanted, output)
    decode = python_decoder(job.decoding)
    try:
        finder = new_finder(job, wanted)
        for batch in read_range(job, wanted, finder):
            attempt.write(batch if decode is None else decode(batch))
        attempt.finish(finder.rows, finder.gaps)
    except Exception:
        attempt.abandon()
        raise


class Attempt:
    """One attempt of a task to load a range: its files, and its result if it is the first.

    `keeps_rows`: the rows go into files of the attempt; otherwise the caller passes them on to a table.
    """

    def __init__(
        self,
        job: LoadJob,
        index: int,
        wanted: OffsetRange,
        output: OutputFolder | None = None,
        *,
        keeps_rows: bool = True,
    ) -> None:
        self._job, self._index, self._wanted = job, index, wanted
        self._folder = output or OutputFolder(job.folder)
        name = unique()
        work = work_folder(job.number)
        self._files = RowFiles(self._folder, work, wanted.partition, job.files, name)
        self._rejected = RowFiles(self._folder, work, wanted.partition, job.files, f"{name}-rejected")
        self._rejected_offsets: list[int] = []
        self._keeps_rows = keeps_rows

    def write(self, batch: Any) -> Any:
        """Take rows, and return the decoded ones; the others are rejected. Raises FolderError, RejectLimitExceeded."""
        rows = batch
        if ERROR in batch.schema.names:
            rows, rejected = split_rejected(batch)
            self._reject(rejected)
        if self._keeps_rows:
            self._files.write(rows)
        return rows

    def _reject(self, rejected: Any) -> None:
        if rejected.num_rows:
            self._rejected.write(rejected)
            self._rejected_offsets += rejected.column("offset").to_pylist()
            if len(self._rejected_offsets) > self._job.decoding.reject_limit:
                raise RejectLimitExceeded(self._wanted.partition, rejected, self._job.decoding.reject_limit)

    def finish(self, rows: int, gaps: list[Gap]) -> None:
        """Record the result, unless another attempt was faster. `rows`: with the rejected ones. Raises FolderError."""
        result = RangeResult(
            self._wanted,
            rows - len(self._rejected_offsets),
            self._files.finish(),
            with_rejected(gaps, self._rejected_offsets),
            self._rejected.finish(),
        )
        if not LoadLog(self._folder).record(self._job.number, self._index, result):
            self.abandon()

    def abandon(self) -> None:
        self._files.abandon()
        self._rejected.abandon()


def new_finder(job: LoadJob, wanted: OffsetRange) -> GapFinder:
    return GapFinder(wanted, is_compacted=job.compacted.get(wanted.partition.topic, False))


def read_range(job: LoadJob, wanted: OffsetRange, finder: GapFinder) -> Iterator[Any]:
    """The rows of a range as record batches, in order; the finder knows all gaps afterwards.

    If the job accepts losses, records that retention takes meanwhile are a gap.
    """
    reader = job.origin.open_in_task(job.topic_ids)
    try:
        while finder.expected < wanted.end_offset:
            try:
                yield from _read_from(reader, job, wanted._replace(start_offset=finder.expected), finder)
                break
            except OffsetOutOfRange as error:
                if job.fails_on_data_loss or error.bounds.start_offset <= finder.expected:
                    raise
                finder.skip_deleted(error.bounds.start_offset)
    finally:
        reader.close()
    finder.finish()


def _read_from(reader: TopicReader, job: LoadJob, wanted: OffsetRange, finder: GapFinder) -> Iterator[Any]:
    for fetched in reader.read(wanted, job.isolation):
        offsets = []
        for batch in columns([fetched], wanted):
            yield batch
            offsets.append(to_int64(batch.column("offset")))
        finder.add(fetched, np.concatenate(offsets) if offsets else np.empty(0, np.int64))
