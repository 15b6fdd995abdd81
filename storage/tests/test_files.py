"""The disk behind the seam, on a real directory; locks between processes are those of the operating system."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.storage.errors import DirectoryLocked
from headgate.storage.files import PROBE_STEP_BYTES, File, Files, WouldBlock, parent

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
    monkeypatch.setattr("headgate.storage.files._write", lambda fd, data, at: os.pwrite(fd, data[:3], at))
    monkeypatch.setattr("headgate.storage.files._read", lambda fd, length, at: os.pread(fd, min(length, 4), at))
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


def test_a_lock_needs_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the process id cannot be written: the lock holds, and has no name."""
    files, path = Files(), str(tmp_path / ".lock")
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", _no_room)
        lock = files.lock(path)
    with pytest.raises(DirectoryLocked, match="another process"):
        files.lock(path)
    lock.release()
    files.lock(path).release()


def test_on_a_disk_that_was_made_read_only_files_are_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, path = Files(), str(tmp_path / "file")
    files.write(path, b"content")
    opened = os.open

    def open_to_read(path: str, flags: int, *mode: int) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return opened(path, flags, *mode)

    monkeypatch.setattr(os, "open", open_to_read)
    file = files.open(path)
    assert file.read_at(7, 0) == b"content"
    for refused in (lambda: file.write_at(b"x", 0), lambda: file.truncate(0), lambda: files.open(path, create=True)):
        with pytest.raises(OSError, match=r"(?i)read-only"):
            refused()
    file.release()


def _no_room(*_: object) -> int:
    raise OSError(errno.ENOSPC, "no space left on device")


@pytest.mark.parametrize("path,expected", [("/a/b", "/a"), ("/a", "/"), ("a/b", "a"), ("a", ".")])
def test_parent(path: str, expected: str) -> None:
    assert parent(path) == expected


