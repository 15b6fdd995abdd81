"""One function for each command: each takes the options and yields rows and error messages in order."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from typing import NamedTuple

from headgate.protocol.errors import KafkaError
from headgate.storage.directory.log_directory import LOCK
from headgate.storage.disk.layout import META_PROPERTIES
from headgate.storage.disk.pool import SWAP_SUFFIX, Pool
from headgate.storage.errors import StorageError
from headgate.storage.files import Files
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.segment_file import LOG_SUFFIX
from headgate.tools.log import auxiliary_files, data_directory, decoding, offset_gaps, repairs, segment_reader
from headgate.tools.log import listing as listings
from headgate.tools.log.data_directory import DataDirectory, PartitionDirectory, Selection
from headgate.tools.log.overlay import Overlay
from headgate.tools.log.segment_reader import DamagedLog, StoredBatch
from headgate.tools.log.verification import partition_check
from headgate.tools.log.verification.partition_check import PartitionReport
from headgate.tools.output import Row, UsageError
from headgate.tools.progress import Progress


class ErrorMessage(str):
    """A sentence about a finding or a failure, for standard error."""

    __slots__ = ()


CommandOutput = Iterator[Row | ErrorMessage]


def _selections(options: argparse.Namespace) -> list[Selection | str]:
    return list(data_directory.resolve_paths(Files(), options.paths, options.topics, options.partitions))


def _directories(options: argparse.Namespace, command: str) -> list[Selection]:
    found = []
    for one in _selections(options):
        if isinstance(one, str):
            raise UsageError(f"{one} is a file; `headgate log {command}` takes a partition's directory, or all of them")
        found.append(one)
    return found


# ---------------------------------------------------------------------------------------------------------------- dump


class _Source(NamedTuple):
    """The segments to dump, with their partition; `partition` is None for a file outside of one."""

    segments: list[Segment]
    topic: str
    partition: int | None
    start_offset: int
    compacted_to: int


def dump(options: argparse.Namespace) -> CommandOutput:
    """Rows of partitions and files. An error ends the rows of one partition or file, and the next one follows."""
    if options.to_offset is not None and options.to_offset <= options.from_offset:
        raise UsageError(f"no offset is from {options.from_offset} on and before {options.to_offset}")
    pool = Pool(Overlay())
    for found in _selections(options):
        if isinstance(found, str):
            yield from _with_errors(found, partial(_dump_file, pool, found, options))
            continue
        if not found.data.is_readable:
            yield from map(ErrorMessage, found.data.problems)
        for partition in found.partitions:
            yield from _with_errors(partition.directory, partial(_dump_partition, pool, found, partition, options))


def _with_errors(path: str, rows: Callable[[], Iterable[Row | ErrorMessage]]) -> CommandOutput:
    """The rows about `path`; an error becomes an error message, and the command goes on with the next path."""
    try:
        yield from rows()
    except (DamagedLog, StorageError) as error:
        yield ErrorMessage(error)
    except KafkaError as error:
        yield ErrorMessage(error.message)
    except OSError as error:
        yield ErrorMessage(data_directory.describe_os_error(error, path))


def _dump_partition(
    pool: Pool, found: Selection, partition: PartitionDirectory, options: argparse.Namespace
) -> Iterator[Row]:
    return _dump_source(_partition_source(pool, found.data, partition), options)


def _partition_source(pool: Pool, data: DataDirectory, partition: PartitionDirectory) -> _Source:
    segments = segment_reader.open_segments(pool, partition.directory, pool.files.list(partition.directory))
    start = max(data.start_offsets.get(partition.key, 0), segments[0].base_offset if segments else 0)
    return _Source(segments, partition.topic, partition.partition, start, data.cleaner_offsets.get(partition.key, 0))


def _dump_file(pool: Pool, path: str, options: argparse.Namespace) -> Iterator[Row]:
    name = path.rpartition("/")[2]
    reader = auxiliary_files.reader_of(name)
    if reader is not None:
        return islice(reader(pool.files, path if "/" in path else f"./{path}"), options.limit)
    if LOG_SUFFIX not in name and not name.endswith(".checkpoint"):
        raise UsageError(f"{path}: no file of a data directory has such a name")
    partition = data_directory.partition_of(path)
    segment = segment_reader.LogFile(pool, path)
    topic = partition.topic if partition else ""
    source = _Source([segment], topic, partition.partition if partition else None, segment.base_offset, 0)
    return _dump_source(source, options)


def _dump_source(source: _Source, options: argparse.Namespace) -> Iterator[Row]:
    rows = _gap_rows(source) if options.gaps else _record_rows(source, options)
    named = {} if source.partition is None else {"topic": source.topic, "partition": source.partition}
    return ({**named, **row} for row in islice(rows, options.limit))


def _record_rows(source: _Source, options: argparse.Namespace) -> Iterator[Row]:
    for stored in segment_reader.iterate_batches(source.segments, options.from_offset, options.to_offset):
        if options.batches:
            yield decoding.batch_row(stored)
            continue
        for record in stored.records():
            if options.from_offset <= record.offset and (
                options.to_offset is None or record.offset < options.to_offset
            ):
                yield decoding.record_row(stored, record, source.topic)


def _gap_rows(source: _Source) -> Iterator[Row]:
    transactions = offset_gaps.find_aborted_transactions(map(_batch, segment_reader.iterate_batches(source.segments)))
    batches = map(_batch, segment_reader.iterate_batches(source.segments))
    for gap in offset_gaps.find_gaps(batches, source.start_offset, source.compacted_to, transactions):
        yield {"first": gap.first, "last": gap.last, "offsets": gap.last - gap.first + 1, "reason": gap.reason}


def _batch(stored: StoredBatch) -> offset_gaps.BatchOffsets:
    return offset_gaps.BatchOffsets(
        stored.header,
        lambda: partition_check.read_marker(stored.segment, stored.position, stored.header),
        lambda: [record.offset for record in stored.records()],
    )


# ------------------------------------------------------------------------------------------------------ verify, repair


def verify(options: argparse.Namespace) -> CommandOutput:
    """A row for each partition, and an error message for each finding."""
    for report, _ in _reports(_directories(options, "verify"), options):
        if isinstance(report, ErrorMessage):
            yield report
            continue
        yield _report_row(report)
        yield from map(ErrorMessage, report.findings)


def _report_row(report: PartitionReport) -> Row:
    indexes = {found.indexes for found in report.segments}
    return {
        "topic": report.partition.topic,
        "partition": report.partition.partition,
        "segments": len(report.segments),
        "bytes": sum(found.segment.size for found in report.segments),
        "batches": sum(found.batches for found in report.segments),
        "records": sum(found.records for found in report.segments),
        "start_offset": report.start_offset,
        "end_offset": report.end_offset,
        "missing_offsets": report.missing_offsets,
        "indexes": ",".join(sorted(indexes)) or None,
        "findings": [finding._asdict() for finding in report.findings],
    }


def _reports(
    found: list[Selection], options: argparse.Namespace
) -> Iterator[tuple[PartitionReport | ErrorMessage, DataDirectory]]:
    total = sum(_log_bytes(partition) for place in found for partition in place.partitions)
    progress = Progress(total, sys.stderr, time.monotonic)
    for number, place in enumerate(found):
        if all(place.data is not one.data for one in found[:number]):
            for problem in place.data.problems:
                yield ErrorMessage(f"file: {problem}"), place.data
        for partition in place.partitions:
            try:
                report: PartitionReport | ErrorMessage = partition_check.verify_partition(
                    place.data, partition, progress.add, options.index_interval_bytes
                )
            except OSError as error:  # a failing disk, or a running broker that has removed files meanwhile
                report = ErrorMessage(f"{partition}: {data_directory.describe_os_error(error, partition.directory)}")
            progress.clear()
            yield report, place.data


def _log_bytes(partition: PartitionDirectory) -> int:
    try:
        names = Files().list(partition.directory)
    except OSError:  # the verification of the partition reports the error
        return 0
    return sum(size for name, size in names.items() if name.endswith(LOG_SUFFIX))


def repair(options: argparse.Namespace) -> CommandOutput:
    """A row for each change, made or with `--dry-run` only planned; an error message for each finding that stays."""
    found = _directories(options, "repair")
    files = Files()
    with ExitStack() as locks:
        refused = set[int]()
        for data in {id(place.data): place.data for place in found}.values():
            failures = list(_lock_directory(locks, files, data))
            if failures:
                refused.add(id(data))
            yield from failures
        for report, data in _reports([place for place in found if id(place.data) not in refused], options):
            if isinstance(report, ErrorMessage):
                yield report
                continue
            repaired = partial(_repair, files, report, data, is_dry=options.dry_run)
            yield from _with_errors(report.partition.directory, repaired)


def _lock_directory(locks: ExitStack, files: Files, data: DataDirectory) -> Iterator[ErrorMessage]:
    """Lock a data directory against brokers; error messages if it must not be changed."""
    if not data.is_readable:
        yield from map(ErrorMessage, data.problems)
        return
    try:
        locks.enter_context(_locked(files, data))
    except StorageError as error:
        yield ErrorMessage(error)
    except OSError as error:
        yield ErrorMessage(data_directory.describe_os_error(error, data.path))


def _repair(files: Files, report: PartitionReport, data: DataDirectory, *, is_dry: bool) -> CommandOutput:
    partition = report.partition
    if any(name.endswith(LOG_SUFFIX + SWAP_SUFFIX) for name in files.list(partition.directory)):
        yield ErrorMessage(
            f"{partition}: a compaction was interrupted in {partition.directory}; the next start of the broker ends it"
        )
        return
    steps = repairs.plan_repair(report, data)
    for step in steps:
        rows = list(repairs.step_rows(step, files))  # before the step: afterwards the quarantine paths are taken
        if not is_dry:
            repairs.perform_step(step, files)
        for row in rows:
            yield {"topic": partition.topic, "partition": partition.partition, "done": not is_dry, **row}
    if not is_dry:
        repairs.write_recovery_point(steps, files, report, data)
    for finding in report.findings:
        if finding.kind not in repairs.REPAIRABLE:
            yield ErrorMessage(finding)


@contextmanager
def _locked(files: Files, data: DataDirectory) -> Iterator[None]:
    """Lock a data directory; a copied partition outside of one is no broker's. Raises DirectoryLocked."""
    with ExitStack() as locks:
        if files.exists(f"{data.path}/{META_PROPERTIES}"):
            locks.callback(files.lock(f"{data.path}/{LOCK}").release)
        yield


# ------------------------------------------------------------------------------------------------------------------ ls


def listing(options: argparse.Namespace) -> CommandOutput:
    """A row for each partition or segment. Only the ends of logs are read."""
    for place in _directories(options, "ls"):
        failures = []
        rows_of = listings.segment_rows if options.segments else listings.partition_rows
        for partition in place.partitions:
            one = place._replace(partitions=[partition])
            for row in _with_errors(partition.directory, partial(rows_of, one)):
                if isinstance(row, ErrorMessage):
                    failures.append(row)
                    continue
                yield row
                if row.get("state") == listings.DAMAGED:
                    path = row["directory"]
                    failures.append(ErrorMessage(f"{path} is damaged: `headgate log verify {path}` says more"))
        yield from failures
        yield from (ErrorMessage(problem) for problem in place.data.problems)
