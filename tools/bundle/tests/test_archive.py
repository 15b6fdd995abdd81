from __future__ import annotations

import json
import stat
import tarfile
from pathlib import Path

import pytest

from headgate.tools.bundle.archive import BundleFile, bound, cut_head, cut_tail, manifest, write


def test_texts_are_cut_in_whole_lines() -> None:
    text = "one\ntwo\nthree\n"
    assert cut_head("f", text, limit=100) == BundleFile("f", text.encode())
    assert cut_head("f", text, limit=9) == BundleFile("f", b"one\ntwo\n", "the first 8 of 14 bytes")
    assert cut_tail("f", text, "x", limit=9) == BundleFile("f", b"three\n", "x; the last 6 of 14 bytes")
    assert cut_head("f", "x" * 20, limit=9).data == b"x" * 9
    assert cut_tail("f", "x" * 20, limit=9).data == b"x" * 9


def test_files_beyond_the_limit_are_left_out_and_named() -> None:
    files = [BundleFile("a", b"1234"), BundleFile("b", b"1234567"), BundleFile("c", b"12")]
    kept, left_out = bound(files, 8)
    assert [file.name for file in kept] == ["a", "c"]
    assert left_out == ["b: its 7 bytes are beyond the limit of 8 bytes in all"]


def test_the_manifest_lists_what_is_there_and_what_is_not() -> None:
    listed = json.loads(manifest([BundleFile("a", b"1234", "x")], ["b: gone"]).data)
    assert listed == {"files": [{"name": "a", "bytes": 4, "note": "x"}], "left_out": ["b: gone"]}


def test_an_archive_is_for_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    size = write(path, "bundle", [BundleFile("a/b.txt", b"content")], 1_000_000)
    assert size == path.stat().st_size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with tarfile.open(path) as archive:
        [entry] = archive.getmembers()
        file = archive.extractfile(entry)
        assert file is not None
        assert (entry.name, entry.mtime, file.read()) == ("bundle/a/b.txt", 1_000_000, b"content")
    assert [entry.name for entry in tmp_path.iterdir()] == ["b.tar.gz"]


def test_an_archive_that_exists_stays(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    path.write_bytes(b"another")
    with pytest.raises(FileExistsError):
        write(path, "bundle", [], 0)
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("b.tar.gz", b"another")]
