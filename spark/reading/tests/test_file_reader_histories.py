"""A FileReader beside random histories of a log: see `file_reader_histories.py`.

A few with fixed seeds in each run; HEADGATE_HISTORIES others in a run of seeds, ten times as many in `make soak`. A
failure names its seed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from random import Random

import pytest

from headgate.spark.reading.tests.file_reader_histories import (
    BesideHistory,
    CompactingBeside,
    CompactingTransactionalBeside,
    HistoryBeside,
    TransactionalBeside,
)
from headgate.storage.tests.compacting_histories import COMPACTING
from headgate.storage.tests.histories import STEPS
from headgate.storage.tests.transactional_histories import TRANSACTING, TRANSACTING_COMPACTING

SOAK = os.environ.get("HEADGATE_SOAK", "") not in {"", "0"}
COUNT = int(os.environ.get("HEADGATE_HISTORIES", "1000" if SOAK else "50")) // 10
LENGTH, SHORT = 50, 25
READING = {"read_beside": 4}
KINDS: dict[type[BesideHistory], dict[str, int]] = {
    HistoryBeside: STEPS,
    CompactingBeside: COMPACTING,
    TransactionalBeside: TRANSACTING | {"truncate": 2},
    CompactingTransactionalBeside: TRANSACTING_COMPACTING,
}


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Each history ends with lost files and damage, each of which is worth a line."""
    logger = logging.getLogger("headgate.storage")
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(logging.NOTSET)


def run(seed: int, kind: type[BesideHistory], length: int = LENGTH) -> BesideHistory:
    weights = KINDS[kind] | READING
    steps = Random(seed).choices([*weights], [*weights.values()], k=length)
    try:
        history = kind(seed)
        for step in steps:
            history.run(step)
        history.finish()
    except Exception as error:
        error.add_note(f"run({seed}, {kind.__name__}, {length})")
        raise
    return history


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_histories(kind: type[BesideHistory]) -> None:
    seen = run(7, kind, SHORT).seen
    assert seen["compared"] > 5
    assert seen["read beside"]


@pytest.mark.seeds
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_histories_of_new_seeds(kind: type[BesideHistory]) -> None:
    first = int.from_bytes(os.urandom(4), "big") if SOAK else 0
    for seed in range(first, first + COUNT):
        run(seed, kind)
