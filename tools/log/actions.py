"""What the commands do: each takes its options, and tells rows and failures in the order in which they come."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from itertools import islice
from typing import NamedTuple

from headgate.protocol.errors import KafkaError
from headgate.storage.directory.log_directory import LOCK
from headgate.storage.disk.layout import META_PROPERTIES
from headgate.storage.disk.pool import SWAP_SUFFIX, Pool
from headgate.storage.errors import StorageError
from headgate.storage.files import Files
from headgate.storage.segment.segment import LOG_SUFFIX, Segment
from headgate.tools.log import checks, decoding, places, reading, repairs, small_files
from headgate.tools.log import gaps as gap_listing
from headgate.tools.log import listing as listings
from headgate.tools.log.checks import Report
from headgate.tools.log.overlay import Overlay
from headgate.tools.log.places import DataDirectory, NotFound, PartitionDirectory, Place
from headgate.tools.log.progress import Progress
from headgate.tools.log.reading import Damaged, Stored
from headgate.tools.output import Row


class Failure(str):
    """A sentence: something is wrong, or could not be done."""

    __slots__ = ()


Told = Iterator[Row | Failure]


def _found(options: argparse.Namespace) -> list[Place | str]:
    return list(places.find(Files(), options.paths, options.topics, options.partitions))


def _directories(options: argparse.Namespace, command: str) -> list[Place]:
    found = []
    for one in _found(options):
        if isinstance(one, str):
            raise NotFound(f"{one} is a file; `headgate log {command}` takes a partition's directory, or all of them")
        found.append(one)
    return found


# ---------------------------------------------------------------------------------------------------------------- dump


class _Source(NamedTuple):
    """Segments to dump, and whose they are."""

    segments: list[Segment]
    topic: str
    partition: int | None
    start_offset: int
    compacted_to: int


def dump(options: argparse.Namespace) -> Told:
    """Rows of partitions and files; what cannot be read ends that one, and the next is dumped."""
    if options.to_offset is not None and options.to_offset <= options.from_offset:
        raise NotFound(f"nothing is from {options.from_offset} on and before {options.to_offset}")
    pool = Pool(Overlay())
    for found in _found(options):
        if isinstance(found, str):
            yield from _with_failures(found, partial(_dump_file, pool, found, options))
            continue
        if not found.data.is_read:
            yield from map(Failure, found.data.problems)
        for partition in found.partitions:
            yield from _with_failures(partition.directory, partial(_dump_partition, pool, found, partition, options))


def _with_failures(path: str, rows: Callable[[], Iterable[Row | Failure]]) -> Told:
    """The rows of what lies at `path`; what goes wrong with it is told, and ends no other."""
    try:
        yield from rows()
    except (Damaged, StorageError) as error:
        yield Failure(error)
    except KafkaError as error:
        yield Failure(error.message)
    except OSError as error:
        yield Failure(places.reason(error, path))


def _dump_partition(
    pool: Pool, found: Place, partition: PartitionDirectory, options: argparse.Namespace
) -> Iterator[Row]:
    return _dump_source(_source(pool, found.data, partition), options)


def _source(pool: Pool, data: DataDirectory, partition: PartitionDirectory) -> _Source:
    segments = reading.segments(pool, partition.directory, pool.files.list(partition.directory))
    start = max(data.start_offsets.get(partition.key, 0), segments[0].base_offset if segments else 0)
    return _Source(segments, partition.topic, partition.partition, start, data.cleaned.get(partition.key, 0))


def _dump_file(pool: Pool, path: str, options: argparse.Namespace) -> Iterator[Row]:
    name = path.rpartition("/")[2]
    reader = small_files.reader_of(name)
    if reader is not None:
        return islice(reader(pool.files, path if "/" in path else f"./{path}"), options.limit)
    if LOG_SUFFIX not in name and not name.endswith(".checkpoint"):
        raise NotFound(f"{path}: no file of a data directory has such a name")
    partition = places.partition_of(path)
    segment = reading.LogFile(pool, path)
    topic = partition.topic if partition else ""
    source = _Source([segment], topic, partition.partition if partition else None, segment.base_offset, 0)
    return _dump_source(source, options)


def _dump_source(source: _Source, options: argparse.Namespace) -> Iterator[Row]:
    rows = _gaps(source) if options.gaps else _stored(source, options)
    named = {} if source.partition is None else {"topic": source.topic, "partition": source.partition}
    return ({**named, **row} for row in islice(rows, options.limit))


def _stored(source: _Source, options: argparse.Namespace) -> Iterator[Row]:
    for stored in reading.batches(source.segments, options.from_offset, options.to_offset):
        if options.batches:
            yield decoding.batch_row(stored)
            continue
        for record in stored.records():
            if options.from_offset <= record.offset and (
                options.to_offset is None or record.offset < options.to_offset
            ):
                yield decoding.record_row(stored, record, source.topic)


def _gaps(source: _Source) -> Iterator[Row]:
    transactions = gap_listing.aborted(map(_batch, reading.batches(source.segments)))
    batches = map(_batch, reading.batches(source.segments))
    for gap in gap_listing.gaps(batches, source.start_offset, source.compacted_to, transactions):
        yield {"first": gap.first, "last": gap.last, "offsets": gap.last - gap.first + 1, "reason": gap.reason}


def _batch(stored: Stored) -> gap_listing.Batch:
    return gap_listing.Batch(
        stored.header,
        lambda: checks.read_marker(stored.segment, stored.position, stored.header),
        lambda: [record.offset for record in stored.records()],
    )


# ------------------------------------------------------------------------------------------------------ verify, repair


def verify(options: argparse.Namespace) -> Told:
    """A row for each partition, and a sentence for whatever is wrong."""
    for report, _ in _reports(_directories(options, "verify"), options):
        if isinstance(report, Failure):
            yield report
            continue
        yield _report_row(report)
        yield from map(Failure, report.findings)


def _report_row(report: Report) -> Row:
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


def _reports(found: list[Place], options: argparse.Namespace) -> Iterator[tuple[Report | Failure, DataDirectory]]:
    total = sum(_log_bytes(partition) for place in found for partition in place.partitions)
    progress = Progress(total, sys.stderr, time.monotonic)
    for number, place in enumerate(found):
        if all(place.data is not one.data for one in found[:number]):
            for problem in place.data.problems:
                yield Failure(f"file: {problem}"), place.data
        for partition in place.partitions:
            try:
                report: Report | Failure = checks.check(
                    place.data, partition, progress.add, options.index_interval_bytes
                )
            except OSError as error:  # a disk that fails, or files that a running broker has removed meanwhile
                report = Failure(f"{partition}: {places.reason(error, partition.directory)}")
            progress.clear()
            yield report, place.data


def _log_bytes(partition: PartitionDirectory) -> int:
    try:
        names = Files().list(partition.directory)
    except OSError:  # whoever reads it tells
        return 0
    return sum(size for name, size in names.items() if name.endswith(LOG_SUFFIX))


def repair(options: argparse.Namespace) -> Told:
    """A row for each thing that is done, or would be; a sentence for what is wrong and is left."""
    found = _directories(options, "repair")
    files = Files()
    with ExitStack() as locks:
        refused = set[int]()
        for data in {id(place.data): place.data for place in found}.values():
            failures = list(_taken(locks, files, data))
            if failures:
                refused.add(id(data))
            yield from failures
        for report, data in _reports([place for place in found if id(place.data) not in refused], options):
            if isinstance(report, Failure):
                yield report
                continue
            repaired = partial(_repair, files, report, data, is_dry=options.dry_run)
            yield from _with_failures(report.partition.directory, repaired)


def _taken(locks: ExitStack, files: Files, data: DataDirectory) -> Iterator[Failure]:
    """Keep brokers away from a data directory; why it must not be changed, if so."""
    if not data.is_read:
        yield from map(Failure, data.problems)
        return
    try:
        locks.enter_context(_lock(files, data))
    except StorageError as error:
        yield Failure(error)
    except OSError as error:
        yield Failure(places.reason(error, data.path))


def _repair(files: Files, report: Report, data: DataDirectory, *, is_dry: bool) -> Told:
    partition = report.partition
    if any(name.endswith(LOG_SUFFIX + SWAP_SUFFIX) for name in files.list(partition.directory)):
        yield Failure(f"{partition}: a compaction was interrupted in {partition.directory}; the next start ends it")
        return
    steps = repairs.plan(report, data)
    for step in steps:
        told = list(repairs.rows(step, files))
        if not is_dry:
            repairs.perform(step, files)
        for row in told:
            yield {"topic": partition.topic, "partition": partition.partition, "done": not is_dry, **row}
    if not is_dry:
        repairs.settle(steps, files, report, data)
    for finding in report.findings:
        if finding.kind not in repairs.MENDED:
            yield Failure(finding)


class _Lock(AbstractContextManager[None]):
    """Keeps brokers away from a data directory. Raises DirectoryLocked."""

    def __init__(self, files: Files, directory: str) -> None:
        self._lock = files.lock(f"{directory}/{LOCK}")

    def __exit__(self, *raised: object) -> None:
        self._lock.release()


def _lock(files: Files, data: DataDirectory) -> AbstractContextManager[None]:
    """A partition's directory that lies elsewhere, as a copy does, is nobody's."""
    return _Lock(files, data.path) if files.exists(f"{data.path}/{META_PROPERTIES}") else nullcontext()


# ------------------------------------------------------------------------------------------------------------------ ls


def listing(options: argparse.Namespace) -> Told:
    """What there is; nothing is read but the ends of logs."""
    for place in _directories(options, "ls"):
        failures = []
        rows_of = listings.segment_rows if options.segments else listings.partition_rows
        for partition in place.partitions:
            one = place._replace(partitions=[partition])
            for row in _with_failures(partition.directory, partial(rows_of, one)):
                if isinstance(row, Failure):
                    failures.append(row)
                    continue
                yield row
                if row.get("state") == listings.DAMAGED:
                    path = row["directory"]
                    failures.append(Failure(f"{path} is damaged: `headgate log verify {path}` says more"))
        yield from failures
        yield from (Failure(problem) for problem in place.data.problems)
