"""Leader epochs: who wrote what, and where it ends."""

from __future__ import annotations

import pytest

from headgate.storage.errors import BadFile
from headgate.storage.log.epochs import Epochs, read_entries
from headgate.storage.tests.crashing_files import CrashingFiles

PATH = "/d/leader-epoch-checkpoint"


def written(*entries: tuple[int, int]) -> tuple[Epochs, CrashingFiles]:
    files = CrashingFiles()
    files.make_directories("/d")
    made = Epochs(files, "/d")
    for epoch, offset in entries:
        made.assign(epoch, offset)
    made.begin_write()()
    return made, files


def epochs(*entries: tuple[int, int]) -> Epochs:
    return written(*entries)[0]


def test_the_file_is_kafkas() -> None:
    made, files = written((0, 0), (3, 20))
    assert files.read(PATH) == b"0\n2\n0 0\n3 20\n"
    assert read_entries(files, "/d") == made.entries == [(0, 0), (3, 20)]


def test_assignments() -> None:
    made = epochs((2, 10), (2, 15), (1, 20), (-1, 30))
    assert (made.entries, made.latest) == ([(2, 10)], 2)
    made.assign(3, 10)
    assert made.entries == [(3, 10)], "an epoch in which nothing was written goes"
    assert epochs().latest == -1


@pytest.mark.parametrize(
    "asked,expected", [(-1, (-1, -1)), (0, (0, 5)), (1, (1, 20)), (2, (1, 20)), (4, (4, 100)), (5, (-1, -1))]
)
def test_end_offset_for(asked: int, expected: tuple[int, int]) -> None:
    assert epochs((1, 5), (4, 20)).end_offset_for(asked, 100) == expected
    assert epochs().end_offset_for(asked, 100) == (-1, -1)


@pytest.mark.parametrize("offset,epoch", [(4, -1), (5, 1), (19, 1), (20, 4), (99, 4)])
def test_epoch_at(offset: int, epoch: int) -> None:
    assert epochs((1, 5), (4, 20)).epoch_at(offset) == epoch


def test_truncation() -> None:
    made, files = written((1, 5), (4, 20))
    made.truncate_to(21)
    assert made.entries == [(1, 5), (4, 20)]
    made.truncate_to(20)
    assert read_entries(files, "/d") == [(1, 5)]


def test_epochs_behind_the_entries_of_the_file_need_no_disk() -> None:
    made, files = written((1, 5), (4, 20))
    made.keep([(1, 5), (4, 20), (6, 30)])
    assert made.entries == [(1, 5), (4, 20), (6, 30)]
    assert read_entries(files, "/d") == [(1, 5), (4, 20)]
    assert (made.is_stale, made.is_synced) == (True, False), "the next flush writes it first"
    made.begin_write()()
    assert read_entries(files, "/d") == made.entries


@pytest.mark.parametrize("found", [[(1, 5)], [(1, 5), (6, 20)], [(1, 9), (4, 20), (6, 30)], []])
def test_what_contradicts_the_file_replaces_it_at_once(found: list[tuple[int, int]]) -> None:
    made, files = written((1, 5), (4, 20))
    made.keep(found)
    assert read_entries(files, "/d") == made.entries == found
    assert (made.is_stale, made.is_synced) == (False, True)


@pytest.mark.parametrize(
    "start,expected", [(3, [(1, 5), (4, 20)]), (5, [(1, 5), (4, 20)]), (9, [(1, 9), (4, 20)]), (25, [(4, 25)])]
)
def test_start_from(start: int, expected: list[tuple[int, int]]) -> None:
    made = epochs((1, 5), (4, 20))
    made.start_from(start)
    assert made.entries == expected


def test_the_first_file_waits_for_a_flush_and_others_are_on_the_disk() -> None:
    made, files = written((1, 0))
    assert isinstance(files, CrashingFiles)
    assert files.file(PATH).durable != files.read(PATH)
    made.assign(2, 5)
    assert (files.read(PATH), made.is_synced, made.is_stale) == (b"0\n1\n1 0\n", False, True)
    made.begin_write()()
    assert files.file(PATH).durable == files.read(PATH) == b"0\n2\n1 0\n2 5\n"


def test_without_room_the_first_file_is_not_there_and_is_made_later() -> None:
    files = CrashingFiles()
    files.make_directories("/d")
    made = Epochs(files, "/d")
    made.assign(1, 0)
    files.room = 3
    with pytest.raises(OSError, match="no space"):
        made.begin_write()()
    made.begin_write(needs_room=False)()
    assert not files.exists(PATH)
    assert made.is_stale
    files.heal()
    made.begin_write()()
    assert read_entries(files, "/d") == [(1, 0)]
    assert not made.is_stale


@pytest.mark.parametrize("content", [b"0\n1\n0 x\n", b"0\n1\n0\n", b"0\n2\n1 5\n0 9\n", b"0\n2\n1 5\n1 5\n", b"1\n0\n"])
def test_damaged_files_are_refused(content: bytes) -> None:
    _, files = written()
    assert read_entries(files, "/d") is None
    files.write(PATH, content)
    with pytest.raises(BadFile, match="leader-epoch-checkpoint"):
        read_entries(files, "/d")
