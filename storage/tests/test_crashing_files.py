"""The fault file system does what it says: a proof that runs on it is worth no more than it is."""

from __future__ import annotations

import copy
import errno
from collections.abc import Callable
from random import Random

import pytest

from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut

PATH = "/data/file.log"


def made(content: bytes = b"", *, sync: bool = True) -> CrashingFiles:
    files = CrashingFiles()
    files.make_directories("/data")
    files.write(PATH, content, sync=sync)
    if sync:
        files.sync_directory("")
        files.sync_directory("/data")
    return files


def after_cuts(files: CrashingFiles, path: str = PATH) -> set[bytes | None]:
    """What a power cut may leave of a file."""
    found: set[bytes | None] = set()
    for seed in range(400):
        again = copy.deepcopy(files).crash(Random(seed), power=True)
        found.add(again.read(path) if again.exists(path) else None)
    return found


def test_a_killed_process_leaves_all_that_it_wrote() -> None:
    files = made()
    files.append(PATH, b"abc")
    again = files.crash(Random(1), power=False)
    assert again.read(PATH) == b"abc"
    assert b"" in after_cuts(again), "it is no more on the disk than before"


def test_a_power_cut_tears_what_was_not_synced_at_any_byte() -> None:
    files = made(b"safe")
    files.append(PATH, b"abcd")
    found = after_cuts(files)
    assert {b"safe", b"safea", b"safeab", b"safeabc", b"safeabcd"} <= found
    assert all(content is not None and content.startswith(b"safe") for content in found)
    files.sync(PATH)
    assert after_cuts(files) == {b"safeabcd"}


def test_a_power_cut_leaves_holes_and_wrong_bytes() -> None:
    files = made()
    for position, data in enumerate((b"a" * 50, b"b" * 50)):
        files.open(PATH).write_at(data, 50 * position)
    found = after_cuts(files)
    assert bytes(50) + b"b" * 50 in found
    wrong = [content for content in found if content and not set(content) <= set(b"ab\0")]
    assert wrong
    assert all(sum(byte not in b"ab\0" for byte in content) > 20 for content in wrong)


def test_names_are_on_the_disk_with_their_directory() -> None:
    files = made(b"old")
    files.write("/data/new", b"new", sync=True)
    files.rename("/data/new", PATH)
    assert after_cuts(files) == {b"old", b"new"}
    files.sync_directory("/data")
    assert after_cuts(files) == {b"new"}
    files.remove(PATH)
    assert after_cuts(files) == {b"new", None}


def left_of(change: Callable[[CrashingFiles], None], *, mixes_names: bool) -> set[frozenset[str]]:
    """The names that power cuts may leave of `/data`, which has a and b, after a change of it."""
    files = CrashingFiles()
    files.make_directories("/data")
    for name in ("a", "b"):
        files.write(f"/data/{name}", b"", sync=True)
    for path in ("", "/data"):
        files.sync_directory(path)
    change(files)
    files.mixes_names = mixes_names
    found = set()
    for seed in range(400):
        again = copy.deepcopy(files).crash(Random(seed), power=True)
        assert again.mixes_names == mixes_names
        found.add(frozenset(again.list("/data")))
    return found


def rename_both(files: CrashingFiles) -> None:
    files.rename("/data/a", "/data/x")
    files.rename("/data/b", "/data/y")


def rename_one_twice(files: CrashingFiles) -> None:
    files.rename("/data/a", "/data/x")
    files.rename("/data/x", "/data/y")
    files.remove("/data/b")
    files.rename("/data/y", "/data/b")


def test_a_journal_keeps_the_first_changes_of_names() -> None:
    assert left_of(rename_both, mixes_names=False) == set(map(frozenset, ("ab", "xb", "xy")))
    assert left_of(rename_one_twice, mixes_names=False) == set(map(frozenset, ("ab", "xb", "yb", "y", "b")))


