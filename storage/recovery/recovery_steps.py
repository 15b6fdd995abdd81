"""Opening a log: the recovery steps in their order."""

from __future__ import annotations

import contextlib
import logging
from random import Random

from headgate.protocol.errors import KafkaError
from headgate.protocol.steps import Steps
from headgate.storage.config import LogConfig
from headgate.storage.disk import layout
from headgate.storage.disk.checkpoint import START_OFFSETS, TEMPORARY_SUFFIX
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import CorruptLog, NotALog
from headgate.storage.files import NO_ROOM
from headgate.storage.log import flushing, rolling, snapshots
from headgate.storage.log.log import Log
from headgate.storage.log.producers import Producers
from headgate.storage.recovery import interrupted_replacements, leader_epochs, recovery_truncation
from headgate.storage.recovery.indexes import check_indexes, check_transactions, rebuild
from headgate.storage.recovery.quarantine import quarantine_replaced
from headgate.storage.recovery.recovery_input import RecoveryInput, bases_of, corrupt, of_log, repair_advice, sizes_of
from headgate.storage.recovery.scan import scan
from headgate.storage.recovery.sync_failure_repair import rewrite_unsynced
from headgate.storage.segment.segment import DERIVED_SUFFIXES, Segment
from headgate.storage.segment.segment_file import DELETED_SUFFIX, LOG_SUFFIX

logger = logging.getLogger("headgate.storage")

SCANNED_BYTES = 1 << 20
"""If a scan reads at least this many bytes, the log is made safe soon after, so that the next start need not scan."""


def open_log_steps(
    pool: Pool,
    recovery: RecoveryInput,
    config: LogConfig,
    random: Random,
    now_ms: int,
    *,
    checks_transaction_indexes: bool = True,
) -> Steps[Log]:
    """Open the log in a directory, in slices. Files of other programs stay unchanged.

    Without `checks_transaction_indexes` the log does not know all aborted transactions, but its offsets: Apache Kafka
    has no index where no transaction was aborted, and the check reads all headers of such segments.

    Raises CorruptLog and UnsupportedLog (the partition stays offline, its files unchanged), NotALog for a directory
    without files of a log, OSError.
    """
    listed = pool.files.list(recovery.directory)
    names = of_log(listed)
    if layout.is_no_partition(listed) and not recovery.recovery_point:
        raise NotALog(f"{recovery.directory} has the name of a partition, but holds no files of a log")
    names = of_log((yield from interrupted_replacements.finish_steps(pool, recovery.directory, names)))
    _finish_deletions(pool, recovery, names)
    if config.is_compacted and not recovery.is_clean:
        yield from quarantine_replaced(pool, recovery, names)
    segments = _segments(pool, recovery, names, now_ms)
    log = Log(pool, recovery.directory, recovery.topic, recovery.index, recovery.topic_id, config, segments, random)
    entries = leader_epochs.read(pool.files, recovery)
    log.epochs.load(entries or ())
    epochs = log.epochs.entries
    leader_epochs.note_formats(log, epochs, max(recovery.start_offset, segments[0].base_offset))
    producers: Producers | None = None
    if recovery.is_clean:
        log.recovered((yield from _check_ends(log, recovery)), is_clean=True)
    else:
        end_offset, epochs, producers, unsynced = yield from scan(log, recovery, names)
        epochs = leader_epochs.with_beginning(entries, epochs)
        log.recovered(end_offset, unsynced, is_clean=False)
    if recovery.start_offset > log.end_offset:
        _check_start(recovery, log.end_offset)
        # The start offset checkpoint already has this value.
        recovery_truncation.restart_at(log, recovery.start_offset, now_ms, _write_no_checkpoint)
        epochs, producers = [], None
    log.start_at(recovery.start_offset, recovery.recovery_point)
    if log.end_offset > log.start_offset and leader_epochs.are_lacking(log, entries, epochs):
        epochs = yield from leader_epochs.derive_steps(log, recovery)
    leader_epochs.note_formats(log, epochs, log.start_offset)
    log.epochs.keep(epochs, always=entries is None and log.segments.size > 0)
    log.epochs.start_from(log.start_offset)
    log.opened(is_clean=recovery.is_clean)
    yield from log.reload_producers_steps(snapshots.offsets(names), producers)
    if checks_transaction_indexes:
        yield from check_transactions(log, recovery)
    if recovery.bytes_scanned >= SCANNED_BYTES and log.recovery_point < log.end_offset:
        _save_scan(log, recovery)
    if config.fsync_before_commit and log.recovery_point < log.end_offset:
        # A kill may have left records in the page cache only; a power cut must not take them back. If a sync had failed
        # before, a sync alone proves nothing.
        yield from rewrite_unsynced(log)
        flushing.flush(log)
    log.close_files()  # most partitions are idle; a log opens its files again on demand
    return log


