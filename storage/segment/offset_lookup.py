"""Offset lookup: the place of an offset or a position in a segment, by its indexes as far as these are right.

No checksum covers an index. So a lookup checks the target of an entry: a batch that ends with the entry's offset, or
the first of several batches that Apache Kafka has appended together. A wrong entry would make a reader skip
records.
"""

from __future__ import annotations

import contextlib
import logging

from headgate.protocol.errors import KafkaError
from headgate.storage.segment.batch_seek import NO_LIMIT, BatchBounds, seek
from headgate.storage.segment.segment_file import WINDOW_BYTES, SegmentFile

logger = logging.getLogger("headgate.storage")


def locate(segment: SegmentFile, offset: int, blocking: bool = True) -> int:
    """The position of the first batch that does not end before `offset`; the segment's size without one.

    Raises WouldBlock if not `blocking`.
    """
    position = _land(segment, segment.offsets.floor(offset, blocking), offset, blocking)
    return _locate_anyway(segment, offset, blocking) if position is None else position


def cut(segment: SegmentFile, position: int, limit: int, blocking: bool = True) -> BatchBounds | None:
    """The first batch from `position` on that ends after the position `limit`. Raises WouldBlock as `locate`."""
    if limit - position > WINDOW_BYTES:  # otherwise an index is useless
        with contextlib.suppress(KafkaError):
            nearest = segment.offsets.floor_position(limit, blocking)
            return seek(segment, max(position, nearest), limit, blocking=blocking)
    return seek(segment, position, limit, blocking=blocking)


def _land(segment: SegmentFile, position: int, offset: int, blocking: bool) -> int | None:
    """`locate` from the entry with this position; None if the entry is wrong."""
    if position and not 0 < position < segment.size:
        return None
    try:
        bounds = seek(segment, position, NO_LIMIT, offset, blocking)
    except KafkaError:
        return None
    if bounds is None:
        return segment.size
    return None if position and bounds[0] == position and bounds[3] > offset else bounds[0]


def _locate_anyway(segment: SegmentFile, offset: int, blocking: bool) -> int:
    """`locate` by any right entry, else from the first batch on. Raises KafkaError as `batch_seek.seek`."""
    for position in segment.offsets.floors(offset, blocking):
        found = _land(segment, position, offset, blocking) if position else None
        if found is not None:
            logger.warning(
                "%s has a wrong entry for offset %d, which slows down lookups; if the file is removed while no broker "
                "runs, the next start rebuilds it", segment.offsets.path, offset,
            )  # fmt: skip
            return found
    bounds = seek(segment, 0, NO_LIMIT, offset, blocking)
    return segment.size if bounds is None else bounds[0]
