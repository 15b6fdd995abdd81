"""Where a segment has an offset or a position, told by its indexes as far as these are right.

No checksum covers an index, so that where an entry leads is looked at: to a batch that ends with the entry's offset,
or, of several that Apache Kafka has appended together, to the first of them. An entry that leads elsewhere would have a
reader pass over records.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from headgate.protocol.errors import KafkaError
from headgate.storage.segment.batch_seek import NO_LIMIT, WINDOW_BYTES, Hop, seek
from headgate.storage.segment.index import WrongIndex

if TYPE_CHECKING:
    from headgate.storage.segment.segment import Segment

logger = logging.getLogger("headgate.storage")


def locate(segment: Segment, offset: int) -> int:
    """Where the first batch begins that does not end before `offset`; the segment's size if all do."""
    position = _land(segment, segment.offsets.floor(offset), offset)
    return _locate_anyway(segment, offset) if position is None else position


def cut(segment: Segment, position: int, limit: int) -> Hop | None:
    """The first batch, from `position` on, that ends behind the position `limit`."""
    if limit - position > WINDOW_BYTES:  # else an index is of no use
        with contextlib.suppress(KafkaError):
            return seek(segment, max(position, segment.offsets.floor_position(limit)), limit)
    return seek(segment, position, limit)


def _land(segment: Segment, position: int, offset: int) -> int | None:
    """`locate` from an entry on; None if that is wrong."""
    if position and not 0 < position < segment.size:
        return None
    try:
        hop = seek(segment, position, NO_LIMIT, offset)
    except KafkaError:
        return None
    if hop is None:
        return segment.size
    return None if position and hop[0] == position and hop[3] > offset else hop[0]


def _locate_anyway(segment: Segment, offset: int) -> int:
    """`locate` by whatever entry is right, else from the first batch on. Raises KafkaError as `hops.seek` does."""
    for position in segment.offsets.floors(offset):
        found = _land(segment, position, offset) if position else None
        if found is not None:
            logger.warning(
                "%s is wrong where it tells of offset %d, which takes longer to find; if the file is removed while no "
                "broker runs, the next start makes it anew", segment.offsets.path, offset,
            )  # fmt: skip
            return found
    hop = seek(segment, 0, NO_LIMIT, offset)
    return segment.size if hop is None else hop[0]


def check_newest(segment: Segment) -> None:
    """Make sure that a batch has the highest timestamp, as the time index tells it: by that retention goes.

    Raises WrongIndex, OSError; WouldBlock if the pool is not patient.
    """
    timestamp = segment.max_timestamp
    if segment.has_legacy_format or timestamp < 0:
        return
    try:
        position = locate(segment, segment.max_timestamp_offset)
        if position < segment.size and segment.read_head(segment.read_window(position)).max_timestamp == timestamp:
            return
    except KafkaError:  # it is damaged, and as old as it seems
        return
    told = f"told of {timestamp} as the time of the newest record, which no batch has"
    raise WrongIndex(segment.times.path, segment.base_offset, told)
