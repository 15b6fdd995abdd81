"""Past what is damaged in a segment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.storage.disk.pool import Pool
from headgate.tools.log.overlay import Overlay
from headgate.tools.log.segment_reader import LogFile
from headgate.tools.log.verification.scanning import DamagedRange, limit_of, scan
from headgate.tools.tests.log_data import Data, change, positions


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The first segment: 13 batches of two records."""
    with Data(tmp_path / "data") as data:
        data.fill()
    return data.segments()[0]


def scanned(log: Path, limit_offset: int = 26) -> tuple[list[int], list[DamagedRange]]:
    segment = LogFile(Pool(Overlay()), str(log))
    seen: list[int] = []
    bad = scan(segment, segment.iterate(), limit_offset, lambda position, header: seen.append(header.base_offset))
    return seen, bad


def test_a_valid_segment_has_no_damage(log: Path) -> None:
    assert scanned(log) == (list(range(0, 26, 2)), [])


# What is done to the fifth batch, offsets 8 and 9: from which of its bytes on, how many, and how
DAMAGE: dict[str, tuple[int, int, Callable[[int], int]]] = {
    "a record": (80, 1, lambda byte: byte ^ 1),
    "the length": (8, 4, lambda byte: 0x7F),
    "a length that is too small": (8, 4, lambda byte: 0),
    "the magic": (16, 1, lambda byte: 7),
    "the whole header": (0, 61, lambda byte: 0),
    "a base offset that goes back": (0, 8, lambda byte: 0),
    "the base offset of the one before": (7, 1, lambda byte: byte - 2),
    "a base offset of another segment": (0, 1, lambda byte: 0x20),
    "a base offset that leaps": (7, 1, lambda byte: byte + 5),
    "noise": (0, 90, lambda byte: (byte * 7 + 13) & 0xFF),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_in_one_batch_loses_one_batch(log: Path, damage: str) -> None:
    starts = positions(log)
    start, count, how = DAMAGE[damage]
    change(log, starts[4] + start, how, count)
    seen, (bad,) = scanned(log)
    assert bad[:4] == (starts[4], starts[5], 8, 10)
    assert seen == [offset for offset in range(0, 26, 2) if offset != 8]
    assert bad.problem


def test_a_length_that_leads_to_another_batch(log: Path) -> None:
    """Those between are not lost."""
    starts = positions(log)
    length = starts[9] - starts[4] - 12
    data = bytearray(log.read_bytes())
    data[starts[4] + 8 : starts[4] + 12] = length.to_bytes(4, "big")
    log.write_bytes(data)
    seen, (bad,) = scanned(log)
    assert bad[:4] == (starts[4], starts[5], 8, 10)
    assert seen == [offset for offset in range(0, 26, 2) if offset != 8]


def test_two_damaged_ranges_are_found(log: Path) -> None:
    starts = positions(log)
    change(log, starts[0] + 70)
    change(log, starts[-1] + 70)
    seen, bad = scanned(log)
    assert [one[:4] for one in bad] == [(0, starts[1], 0, 2), (starts[-1], log.stat().st_size, 24, None)]
    assert seen == list(range(2, 24, 2))


def test_damage_up_to_the_end_is_one_range(log: Path) -> None:
    starts = positions(log)
    log.write_bytes(log.read_bytes()[: starts[3]] + bytes(5000))
    seen, (bad,) = scanned(log)
    assert (bad.start, bad.end, bad.first_offset, bad.next_offset) == (starts[3], starts[3] + 5000, 6, None)
    assert seen == [0, 2, 4]


def test_records_that_hold_batches_are_not_taken_for_them(log: Path) -> None:
    """A batch within the bytes of a damaged one has an offset that cannot come there."""
    starts = positions(log)
    data = log.read_bytes()
    change(log, starts[4] + 70)
    damaged = log.read_bytes()
    log.write_bytes(damaged[: starts[4] + 61] + data[: starts[1]] + damaged[starts[5] :])
    seen, (bad,) = scanned(log)
    assert seen == [offset for offset in range(0, 26, 2) if offset != 8]
    assert bad.next_offset == 10


def test_offsets_of_the_next_segment_are_damage(log: Path) -> None:
    segment = LogFile(Pool(Overlay()), str(log))
    assert [limit_of(segment, None), limit_of(segment, segment), limit_of(segment, None, 26)] == [1 << 31, 0, 26]
