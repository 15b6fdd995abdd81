"""Histories of a whole broker: every record is copied once, whatever happens.

A failing one again: python -m headgate.gateway.coordinator.transactions.tests.exactly_once.histories SEED
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from headgate.gateway.coordinator.transactions.tests.exactly_once import histories
from headgate.gateway.coordinator.transactions.tests.exactly_once.broken_brokers import BROKEN, MAX_HISTORIES
from headgate.protocol.tests.examples import first_in_unit

FEW, MANY, VERY_MANY = 10, 100, 10_000
AT_ONCE = 100
"""Histories between two notes of how far the fresh ones are."""


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Each kill and each full disk is worth a line."""
    logger = logging.getLogger("headgate")
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("seed", list(first_in_unit(range(MANY), FEW)))
def test_every_record_is_copied_exactly_once(seed: int) -> None:
    histories.run(seed)


@pytest.mark.slow
@pytest.mark.soak
def test_every_record_is_copied_exactly_once_in_fresh_histories(pytestconfig: pytest.Config) -> None:
    """A run that was stopped, or has failed, goes on where it was."""
    progress = pytestconfig.rootpath / "build" / "fresh_histories.txt"
    first, done = begin_or_resume(progress)
    for seed in range(first + done, first + VERY_MANY):
        if not (seed - first) % AT_ONCE:
            progress.write_text(f"{first} {seed - first}\n")
        try:
            histories.run(seed)
        except BaseException as error:
            error.add_note(f"python -m {histories.__name__} {seed}")
            raise
    progress.unlink()


def begin_or_resume(progress: Path) -> tuple[int, int]:
    """The first seed of a run, and how many histories of it are done."""
    with suppress(OSError, ValueError):
        first, done = map(int, progress.read_text().split())
        return first, done
    progress.parent.mkdir(exist_ok=True)
    return Random().getrandbits(32), 0


def test_a_run_of_fresh_histories_resumes(tmp_path: Path) -> None:
    progress = tmp_path / "build" / "progress.txt"
    assert begin_or_resume(progress)[1] == 0
    progress.write_text("7 300\n")
    assert begin_or_resume(progress) == (7, 300)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("fault", BROKEN)
def test_histories_find_a_broken_broker(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name, replacement in BROKEN[fault]:
        monkeypatch.setattr(owner, name, replacement)
    for seed in range(MAX_HISTORIES):
        try:
            histories.run(seed)
        except AssertionError:
            return
    pytest.fail(f"{MAX_HISTORIES} histories do not notice: {fault}")
