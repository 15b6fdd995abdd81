from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from headgate.spark.load.output.folder import AlreadyExists, FolderError, FolderLocked, OutputFolder


def test_a_file_is_created_once(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    output.create("one", b"first")
    with pytest.raises(AlreadyExists):
        output.create("one", b"second")
    assert output.read("one") == b"first"
    output.replace("one", b"third")
    assert output.read("one") == b"third"
    assert output.list(".") == ["one"], "no temporary file stays"


def test_names_that_are_not_there(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path / "none")
    assert output.read("one") is None
    assert output.list("one") == []
    assert output.measure("one") is None
    output.make("a/b")
    assert not output.rename("a/c", "a/d")
    output.remove("a/c")
    output.remove("a")
    assert not output.exists("a/b")


def test_a_file_system_without_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(FolderError, match="has no hard links"):
        OutputFolder(tmp_path).create("one", b"")
    assert list(tmp_path.iterdir()) == []


def test_data_files_know_their_checksum(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    with pytest.raises(FolderError, match="No such file"):
        output.write("missing/one")
    file = output.write("one")
    assert file.writable()
    assert not file.readable()
    assert not file.seekable()
    file.write(b"ab")
    file.write(memoryview(b"cd"))
    file.flush()
    assert file.tell() == 4
    written = file.finish()
    assert written == output.measure("one")
    assert written.size_bytes == 4


def test_the_lock_excludes_and_ends(tmp_path: Path) -> None:
    output = OutputFolder(tmp_path)
    with output.lock("a/lock"), pytest.raises(FolderLocked, match=r"process \d+ on "), output.lock("a/lock"):
        pass
    with output.lock("a/lock"):
        (tmp_path / "a/lock").write_bytes(b"?")
        with pytest.raises(FolderLocked, match="does not say which"), output.lock("a/lock"):
            pass
