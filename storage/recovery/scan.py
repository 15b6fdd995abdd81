"""The scan of a log after a crash: everything that may not be on the disk is read, checked, and cut where it ends.

A scan has exactly one of three results (`ScanResult`). Clean: valid batches to the end. Torn: invalid bytes at or
after the recovery point; the log is cut there, and the bytes are quarantined. Corrupt: invalid bytes below the
recovery point, where everything was on the disk before; the partition stays offline, and its files stay unchanged,
except that bytes after the recovery point may have been quarantined before.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.protocol.errors import KafkaError
from headgate.protocol.records import batch
from headgate.protocol.records.batch import NO_PRODUCER_ID
from headgate.protocol.records.control import TRANSACTION_BITS
from headgate.protocol.steps import Steps
from headgate.storage.errors import UnsupportedLog
from headgate.storage.files import NO_ROOM
from headgate.storage.log import snapshots
from headgate.storage.log.log import Log
from headgate.storage.log.producers import Producers
from headgate.storage.recovery import leader_epochs, recovery_truncation
from headgate.storage.recovery.index_check import is_untouched
from headgate.storage.recovery.indexes import check_indexes, seal, transactions_at
from headgate.storage.recovery.quarantine import TORN_SUFFIX, quarantine_cut
from headgate.storage.recovery.recovery_input import RecoveryInput, corrupt, first_to_scan
from headgate.storage.segment import legacy_messages
from headgate.storage.segment.batch_iterator import BatchIterator
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.transactions import Transactions

logger = logging.getLogger("headgate.storage")

_HEAD_BYTES = legacy_messages.MAGIC_POSITION + 1


class Scanned(NamedTuple):
    """The outcome of a scan: the end offset, the leader epochs (epoch, start offset), and the producer state.

    `producers` is None if the scan did not start from a known state. `unsynced`: files for the next flush to sync.
    """

    end_offset: int
    epochs: list[tuple[int, int]]
    producers: Producers | None
    unsynced: list[str]


class Clean(NamedTuple):
    """Valid batches to the end."""


class Torn(NamedTuple):
    """Invalid bytes from byte `at` on, where a crash explains them. `is_beginning`: the beginning of a single batch."""

    at: int
    reason: str
    is_beginning: bool = False


class Corrupt(NamedTuple):
    """Invalid bytes from byte `at` on, where everything was on the disk before."""

    at: int
    reason: str


ScanResult = Clean | Torn | Corrupt


def classify(iterator: BatchIterator, recovery_point: int) -> ScanResult:
    """Classify the end of a scan. Pure."""
    if iterator.problem is not None:
        if iterator.next_offset < recovery_point:
            return Corrupt(iterator.position, iterator.problem)
        return Torn(iterator.position, iterator.problem, iterator.is_cut)
    if iterator.next_offset < recovery_point:
        return Corrupt(iterator.position, f"offsets up to {recovery_point} should follow")
    return Clean()


def scan(log: Log, recovery: RecoveryInput, names: Mapping[str, int]) -> Steps[Scanned]:
    """Check the log from the recovery point on after a crash, and rebuild the indexes of these segments.

    Raises CorruptLog, UnsupportedLog, KafkaError, OSError.
    """
    segments = log.segments
    first = first_to_scan([segment.base_offset for segment in segments], recovery.recovery_point)
    unsynced: list[str] = []
    for segment in segments[:first]:
        # The indexes of the last one may be unsynced although its batches are synced; the next flush syncs them.
        is_last = segment is segments[first - 1]
        yield from check_indexes(log, recovery, segment, segments[first].base_offset if is_last else None)
        if is_last:
            unsynced = [*segment.sealed_indexes, segment.path]
    end_offset = segments[first].base_offset
    safe = max(recovery.recovery_point, end_offset)
    epochs = [entry for entry in log.epochs.entries if entry[1] < safe]
    interval_bytes = log.config.index_interval_bytes
    if segments[first] is segments[-1] and is_untouched(segments[-1], recovery.recovery_point, interval_bytes):
        return Scanned(recovery.recovery_point, epochs, None, unsynced)
    known: Transactions | None = None
    producers = _producers_at(log, names, segments[first])
    for number, segment in enumerate(segments[first:], first):
        if end_offset < segment.base_offset <= recovery.start_offset:
            end_offset = segment.base_offset  # some of the deleted segments have reappeared, others have not
        result, end_offset, known = yield from _scan_segment(
            log, recovery, segment, end_offset, epochs, known, producers
        )
        if isinstance(result, Corrupt):
            raise corrupt(recovery, segment, f"byte {result.at}, offset {end_offset}: {result.reason}")
        if isinstance(result, Torn):
            yield from _cut(log, recovery, segment, end_offset, result, segments[number + 1 :])
            end_offset = log.segments[-1].end_offset()
            break
        if segment is not segments[-1]:
            seal(segment)
    return Scanned(end_offset, epochs, producers, unsynced)


def _producers_at(log: Log, names: Mapping[str, int], segment: Segment) -> Producers | None:
    """The producer state at the start of a segment; None if unknown.

    Known for the first segment, and where a snapshot exists at its base offset; each roll writes one.
    """
    known, start_offset = snapshots.offsets(names), log.segments[0].base_offset
    producers, offset = snapshots.load_latest(log.pool.files, log.directory, known, start_offset, segment.base_offset)
    return producers if offset == segment.base_offset or segment is log.segments[0] else None


def _scan_segment(
    log: Log,
    recovery: RecoveryInput,
    segment: Segment,
    expected_offset: int,
    epochs: list[tuple[int, int]],
    known: Transactions | None,
    producers: Producers | None,
) -> Steps[tuple[ScanResult, int, Transactions | None]]:
    """Scan one segment. Returns the result, the end offset, and the transactions open at the end, if known.

    `known`: the transactions open at the segment's start, None if unknown. `epochs` and `producers` collect the leader
    epochs and the producer state of the batches.
    """
    if segment.base_offset != expected_offset:
        # A segment between them is lost. Compaction leaves gaps too, but only below the recovery point.
        return Torn(0, f"the segment should begin at offset {expected_offset}"), expected_offset, known
    iterator = segment.rebuild(log.config.index_interval_bytes, check_crc_from=recovery.recovery_point)
    for _, header in iterator:
        leader_epochs.note(epochs, header)
        if header.attributes & TRANSACTION_BITS and iterator.transactions is None:
            iterator.transactions = known or (yield from transactions_at(log, segment.base_offset))
        if producers is not None and header.producer_id != NO_PRODUCER_ID:
            producers.record(header, header.base_offset, iterator.marker(header))
        recovery.bytes_scanned += header.size
        yield
    if iterator.problem is not None and not segment.has_legacy_format and _is_old_format(segment, iterator.position):
        raise UnsupportedLog(
            f"{recovery}: {segment.path} holds messages of magic 0 or 1, but the leader epochs in {log.epochs.path} "
            "say that there are none; delete that file to have the messages read"
        )
    return classify(iterator, recovery.recovery_point), iterator.next_offset, iterator.transactions or known


def _is_old_format(segment: Segment, position: int) -> bool:
    """Whether there is a complete message of magic 0 or 1 at a byte position."""
    head = segment.file.read_at(_HEAD_BYTES, position)
    if len(head) < _HEAD_BYTES or head[legacy_messages.MAGIC_POSITION] >= batch.MAGIC:
        return False
    with contextlib.suppress(KafkaError):
        size = legacy_messages.size_at(head) or 0
        if size <= segment.size - position:
            return legacy_messages.valid_bytes(segment.file.read_at(size, position)) == size
    return False


def _cut(
    log: Log, recovery: RecoveryInput, segment: Segment, end_offset: int, torn: Torn, later: Sequence[Segment]
) -> Steps[None]:
    """Cut the log at the first invalid byte; quarantine it and all later bytes."""
    logger.warning(
        "%s: cut at byte %d of %s, offset %d: %s; %d bytes there and %d later segments are kept in files named *%s",
        recovery, torn.at, segment.path, end_offset, torn.reason, segment.size - torn.at, len(later), TORN_SUFFIX,
    )  # fmt: skip
    files = log.pool.files
    # The beginning of a batch was never acknowledged, and a power cut may leave one in each of 10,000 logs.
    is_expendable = torn.is_beginning and not later
    try:
        yield from quarantine_cut(files, segment, torn.at, is_synced=not is_expendable)
        for unreachable in later:
            yield from quarantine_cut(files, unreachable, 0)
    except OSError as error:
        if error.errno not in NO_ROOM or not is_expendable:
            raise  # the log stays offline and complete until there is disk space
        logger.warning("%s: no disk space to keep the beginning of an unacknowledged batch", recovery)
    recovery_truncation.drop_behind(log, segment, torn.at)
