"""Segments of a directory, and files of batches under other names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headgate.storage.disk.pool import Pool
from headgate.storage.files import Files
from headgate.tools.log.overlay import Overlay
from headgate.tools.log.segment_reader import DamagedLog, LogFile, iterate_batches, open_segments
from headgate.tools.tests.log_data import Data, change, positions


def bases(data: Data, from_offset: int = 0, to_offset: int | None = None) -> list[int]:
    pool = Pool(Overlay())
    found = open_segments(pool, str(data.directory()), Files().list(str(data.directory())))
    return [one.header.base_offset for one in iterate_batches(found, from_offset, to_offset)]


def test_all_batches_are_read(data: Data) -> None:
    assert bases(data) == list(range(0, 80, 2))


@pytest.mark.parametrize("from_offset, to_offset", [(0, 1), (1, 2), (25, 27), (26, 26), (79, None), (80, None)])
def test_batches_of_some_offsets_are_read(data: Data, from_offset: int, to_offset: int | None) -> None:
    end = 80 if to_offset is None else to_offset
    assert bases(data, from_offset, to_offset) == [n for n in range(0, 80, 2) if n + 1 >= from_offset and n < end]


def test_damage_ends_the_batches(data: Data) -> None:
    log = data.segments()[1]
    at = positions(log)[3]
    change(log, at + 16)
    with pytest.raises(DamagedLog) as caught:
        bases(data)
    assert (caught.value.path, caught.value.position, caught.value.next_offset) == (str(log), at, int(log.stem) + 6)
    assert bases(data, to_offset=int(log.stem)) == list(range(0, int(log.stem), 2))


def test_a_file_with_another_name_is_read(data: Data, tmp_path: Path) -> None:
    log = data.segments()[1]
    copy = tmp_path / f"{log.name}.1234.deleted"
    shutil.copy(log, copy)
    (first, *_) = iterate_batches([LogFile(Pool(Overlay()), str(copy))])
    assert first.header.base_offset == int(log.stem)
    assert [record.offset for record in first.records()] == [int(log.stem), int(log.stem) + 1]
    snapshot = tmp_path / f"{5:020}-{1:010}.checkpoint"
    shutil.copy(data.segments()[0], snapshot)
    assert [one.header.base_offset for one in iterate_batches([LogFile(Pool(Overlay()), str(snapshot))])][:2] == [0, 2]
    part = tmp_path / "part"
    part.write_bytes(log.read_bytes()[positions(log)[2] :])
    (first, *_) = iterate_batches([LogFile(Pool(Overlay()), str(part))])
    assert first.header.base_offset == int(log.stem) + 4