def test_without_a_sync_any_name_is_kept_but_for_equal_names() -> None:
    assert left_of(rename_both, mixes_names=True) == set(map(frozenset, ("ab", "xb", "ay", "xy")))
    found = left_of(rename_one_twice, mixes_names=True)
    assert found == set(map(frozenset, ("ab", "xb", "yb", "a", "x", "y", "b")))


def test_what_was_replaced_is_torn_too_where_the_new_name_is_lost() -> None:
    files = made()
    files.append(PATH, b"abcd")
    files.write("/data/new", b"new", sync=True)
    files.rename("/data/new", PATH)
    assert {b"", b"ab", b"abcd", b"new"} <= after_cuts(files)


def test_a_full_disk_takes_what_it_has_room_for() -> None:
    files = made(b"1234")
    files.room = 3
    with pytest.raises(OSError, match="no space") as refused:
        files.append(PATH, b"abcd")
    assert refused.value.errno == errno.ENOSPC
    assert files.read(PATH) == b"1234abc"
    files.open(PATH).write_at(b"over", 0)
    assert files.space("/data")[1] == 0
    files.truncate(PATH, 4)
    assert files.space("/data")[1] == 3
    files.write("/data/other", b"xyz")
    files.rename("/data/other", PATH)
    assert files.space("/data")[1] == 4
    files.remove(PATH)
    assert files.space("/data") == (7, 7)
    files.heal()
    files.write(PATH, bytes(100))


def test_operations_fail_when_and_where_they_are_told_to() -> None:
    files = made()
    fault = files.fail(errno.EIO, "write", path=".log", after=1, times=2)
    files.append(PATH, b"a")
    files.write("/data/other", b"b")
    for _ in range(2):
        with pytest.raises(OSError, match="EIO"):
            files.append(PATH, b"c")
    files.append(PATH, b"d")
    assert (files.read(PATH), fault.met) == (b"ad", 2)
    files.fail(errno.EIO, "read")
    with pytest.raises(OSError, match="EIO"):
        files.read(PATH)
    with pytest.raises(OSError, match="EIO"):
        files.open(PATH).read_at(1, 0)
    files.heal()
    assert files.read(PATH) == b"ad"


def test_a_sync_that_failed_has_lost_what_it_should_have_written() -> None:
    files = made()
    files.append(PATH, b"lost")
    files.fail(errno.EIO, "sync", times=1)
    with pytest.raises(OSError, match="EIO"):
        files.sync(PATH)
    files.sync(PATH)
    assert files.read(PATH) == b"lost", "the page cache has it still"
    assert after_cuts(files) == {b""}
    files.append(PATH, b"kept")
    files.sync(PATH)
    assert after_cuts(files) == {b"\0\0\0\0kept"}


def test_delays_come_before_the_operation() -> None:
    files = made()
    seen: list[bytes] = []
    files.delay(lambda: seen.append(bytes(files.file(PATH).content)), "write", times=1)
    files.append(PATH, b"a")
    files.append(PATH, b"b")
    assert seen == [b""]


def test_between_the_pieces_of_a_write_the_power_may_go() -> None:
    found = set()
    for seed in range(50):
        files = made()
        files.short_writes = Random(seed)
        files.cut_after = 1
        with pytest.raises(PowerCut):
            append_each(files, [b"abc"] * 3)
        found.add(len(files.file(PATH).content))
    assert {1, 2, 3} <= found


def append_each(files: CrashingFiles, pieces: list[bytes]) -> None:
    for piece in pieces:
        files.append(PATH, piece)


def test_a_copy_is_another_disk() -> None:
    files = made(b"abc")
    files.append(PATH, b"d")
    other = files.copy()
    assert files.copy(only_durable=True).read(PATH) == b"abc"
    files.flip(PATH, Random(1), first=1)
    assert (other.read(PATH), after_cuts(other)) == (b"abcd", {b"abcd"})
    assert files.read(PATH)[:1] == b"a"
    assert sum((one ^ two).bit_count() for one, two in zip(files.read(PATH), b"abcd", strict=True)) == 1
