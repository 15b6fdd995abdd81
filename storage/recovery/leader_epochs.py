"""Leader epochs when a log is opened: read, or made again from its batches; and which segments hold older messages.

Both are told together: messages of magic 0 and 1 have no epochs, and come before whatever has some.
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


def read(files: Files, found: RecoveryInput) -> list[tuple[int, int]] | None:
    """The entries of the file; None if there is none, or none that can be read, which is logged."""
    try:
        return read_entries(files, found.directory)
    except BadFile as error:
        logger.warning("%s: %s", found, error)
        return None


def with_beginning(entries: list[tuple[int, int]] | None, epochs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What a scan has found, from where the file says that it begins: what was there may be compacted away."""
    if not entries or not epochs:
        return epochs
    first_epoch, first_offset = epochs[0]
    before = [entry for entry in entries if entry[0] <= first_epoch and entry[1] < first_offset]
    is_known = bool(before) and before[-1][0] == first_epoch
    return [*before, *epochs[is_known:]]


def are_lacking(log: Log, entries: list[tuple[int, int]] | None, epochs: list[tuple[int, int]]) -> bool:
    """Whether epochs that should be known are not. `entries` are those of the file, None if there was none.

    Where messages of magic 0 and 1 come first, none are known of them, and Kafka's file is right. A file without any is
    so where the batches have none, too.
    """
    if entries is None:
        return True
    if _cover(epochs, log.start_offset) or _begins_with_message(log.segments[0]):
        return False
    first = None if entries else next(iter(log.headers(log.start_offset)), None)
    return bool(entries) or (first is not None and first.partition_leader_epoch > NO_EPOCH)


def _cover(epochs: list[tuple[int, int]], start_offset: int) -> bool:
    """Whether it is known who wrote the log from `start_offset` on."""
    return bool(epochs) and epochs[0][1] <= start_offset


def derive_steps(log: Log, found: RecoveryInput) -> Steps[list[tuple[int, int]]]:
    """From the batches: only epochs in which nothing was written are not found again."""
    old = [segment.base_offset for segment in log.segments if _begins_with_message(segment)]
    if old and _ends_with_message(log):
        return []
    if not old:
        logger.info("%s: %s is missing or too short; made again from the batches", found, log.epochs.path)
    epochs: list[tuple[int, int]] = []
    for header in log.headers(max([log.start_offset, *old[-1:]])):  # none are known of what lies before a message
        note(epochs, header)
        yield
    if epochs and not old and epochs[0][1] > log.start_offset:  # what was before it is compacted away
        epochs[0] = epochs[0][0], log.start_offset
    return epochs


def note(epochs: list[tuple[int, int]], header: BatchHeader) -> None:
    """Note the epoch of a batch, if it is a new one."""
    epoch = header.partition_leader_epoch
    if epoch > (epochs[-1][0] if epochs else NO_EPOCH):
        epochs.append((epoch, header.base_offset))


def note_formats(log: Log, epochs: list[tuple[int, int]], start_offset: int) -> None:
    """Note where there may be messages of magic 0 and 1: below the first leader epoch.

    Kafka knows epochs since it has batches, and forgets them all where an older format is set again. Where the log was
    made to start later, its epochs do too, whatever there is before: that is looked at.
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
