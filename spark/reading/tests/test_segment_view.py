"""The segments of a directory are those of the next start; an index is only believed where it is right."""

from __future__ import annotations

import struct

import pytest

from headgate.protocol.records import legacy
from headgate.protocol.records.batch import Record
from headgate.spark.reading.segment_view import SegmentView
from headgate.spark.reading.tests.logs import DIRECTORY, fill, new_store
from headgate.spark.reading.tests.simulated_disk import SimulatedDisk
from headgate.storage.errors import CorruptLog
from headgate.storage.tests.crashing_files import CrashingFiles

FIRST = f"{DIRECTORY}/{0:020d}"


@pytest.fixture
def files() -> CrashingFiles:
    files, store, log = new_store()
    fill(log)
    store.close()
    return files


def view_of(files: CrashingFiles) -> SegmentView:
    return SegmentView(SimulatedDisk(files), DIRECTORY)


def found_at(files: CrashingFiles, offset: int) -> int:
    view = view_of(files)
    file = view.files.open(view.path(0))
    try:
        return view.position(file, 0, offset)
    finally:
        file.release()


def positions(files: CrashingFiles) -> list[tuple[int, int]]:
    """The base offset of each batch in the first segment, and its position."""
    segment = view_of(files).segment(0)
    found = [(header.base_offset, position) for position, header in segment.iterate()]
    segment.close()
    return found


def test_segments_lie_one_behind_the_other(files: CrashingFiles) -> None:
    view = view_of(files)
    assert len(view.bases) > 2
    assert [view.owner(base) for base in view.bases] == list(range(len(view.bases)))
    assert view.owner(view.bases[1] - 1) == 0
    headers = [header for segment in view.segments(0) for _, header in segment.iterate()]
    assert [header.base_offset for header in headers] == list(range(0, 60, 2))
    assert files.open_handles == 0


def test_an_index_spares_the_batches_before(files: CrashingFiles) -> None:
    batches = positions(files)
    assert any(found_at(files, offset) for offset, _ in batches)
    for offset, position in batches:
        assert found_at(files, offset) <= position
        assert found_at(files, offset) in [0, *(at for _, at in batches)]


def test_unused_entries_of_kafkas_index_do_not_count(files: CrashingFiles) -> None:
    expected = [found_at(files, offset) for offset, _ in positions(files)]
    files.append(FIRST + ".index", bytes(8000))
    assert [found_at(files, offset) for offset, _ in positions(files)] == expected


@pytest.mark.parametrize("entry", [(0, 7), (0, 1 << 30), (-5, -9), (1, -1)])
def test_a_wrong_index_is_not_believed(files: CrashingFiles, entry: tuple[int, int]) -> None:
    files.write(FIRST + ".index", struct.pack(">ii", *entry))
    assert found_at(files, 4) == 0


def test_an_entry_behind_the_offset_is_not_believed(files: CrashingFiles) -> None:
    _, position = positions(files)[-1]
    files.write(FIRST + ".index", struct.pack(">ii", 0, position))
    assert found_at(files, 4) == 0


def test_a_batch_with_a_wrong_checksum_is_no_place_to_begin(files: CrashingFiles) -> None:
    offset, _ = positions(files)[-1]
    position = found_at(files, offset)
    assert position
    files.file(FIRST + ".log").content[position + 70] ^= 1
    assert found_at(files, offset) == 0


def test_without_an_index_the_segment_is_read_from_its_start(files: CrashingFiles) -> None:
    files.remove(FIRST + ".index")
    assert found_at(files, 6) == 0


def test_a_new_segment_replaces_those_of_its_offsets(files: CrashingFiles) -> None:
    bases = view_of(files).bases
    data = files.read(FIRST + ".log") + files.read(f"{DIRECTORY}/{bases[1]:020d}.log")
    files.write(f"{FIRST}.log.swap", data)
    files.write(f"{DIRECTORY}/{bases[2]:020d}.log.cleaned", b"half of a ba")
    writes = files.writes
    view = view_of(files)
    assert view.bases == [0, *bases[2:]]
    file = view.files.open(view.path(0))
    assert file.read_at(1 << 20, 0) == data
    file.release()
    assert files.writes == writes


def test_a_damaged_new_segment_is_an_error(files: CrashingFiles) -> None:
    files.write(f"{FIRST}.log.swap", files.read(FIRST + ".log")[:-1])
    with pytest.raises(CorruptLog, match="is damaged"):
        view_of(files)


def test_messages_of_old_formats_are_iterated_over() -> None:
    files, store, _ = new_store()
    store.close()
    records = [Record(offset=number, value=b"v") for number in range(4)]
    files.write(FIRST + ".log", bytes(legacy.build(records, 1)))
    segment = view_of(files).segment(0)
    assert [header.last_offset for _, header in segment.iterate()] == [0, 1, 2, 3]
    segment.close()


def test_segments_that_go_meanwhile_are_missed(files: CrashingFiles) -> None:
    view = view_of(files)
    files.rename(FIRST + ".log", FIRST + ".log.deleted")
    with pytest.raises(FileNotFoundError):
        view.segment(0)
