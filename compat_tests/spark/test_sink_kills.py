"""Processes of a query killed at steps of the exactly-once sink, inside Spark: each row is committed once.

In `make test` one query meets three kills: of a Python worker, the broker, the driver. In `make soak` parts of five
kills each meet every step, with executors too, and moments at random. Each part can be run by itself (`-k part-3`), so
a stopped soak goes on at the part that did not end. Also with HEADGATE_COMPAT_TARGET=kafka.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.harness.broker import Broker, running
from compat_tests.spark.sink_queries import SinkQuery
from compat_tests.spark.sink_query import DRIVER_STEPS, TASK_STEPS, Fault

BROKER_SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
SEED = int(os.environ.get("HEADGATE_SEED", "1"))
CLUSTER = "local-cluster[2,1,1024]"


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    with running(tmp_path / "broker", BROKER_SETTINGS) as broker:
        yield broker


def test_a_query_meets_three_kills(own_broker: Broker, tmp_path: Path) -> None:
    """A worker after it has written, the broker before the commit, the driver after the commit."""
    faults = [
        Fault(0, "write", "after", "worker"),
        Fault(1, "end", "before", "broker"),
        Fault(1, "end", "after", "driver"),
    ]
    query = SinkQuery(own_broker, tmp_path, 3, faults)
    query.finish(2)
    query.assert_exact()
    tries = {one["batch"]: (one["is_written"], one["tries"]) for one in query.said}
    assert tries == {0: (True, 2), 1: (False, 1), 2: (True, 1)}


# --------------------------------------------------------------------------------------------------------- in the soak

LOCAL, KEEPS = "local[2]", True
Part = tuple[str, bool, list[tuple[str, str, str]]]
# Master, whether partitions are kept, and faults: each at a batch of its own
PARTS: list[Part] = [
    (LOCAL, False, [(step, moment, "driver") for step in ("last", "begin") for moment in ("before", "after")]),
    (
        LOCAL,
        False,
        [(step, moment, "driver") for step in ("check_written", "marker") for moment in ("before", "after")],
    ),
    (LOCAL, False, [("end", "before", "driver"), ("end", "after", "driver"), ("commits", "before", "driver")]),
    (LOCAL, KEEPS, [("offsets", "after", "driver"), ("commits", "after", "driver"), ("write", "after", "driver")]),
    (LOCAL, False, [(step, moment, "worker") for step in TASK_STEPS for moment in ("before", "after")]),
    (LOCAL, KEEPS, [(step, moment, "worker") for step in TASK_STEPS for moment in ("before", "after")]),
    (
        LOCAL,
        False,
        [(step, moment, "broker") for step in (*DRIVER_STEPS, "add", "write") for moment in ("before", "after")],
    ),
    (CLUSTER, False, [(step, moment, "executor") for step in TASK_STEPS for moment in ("before", "after")]),
    (CLUSTER, KEEPS, [("write", "after", "executor"), ("add", "after", "worker"), ("end", "before", "driver")]),
]


@pytest.mark.soak
@pytest.mark.parametrize("part", range(len(PARTS)), ids=lambda number: f"part-{number}")
def test_kills_at_every_step(own_broker: Broker, tmp_path: Path, part: int) -> None:
    master, keeps, places = PARTS[part]
    faults = [Fault(batch, *place) for batch, place in enumerate(places)]
    query = SinkQuery(own_broker, tmp_path, len(faults) + 1, faults, master=master, keeps=keeps)
    query.finish(sum(fault.victim == "driver" for fault in faults) + 1)
    query.assert_exact()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5), ids=lambda seed: f"seed-{seed}")
def test_kills_at_random(own_broker: Broker, tmp_path: Path, seed: int) -> None:
    """Four moments after the first batch: the JVM with the driver, a Python worker, or the broker."""
    chance = random.Random(f"{SEED} {seed}")
    query = SinkQuery(own_broker, tmp_path, 12, [], keeps=seed % 2 == 0)
    for _ in range(4):
        query.run(lambda run: query.kill_at_random(run, chance))
    query.finish(1)
    query.assert_exact()


@pytest.mark.soak
def test_a_batch_longer_than_its_transaction_is_said(own_broker: Broker, tmp_path: Path) -> None:
    """The broker ends the transaction after two seconds; a run with a longer timeout writes the batch."""
    faults = [Fault(1, "write", "after", "slow")]
    query = SinkQuery(own_broker, tmp_path, 3, faults, options={"transaction_timeout_ms": 2_000}, slow_s=8)
    assert query.run() == 1
    assert "brokers end a transaction after kafka.transaction.timeout.ms=2000" in query.errors()
    query.given["options"] = {}
    query.finish(1)
    query.assert_exact()
