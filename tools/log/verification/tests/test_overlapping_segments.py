"""Which of two segments with the same offsets is the newer one."""

from __future__ import annotations

from pathlib import Path

from headgate.protocol.records.batch import BatchHeader
from headgate.storage.disk.pool import Pool
from headgate.storage.files import Files
from headgate.tools.log import segment_reader
from headgate.tools.log.overlay import Overlay
from headgate.tools.log.verification import overlapping_segments
from headgate.tools.tests.log_data import Data, positions


def headers(*base_offsets: int) -> list[BatchHeader]:
    return [BatchHeader(first, 49, 0, 2, 1000 + first, 0, 1, 0, 0, -1, 0, -1, 2) for first in base_offsets]


def test_a_segment_within_the_offsets_of_another_one() -> None:
    over = headers(0, 10, 14, 20)
    assert overlapping_segments.supersedes(over, 10, headers(10, 12, 14))
    assert overlapping_segments.supersedes(over, 10, headers(12))
    assert overlapping_segments.supersedes(over, 10, [])
    assert not overlapping_segments.supersedes(over, 10, headers(10, 22))
    assert not overlapping_segments.supersedes(over, 22, [])


def test_one_batch_with_a_wrong_offset_covers_nothing() -> None:
    """It is what a damaged base offset looks like, but where the other segment has that batch too."""
    over = headers(0, 2, 100)
    assert not overlapping_segments.supersedes(over, 10, headers(10, 12))
    assert not overlapping_segments.supersedes(over, 10, [])
    assert overlapping_segments.supersedes(over, 90, headers(96, 100))
    assert not overlapping_segments.supersedes(over, 90, [header._replace(crc=7) for header in headers(96, 100)])


def found(data: Data) -> dict[int, int]:
    pool = Pool(Overlay())
    segments = segment_reader.open_segments(pool, str(data.directory()), Files().list(str(data.directory())))
    return {base: over.base_offset for base, over in overlapping_segments.find_superseded(segments).items()}


def test_segments_on_the_disk(tmp_path: Path) -> None:
    """Two are covered by a new one, whose end is damaged; the fourth goes on behind it."""
    with Data(tmp_path / "data") as data:
        data.fill()
    assert found(data) == {}
    first, second, third = data.segments()[:3]
    content = first.read_bytes() + second.read_bytes() + third.read_bytes()
    first.write_bytes(content)
    expected = dict.fromkeys([int(second.stem), int(third.stem)], 0)
    assert found(data) == expected
    cut = positions(third)[-1]
    third.write_bytes(third.read_bytes()[:cut])
    first.write_bytes(content[:-1])
    assert found(data) == expected
