"""Verification of a loaded folder: each offset is a row or a gap with its reason, and each file is as it was published.

Rows are read as far as their offsets; the checksum covers everything else. Of a table its rows are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.output.documents import REJECTED, Covered, LoadedFile, Manifest, RangeResult
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.output.gap_finder import UnexplainedGap, complement, to_int64
from headgate.spark.load.output.intervals import Interval, difference, union
from headgate.spark.load.output.load_log import LoadLog
from headgate.spark.load.output.tables import APPEND, PARQUET, TableName, mode_of
from headgate.spark.load.table_rows.verification import TableRows, verify_rows
from headgate.spark.reading.log_reader import OffsetRange
from headgate.tools.output import Row

_VISIBLE = "part-"
_NONE: Any = np.empty(0, np.int64)


class LoadFinding(NamedTuple):
    """Something is wrong; the text names the range and what to do."""

    text: str


Findings: TypeAlias = Iterator[LoadFinding]


def verify(
    output: OutputFolder, open_table: Callable[[TableName], TableRows] | None = None
) -> tuple[list[Row], list[LoadFinding]]:
    """A row for each partition, and all findings. `open_table`: None leaves the rows of a table out.

    A table of last values has no row for most offsets, so only its manifests and rejected records are checked.

    Raises DamagedDocument, FolderError, LoadRefused.
    """
    log = LoadLog(output)
    manifests = list(log.manifests())
    findings: list[LoadFinding] = []
    rows: Counter[TopicPartition] = Counter()
    gaps: dict[TopicPartition, Counter[str]] = {}
    covered: Covered = {}
    names: set[str] = set()
    into = PARQUET
    for manifest in manifests:
        findings += _check_ranges(manifest, covered)
        into = manifest.options["into"]
        covered = manifest.covered
        for result in manifest.results:
            findings += _check_result(output, log.rejected_folder, result, manifest)
            rows[result.wanted.partition] += result.rows
            counts = gaps.setdefault(result.wanted.partition, Counter())
            for gap in result.gaps:
                counts[gap.reason] += gap.last - gap.first + 1
            names.update(file.name for file in result.files)
            names.update(f"{log.rejected_folder}/{file.name}" for file in result.rejected)
        for lost in manifest.lost:
            gaps.setdefault(lost.partition, Counter())["deleted"] += lost.end_offset - lost.start_offset
    own = output.list(".") if into == PARQUET else []  # a table has files of its own
    visible = [*own, *(f"{log.rejected_folder}/{name}" for name in output.list(log.rejected_folder))]
    for name in visible:
        if name.rpartition("/")[2].startswith(_VISIBLE) and name not in names:
            findings.append(
                LoadFinding(f"{output.path / name} is of no load, but readers of the folder see it; remove it")
            )
    has_all_rows = into != PARQUET and mode_of(manifests[-1].options) == APPEND
    if has_all_rows and open_table is not None and not findings:
        table = open_table(TableName(into, manifests[-1].options["table"], log.identity()))
        findings += map(LoadFinding, verify_rows(log, manifests, table))
    return [
        _row(partition, covered[partition], rows[partition], gaps.get(partition, Counter()))
        for partition in sorted(covered)
    ], findings


def _row(partition: TopicPartition, covered: Sequence[Interval], rows: int, gaps: Counter[str]) -> Row:
    return {
        "topic": partition.topic,
        "partition": partition.number,
        "offsets": ",".join(f"{start}-{end - 1}" for start, end in covered),
        "rows": rows,
        "gaps": dict(sorted(gaps.items())),
    }


def _check_ranges(manifest: Manifest, before: Covered) -> Findings:
    """The ranges of a load and of earlier loads are, together and without a repetition, the offsets that it covers."""
    taken = dict(before)
    for wanted in (*(result.wanted for result in manifest.results), *manifest.lost):
        own = Interval(wanted.start_offset, wanted.end_offset)
        known = taken.get(wanted.partition, ())
        if difference(own, known) != (own,) and own.size:
            yield LoadFinding(
                f"load {manifest.number}: {_name(wanted)} was loaded before; the folder has records twice"
            )
        taken[wanted.partition] = union([*known, own])
    for partition, intervals in taken.items():
        if manifest.covered.get(partition, ()) != intervals:
            yield LoadFinding(f"load {manifest.number}: the positions of {partition} do not fit its ranges")


def _check_result(output: OutputFolder, rejected_folder: str, result: RangeResult, manifest: Manifest) -> Findings:
    is_table = manifest.options["into"] != PARQUET
    rows: list[Any] = [_NONE]
    rejected: list[Any] = [_NONE]
    for folder, files, parts in ((".", result.files, rows), (rejected_folder, result.rejected, rejected)):
        for file in files:
            finding, offsets = _check_file(output, folder, file, result.wanted)
            if finding is not None:
                yield LoadFinding(f"load {manifest.number}: {finding}")
                return
            parts.append(offsets)
    try:
        expected = _arange(complement(list(result.gaps), result.wanted))
    except UnexplainedGap as error:
        yield LoadFinding(f"load {manifest.number}: {error}")
        return
    found = expected if is_table else np.concatenate(rows)
    if len(found) != result.rows or not np.array_equal(found, expected):
        yield LoadFinding(
            f"load {manifest.number}: {_name(result.wanted)} has {len(found)} rows in its files, and its gaps leave "
            f"{len(expected)}; load it again into another folder"
        )
    named = _arange((gap.first, gap.last) for gap in result.gaps if gap.reason == REJECTED)
    if not np.array_equal(np.concatenate(rejected), named):
        yield LoadFinding(f"load {manifest.number}: the rejected records of {_name(result.wanted)} do not fit its gaps")


def _arange(runs: Iterable[tuple[int, int]]) -> Any:
    return np.concatenate([_NONE, *(np.arange(first, last + 1) for first, last in runs)])


def _check_file(output: OutputFolder, folder: str, file: LoadedFile, wanted: OffsetRange) -> tuple[str | None, Any]:
    """The problem of a file; without a problem its offsets."""
    name = file.name if folder == "." else f"{folder}/{file.name}"
    lost = f"{wanted.partition} from {file.first_offset} to {file.last_offset}"
    found = output.measure(name) or output.measure(file.work_name)  # hidden while its load ends
    if found is None:
        return f"{output.path / name} is missing, and with it {lost}; put it back from a copy", None
    if (found.size_bytes, found.sha256) != (file.size_bytes, file.sha256):
        return f"{output.path / name} was changed, so {lost} is in doubt; put the file back from a copy", None
    try:
        with pq.ParquetFile(output.path / found.name) as parquet:
            table = parquet.read(columns=["offset"])
    except (pa.ArrowException, OSError) as error:
        return f"{output.path / name}, with {lost}, is no Parquet file: {error}", None
    return None, np.concatenate([_NONE, *map(to_int64, table.column("offset").chunks)])


def _name(wanted: OffsetRange) -> str:
    return f"{wanted.partition} from {wanted.start_offset} to {wanted.end_offset - 1}"
