"""Rolls: when a log begins a new segment, by size, by time with jitter, or by the size of an index; and how.

Source: Apache Kafka's `LogSegment.shouldRoll`, `LogConfig.maxSegmentMs`, `LogConfig.randomSegmentJitter`.
"""

from __future__ import annotations

import errno
from contextlib import suppress

from headgate.storage.config import LogConfig
from headgate.storage.log import snapshots
from headgate.storage.log.log import Log
from headgate.storage.segment.index import MAX_RELATIVE_OFFSET
from headgate.storage.segment.segment import Segment


def longest_ms(config: LogConfig, jitter: float) -> int:
    """The age in ms at which a segment ends: less the share `jitter`, 0 to 1, of segment.jitter.ms."""
    return config.max_segment_ms - int(jitter * min(config.segment_jitter_ms, config.max_segment_ms))


def is_due(
    active: Segment,
    config: LogConfig,
    longest_ms: int,
    size: int,
    max_timestamp: int,
    last_offset: int,
    now_ms: int,
) -> bool:
    """Whether batches of `size` bytes, up to a timestamp and an offset, belong into a new segment.

    `active` is not empty, and ends at the age `longest_ms`: by the time of its records if they have one, else by the
    clock.
    """
    if active.size + size > config.segment_bytes or active.is_full(config.segment_index_bytes):
        return True
    first_timestamp = active.first_timestamp
    age_ms = max_timestamp - first_timestamp if first_timestamp >= 0 else now_ms - active.created_ms
    return age_ms > longest_ms or last_offset >= active.base_offset + MAX_RELATIVE_OFFSET


def max_age_ms(log: Log) -> int:
    """The age in ms at which the active segment ends."""
    config = log.config
    return longest_ms(config, log.jitter) if config.segment_jitter_ms else config.max_segment_ms


def is_aged(log: Log, now_ms: int) -> bool:
    """Whether the active segment is not empty, and was begun longer ago than segment.ms.

    An append rolls by the time of its records, which may be years old. With that time here, a log of old records
    would roll at each check.
    """
    active = log.segments.active
    return active.size > 0 and now_ms - active.created_ms > max_age_ms(log)


def roll(log: Log, now_ms: int) -> None:
    """Begin a new segment. The next flush, which is then due, makes the old one durable. Raises OSError.

    A thread may call this; it has acquired `ROLLING`.
    """
    # By name, as a flush under way may sync the file earlier.
    if not seal(log):  # a failed roll came so far
        log.indexes_unsynced += log.segments.active.sealed_files
    _begin_segment(log, now_ms)


def roll_for_retention(log: Log, now_ms: int) -> None:
    """Begin a new segment after one that retention deletes. Unlike `roll`, needs no room on the disk.

    Raises OSError.
    """
    with suppress(OSError):  # without room the snapshot is written with the next segment
        _save_snapshot(log)
    _begin_segment(log, now_ms)


def seal(log: Log) -> bool:
    """Write the indexes and the producers' state to their files; True if an index was written. Raises OSError."""
    is_changed = log.segments.seal(log.indexes_unsynced)
    _save_snapshot(log)
    return is_changed


def _save_snapshot(log: Log) -> None:
    if log.producers.snapshot_offset < log.end_offset:
        snapshots.save(log.pool.files, log.directory, log.end_offset, log.producers)
        log.producers.snapshot_offset = log.end_offset


def _begin_segment(log: Log, now_ms: int) -> None:
    if log.is_retired:
        raise OSError(errno.ESTALE, "the log was deleted; its directory may be another's by now", log.directory)
    segment = Segment.create(log.pool, log.directory, log.end_offset, now_ms)
    log.jitter = log.random.random()
    log.names_unsynced = True
    if log.has_transactions:
        segment.follow_transactions()
    log.segments.add(segment)
