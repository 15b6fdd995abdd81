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

from headgate.gateway.metadata.image import Image, changed_topics
from headgate.gateway.tests.simulation import simulation
from headgate.gateway.tests.simulation.mistakes import MISTAKES, MOST_SEEDS
from headgate.protocol.internal.metadata import TopicRecord
from headgate.protocol.tests.examples import first_in_unit

SEEDS, PARTS = 200, 20
FRESH, FRESH_PARTS = 1_000, 10
"""The fresh seeds of a part, which takes some minutes."""
AT_ONCE = 50
"""Seeds between two notes of how far a part is."""


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
@pytest.mark.parametrize("part", range(FRESH_PARTS))
def test_fresh_clusters(part: int, pytestconfig: pytest.Config) -> None:
    """A run that was stopped, or has failed, goes on where it was; after the last part the next run has new seeds."""
    progress = FreshSeeds(pytestconfig.rootpath / "build" / "fresh_clusters", part)
    for seed in progress:
        simulation.run(seed)


class FreshSeeds:
    """The seeds of one part that no run has tried. Files have the first seed of each part, and how many are done."""

    def __init__(self, directory: Path, part: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._files = [directory / str(each) for each in range(FRESH_PARTS)]
        self._file = self._files[part]

    def __iter__(self) -> Iterator[int]:
        first, done = self._read(self._file) or (Random().getrandbits(32), 0)
        for number in range(done, FRESH):
            if not number % AT_ONCE:
                self._file.write_text(f"{first} {number}\n")
            yield first + number
        self._file.write_text(f"{first} {FRESH}\n")
        if all((self._read(file) or (0, 0))[1] == FRESH for file in self._files):
            for file in self._files:
                file.unlink(missing_ok=True)

    def _read(self, file: Path) -> tuple[int, int] | None:
        with suppress(OSError, ValueError):
            first, done = map(int, file.read_text().split())
            return first, done
        return None


@pytest.mark.slow
def test_a_seed_is_one_history() -> None:
    assert simulation.run(7).world.trace == simulation.run(7).world.trace


def test_topics_change_in_one_order_in_every_process() -> None:
    """The order of a set of names is another one in each process."""
    records = [TopicRecord(name=f"t{number}", topic_id=bytes([number]) * 16) for number in range(40)]
    image = Image.empty()
    assert list(changed_topics(records, image, image.apply_all(records))) == [record.name for record in records]


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
