"""Framing: however the bytes arrive, the frames are the same."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.errors import MalformedRequest
from headgate.protocol.frame import FrameReader, InvalidFrameSize

frames = st.lists(st.binary(max_size=40), max_size=5)


def framed(contents: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(content)) + content for content in contents)


@given(frames, st.lists(st.integers(0, 200)))
def test_any_cut_gives_the_same_frames(contents: list[bytes], cuts: list[int]) -> None:
    reader, stream = FrameReader(40), framed(contents)
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    got = [frame for start, end in pairwise(edges) for frame in reader.feed(stream[start:end])]
    assert got == contents
    assert reader.incomplete_size == 0


@given(frames, st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.integers(1, 50))))
def test_bytes_put_into_the_buffer_are_as_good_as_fed(
    contents: list[bytes], steps: list[tuple[int, bool, int]]
) -> None:
    reader, stream, got = FrameReader(40), framed(contents), []
    for size, is_direct, most in [*steps, (len(stream), False, 0)]:
        if is_direct and reader.incomplete_size:
            room = reader.get_buffer(most)[:size]
            part, stream = stream[: len(room)], stream[len(room) :]
            room[: len(part)] = part
            room.release()
            got += reader.buffer_updated(len(part))
        else:
            part, stream = stream[:size], stream[size:]
            got += reader.feed(part)
    assert got == [*contents, *reader.feed(stream)]
    assert reader.held_bytes == 0


def test_the_buffer_is_at_most_max_size() -> None:
    reader = FrameReader(1_000)
    reader.feed(framed([bytes(900)])[:14])
    assert len(reader.get_buffer(100)) == 90
    reader.buffer_updated(90)
    assert len(reader.get_buffer(100)) == 0
    assert reader.held_bytes == 104
    assert len(reader.get_buffer(10_000)) == 800
    (frame,) = reader.buffer_updated(800)
    assert frame == bytes(900)


def test_frames_may_come_byte_by_byte() -> None:
    reader = FrameReader(10)
    stream = framed([b"abc", b"", b"de"])
    got = [frame for byte in stream for frame in reader.feed(bytes([byte]))]
    assert got == [b"abc", b"", b"de"]


def test_a_whole_frame_is_a_view_and_a_cut_one_owns_its_bytes() -> None:
    reader = FrameReader(10)
    received = bytearray(framed([b"whole", b"in pieces"]))
    whole, *none = reader.feed(memoryview(received)[:-3])
    assert none == []
    (cut,) = reader.feed(memoryview(received)[-3:])
    received[:] = bytes([0xDD]) * len(received)
    assert [bytes(whole), bytes(cut)] == [b"\xdd" * 5, b"in pieces"]


def test_the_incomplete_size_is_that_of_the_whole_frame() -> None:
    reader = FrameReader(10)
    assert reader.incomplete_size == 0
    reader.feed(b"\0\0")
    assert reader.incomplete_size == 0
    reader.feed(b"\0\x07abc")
    assert reader.incomplete_size == 7
    reader.feed(b"defg")
    assert reader.incomplete_size == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 11, 2**31 - 1])
@pytest.mark.parametrize("cut", [4, 2])
def test_a_bad_size_is_refused(size: int, cut: int) -> None:
    reader, stream = FrameReader(10), struct.pack(">i", size) + b"x" * 11
    with pytest.raises(InvalidFrameSize, match=f"a frame claims {size} bytes; the limit is 10"):
        [reader.feed(stream[:cut]), reader.feed(stream[cut:])]
    assert issubclass(InvalidFrameSize, MalformedRequest)


@pytest.mark.parametrize("before, is_first", [([], True), ([b""], False), ([b"in the same piece", b"x"], False)])
@pytest.mark.parametrize("portion", [1, 3, 100])
def test_a_refused_size_is_known_as_the_first_or_a_later_one(before: list[bytes], is_first: bool, portion: int) -> None:
    reader, stream = FrameReader(100), framed(before) + b"GET / HTTP/1.1"
    with pytest.raises(InvalidFrameSize) as refused:
        [reader.feed(stream[start : start + portion]) for start in range(0, len(stream), portion)]
    assert (refused.value.size, refused.value.is_first) == (0x47455420, is_first)


def test_buffered_bytes_are_counted() -> None:
    reader = FrameReader(100)
    held = []
    for byte in b"\0\0\0\x02ab":
        reader.feed(bytes([byte]))
        held.append(reader.held_bytes)
    assert held == [1, 2, 3, 4, 5, 0]


def test_discarded_bytes_are_not_buffered() -> None:
    reader = FrameReader(100)
    reader.feed(b"\0\0\0\x02a")
    reader.discard()
    assert (reader.held_bytes, reader.incomplete_size) == (0, 0)
    assert [bytes(frame) for frame in reader.feed(b"\0\0\0\x01z")] == [b"z"]


def test_exactly_one_frame_is_taken_whole() -> None:
    reader = FrameReader(100)
    data = memoryview(bytearray(framed([b"body"])))
    frame = reader.take_whole(data)
    assert frame is not None
    assert bytes(frame) == b"body"
    assert frame.obj is data.obj, "not a copy"
    assert reader.held_bytes == 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\0\0",
        b"\0\0\0\x05body",
        framed([b"body"]) + b"\0",
        framed([b"one", b"two"]),
        b"\xff\xff\xff\xff",
        framed([bytes(101)]),
    ],
    ids=["nothing", "a byte", "three", "cut", "and a byte", "two", "negative", "too large"],
)
def test_anything_but_one_frame_is_left_to_feed(data: bytes) -> None:
    reader = FrameReader(100)
    assert reader.take_whole(memoryview(data)) is None
    assert reader.held_bytes == 0


@pytest.mark.parametrize("before", [b"\0", framed([b"body"])[:6]], ids=["in a size", "in a frame"])
def test_no_frame_is_taken_whole_while_a_part_is_buffered(before: bytes) -> None:
    reader = FrameReader(100)
    reader.feed(before)
    assert reader.take_whole(memoryview(framed([b"next"]))) is None
