"""Batch seek: from batch to batch by their bounds alone, to an offset or a byte position.

A batch begins with its base offset and its length, and has its last offset in the header. A seek reads nothing else, in
windows of some kilobytes. For messages of magic 0 and 1 use `legacy_messages.seek`.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TypeAlias

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD
from headgate.storage.segment import legacy_messages
from headgate.storage.segment.segment_file import SegmentFile

NO_LIMIT = 1 << 62

# Base offset, batch length and last offset delta.
_BOUNDS = struct.Struct(">qi11xi")
_BOUNDS_BYTES = _BOUNDS.size
_unpack_bounds = _BOUNDS.unpack_from
_SMALLEST_LENGTH = HEADER_SIZE - LOG_OVERHEAD

BatchBounds: TypeAlias = tuple[int, int, int, int]
"""The bounds of a batch: position, position of the end, base offset, last offset."""


def seek(
    segment: SegmentFile, position: int, limit: int, offset: int = NO_LIMIT, blocking: bool = True
) -> BatchBounds | None:
    """The first batch from `position` on that ends after the position `limit`, or with `offset` or later.

    None at the end of the segment. Raises KafkaError(KAFKA_STORAGE_ERROR) at an invalid place; WouldBlock if not
    `blocking`.
    """
    if segment.has_legacy_format:
        return _seek_messages(segment, position, limit, offset, blocking)
    size, start = segment.size, position
    window = segment.read_window(position, blocking) if position < size else b""
    while position < size:
        at = position - start
        if at + _BOUNDS_BYTES > len(window):
            window, start, at = segment.read_window(position, blocking), position, 0
            if len(window) < _BOUNDS_BYTES:
                raise damaged(segment, position)
        base_offset, length, delta = _unpack_bounds(window, at)
        end = position + length + LOG_OVERHEAD
        if length < _SMALLEST_LENGTH or end > size:
            raise damaged(segment, position)
        if end > limit or base_offset + delta >= offset:
            return position, end, base_offset, base_offset + delta
        position = end
    return None


def _seek_messages(segment: SegmentFile, position: int, limit: int, offset: int, blocking: bool) -> BatchBounds | None:
    try:
        read_window = partial(segment.read_window, blocking=blocking)
        return legacy_messages.seek(read_window, segment.size, position, limit, offset)
    except KafkaError as error:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{error.message} of {segment.path}") from None


def damaged(segment: SegmentFile, position: int) -> KafkaError:
    """The error for a place without a batch."""
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"there is no batch at byte {position} of {segment.path}")
