"""Room that is kept back."""

from __future__ import annotations

import errno
from random import Random

import pytest

from headgate.storage.disk.reserve import FILE_NAME, PART_BYTES, PLENTY_BYTES, RESERVE_BYTES, Reserve
from headgate.storage.files import Files
from headgate.storage.tests.crashing_files import CrashingFiles


def made(files: Files) -> Reserve:
    files.make_directories("/data")
    files.sync_directory("/")
    reserve = Reserve(files, "/data")
    reserve.fill()
    return reserve


def test_room_is_kept_back_over_a_power_cut() -> None:
    files = CrashingFiles()
    assert made(files).path == f"/data/{FILE_NAME}"
    after = files.crash(Random(0), power=True)
    assert Reserve(after, "/data").size == RESERVE_BYTES
    content = bytes(after.file(f"/data/{FILE_NAME}").content)
    assert len(set(content)) == 256, "a file system that compresses has to keep room too"


def test_it_is_given_up_in_parts_and_each_can_be_written() -> None:
    files = CrashingFiles()
    reserve = made(files)
    files.room = 0
    parts = 0
    while reserve.give_up():
        parts += 1
        files.write(f"/data/{parts}", bytes(PART_BYTES))
    assert parts == RESERVE_BYTES // PART_BYTES
    assert reserve.size == 0
    with pytest.raises(OSError, match="no space"):
        files.write("/data/more", b"v")


def test_it_is_filled_only_where_there_is_plenty_of_room() -> None:
    files = CrashingFiles()
    reserve = made(files)
    assert reserve.give_up()
    files.room = PLENTY_BYTES - 1
    reserve.fill()
    assert reserve.size == RESERVE_BYTES - PART_BYTES
    files.room = PLENTY_BYTES
    reserve.fill()
    assert (reserve.size, files.room) == (RESERVE_BYTES, PLENTY_BYTES - PART_BYTES)
    before = files.writes
    reserve.fill()
    assert files.writes == before


def test_what_the_disk_refuses_is_raised() -> None:
    files = CrashingFiles()
    files.make_directories("/data")
    files.fail(errno.EIO, "create", path=FILE_NAME)
    with pytest.raises(OSError, match="EIO"):
        Reserve(files, "/data").fill()
    assert not Reserve(files, "/data").give_up()
