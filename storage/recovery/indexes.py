"""Rebuilds indexes of segments that are safe on the disk, where a start finds them missing, cut or damaged."""

from __future__ import annotations

import logging

from headgate.protocol.records.control import TRANSACTION_BITS
from headgate.protocol.steps import Steps
from headgate.storage.files import NO_ROOM, Files
from headgate.storage.log import snapshots
from headgate.storage.log.log import Log
from headgate.storage.recovery.index_check import end_of_finished, has_indexes
from headgate.storage.recovery.quarantine import quarantine_cut
from headgate.storage.recovery.recovery_input import RecoveryInput, corrupt
from headgate.storage.segment import index_finalization
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.transaction_index import TransactionIndex
from headgate.storage.segment.transactions import Transactions

logger = logging.getLogger("headgate.storage")


def check_indexes(log: Log, recovery: RecoveryInput, segment: Segment, end_offset: int | None = None) -> Steps[None]:
    """Rebuild the indexes of a segment that is safe on the disk, if the index check fails.

    `end_offset` is the base offset of the next segment. With `end_offset` the check is thorough, and the segment is cut
    there. Raises CorruptLog, KafkaError, OSError.
    """
    is_there = has_indexes(segment, log.config.index_interval_bytes, checks_content=not recovery.is_clean)
    if is_there and (end_offset is None or not segment.size):
        return
    if end_offset is not None:
        end = end_of_finished(segment, end_offset) if is_there else None
        if end is not None and end <= end_offset:
            return
        yield from _cut_failed_write(log, recovery, segment, end_offset)
    logger.warning("%s: the indexes of %s are missing or cut; rebuilding them", recovery, segment.path)
    yield from rebuild(log, recovery, segment)


def _cut_failed_write(log: Log, recovery: RecoveryInput, segment: Segment, end_offset: int) -> Steps[None]:
    """Cut off the rest of a failed write just before a roll: the cut was made then, but was not yet on the disk."""
    iterator = segment.iterate()
    for _, header in iterator:
        if header.base_offset >= end_offset:
            break
        yield
    is_whole = iterator.problem is None or iterator.next_offset == end_offset
    if is_whole and iterator.position < segment.size:
        left = segment.size - iterator.position
        logger.warning("%s: cutting off %d bytes after the last batch of %s", recovery, left, segment.path)
        yield from quarantine_cut(log.pool.files, segment, iterator.position)
        segment.rebuild(log.config.index_interval_bytes)
        segment.truncate(iterator.position)


def rebuild(
    log: Log, recovery: RecoveryInput, segment: Segment, known: Transactions | None = None
) -> Steps[Transactions | None]:
    """Rebuild the indexes of a segment. Raises CorruptLog, KafkaError, OSError.

    `known`: the transactions that are open where the segment begins, None if unknown. Returns those open at its end.
    """
    iterator = segment.rebuild(log.config.index_interval_bytes, in_memory=True)
    for _, header in iterator:
        if header.attributes & TRANSACTION_BITS and iterator.transactions is None:
            iterator.transactions = known or (yield from transactions_at(log, segment.base_offset))
        yield
    if iterator.problem is not None:
        raise corrupt(recovery, segment, f"byte {iterator.position}, offset {iterator.next_offset}: {iterator.problem}")
    if log.has_transactions:
        segment.follow_transactions()
    _write(log.pool.files, segment)
    return iterator.transactions or known


def transactions_at(log: Log, offset: int) -> Steps[Transactions]:
    """The transactions that are open at an offset, where a segment begins. Raises KafkaError, OSError.

    The replay starts at the last snapshot at or before the offset.
    """
    files = log.pool.files
    known = snapshots.offsets(files.list(log.directory))
    start_offset = log.segments[0].base_offset
    producers, since = snapshots.load_latest(files, log.directory, known, start_offset, offset)
    since = max(since, start_offset)
    if since < offset:
        for header, marker in log.segments.batches(since):
            if header.base_offset >= offset:
                break
            producers.transactions.follow(header, header.base_offset, marker)
            yield
    return producers.transactions


def check_transactions(log: Log, recovery: RecoveryInput) -> Steps[None]:
    """Rebuild missing transaction indexes, if the log may have transactions.

    A log may have transactions if its producers have some, or if another segment has a transaction index.
    """
    segments = log.segments
    if not log.has_transactions and all(segment.aborted is None for segment in segments):
        return
    log.note_transactions()
    known: Transactions | None = None
    made = 0
    for segment in segments:
        is_missing = segment.aborted is None and segment.is_sealed
        known = (yield from rebuild(log, recovery, segment, known)) if is_missing else None
        made += is_missing
    log.follow_transactions()
    if made:
        logger.info("%s: wrote missing %s files for %d segments", recovery, TransactionIndex.SUFFIX, made)


def _write(files: Files, segment: Segment) -> None:
    """Write the indexes. After a crash the next start finds either complete indexes or none.

    The next start does not check the indexes of a segment below the recovery point thoroughly.
    """
    segment.file.sync()
    try:
        index_finalization.write(files, segment)
    except OSError as error:
        _tolerate_full_disk(segment, error)
    else:
        index_finalization.note_written(segment)


def seal(segment: Segment) -> None:
    """Write the indexes to their files. Without disk space they stay in memory until the log next rolls."""
    try:
        segment.seal()
    except OSError as error:
        _tolerate_full_disk(segment, error)


def _tolerate_full_disk(segment: Segment, error: OSError) -> None:
    if error.errno not in NO_ROOM:
        raise error
    logger.warning("no disk space for the indexes of %s; they stay in memory for now", segment.path)
