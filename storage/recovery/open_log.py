"""The steps that open a log, in their order."""

from __future__ import annotations

import contextlib
import logging
from random import Random

from headgate.protocol.errors import KafkaError
from headgate.protocol.steps import Steps, finish
from headgate.storage.config import LogConfig
from headgate.storage.disk import layout
from headgate.storage.disk.checkpoint import START_OFFSETS, TEMPORARY_SUFFIX
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import CorruptLog, NotALog
from headgate.storage.files import NO_ROOM
from headgate.storage.log import snapshots
from headgate.storage.log.log import Log
from headgate.storage.log.producers import Producers
from headgate.storage.recovery import interrupted_replacements, leader_epochs
from headgate.storage.recovery.indexes import check_indexes, check_transactions, rebuild
from headgate.storage.recovery.quarantine import quarantine_replaced
from headgate.storage.recovery.recovery_input import RecoveryInput, bases_of, corrupt, of_log, repair_advice, sizes_of
from headgate.storage.recovery.scan import scan
from headgate.storage.segment.segment import DELETED_SUFFIX, DERIVED_SUFFIXES, LOG_SUFFIX, Segment

logger = logging.getLogger("headgate.storage")

SCANNED_BYTES = 1 << 20
"""From so much on, what was scanned of a log is made safe soon after."""


def open_log(pool: Pool, found: RecoveryInput, config: LogConfig, random: Random, now_ms: int) -> Log:
    """The log in a directory, at once. Raises what `open_log_steps` raises."""
    return finish(open_log_steps(pool, found, config, random, now_ms))


def open_log_steps(pool: Pool, found: RecoveryInput, config: LogConfig, random: Random, now_ms: int) -> Steps[Log]:
    """The log in a directory.

    Raises CorruptLog, UnsupportedLog (the partition stays closed and untouched), NotALog for a directory of somebody
    else's, OSError. Files that no log makes are left alone.
    """
    listed = pool.files.list(found.directory)
    names = of_log(listed)
    if layout.is_no_partition(listed) and not found.recovery_point:
        raise NotALog(f"{found.directory} is called like a partition's directory, and holds nothing of a log")
    names = of_log((yield from interrupted_replacements.finish_steps(pool, found.directory, names)))
    _tidy(pool, found, names)
    if config.is_compacted and not found.is_clean:
        yield from quarantine_replaced(pool, found, names)
    segments = _segments(pool, found, names, now_ms)
    log = Log(pool, found.directory, found.topic, found.index, found.topic_id, config, segments, random)
    entries = leader_epochs.read(pool.files, found)
    log.epochs.load(entries or ())
    epochs = log.epochs.entries
    leader_epochs.note_formats(log, epochs, max(found.start_offset, segments[0].base_offset))
    producers: Producers | None = None
    if found.is_clean:
        log.recovered((yield from _look_at_ends(log, found)), is_clean=True)
    else:
        end_offset, epochs, producers, unsynced = yield from scan(log, found, names)
        epochs = leader_epochs.with_beginning(entries, epochs)
        log.recovered(end_offset, unsynced, is_clean=False)
    if found.start_offset > log.end_offset:
        _check_start(found, log.end_offset)
        log.restart_at(found.start_offset, now_ms, _nothing)  # the checkpoint says no more than was found
        epochs, producers = [], None
    log.start_at(found.start_offset, found.recovery_point)
    if log.end_offset > log.start_offset and leader_epochs.are_lacking(log, entries, epochs):
        epochs = yield from leader_epochs.derive_steps(log, found)
    leader_epochs.note_formats(log, epochs, log.start_offset)
    log.epochs.keep(epochs, always=entries is None and log.size > 0)
    log.epochs.start_from(log.start_offset)
    log.opened(is_clean=found.is_clean)
    yield from log.reload_producers_steps(snapshots.offsets(names), producers)
    yield from check_transactions(log, found)
    if found.bytes_scanned >= SCANNED_BYTES and log.recovery_point < log.end_offset:
        _keep_found(log, found)
    if config.fsync_before_commit and log.recovery_point < log.end_offset:
        log.flush()  # a killed broker may have left in memory what a power cut could still take back from consumers
    log.close_files()  # most partitions are idle: files are opened again where they are needed
    return log


def _check_start(found: RecoveryInput, end_offset: int) -> None:
    """Raises CorruptLog if a log begins behind where it ends, and no power cut can have taken what was there."""
    if found.is_clean or found.start_offset > found.high_watermark:
        raise CorruptLog(
            f"{found} ends at offset {end_offset}, and {START_OFFSETS} says that it begins at {found.start_offset}, "
            "which cannot be: take its line there away, and nothing is lost"
        )


def _keep_found(log: Log, found: RecoveryInput) -> None:
    """Write down what a scan has found, as a stop would, and have a flush be due: the next start need not scan it."""
    try:
        log.seal()
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        logger.warning("%s: there is no room for what the scan has found; the next start may scan it again", found)


def _tidy(pool: Pool, found: RecoveryInput, names: dict[str, int]) -> None:
    """Finish what a crash interrupted: deletions and replacements that had not happened yet."""
    for name in list(names):
        of_size = names.get(name.rpartition(".")[0] + LOG_SUFFIX, -1)
        # Those of what was cut off would be taken for those of what is written next.
        is_orphan = name.endswith(DERIVED_SUFFIXES[:3]) and (of_size < 0 or (of_size == 0 < names[name]))
        path = f"{found.directory}/{name}"
        if name.endswith(DELETED_SUFFIX):
            pool.pending_deletions.add(path)  # large ones take long
        elif name.endswith(TEMPORARY_SUFFIX) or is_orphan:
            pool.files.remove(path)


def _segments(pool: Pool, found: RecoveryInput, names: dict[str, int], now_ms: int) -> list[Segment]:
    directory = found.directory
    bases = bases_of(names)
    if not bases:
        if found.recovery_point > found.start_offset:
            raise CorruptLog(
                f"{found}: {directory} has no segments, but offsets up to {found.recovery_point} were on the "
                f"disk; {repair_advice(found)}"
            )
        return [Segment.create(pool, directory, found.start_offset, now_ms)]
    return [Segment(pool, directory, base, sizes_of(names, base), created_ms=now_ms) for base in bases]


def _nothing() -> None:
    """Write no checkpoint."""


def _look_at_ends(log: Log, found: RecoveryInput) -> Steps[int]:
    """After a clean stop: where the log ends. All is as it should be, unless someone deleted what can be derived."""
    for segment in log.segments:
        yield from check_indexes(log, found, segment)
    last = log.segments[-1]
    try:
        end_offset = yield from _end_offset(log, found, last)
    except KafkaError as error:
        raise corrupt(found, last, f"{error.message}, after a clean stop") from error
    if end_offset < found.recovery_point:
        raise corrupt(
            found, last, f"it ends at offset {end_offset}; offsets up to {found.recovery_point} should follow"
        )
    return end_offset


def _end_offset(log: Log, found: RecoveryInput, last: Segment) -> Steps[int]:
    """Where the last segment ends. Raises KafkaError where that is no batch."""
    end_offset: int | None = None
    with contextlib.suppress(KafkaError):
        end_offset = last.end_offset()
        if end_offset == found.recovery_point:
            return end_offset
    iterator = last.iterate()  # it is the index that is wrong, or the segment, or what was told of the end
    for _ in iterator:
        yield
    if iterator.problem is None and last.offsets.entries and iterator.next_offset != end_offset:
        logger.warning("%s: %s is wrong; made again", found, last.offsets.path)
        yield from rebuild(log, found, last)
    return last.end_offset()
