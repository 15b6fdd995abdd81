"""Histories by seed of a group in two stores: whoever takes over reads the last acknowledged commit (`dual_history`).

The tests run the same seeds each time, `make soak` fresh ones.
"""

from __future__ import annotations

import os
from random import SystemRandom

import pytest

from headgate.gateway.zookeeper.offsets.tests.dual_history import run

SEEDS = 100
FRESH_SEEDS = 10_000
A_TEST = 25
LATE_REQUESTS = (1_550_233_152, 1_450_356_046)
"""A late request of a producer waits for a slow disk, and the marker of the transaction waits behind that request."""


@pytest.mark.slow
@pytest.mark.seeds
@pytest.mark.parametrize("first", range(1, SEEDS + 1, A_TEST))
def test_who_takes_over_reads_the_last_commit(first: int) -> None:
    reads = sum(run(seed).reads for seed in range(first, first + A_TEST))
    assert reads > 20 * A_TEST, "most histories have owners who come to read"


@pytest.mark.slow
@pytest.mark.seeds
@pytest.mark.parametrize("seed", LATE_REQUESTS)
def test_who_takes_over_reads_the_last_commit_after_late_requests(seed: int) -> None:
    assert run(seed).reads > 20


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("_part", range(10))
def test_who_takes_over_reads_the_last_commit_in_fresh_histories(_part: int) -> None:
    seeds = int(os.environ.get("HEADGATE_HISTORIES", FRESH_SEEDS)) // 10
    random = SystemRandom()
    for _ in range(seeds):
        run(random.getrandbits(32))
