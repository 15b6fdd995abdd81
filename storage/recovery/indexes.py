"""The indexes of segments that are safe on the disk, made again where a start finds them missing, cut or spoilt."""

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


def check_indexes(log: Log, found: RecoveryInput, segment: Segment, end_offset: int | None = None) -> Steps[None]:
    """Make the indexes of a segment that is safe on the disk again, if they are not what they should be.

    With `end_offset`, where the next segment begins, they are looked through, and nothing stays behind it.
    """
    is_there = has_indexes(segment, log.config.index_interval_bytes, look_into_them=not found.is_clean)
    if is_there and (end_offset is None or not segment.size):
        return
    if end_offset is not None:
        end = end_of_finished(segment, end_offset) if is_there else None
        if end is not None and end <= end_offset:
            return
        yield from _drop_leftover(log, found, segment, end_offset)
    logger.warning("%s: the indexes of %s are missing or cut; made again", found, segment.path)
    yield from rebuild(log, found, segment)


def _drop_leftover(log: Log, found: RecoveryInput, segment: Segment, end_offset: int) -> Steps[None]:
    """Cut off what a write has left that failed just before a roll: it was cut off then, but not yet on the disk."""
    iterator = segment.iterate()
    for _, header in iterator:
        if header.base_offset >= end_offset:
            break
        yield
    is_whole = iterator.problem is None or iterator.next_offset == end_offset
    if is_whole and iterator.position < segment.size:
        left = segment.size - iterator.position
        logger.warning("%s: %d bytes behind the last batch of %s are cut off", found, left, segment.path)
        yield from quarantine_cut(log.pool.files, segment, iterator.position)
        segment.rebuild(log.config.index_interval_bytes)
        segment.truncate(iterator.position)


def rebuild(
    log: Log, found: RecoveryInput, segment: Segment, known: Transactions | None = None
) -> Steps[Transactions | None]:
    """Make the indexes of a segment again. `known` and the result: the transactions open at its ends, if known."""
    iterator = segment.rebuild(log.config.index_interval_bytes, in_memory=True)
    for _, header in iterator:
        if header.attributes & TRANSACTION_BITS and iterator.transactions is None:
            iterator.transactions = known or (yield from transactions_at(log, segment.base_offset))
        yield
    if iterator.problem is not None:
        raise corrupt(found, segment, f"byte {iterator.position}, offset {iterator.next_offset}: {iterator.problem}")
    if log.has_transactions:
        segment.follow_transactions()
    _write(log.pool.files, segment)
    return iterator.transactions or known


def transactions_at(log: Log, offset: int) -> Steps[Transactions]:
    """Those that are open where a segment begins, from the last snapshot that is not behind it.

    Raises KafkaError, OSError.
    """
    files = log.pool.files
    known = snapshots.offsets(files.list(log.directory))
    start_offset = log.segments[0].base_offset
    producers, since = snapshots.load_latest(files, log.directory, known, start_offset, offset)
    since = max(since, start_offset)
    if since < offset:
        for header, marker in log.batches(since):
            if header.base_offset >= offset:
                break
            producers.transactions.follow(header, header.base_offset, marker)
            yield
    return producers.transactions


def check_transactions(log: Log, found: RecoveryInput) -> Steps[None]:
    """Make the indexes of aborted transactions that are missing again, if the log may have any.

    That is seen in its producers, or in such an index of another segment. Else nothing is missing.
    """
    segments = log.segments
    if not log.has_transactions and all(segment.aborted is None for segment in segments):
        return
    log.note_transactions()
    known: Transactions | None = None
    made = 0
    for segment in segments:
        is_missing = segment.aborted is None and segment.is_sealed
        known = (yield from rebuild(log, found, segment, known)) if is_missing else None
        made += is_missing
    log.follow_transactions()
    if made:
        logger.info("%s: made %s files of %d segments that had none", found, TransactionIndex.SUFFIX, made)


def _write(files: Files, segment: Segment) -> None:
    """Write the indexes such that the next start finds them, or finds that they are missing, whatever comes between.

    It looks no closer at a segment that is safe on the disk.
    """
    segment.file.sync()
    try:
        index_finalization.write(files, segment)
    except OSError as error:
        _without_room(segment, error)
    else:
        index_finalization.note_written(segment)


def seal(segment: Segment) -> None:
    """Write the indexes out, if there is room for them; else they stay in memory until the log rolls next."""
    try:
        segment.seal()
    except OSError as error:
        _without_room(segment, error)


def _without_room(segment: Segment, error: OSError) -> None:
    if error.errno not in NO_ROOM:
        raise error
    logger.warning("there is no room for the indexes of %s; they are in memory for now", segment.path)
