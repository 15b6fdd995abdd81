"""From batch to batch by their bounds."""

from __future__ import annotations

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import HEADER_SIZE
from headgate.storage.segment.batch_seek import NO_LIMIT, BatchBounds, seek
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.segment_file import WINDOW_BYTES
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.segments import new_segment

COUNT = 200


@pytest.fixture(scope="module")
def segment() -> Segment:
    """More than one look into the file."""
    return new_segment(batches=COUNT)


def bounds(segment: Segment, number: int) -> BatchBounds:
    size = segment.size // COUNT
    return number * size, (number + 1) * size, 100 + 2 * number, 101 + 2 * number


def reads(segment: Segment) -> int:
    assert isinstance(segment.pool.files, CrashingFiles)
    return segment.pool.files.reads


@pytest.mark.parametrize("number", [0, 1, 150, COUNT - 1])
def test_a_batch_is_sought_by_its_end_or_by_its_offset(segment: Segment, number: int) -> None:
    expected = start, end, base_offset, last_offset = bounds(segment, number)
    assert seek(segment, 0, start) == expected
    assert seek(segment, 0, end - 1) == expected
    assert seek(segment, 0, NO_LIMIT, base_offset) == expected
    assert seek(segment, 0, NO_LIMIT, last_offset) == expected
    assert seek(segment, start, 0) == expected


def test_nothing_is_found_at_the_end(segment: Segment) -> None:
    assert seek(segment, 0, segment.size) is None
    assert seek(segment, 0, NO_LIMIT, 100 + 2 * COUNT) is None
    before = reads(segment)
    assert seek(segment, segment.size, 0) is None
    assert reads(segment) == before


def test_a_window_serves_many_hops(segment: Segment) -> None:
    before = reads(segment)
    assert seek(segment, 0, segment.size) is None
    assert reads(segment) - before <= segment.size // (WINDOW_BYTES - HEADER_SIZE) + 1


@pytest.mark.parametrize("damage", [bytes(12), b"\xff" * 12, 20, -1])
def test_what_is_no_batch_is_refused(damage: bytes | int) -> None:
    segment = new_segment(batches=5)
    third, fourth = segment.locate(104), segment.locate(106)
    if isinstance(damage, int):  # it is cut
        segment.size = (third if damage > 0 else fourth) + damage
    else:
        segment.file.write_at(damage, third)
    with pytest.raises(KafkaError, match=f"no batch at byte {third} of /d/00000000000000000100.log") as refused:
        seek(segment, 0, segment.size)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
