"""Random histories against a model of what a store promises: see `histories.py`.

300 with new seeds in each run (HEADGATE_HISTORIES), 10,000 in `make soak`, a fifth in `make unit`.
A failure ends with the command that repeats it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headgate.protocol.tests.examples import share
from headgate.storage.tests.compacting_histories import COMPACTING, CompactingHistory
from headgate.storage.tests.histories import STEPS, History
from headgate.storage.tests.transactional_histories import (
    TRANSACTING,
    TRANSACTING_COMPACTING,
    CompactingTransactionalHistory,
    TransactionalHistory,
)

SOAK = os.environ.get("HEADGATE_SOAK", "") not in {"", "0"}
COUNT = int(os.environ.get("HEADGATE_HISTORIES", "10000" if SOAK else "300"))
NOTHING = ""
# Not made smaller: that takes minutes, and the command shows each step
PHASES = [Phase.explicit, Phase.generate]
KINDS = (History, CompactingHistory, TransactionalHistory, CompactingTransactionalHistory)


def weighted(steps: dict[str, int]) -> list[str]:
    return [NOTHING, *(step for step, weight in steps.items() for _ in range(weight))]


CUT = ["truncate", "truncate"]
LEADER, FOLLOWER = weighted(STEPS), [*weighted(STEPS), *CUT]


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Each history ends with lost files and damage, each of which is worth a line."""
    logger = logging.getLogger("headgate.storage")
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(logging.NOTSET)


def run(seed: int, steps: list[str], kind: type[History] = History) -> None:
    """One history. What goes wrong in it names the command that does it again."""
    steps = [step for step in steps if step]
    try:
        history = kind(seed)
        for step in steps:
            history.run(step)
        history.finish()
    except Exception as error:
        words = f"{kind.__name__} {seed} {' '.join(steps)}"
        again = f"HEADGATE_HISTORY='{words}' .venv/bin/pytest storage/tests/test_histories.py -k again"
        error.add_note(f"the same history once more: {again}")
        raise


@pytest.mark.slow
@settings(max_examples=share(COUNT * 3 // 10), phases=PHASES)
@given(steps=st.lists(st.sampled_from(LEADER), min_size=20, max_size=80), seed=st.integers(0, 1 << 32))
def test_nothing_is_lost_beyond_what_the_policy_allows(steps: list[str], seed: int) -> None:
    run(seed, steps)


@pytest.mark.slow
@settings(max_examples=share(COUNT // 5), phases=PHASES)
@given(steps=st.lists(st.sampled_from(FOLLOWER), min_size=20, max_size=60), seed=st.integers(0, 1 << 32))
def test_histories_of_a_follower(steps: list[str], seed: int) -> None:
    run(seed, steps)


@pytest.mark.slow
@settings(max_examples=share(COUNT // 5), phases=PHASES)
@given(steps=st.lists(st.sampled_from(weighted(COMPACTING)), min_size=20, max_size=60), seed=st.integers(0, 1 << 32))
def test_histories_of_a_compacted_log(steps: list[str], seed: int) -> None:
    run(seed, steps, CompactingHistory)


@pytest.mark.slow
@settings(max_examples=share(COUNT // 5), phases=PHASES)
@given(
    steps=st.lists(st.sampled_from([*weighted(TRANSACTING), *CUT]), min_size=20, max_size=60),
    seed=st.integers(0, 1 << 32),
)
def test_histories_of_a_log_with_transactions(steps: list[str], seed: int) -> None:
    run(seed, steps, TransactionalHistory)


@pytest.mark.slow
@settings(max_examples=share(COUNT // 10), phases=PHASES)
@given(
    steps=st.lists(st.sampled_from(weighted(TRANSACTING_COMPACTING)), min_size=20, max_size=60),
    seed=st.integers(0, 1 << 32),
)
def test_histories_of_a_compacted_log_with_transactions(steps: list[str], seed: int) -> None:
    run(seed, steps, CompactingTransactionalHistory)


if "HEADGATE_HISTORY" in os.environ:

    @pytest.mark.slow
    def test_again() -> None:
        name, seed, *steps = os.environ["HEADGATE_HISTORY"].split()
        run(int(seed), steps, next(kind for kind in KINDS if kind.__name__ == name))
