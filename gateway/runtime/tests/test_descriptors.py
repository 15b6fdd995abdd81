"""The limit on open files: taken as far as it goes, and told where it is too low."""

import resource
from collections.abc import Iterator

import pytest

from headgate.gateway.runtime.descriptors import (
    SUFFICIENT_DESCRIPTORS,
    UNLIMITED_CONNECTIONS,
    low_limit_warning,
    max_connections_for,
    raise_limit,
)

LIMIT = resource.RLIMIT_NOFILE


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    """Soft and hard, as they were; they are again afterwards."""
    before = resource.getrlimit(LIMIT)
    yield before
    resource.setrlimit(LIMIT, before)


def test_the_soft_limit_is_raised_to_the_hard_one(limits: tuple[int, int]) -> None:
    hard = limits[1]
    resource.setrlimit(LIMIT, (256, hard))
    allowed = raise_limit()
    assert resource.getrlimit(LIMIT) == (allowed, hard)
    assert (
        allowed
        == (SUFFICIENT_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, SUFFICIENT_DESCRIPTORS))
        > 256
    )
    assert raise_limit() == allowed, "a second call finds nothing to do"


def test_a_system_that_refuses_is_taken_as_it_is(limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    resource.setrlimit(LIMIT, (256, limits[1]))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_limit() == 256
    monkeypatch.undo()


@pytest.mark.parametrize(
    "limit, max_connections, said",
    [
        (2128, UNLIMITED_CONNECTIONS, None),
        (
            1024,
            UNLIMITED_CONNECTIONS,
            "may have 1024 files open, which leaves 448 connections beside its logs; raise the",
        ),
        (1024, 448, None),
        (1024, 449, "raise the limit to 1026 for 449 connections"),
        (14_160, 10_000, None),
        (14_159, 10_000, "9999 connections beside its logs; raise the limit to 14160 for 10000 connections"),
    ],
)
def test_what_is_said(limit: int, max_connections: int, said: str | None) -> None:
    sentence = low_limit_warning(limit, max_connections)
    assert sentence is None if said is None else said in str(sentence)


def test_storms_leave_descriptors_for_logs() -> None:
    for limit in (256, 1024, 8192, 100_000):
        assert max_connections_for(limit) + min(4096, limit // 2) + 64 == limit
    assert max_connections_for(64) == 1