def _check_start(recovery: RecoveryInput, end_offset: int) -> None:
    """Raises CorruptLog if the start offset is above the end offset, and a power cut cannot explain that."""
    if recovery.is_clean or recovery.start_offset > recovery.high_watermark:
        raise CorruptLog(
            f"{recovery} ends at offset {end_offset}, but {START_OFFSETS} says that it begins at "
            f"{recovery.start_offset}, which is impossible: remove the line of this partition from that file; no "
            "records are lost"
        )


def _save_scan(log: Log, recovery: RecoveryInput) -> None:
    """Write the indexes after a scan, as a clean stop does; a flush becomes due. The next start need not scan again."""
    try:
        rolling.seal(log)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        logger.warning("%s: no disk space for the scanned indexes; the next start may scan the log again", recovery)


def _finish_deletions(pool: Pool, recovery: RecoveryInput, names: dict[str, int]) -> None:
    """Finish the deletions that a crash interrupted; remove temporary files and index files without a segment."""
    for name in list(names):
        of_size = names.get(name.rpartition(".")[0] + LOG_SUFFIX, -1)
        # The next segment with this base offset would take over the index files of a removed one.
        is_orphan = name.endswith(DERIVED_SUFFIXES[:3]) and (of_size < 0 or (of_size == 0 < names[name]))
        path = f"{recovery.directory}/{name}"
        if name.endswith(DELETED_SUFFIX):
            pool.pending_deletions.add(path)  # the deletion of a large file takes long
        elif name.endswith(TEMPORARY_SUFFIX) or is_orphan:
            pool.files.remove(path)


def _segments(pool: Pool, recovery: RecoveryInput, names: dict[str, int], now_ms: int) -> list[Segment]:
    directory = recovery.directory
    bases = bases_of(names)
    if not bases:
        if recovery.recovery_point > recovery.start_offset:
            raise CorruptLog(
                f"{recovery}: {directory} has no segments, but offsets up to {recovery.recovery_point} were on the "
                f"disk before; {repair_advice(recovery)}"
            )
        return [Segment.create(pool, directory, recovery.start_offset, now_ms)]
    return [Segment(pool, directory, base, sizes_of(names, base), created_ms=now_ms) for base in bases]


def _write_no_checkpoint() -> None:
    """Write no checkpoint."""


def _check_ends(log: Log, recovery: RecoveryInput) -> Steps[int]:
    """Check a log after a clean stop. Returns its end offset. Only derived files can be missing, if deleted by hand."""
    for segment in log.segments:
        yield from check_indexes(log, recovery, segment)
    last = log.segments[-1]
    try:
        end_offset = yield from _end_offset(log, recovery, last)
    except KafkaError as error:
        raise corrupt(recovery, last, f"{error.message}, after a clean stop") from error
    if end_offset < recovery.recovery_point:
        raise corrupt(
            recovery, last, f"it ends at offset {end_offset}; offsets up to {recovery.recovery_point} should follow"
        )
    return end_offset


def _end_offset(log: Log, recovery: RecoveryInput, last: Segment) -> Steps[int]:
    """The end offset of the last segment. Raises KafkaError if there is no batch at its end."""
    end_offset: int | None = None
    with contextlib.suppress(KafkaError):
        end_offset = last.end_offset()
        if end_offset == recovery.recovery_point:
            return end_offset
    iterator = last.iterate()  # the index, the segment or the checkpointed end is wrong: the batches show which
    for _ in iterator:
        yield
    if iterator.problem is None and last.offsets.entries and iterator.next_offset != end_offset:
        logger.warning("%s: %s is wrong; rebuilding it", recovery, last.offsets.path)
        yield from rebuild(log, recovery, last)
    return last.end_offset()
