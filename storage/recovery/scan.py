"""The scan of a log after a crash: what may not be on the disk is read, checked, and cut where it is no log any more.

A scan ends in exactly one of three ways (`ScanResult`). Clean: batches to the end. Torn: at or behind the recovery
point something else follows; the log is cut there, and what followed is quarantined. Corrupt: something else follows
below the recovery point, where everything was on the disk once; the partition stays closed, and none of its files is
touched, except that bytes behind the recovery point may have been quarantined before.
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
from headgate.storage.recovery import leader_epochs
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
    """What a scan has found: where the log ends, its leader epochs, its producers if they came to be known by the way.

    `unsynced`: files that are to be synced with the next flush.
    """

    end_offset: int
    epochs: list[tuple[int, int]]
    producers: Producers | None
    unsynced: list[str]


class Clean(NamedTuple):
    """Batches to the end."""


class Torn(NamedTuple):
    """Something else follows byte `at`, where that may happen in a crash; `is_beginning`: of a batch, and no more."""

    at: int
    reason: str
    is_beginning: bool = False


class Corrupt(NamedTuple):
    """Something else follows byte `at`, where everything was on the disk already."""

    at: int
    reason: str


ScanResult = Clean | Torn | Corrupt


def classify(iterator: BatchIterator, recovery_point: int) -> ScanResult:
    """What the end of a scan means. Pure."""
    if iterator.problem is not None:
        if iterator.next_offset < recovery_point:
            return Corrupt(iterator.position, iterator.problem)
        return Torn(iterator.position, iterator.problem, iterator.is_cut)
    if iterator.next_offset < recovery_point:
        return Corrupt(iterator.position, f"offsets up to {recovery_point} should follow")
    return Clean()


def scan(log: Log, found: RecoveryInput, names: Mapping[str, int]) -> Steps[Scanned]:
    """After a crash: check what lies behind the recovery point, and make the indexes of these segments again."""
    segments = log.segments
    first = first_to_scan([segment.base_offset for segment in segments], found.recovery_point)
    unsynced: list[str] = []
    for segment in segments[:first]:
        # Those of the last were perhaps not yet synced, although its bytes were: that comes with the next flush.
        is_last = segment is segments[first - 1]
        yield from check_indexes(log, found, segment, segments[first].base_offset if is_last else None)
        if is_last:
            unsynced = [*segment.sealed_indexes, segment.path]
    end_offset = segments[first].base_offset
    safe = max(found.recovery_point, end_offset)
    epochs = [entry for entry in log.epochs.entries if entry[1] < safe]
    interval_bytes = log.config.index_interval_bytes
    if segments[first] is segments[-1] and is_untouched(segments[-1], found.recovery_point, interval_bytes):
        return Scanned(found.recovery_point, epochs, None, unsynced)
    known: Transactions | None = None
    producers = _producers_at(log, names, segments[first])
    for number, segment in enumerate(segments[first:], first):
        if end_offset < segment.base_offset <= found.start_offset:
            end_offset = segment.base_offset  # what was deleted is here again, and not all of it
        verdict, end_offset, known = yield from _scan_segment(log, found, segment, end_offset, epochs, known, producers)
        if isinstance(verdict, Corrupt):
            raise corrupt(found, segment, f"byte {verdict.at}, offset {end_offset}: {verdict.reason}")
        if isinstance(verdict, Torn):
            yield from _cut(log, found, segment, end_offset, verdict, segments[number + 1 :])
            end_offset = log.segments[-1].end_offset()
            break
        if segment is not segments[-1]:
            seal(segment)
    return Scanned(end_offset, epochs, producers, unsynced)


def _producers_at(log: Log, names: Mapping[str, int], segment: Segment) -> Producers | None:
    """The producers where a segment begins, if a snapshot has them, as one of each roll does; or if it is the first."""
    known, start_offset = snapshots.offsets(names), log.segments[0].base_offset
    producers, offset = snapshots.load_latest(log.pool.files, log.directory, known, start_offset, segment.base_offset)
    return producers if offset == segment.base_offset or segment is log.segments[0] else None


def _scan_segment(
    log: Log,
    found: RecoveryInput,
    segment: Segment,
    expected_offset: int,
    epochs: list[tuple[int, int]],
    known: Transactions | None,
    producers: Producers | None,
) -> Steps[tuple[ScanResult, int, Transactions | None]]:
    """How the segment ends, and at which offset.

    `known`, also in the result: the transactions open at the segment's ends, if that is known. The leader epochs and
    the producers of the batches are noted in `epochs` and `producers`.
    """
    if segment.base_offset != expected_offset:
        # One between them is lost: compaction leaves gaps too, but only in what was made safe before.
        return Torn(0, f"the segment should begin at offset {expected_offset}"), expected_offset, known
    iterator = segment.rebuild(log.config.index_interval_bytes, check_crc_from=found.recovery_point)
    for _, header in iterator:
        leader_epochs.note(epochs, header)
        if header.attributes & TRANSACTION_BITS and iterator.transactions is None:
            iterator.transactions = known or (yield from transactions_at(log, segment.base_offset))
        if producers is not None and header.producer_id != NO_PRODUCER_ID:
            producers.record(header, header.base_offset, iterator.marker(header))
        found.bytes_scanned += header.size
        yield
    if iterator.problem is not None and not segment.has_legacy_format and _is_old_format(segment, iterator.position):
        raise UnsupportedLog(
            f"{found}: {segment.path} holds messages of magic 0 or 1, where the leader epochs in {log.epochs.path} "
            "say that there are none; delete that file, and they are read"
        )
    return classify(iterator, found.recovery_point), iterator.next_offset, iterator.transactions or known


def _is_old_format(segment: Segment, position: int) -> bool:
    """Whether a whole message of magic 0 or 1 is there."""
    head = segment.file.read_at(_HEAD_BYTES, position)
    if len(head) < _HEAD_BYTES or head[legacy_messages.MAGIC_POSITION] >= batch.MAGIC:
        return False
    with contextlib.suppress(KafkaError):
        size = legacy_messages.size_at(head) or 0
        if size <= segment.size - position:
            return legacy_messages.sound_bytes(segment.file.read_at(size, position)) == size
    return False


def _cut(
    log: Log, found: RecoveryInput, segment: Segment, end_offset: int, torn: Torn, later: Sequence[Segment]
) -> Steps[None]:
    """Make the log end where it is torn; keep the bytes behind that aside."""
    logger.warning(
        "%s: cut at byte %d of %s, offset %d: %s; %d bytes there and %d later segments are kept in files named *%s",
        found, torn.at, segment.path, end_offset, torn.reason, segment.size - torn.at, len(later), TORN_SUFFIX,
    )  # fmt: skip
    files = log.pool.files
    is_worth_little = torn.is_beginning and not later  # and a power cut may leave one in each of 10,000 logs
    try:
        yield from quarantine_cut(files, segment, torn.at, is_synced=not is_worth_little)
        for unreachable in later:
            yield from quarantine_cut(files, unreachable, 0)
    except OSError as error:
        if error.errno not in NO_ROOM or not is_worth_little:
            raise  # so it stays closed, and whole, until there is room
        logger.warning("%s: there is no room to keep the beginning of a batch, which nobody was told of", found)
    log.drop_behind(segment, torn.at)
