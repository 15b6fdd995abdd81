"""Decides when a log begins a new segment: by size, by time with jitter, by the size of an index. Pure.

Source: Apache Kafka's `LogSegment.shouldRoll`, `LogConfig.maxSegmentMs`, `LogConfig.randomSegmentJitter`.
"""

from __future__ import annotations

from headgate.storage.config import LogConfig
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
