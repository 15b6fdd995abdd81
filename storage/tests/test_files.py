"""The disk behind the seam, on a real directory; locks between processes are those of the operating system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storage.errors import DirectoryLocked
from storage.files import File, Files, parent

files = Files()


def test_writes_and_reads_at_positions(tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/a", create=True)
    file.write_at(b"hello world", 0)
    file.write_at(memoryview(b"W"), 6)
    assert (file.read_at(5, 6), file.read_at(100, 6), file.read_at(5, 11), file.size()) == (b"World", b"World", b"", 11)
    file.truncate(5)
    file.sync()
    file.release()
    assert files.read(f"{tmp_path}/a") == b"hello"
    assert file.fileno == -1


def test_short_writes_and_reads_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.files._write", lambda fd, data, at: os.pwrite(fd, data[:3], at))
    monkeypatch.setattr("storage.files._read", lambda fd, length, at: os.pread(fd, min(length, 4), at))
    file = files.open(f"{tmp_path}/a", create=True)
    file.write_at(b"0123456789", 2)
    assert file.read_at(12, 0) == b"\x00\x000123456789"
    file.release()


def test_a_file_is_open_while_someone_holds_it(tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/a", create=True)
    file.references += 1
    file.release()
    file.write_at(b"x", 0)
    file.release()
    with pytest.raises(OSError, match="descriptor"):
        file.write_at(b"x", 0)


def test_a_forgotten_file_is_closed(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "a", os.O_CREAT | os.O_RDWR)
    File(descriptor)
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)


def test_whole_files_and_directories(tmp_path: Path) -> None:
    root = str(tmp_path)
    files.make_directories(f"{root}/d/e")
    files.make_directories(f"{root}/d/e")
    files.write(f"{root}/d/a", b"one", sync=True)
    files.append(f"{root}/d/a", b"two")
    files.append(f"{root}/d/b", b"new")
    files.sync(f"{root}/d/a")
    files.sync_directory(f"{root}/d")
    files.sync_all(root)
    assert files.open_limit() > 0
    assert files.list(f"{root}/d") == {"a": 6, "b": 3, "e": -1}
    files.truncate(f"{root}/d/a", 2)
    files.rename(f"{root}/d/a", f"{root}/d/b")
    assert (files.read(f"{root}/d/b"), files.size(f"{root}/d/b"), files.exists(f"{root}/d/a")) == (b"on", 2, False)
    files.remove(f"{root}/d/b")
    files.remove(f"{root}/d/b")
    files.remove_tree(f"{root}/d")
    assert files.list(root) == {}
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/none")


def test_the_lock_names_its_holder(tmp_path: Path) -> None:
    path = f"{tmp_path}/.lock"
    lock = files.lock(path)
    with pytest.raises(DirectoryLocked, match=f"in use by process {os.getpid()}") as caught:
        files.lock(path)
    assert caught.value.process_id == os.getpid()
    lock.release()
    lock.release()
    files.lock(path).release()


@pytest.mark.parametrize("path,expected", [("/a/b", "/a"), ("/a", "/"), ("a/b", "a"), ("a", ".")])
def test_parent(path: str, expected: str) -> None:
    assert parent(path) == expected
