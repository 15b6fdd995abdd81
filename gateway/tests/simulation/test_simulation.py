"""Simulated clusters by seed, and the planted mistakes that they must find.

A failing seed again, with its trace: python -m headgate.gateway.tests.simulation.simulation SEED
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from headgate.gateway.tests.simulation import simulation
from headgate.gateway.tests.simulation.mistakes import MISTAKES, MOST_SEEDS
from headgate.protocol.tests.examples import first_in_unit

SEEDS, PARTS, FRESH = 200, 20, 10_000
AT_ONCE = 100
"""Seeds between two notes of how far the fresh ones are."""


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Each fault is worth a line."""
    logger = logging.getLogger("headgate")
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("part", list(first_in_unit(range(PARTS), 1)))
def test_clusters_by_seed(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        simulation.run(seed)


@pytest.mark.slow
@pytest.mark.soak
def test_fresh_clusters(pytestconfig: pytest.Config) -> None:
    """A run that was stopped, or has failed, goes on where it was."""
    progress = pytestconfig.rootpath / "build" / "fresh_clusters.txt"
    first, done = begin_or_resume(progress)
    for seed in range(first + done, first + FRESH):
        if not (seed - first) % AT_ONCE:
            progress.write_text(f"{first} {seed - first}\n")
        simulation.run(seed)
    progress.unlink()


def begin_or_resume(progress: Path) -> tuple[int, int]:
    """The first seed of a run, and how many seeds of it are done."""
    with suppress(OSError, ValueError):
        first, done = map(int, progress.read_text().split())
        return first, done
    progress.parent.mkdir(exist_ok=True)
    return Random().getrandbits(32), 0


@pytest.mark.slow
def test_a_seed_is_one_history() -> None:
    assert simulation.run(7).world.trace == simulation.run(7).world.trace


@pytest.mark.slow
@pytest.mark.parametrize("mistake", list(first_in_unit(MISTAKES, 2)))
def test_simulated_clusters_find_a_mistake(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name, replacement in MISTAKES[mistake].replaced:
        monkeypatch.setattr(owner, name, replacement)
    first = MISTAKES[mistake].first_seed
    for seed in range(first, first + MOST_SEEDS):
        try:
            simulation.run(seed)
        except AssertionError:
            return
    pytest.fail(f"{MOST_SEEDS} simulated clusters do not notice: {mistake}")