class PageCache:
    """Stands for the system's: a read that must not wait gets what is in memory, up to the first page that is not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.missing: set[int] = set()
        self.probes = 0
        self._preadv = os.preadv
        monkeypatch.setattr(os, "preadv", self.preadv)

    def preadv(self, fileno: int, buffers: list[bytearray], position: int, flags: int = 0) -> int:
        length = len(buffers[0])
        if not flags:
            self.missing -= set(range(position // 4096, (position + length - 1) // 4096 + 1))
            return self._preadv(fileno, buffers, position)
        self.probes += 1
        pages = range(position // 4096, (position + length - 1) // 4096 + 1)
        hole = next((page for page in pages if page in self.missing), None)
        if hole is None:
            return self._preadv(fileno, buffers, position)
        if hole * 4096 <= position:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return self._preadv(fileno, [buffers[0][: hole * 4096 - position]], position)


@pytest.fixture
def page_cache(monkeypatch: pytest.MonkeyPatch) -> PageCache:
    if not hasattr(os, "RWF_NOWAIT"):
        pytest.skip("this system does not tell what is cached")
    return PageCache(monkeypatch)


def written(directory: Path, size: int) -> File:
    file = files.open(f"{directory}/a", create=True)
    file.write_at(bytes(range(256)) * (size // 256), 0)
    return file


def test_what_is_not_in_memory_is_told_and_a_thread_may_bring_it(tmp_path: Path, page_cache: PageCache) -> None:
    size = 1 << 20
    file = written(tmp_path, size)
    page_cache.missing = set(range(size // 4096))
    assert not file.is_cached(size, 0)
    assert file.read_cached(100, 5_000) is None
    file.warm(size // 2, 0)
    assert page_cache.missing == set(range(size // 8192, size // 4096))
    assert file.is_cached(size // 2, 0)
    assert not file.is_cached(size // 2 + 1, 0)
    assert file.read_cached(256, 256) == bytes(range(256))
    file.release()


@pytest.mark.parametrize("result", [None, OSError(errno.EIO, "broken")])
def test_a_thread_warms_what_would_block_and_gives_up_the_file(
    tmp_path: Path, page_cache: PageCache, result: OSError | None
) -> None:
    file = written(tmp_path, 8192)
    page_cache.missing = {0, 1}
    with pytest.raises(WouldBlock) as raised:
        raise WouldBlock(file, f"{tmp_path}/a", 4096, 4096)
    cold, ended = raised.value, list[object]()
    held = file.references

    def in_thread(work: Callable[[], None], done: Callable[[object], None]) -> None:
        assert cold.__traceback__ is None
        work()
        done(result)

    cold.warm_by(in_thread, ended.append)
    assert (ended, page_cache.missing) == ([result], {0})
    assert file.references == held - 1
    file.release()


@pytest.mark.parametrize("missing", [0, 2, 4, 31])
def test_a_read_is_not_cut_where_memory_ends(tmp_path: Path, page_cache: PageCache, missing: int) -> None:
    file = written(tmp_path, 1 << 17)
    page_cache.missing = {missing}
    assert file.read_cached(1 << 17, 0) is None
    page_cache.missing = set()
    assert file.read_cached(1 << 17, 0) == bytes(range(256)) * 512
    file.release()


@pytest.mark.parametrize("hole", [0, 1, 2, 3])
def test_a_part_that_is_gone_is_found_with_few_probes(tmp_path: Path, page_cache: PageCache, hole: int) -> None:
    step = PROBE_STEP_BYTES // 4096
    file = written(tmp_path, 4 * PROBE_STEP_BYTES)
    assert file.is_cached(4 * PROBE_STEP_BYTES, 0)
    assert page_cache.probes == 5
    page_cache.missing = set(range(hole * step, (hole + 1) * step))
    assert not file.is_cached(4 * PROBE_STEP_BYTES, 0)
    page_cache.missing = {4 * step - 1}
    assert not file.is_cached(4 * PROBE_STEP_BYTES, 0), "the last page"
    file.release()


def test_a_real_disk_brings_what_it_was_asked_for(tmp_path: Path) -> None:
    size = 1 << 20
    file = written(tmp_path, size)
    file.sync()
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno, 0, size, os.POSIX_FADV_DONTNEED)
    file.warm(size, 0)
    assert file.is_cached(size, 0)
    assert file.read_cached(256, 256) == bytes(range(256))
    file.release()


def test_what_ends_too_early_is_not_called_cached(tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/a", create=True)
    file.write_at(b"hello", 0)
    assert file.read_cached(5, 0) == b"hello"
    assert file.read_cached(6, 0) is None
    file.warm(100, 0)
    file.release()


def test_a_file_system_that_does_not_tell_is_asked_once_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    def refuse(*_: object) -> int:
        nonlocal asked
        asked += 1
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "preadv", refuse)
    file = files.open(f"{tmp_path}/a", create=True)
    file.write_at(b"hello", 0)
    assert file.is_cached(5, 0)
    assert file.read_cached(5, 0) == b"hello"
    assert file.is_cached(5, 0)
    assert asked == 1
    file.release()


def test_a_disk_that_fails_is_not_taken_for_one_that_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    file = files.open(f"{tmp_path}/a", create=True)
    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(OSError, match="Input/output error"):
        file.is_cached(5, 0)
    file.release()


def test_a_list_is_without_what_goes_meanwhile(tmp_path: Path) -> None:
    """Deleted segments are removed by a thread; a name that leads nowhere looks the same."""
    files.write(f"{tmp_path}/a", b"123456")
    (tmp_path / "gone").symlink_to("nowhere")
    assert files.list(str(tmp_path)) == {"a": 6}


def test_a_lock_on_a_disk_that_is_gone_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = Files().lock(f"{tmp_path}/.lock")

    def fail(descriptor: int, size: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as gone:
        gone.setattr(os, "ftruncate", fail)
        lock.release()
    Files().lock(f"{tmp_path}/.lock").release()
