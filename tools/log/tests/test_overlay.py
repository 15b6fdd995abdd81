"""What is written over the disk is there, and the disk is as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.storage.files import Files
from headgate.tools.log.overlay import Overlay, ReadOnlyFiles


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "a").write_bytes(b"on the disk")
    return str(tmp_path / "a")


def append(files: Files, path: str) -> None:
    files.append(path, b"!")


def truncate(files: Files, path: str) -> None:
    files.truncate(path, 2)


def replace(files: Files, path: str) -> None:
    files.write(path, b"new", sync=True)


def write_open(files: Files, path: str) -> None:
    files.truncate(path, 11)  # it is in memory from here on
    file = files.open(path)
    file.write_at(b"IN", 0)
    file.write_at(b"!", 13)
    file.sync()
    assert file.read_cached(2, 0) == b"IN"
    assert file.read_cached(2, 13) is None
    file.release()


@pytest.mark.parametrize(
    "change, expected",
    [(append, b"on the disk!"), (truncate, b"on"), (replace, b"new"), (write_open, b"IN the disk\0\0!")],
)
def test_changes_stay_in_memory(path: str, change: Callable[[Files, str], None], expected: bytes) -> None:
    files = Overlay()
    change(files, path)
    assert files.read(path) == expected
    assert files.size(path) == len(expected)
    file = files.open(path)
    assert (file.size(), file.read_at(100, 0)) == (len(expected), expected)
    file.release()
    assert Path(path).read_bytes() == b"on the disk"


def test_listings_show_changes_in_memory(path: str, tmp_path: Path) -> None:
    files = Overlay()
    files.rename(path, f"{tmp_path}/b")
    files.append(f"{tmp_path}/c", b"123")
    assert files.list(str(tmp_path)) == {"b": 11, "c": 3}
    assert not files.exists(path)
    assert files.exists(f"{tmp_path}/b")
    with pytest.raises(FileNotFoundError):
        files.open(path)
    files.remove(f"{tmp_path}/c")
    assert files.list(str(tmp_path)) == {"b": 11}
    files.open(f"{tmp_path}/d", create=True).release()
    assert files.list(str(tmp_path)) == {"b": 11, "d": 0}
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_renamed_file_is_not_loaded(path: str, tmp_path: Path) -> None:
    class Disk(ReadOnlyFiles):
        def read(self, path: str) -> bytes:
            raise AssertionError(f"{path} is read")

    files = Overlay(Disk())
    new = f"{tmp_path}/b"
    files.rename(path, new)
    files.rename(new, path)
    files.rename(path, new)
    assert (files.exists(path), files.exists(new), files.size(new)) == (False, True, 11)
    assert files.identity(new) == Files().identity(path)
    assert files.modified_ms(new) == Files().modified_ms(path)
    file = files.open(new)
    assert file.read_at(2, 0) == b"on"
    file.release()
    files.truncate(new, 0)
    assert files.list(str(tmp_path)) == {"b": 0}
    for missing in (path, f"{tmp_path}/c"):
        with pytest.raises(FileNotFoundError):
            files.rename(missing, new)
        with pytest.raises(FileNotFoundError):
            files.truncate(missing, 0)


def test_a_disk_that_is_only_read_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="only reads"):
        ReadOnlyFiles().open(f"{tmp_path}/d", create=True)


def test_files_on_the_disk_are_opened_for_reading(path: str) -> None:
    Path(path).chmod(0o444)
    file = Overlay().open(path)
    assert file.read_at(2, 0) == b"on"
    file.truncate(1)
    file.sync()
    assert file.size() == 11
    with pytest.raises(OSError, match="only reads"):
        file.write_at(b"x", 0)
    file.release()


def test_directories_cannot_be_created_or_removed(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="only reads"):
        Overlay().make_directories(f"{tmp_path}/d")
    with pytest.raises(OSError, match="only reads"):
        Overlay().remove_tree(str(tmp_path))
