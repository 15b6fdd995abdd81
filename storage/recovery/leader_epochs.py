"""Leader epochs of a log that is opened: read, or rebuilt from its batches; also the segments in a legacy format.

The two belong together: messages of magic 0 and 1 have no leader epochs, and precede all batches with epochs.
"""

from __future__ import annotations

import logging

from headgate.protocol.records import batch
from headgate.protocol.records.batch import BatchHeader
from headgate.protocol.steps import Steps
from headgate.storage.errors import BadFile
from headgate.storage.files import Files
from headgate.storage.log.epochs import NO_EPOCH, read_entries
from headgate.storage.log.log import Log
from headgate.storage.recovery.recovery_input import RecoveryInput
from headgate.storage.segment import legacy_messages
from headgate.storage.segment.batch_seek import NO_LIMIT, seek
from headgate.storage.segment.segment import Segment

logger = logging.getLogger("headgate.storage")

_HEAD_BYTES = legacy_messages.MAGIC_POSITION + 1


def read(files: Files, recovery: RecoveryInput) -> list[tuple[int, int]] | None:
    """The entries (epoch, start offset) of the checkpoint; None if it is missing or, with a warning, unreadable."""
    try:
        return read_entries(files, recovery.directory)
    except BadFile as error:
        logger.warning("%s: %s", recovery, error)
        return None


def with_beginning(entries: list[tuple[int, int]] | None, epochs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The scanned epochs with the start offsets of the checkpoint, as compaction may have removed the first batches."""
    if not entries or not epochs:
        return epochs
    first_epoch, first_offset = epochs[0]
    before = [entry for entry in entries if entry[0] <= first_epoch and entry[1] < first_offset]
    is_known = bool(before) and before[-1][0] == first_epoch
    return [*before, *epochs[is_known:]]


def are_lacking(log: Log, entries: list[tuple[int, int]] | None, epochs: list[tuple[int, int]]) -> bool:
    """Whether leader epochs are missing. `entries`: the content of the checkpoint file, None without a file.

    If messages of magic 0 and 1 come first, they have no epochs, and Kafka's file is right. A file without entries is
    right if the batches have no epochs either.
    """
    if entries is None:
        return True
    if _cover(epochs, log.start_offset) or _begins_with_message(log.segments[0]):
        return False
    first = None if entries else next(iter(log.segments.headers(log.start_offset)), None)
    return bool(entries) or (first is not None and first.partition_leader_epoch > NO_EPOCH)


def _cover(epochs: list[tuple[int, int]], start_offset: int) -> bool:
    return bool(epochs) and epochs[0][1] <= start_offset


def derive_steps(log: Log, recovery: RecoveryInput) -> Steps[list[tuple[int, int]]]:
    """Rebuild the epochs from the batches. Epochs without any batch cannot be found. Raises KafkaError, OSError."""
    old = [segment.base_offset for segment in log.segments if _begins_with_message(segment)]
    if old and _ends_with_message(log):
        return []
    if not old:
        logger.info("%s: %s is missing or too short; rebuilding it from the batches", recovery, log.epochs.path)
    epochs: list[tuple[int, int]] = []
    since = max([log.start_offset, *old[-1:]])  # no epochs are kept before a legacy message
    for header in log.segments.headers(since):
        note(epochs, header)
        yield
    if epochs and not old and epochs[0][1] > log.start_offset:  # compaction has removed the batches before
        epochs[0] = epochs[0][0], log.start_offset
    return epochs


def note(epochs: list[tuple[int, int]], header: BatchHeader) -> None:
    """Append the leader epoch of a batch to `epochs`, if the epoch is new."""
    epoch = header.partition_leader_epoch
    if epoch > (epochs[-1][0] if epochs else NO_EPOCH):
        epochs.append((epoch, header.base_offset))


def note_formats(log: Log, epochs: list[tuple[int, int]], start_offset: int) -> None:
    """Mark the segments that may hold messages of magic 0 and 1: those below the first leader epoch.

    Kafka has leader epochs since it has batches, and drops them all when an older format is configured again. If the
    start offset of the log was raised, the first epoch was raised too; such segments are read to decide.
    """
    first = epochs[0][1] if epochs else NO_LIMIT
    for segment in log.segments:
        segment.has_legacy_format = segment.size > 0 and segment.base_offset < first
        if segment.has_legacy_format and first <= start_offset:
            segment.has_legacy_format = _begins_with_message(segment)


def _begins_with_message(segment: Segment, position: int = 0) -> bool:
    if not segment.has_legacy_format:
        return False
    head = segment.file.read_at(_HEAD_BYTES, position)
    return len(head) == _HEAD_BYTES and head[legacy_messages.MAGIC_POSITION] < batch.MAGIC


def _ends_with_message(log: Log) -> bool:
    segment = [segment for segment in log.segments if segment.size][-1]
    last = seek(segment, segment.offsets.last_position, segment.size - 1)
    return last is not None and _begins_with_message(segment, last[0])
