"""Where a segment has an offset or a position, told by its indexes as far as these are right.

No checksum covers an index, so that where an entry leads is looked at: to a batch that ends with the entry's offset,
or, of several that Apache Kafka has appended together, to the first of them. An entry that leads elsewhere would have a
reader pass over records.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from protocol.errors import KafkaError
from protocol.records.batch import NO_TIMESTAMP
from storage.hops import NO_LIMIT, WINDOW_BYTES, Hop, seek

if TYPE_CHECKING:
    from storage.segment import Segment

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


def correct_newest(segment: Segment) -> bool:
    """Whether the highest timestamp was wrong, as its time index tells it; it is right now. Raises KafkaError, OSError.

    Retention goes by it, so that it is looked at before records go.
    """
    timestamp, offset = segment.max_timestamp, segment.max_timestamp_offset
    if segment.holds_messages or timestamp < 0:
        return False
    try:
        told = next(iter(segment.walk(locate(segment, offset))), None)
    except FileNotFoundError:  # an attempt to delete it has come this far
        return False
    if told is not None and told[1].max_timestamp == timestamp:
        return False
    newest = NO_TIMESTAMP
    for _, header in segment.walk():
        if header.max_timestamp > newest:
            newest = header.max_timestamp
            segment.note_newest(newest, header.last_offset)
    logger.warning(
        "%s is wrong: it told of %d as the time of the newest record, which is %d; if the file is removed while no "
        "broker runs, the next start makes it anew", segment.times.path, timestamp, newest,
    )  # fmt: skip
    return newest != timestamp
