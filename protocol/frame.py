"""Framing: an int32 before each request and response is its size in bytes, without these four.

`FrameReader` cuts the received bytes into frames, in whatever pieces they arrive. The reader is sans-IO: its caller
feeds it, and it buffers only the incomplete frame.
"""

from __future__ import annotations

import struct

from headgate.protocol.errors import MalformedRequest

_SIZE = struct.Struct(">i")
_SIZE_BYTES = _SIZE.size
_unpack_size = _SIZE.unpack_from
_NOTHING_YET, _BETWEEN = -2, -1


class InvalidFrameSize(MalformedRequest):
    """A frame's size is negative or above the limit. The next frame cannot be found, so the connection must close.

    `size`: the invalid size. `frames`: the complete frames before it in the same piece.
    `is_first`: no frame came before it on this connection.
    """

    def __init__(self, size: int, limit: int, frames: list[memoryview], is_first: bool) -> None:
        super().__init__(f"a frame claims {size} bytes; the limit is {limit}")
        self.size = size
        self.frames = frames
        self.is_first = is_first


class FrameReader:
    """Cuts a stream of bytes into frames of at most `max_size` bytes."""

    __slots__ = ("_filled", "_frame", "_head", "_wanted", "max_size", "received_bytes")

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        """The limit for the frames from the next one on."""
        self.received_bytes = 0
        """All received bytes, those of an incomplete frame too."""
        self._head = b""  # the received bytes of a size, while there are fewer than four
        self._frame = bytearray()  # the incomplete frame, with room for its rest
        self._filled = 0  # received bytes of the incomplete frame
        self._wanted = _NOTHING_YET  # size of the incomplete frame; negative between frames

    @property
    def incomplete_size(self) -> int:
        """Size in bytes of the incomplete frame, once it is whole; 0 between frames."""
        return max(self._wanted, 0)

    @property
    def held_bytes(self) -> int:
        """Buffered bytes of the incomplete frame and of its size."""
        return len(self._head) + self._filled + (_SIZE.size if self._wanted >= 0 else 0)

    def discard(self) -> None:
        """Drop the buffered part of an incomplete frame."""
        self._head, self._frame, self._filled, self._wanted = b"", bytearray(), 0, _BETWEEN

    def get_buffer(self, max_size: int) -> memoryview:
        """Return the buffer for the next bytes of the incomplete frame. `buffer_updated` then takes their count.

        The buffer of the frame grows to the size of the frame, or to `max_size` bytes if that is less.
        """
        size = min(self._wanted, max_size)
        if len(self._frame) < size:
            larger = bytearray(size)
            larger[: self._filled] = memoryview(self._frame)[: self._filled]
            self._frame = larger
        return memoryview(self._frame)[self._filled :]

    def buffer_updated(self, count: int) -> list[memoryview]:
        """Take `count` bytes that the caller put into `get_buffer()`; return the frame if it is complete."""
        self.received_bytes += count
        self._filled += count
        return self._complete() if self._filled == self._wanted else []

    def take_whole(self, view: memoryview) -> memoryview | None:
        """Return the frame if `view` is exactly one frame, the common case; else None, and `feed` takes the bytes."""
        received = len(view)
        if self._wanted >= 0 or self._head or received < _SIZE_BYTES:
            return None
        (size,) = _unpack_size(view)
        if size + _SIZE_BYTES != received or size > self.max_size:
            return None
        self._wanted = _BETWEEN
        self.received_bytes += received
        return view[_SIZE_BYTES:]

    def feed(self, data: bytes | bytearray | memoryview) -> list[memoryview]:
        """Take received bytes; return the frames that they complete, without their sizes.

        A frame within `data` is a view of it, and lives as long as `data` does. A frame from several pieces owns its
        bytes. Raises InvalidFrameSize; the reader is unusable then.
        """
        view = data if isinstance(data, memoryview) else memoryview(data)
        frames: list[memoryview] = []
        position = 0
        if self._wanted >= 0 or self._head:
            position = self._continue(view, frames)
        received, max_size = len(view), self.max_size
        self.received_bytes += received
        while position + _SIZE_BYTES <= received:
            (size,) = _unpack_size(view, position)
            if not 0 <= size <= max_size:
                raise self._refused(size, frames)
            start = position + _SIZE_BYTES
            position = start + size
            if position > received:
                self._wanted = size
                self._add(view[start:])
                return frames
            frames.append(view[start:position])
        if position < received:
            self._head += view[position:]
        if frames:
            self._wanted = _BETWEEN
        return frames

    def _continue(self, view: memoryview, frames: list[memoryview]) -> int:
        """Continue the frame of an earlier piece. Return the position in `view` after the part of that frame."""
        position = 0
        if self._wanted < 0:
            position = min(_SIZE.size - len(self._head), len(view))
            self._head += view[:position]
            if len(self._head) < _SIZE.size:
                return position
            (size,) = _SIZE.unpack(self._head)
            if not 0 <= size <= self.max_size:
                raise self._refused(size, frames)
            self._wanted = size
            self._head = b""
        end = min(position + self._wanted - self._filled, len(view))
        self._add(view[position:end])
        if self._filled == self._wanted:
            frames += self._complete()
        return end

    def _add(self, part: memoryview) -> None:
        end = self._filled + len(part)
        if end <= len(self._frame):
            self._frame[self._filled : end] = part
        else:
            self._frame[self._filled :] = part
        self._filled = end

    def _complete(self) -> list[memoryview]:
        frame = memoryview(self._frame)
        self._frame, self._filled, self._wanted = bytearray(), 0, _BETWEEN
        return [frame]

    def _refused(self, size: int, frames: list[memoryview]) -> InvalidFrameSize:
        return InvalidFrameSize(size, self.max_size, frames, not frames and self._wanted == _NOTHING_YET)
