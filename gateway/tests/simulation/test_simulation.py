"""Simulated clusters by seed, and the planted mistakes that they must find.

A failing seed again, with its trace: python -m headgate.gateway.tests.simulation.simulation SEED
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from random import Random

import pytest

from compat_tests.harness.soak import Progress
from headgate.gateway.metadata.image import Image, changed_topics
from headgate.gateway.tests.simulation import simulation
from headgate.gateway.tests.simulation.mistakes import MISTAKES, MOST_SEEDS
from headgate.protocol.internal.metadata import TopicRecord
from headgate.protocol.tests.examples import first_in_unit

SEEDS, PARTS = 200, 20
FRESH, FRESH_PARTS = 10_000, 10
"""The fresh seeds. A part takes some minutes."""


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
    """A run that was stopped, or has failed, goes on where it was; once all have passed, the next run has new seeds."""
    directory = pytestconfig.rootpath / "build" / "fresh_clusters"
    file = min(directory.glob("*.txt"), default=directory / f"{Random().getrandbits(32)}.txt")
    progress = Progress(file, FRESH)
    for number in progress.left():
        if number % FRESH_PARTS == part:
            simulation.run(int(file.stem) + number)
            progress.note_passed(number)


@pytest.mark.slow
def test_a_seed_is_one_history() -> None:
    assert simulation.run(7).world.trace == simulation.run(7).world.trace


@pytest.mark.sockets  # processes
def test_a_seed_is_one_history_in_every_process() -> None:
    """The order of a set of names is another one in each process: with this seed, topics and configs are read again."""
    traces = [
        subprocess.run(
            [sys.executable, "-m", simulation.MODULE, "96"],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        for hash_seed in ("1", "2")
    ]
    assert traces[0].stdout
    assert (traces[0].stdout, traces[0].stderr) == (traces[1].stdout, traces[1].stderr)


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
