"""Files of stores: limits, identities, and the private file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from headgate.protocol.security.tls.store_files import MAX_STORE_BYTES, FileIdentity, StoreFiles, is_reload_due

FILES = StoreFiles()
NOW, LATER, OTHER = FileIdentity(1, 2, 3), FileIdentity(2, 2, 3), FileIdentity(1, 2, 4)


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "store"
    file.write_bytes(b"x" * (MAX_STORE_BYTES + 5))
    assert len(FILES.read(str(file))) == MAX_STORE_BYTES + 1
    file.write_bytes(b"abc")
    assert FILES.read(str(file)) == b"abc"


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, error in ((tmp_path / "none", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(error):
            FILES.read(str(path))
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="it is no regular file"):
            FILES.read(str(path))


def test_another_content_has_another_identity(tmp_path: Path) -> None:
    file, new = tmp_path / "store", tmp_path / "new"
    assert FILES.identity(str(file)) is None
    file.write_bytes(b"a")
    first = FILES.identity(str(file))
    new.write_bytes(b"b")
    new.replace(file)
    assert first is not None
    assert FILES.identity(str(file)) != first


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_private_file_is_this_users_alone_and_ends(in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create")
    with FILES.private_file(b"key") as path:
        assert Path(path).read_bytes() == b"key"
        assert in_memory or not stat.S_IMODE(Path(path).stat().st_mode) & 0o077
    assert not Path(path).exists()


def test_a_private_file_ends_after_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), FILES.private_file(b"key") as path:
        raise ZeroDivisionError
    assert not Path(path).exists()


def test_passwords_differ() -> None:
    assert FILES.one_time_password() != FILES.one_time_password()


@pytest.mark.parametrize(
    "tried, present, is_due",
    [
        ({}, {}, False),
        ({"a": NOW}, {"a": NOW}, False),
        ({"a": NOW}, {"a": LATER}, True),
        ({"a": NOW}, {"a": OTHER}, True),
        ({"a": NOW}, {"a": None}, False),
        ({"a": None}, {"a": NOW}, True),
        ({"a": NOW, "b": NOW}, {"a": LATER, "b": None}, False),
        ({"a": NOW, "b": NOW}, {"a": LATER, "b": NOW}, True),
    ],
)
def test_a_reload_is_due_once_all_files_are_there_and_one_is_new(
    tried: dict[str, FileIdentity | None], present: dict[str, FileIdentity | None], is_due: bool
) -> None:
    assert is_reload_due(tried, present) is is_due
