"""Framing: every request and response goes after its size, an int32 in bytes that does not count itself.

`FrameReader` cuts what a peer sends into frames, however it arrives. It is sans-IO: it is fed, and keeps only the
part of a frame that is not complete yet.
"""

from __future__ import annotations

import struct

from headgate.protocol.errors import MalformedRequest

_SIZE = struct.Struct(">i")
_SIZE_BYTES = _SIZE.size
_unpack_size = _SIZE.unpack_from
_NOTHING_YET, _BETWEEN = -2, -1


class InvalidFrameSize(MalformedRequest):
    """A size that is negative or over the limit: what follows cannot be understood, so the connection must close.

    `frames` are those that came before it in the same piece; `is_first` if there never was one.
    """

    def __init__(self, size: int, limit: int, frames: list[memoryview], is_first: bool) -> None:
        super().__init__(f"a frame claims {size} bytes; the limit is {limit}")
        self.size = size
        self.frames = frames
        self.is_first = is_first


class FrameReader:
    """Cuts a stream of bytes into frames of at most `max_size` bytes."""

    __slots__ = ("_filled", "_frame", "_head", "_max_size", "_wanted")

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._head = b""  # the first bytes of a size, while there are fewer than four
        self._frame = bytearray()  # of a frame that is not complete, with room for what is to come
        self._filled = 0  # how much of it has come
        self._wanted = _NOTHING_YET  # its whole size; negative between frames

    @property
    def incomplete_size(self) -> int:
        """The whole size of the frame of which only a part has come, in bytes; 0 between frames."""
        return max(self._wanted, 0)

    @property
    def held_bytes(self) -> int:
        """How many bytes of an incomplete frame, or of its size, are held."""
        return len(self._head) + self._filled + (_SIZE.size if self._wanted >= 0 else 0)

    def discard(self) -> None:
        """Drop what is held of an incomplete frame."""
        self._head, self._frame, self._filled, self._wanted = b"", bytearray(), 0, _BETWEEN

    def get_buffer(self, most: int) -> memoryview:
        """Where the next bytes of the incomplete frame belong; `buffer_updated` tells how many were put there.

        The frame's buffer is made as large as the frame, but no larger than `most`, which the caller can afford.
        """
        size = min(self._wanted, most)
        if len(self._frame) < size:
            larger = bytearray(size)
            larger[: self._filled] = memoryview(self._frame)[: self._filled]
            self._frame = larger
        return memoryview(self._frame)[self._filled :]

    def buffer_updated(self, count: int) -> list[memoryview]:
        """Take the bytes that were put into `get_buffer`; return the frame if it is complete."""
        self._filled += count
        return self._complete() if self._filled == self._wanted else []

    def take_whole(self, view: memoryview) -> memoryview | None:
        """The frame, if what was received is exactly one, as it mostly is; if it is not, `feed` takes it."""
        received = len(view)
        if self._wanted >= 0 or self._head or received < _SIZE_BYTES:
            return None
        (size,) = _unpack_size(view)
        if size + _SIZE_BYTES != received or size > self._max_size:
            return None
        self._wanted = _BETWEEN
        return view[_SIZE_BYTES:]

    def feed(self, data: bytes | bytearray | memoryview) -> list[memoryview]:
        """Take what was received; return the frames that it completes, without their sizes.

        A frame that lies within `data` is a view of it, and lives as long as `data` does; one that came in pieces owns
        its bytes. Raises FrameTooLarge; then nothing more can be read.
        """
        view = data if isinstance(data, memoryview) else memoryview(data)
        frames: list[memoryview] = []
        position = 0
        if self._wanted >= 0 or self._head:
            position = self._continue(view, frames)
        received, max_size = len(view), self._max_size
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
        """Go on with the frame that began in an earlier piece. Returns the position in `view` after its part."""
        position = 0
        if self._wanted < 0:
            position = min(_SIZE.size - len(self._head), len(view))
            self._head += view[:position]
            if len(self._head) < _SIZE.size:
                return position
            (size,) = _SIZE.unpack(self._head)
            if not 0 <= size <= self._max_size:
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
        return InvalidFrameSize(size, self._max_size, frames, not frames and self._wanted == _NOTHING_YET)
