"""The seam: which requests are not worth sending. What sessions do is in `test_scenarios.py`."""

from __future__ import annotations

import pytest

from headgate.gateway.zookeeper.session import (
    MAX_REQUEST_BYTES,
    OVERHEAD_BYTES,
    Check,
    Create,
    Delete,
    KeeperError,
    Refused,
    SetData,
    is_valid_path,
    refusal,
)

_FORBIDDEN = "\0\x1f\x7f\x9f\ud800\uf8ff\ufff0\uffff\U00010000\U0010ffff"


@pytest.mark.parametrize(
    "path", ["/", "/a", "/a/b", "/...", "/a.b", "/a b", "/\u00a0", "/\ud7ff", "/\uf900", "/\uffef"]
)
def test_a_path_of_zookeeper(path: str) -> None:
    assert is_valid_path(path)


@pytest.mark.parametrize(
    "path",
    ["", *["a", "//", "/a/", "/a//b", "/.", "/..", "/a/./b", "/a/../b"], *(f"/{one}" for one in _FORBIDDEN)],
)
def test_a_path_that_zookeeper_refuses(path: str) -> None:
    assert not is_valid_path(path)


def test_the_first_wrong_path_of_a_multi_is_named() -> None:
    assert refusal([Create("/a"), Delete("/b"), Check("c"), SetData("d", b"")]) == Refused(2, KeeperError.BAD_ARGUMENTS)
    assert refusal([Create("/a"), SetData("/a", b"")]) is None
    assert refusal([]) is None


def test_the_limit_counts_paths_in_bytes_and_all_operations() -> None:
    room = MAX_REQUEST_BYTES - OVERHEAD_BYTES - len("/ü".encode())
    assert refusal([Create("/ü", bytes(room))]) is None
    assert refusal([Create("/ü", bytes(room + 1))]) is KeeperError.TOO_LARGE
    half = Create("/n", bytes(MAX_REQUEST_BYTES // 2))
    assert refusal([half]) is None
    assert refusal([half, half]) is KeeperError.TOO_LARGE
