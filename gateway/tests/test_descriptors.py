"""The limit on open files: taken as far as it goes, and told where it is too low."""

import resource
from collections.abc import Iterator

import pytest

from gateway.descriptors import ENOUGH, FEW, UNLIMITED_CONNECTIONS, complaint, raise_limit

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
    assert allowed == (ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)) > 256
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
        (FEW, UNLIMITED_CONNECTIONS, None),
        (1024, UNLIMITED_CONNECTIONS, "may have 1024 files open, half of them connections: clients will wait"),
        (1024, 500, None),
        (20_000, 10_000, None),
        (19_999, 10_000, "max.connections=10000 cannot be reached; raise its limit to 20000 at least"),
    ],
)
def test_what_is_said(limit: int, max_connections: int, said: str | None) -> None:
    sentence = complaint(limit, max_connections)
    assert sentence is None if said is None else said in str(sentence)
