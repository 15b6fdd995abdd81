"""Records by time: which is the first from a moment on, and which is the newest.

A time index says up to which offset everything is older; from there on batches are walked, and the records of one that
may hold the moment are looked at. Timestamps need not be in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocol.errors import KafkaError
from protocol.records import batch
from protocol.records.batch import BatchHeader
from storage.segment import Segment


class TimestampOffset(NamedTuple):
    """A record found by time."""

    offset: int
    timestamp: int
    leader_epoch: int


def first_from(segments: Sequence[Segment], timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    """The first record of this time or later, from `start_offset` on. Raises OSError."""
    for segment in segments:
        if segment.max_timestamp >= timestamp_ms:
            found = _find(segment, timestamp_ms, start_offset)
            if found is not None:
                return found
    return None


def newest(segments: Sequence[Segment], start_offset: int) -> TimestampOffset | None:
    """The first record with the highest timestamp. Raises OSError."""
    latest = max(segments, key=lambda segment: segment.max_timestamp)
    return None if latest.max_timestamp < 0 else _find(latest, latest.max_timestamp, start_offset)


def places(segments: Sequence[Segment], start_offset: int) -> list[tuple[int, int]]:
    """Where each segment begins, and when it was last written to in ms, the oldest first. Raises OSError.

    As precise as offsets by time were before there was a time index.
    """
    return [(max(segment.base_offset, start_offset), segment.modified_ms) for segment in segments]


def _find(segment: Segment, timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    for position, header in segment.batches_from_time(timestamp_ms, start_offset):
        for record in _records(segment.read_batch(position, header), header):
            if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                return TimestampOffset(record.offset, record.timestamp, header.partition_leader_epoch)
    return None


def _records(data: bytes, header: BatchHeader) -> Iterator[batch.Record]:
    """A batch's records; where they cannot be read, a stand-in that has what the header says."""
    try:
        yield from batch.iterate(data)
    except KafkaError:
        yield batch.Record(header.base_offset, header.max_timestamp)
