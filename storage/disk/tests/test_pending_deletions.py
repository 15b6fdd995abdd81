"""What was deleted stays for its time, goes in a thread, and comes again if it cannot go."""

from __future__ import annotations

import errno

import pytest

from headgate.storage.disk.pending_deletions import RETRY_MS, PendingDeletions
from headgate.storage.tests.crashing_files import CrashingFiles


def filled(*names: str) -> tuple[CrashingFiles, PendingDeletions]:
    files = CrashingFiles()
    files.make_directories("/d/tree")
    for name in names:
        files.write(f"/d/{name}", b"x")
    return files, PendingDeletions(files)


def left(files: CrashingFiles) -> set[str]:
    return set(files.list("/d")) - {"tree"}


def remove(doomed: PendingDeletions, now_ms: float, *, at_once: bool = False) -> None:
    removal = doomed.take(now_ms, at_once=at_once)
    if removal is not None:
        removal.run()
        doomed.end_removal(removal, now_ms)


def test_each_goes_when_its_time_has_come() -> None:
    files, doomed = filled("a", "b", "c")
    doomed.add("/d/a", 3_000)
    doomed.add("/d/b", 1_000)
    remove(doomed, 10_000)
    assert left(files) == {"a", "b", "c"}, "the delay begins now"
    doomed.add("/d/c")
    remove(doomed, 10_999)
    assert left(files) == {"a", "b"}
    remove(doomed, 11_000)
    assert left(files) == {"a"}
    assert list(doomed) == ["/d/a"]
    remove(doomed, 12_999)
    assert left(files) == {"a"}
    remove(doomed, 13_000)
    assert not left(files)
    assert not doomed


def test_directories_go_with_all_that_is_in_them() -> None:
    files, doomed = filled("a")
    files.write("/d/tree/file", b"x")
    doomed.add("/d/tree", is_directory=True)
    remove(doomed, 0)
    assert set(files.list("/d")) == {"a"}


def test_at_once() -> None:
    files, doomed = filled("a", "b")
    doomed.add("/d/a", 60_000)
    remove(doomed, 0)
    doomed.add("/d/b", 60_000)
    remove(doomed, 0, at_once=True)
    assert not left(files)


def test_what_cannot_be_removed_is_told_and_comes_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files, doomed = filled("a", "b")

    def refuse(path: str) -> None:
        raise OSError(errno.EIO, "input/output error")

    doomed.add("/d/a")
    doomed.add("/d/gone")
    with monkeypatch.context() as broken:
        broken.setattr(files, "remove", refuse)
        remove(doomed, 0)
    assert "/d/a cannot be removed" in caplog.text
    assert len(doomed) == 2
    remove(doomed, RETRY_MS - 1)
    assert left(files) == {"a", "b"}
    remove(doomed, RETRY_MS)
    assert left(files) == {"b"}
    assert not doomed


def test_a_file_has_another_name_until_it_goes() -> None:
    files, doomed = filled("a")
    for _ in range(2):  # as where the first of several files is gone when it is tried again
        doomed.rename("/d/a", ".deleted", 1_000)
    assert left(files) == {"a.deleted"}
    remove(doomed, 0)
    remove(doomed, 999)
    assert left(files) == {"a.deleted"}
    remove(doomed, 1_000)
    assert not left(files)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_without_room_for_another_name_a_file_goes_at_once(error: int) -> None:
    files, doomed = filled("a", "b")
    files.fail(error, "rename", path="/d/a")
    if error == errno.EIO:
        with pytest.raises(OSError, match="/d/a"):
            doomed.rename("/d/a", ".deleted", 1_000)
        assert left(files) == {"a", "b"}
    else:
        doomed.rename("/d/a", ".deleted", 1_000)
        assert left(files) == {"b"}
    assert not doomed


def test_those_of_another_are_taken_over() -> None:
    files, doomed = filled("a")
    other = PendingDeletions(files)
    other.add("/d/a", 5)
    doomed.extend(other)
    assert (list(doomed), list(other)) == (["/d/a"], [])
