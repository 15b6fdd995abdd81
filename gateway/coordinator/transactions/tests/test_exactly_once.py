"""Histories of a whole broker: every record is copied once, whatever happens.

A failing one again: python -m headgate.gateway.coordinator.transactions.tests.exactly_once SEED
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from headgate.gateway.coordinator.transactions.marker_writer import RetryingMarkerWriter
from headgate.gateway.coordinator.transactions.tests import exactly_once
from headgate.storage.log.producers import Producers

FEW, MANY, VERY_MANY = 20, 300, 10_000


def seeds() -> Iterator[Any]:
    """The same in every run."""
    for seed in range(MANY):
        yield seed if seed < FEW else pytest.param(seed, marks=pytest.mark.seeds)


@pytest.mark.slow
@pytest.mark.parametrize("seed", list(seeds()))
def test_every_record_is_copied_exactly_once(seed: int) -> None:
    exactly_once.run(seed)


@pytest.mark.slow
@pytest.mark.soak
def test_every_record_is_copied_exactly_once_in_fresh_histories() -> None:
    fresh = Random()
    for _ in range(VERY_MANY):
        seed = fresh.getrandbits(32)
        try:
            exactly_once.run(seed)
        except BaseException as error:
            error.add_note(f"the seed is {seed}")
            raise


def failures(**settings: str) -> int:
    """How many of some histories fail."""
    failed = 0
    for seed in range(60):
        try:
            exactly_once.run(seed, **settings)
        except AssertionError:
            failed += 1
    return failed


@pytest.mark.slow
@pytest.mark.soak
def test_histories_notice_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof can fail: without verification, retries of markers, or the rules of a log about markers."""
    assert failures(transaction_partition_verification_enable="false")
    check_marker = Producers.check_marker

    def checks_less(self: Producers, header: Any, marker: Any, *, is_raised: bool = False) -> None:
        check_marker(self, header, marker)

    def gives_up(self: Any, ending: Any, topic: str, index: int, error: Any) -> None:
        written(self, ending, topic, index, None)

    written = RetryingMarkerWriter._written
    for owner, name, other in (
        (Producers, "check_marker", checks_less),
        (RetryingMarkerWriter, "_written", gives_up),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, other)
            assert failures(), name
