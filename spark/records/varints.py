"""Varints of many records at once, as numpy arrays. `protocol/records/varint.py` describes the encoding.

A buffer needs PADDING zero bytes after its data: then no varint that begins within the data passes the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

PADDING = bytes(16)
_MAX_BYTES = 10
_HIGHEST_LAST_BYTE = 1  # the tenth byte of a varint has the 64th bit


def read_zigzags(data: Any, at: Any) -> tuple[Any, Any]:
    """The numbers at these positions in zigzag form, as uint64, and the positions after them.

    `data`: uint8; `at`: int64. Raises IndexError for a varint of more than 64 bits.
    """
    first = data[at]
    is_long = first > 0x7F
    if not is_long.any():
        return first.astype(np.uint64), at + 1
    second = data[at + 1]
    numbers = (first & 0x7F).astype(np.uint64)
    numbers |= ((second & 0x7F) * is_long).astype(np.uint64) << np.uint64(7)
    after = at + 1
    after += is_long
    is_longer = is_long & (second > 0x7F)
    if is_longer.any():
        _read_rest(data, numbers, after, np.flatnonzero(is_longer))
    return numbers, after


def skip(data: Any, at: Any) -> Any:
    """The positions after the varints at these positions. Raises IndexError as `read_zigzags`."""
    is_long = data[at] > 0x7F
    if not is_long.any():
        return at + 1
    if (is_long & (data[at + 1] > 0x7F)).any():
        return read_zigzags(data, at)[1]
    after = at + 1
    after += is_long
    return after


def decode_zigzags(numbers: Any) -> Any:
    """The signed numbers of zigzag forms, as int64."""
    return (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(np.int64)


def _read_rest(data: Any, numbers: Any, after: Any, rows: Any) -> None:
    """Read the third and later bytes of these rows, in place."""
    for index in range(2, _MAX_BYTES):
        byte = data[after[rows]]
        numbers[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        after[rows] += 1
        if index == _MAX_BYTES - 1 and (byte > _HIGHEST_LAST_BYTE).any():
            raise IndexError("a varint has more than 64 bits")
        rows = rows[byte > 0x7F]
        if not rows.size:
            return
