"""The timestamp of the oldest unread record, the first one at or after an offset, in batches that were read there.

ListOffsets finds the offset of a time, not the time of an offset. So the batch is read that the group will read next.
"""

from __future__ import annotations

from typing import NamedTuple

from headgate.protocol.errors import KafkaError
from headgate.protocol.lag.measurement import UNKNOWN_TIMESTAMP
from headgate.protocol.records import batch


class UnreadResult(NamedTuple):
    """The result of one read: a timestamp (None: no record before the end), or the offset of the next read.

    `is_too_large`: no whole batch fitted, so the partition must be read alone.
    """

    timestamp: int | None
    next_offset: int = -1
    is_too_large: bool = False


def time_by_header(header: batch.BatchHeader, offset: int, end: int) -> UnreadResult | None:
    """The result of `first_record` for one batch, if the header alone tells it; otherwise None.

    A header tells the time of the first record if no record was removed, and of all records with one time.
    """
    if header.last_offset < offset or header.is_control:
        next_offset = header.last_offset + 1
        return UnreadResult(None) if next_offset >= end else UnreadResult(None, max(offset, next_offset))
    if header.base_offset >= end:
        return UnreadResult(None)
    if header.records_count != header.last_offset_delta + 1 or header.delete_horizon_ms is not None:
        return None
    if header.is_log_append_time:
        return UnreadResult(header.max_timestamp)
    if offset <= header.base_offset:
        return UnreadResult(header.base_timestamp)
    return None


def first_record(records: bytes | bytearray | memoryview, offset: int, end: int) -> UnreadResult | None:
    """The timestamp of the first record in these batches from `offset` to before `end`, or the next offset to fetch.

    None: there is no whole batch. Compaction may have removed some or all records of a batch; control batches hold
    markers, which no consumer receives; the last batch may be incomplete.
    """
    view = memoryview(records)
    position, next_offset = 0, -1
    while len(view) - position >= batch.HEADER_SIZE:
        try:
            header = batch.read_header(view, position)
            if header.size > len(view) - position:
                break
            if not header.is_control:
                for record in batch.iterate(view[position : position + header.size]):
                    if record.offset >= end:
                        return UnreadResult(None)
                    if record.offset >= offset:
                        return UnreadResult(record.timestamp)
        except KafkaError:
            # An older format, or damage: consumers will meet the error, here the batch has no known time
            return UnreadResult(UNKNOWN_TIMESTAMP)
        position += header.size
        next_offset = header.last_offset + 1
    if next_offset <= offset:
        # Whole batches before the offset: the broker answered with records that the request did not ask for
        return None if next_offset < 0 else UnreadResult(UNKNOWN_TIMESTAMP)
    return UnreadResult(None) if next_offset >= end else UnreadResult(None, next_offset)
