"""Rounds of stock clients under faults: their histories have no anomaly.

A failing round leaves its history in build/histories, and names the command that checks it again. The soak has 100
rounds of one broker and 100 of three, in parts of less than an hour: make soak ARGS="-k 'three_brokers and part_2'".
What was interrupted goes on with the rounds that have not passed. HEADGATE_ROUND is the seed of a single round.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.cluster.cluster import HEADGATE
from compat_tests.harness import wire
from compat_tests.harness.broker import TARGET
from compat_tests.harness.soak import SOAK, Progress
from compat_tests.harness.topics import create_topics
from compat_tests.histories.checker import report
from compat_tests.histories.confluent_worker import MAX_MESSAGE_BYTES
from compat_tests.histories.round import KEPT, PARTITIONS, Plan, Round, Target
from compat_tests.histories.targets import one_broker, three_brokers

QUICK = Plan(faulty_s=5.0, longest_s=1.5, between_s=0.3)
LONG = Plan(faulty_s=15.0, longest_s=4.0, between_s=1.5)
PLAN = LONG if SOAK else QUICK
# Of one broker, and as many of three
ROUNDS, ROUNDS_OF_A_PART = (100, 50) if SOAK else (5, 5)
ONE, THREE = "one_broker", "three_brokers"
# What Jepsen found in Kafka's protocol: the end of a transaction that is sent again may end the next one too
OLD_PROTOCOL = Plan(6.0, 0.5, 0.1, ("late",), (wire.END_TXN,), "librdkafka")
ITS_ANOMALIES = {"torn", "aborted read", "own read", "aborted offsets", "offsets went back"}


def progress(name: str) -> Progress:
    return Progress(KEPT / f"{TARGET}-{name}-passed.txt", ROUNDS)


def rounds(name: str) -> pytest.MarkDecorator:
    """The seeds of a test, each with the part that it belongs to."""
    seeds = progress(name).left() if SOAK else range(ROUNDS)
    if "HEADGATE_ROUND" in os.environ:
        seeds = [int(os.environ["HEADGATE_ROUND"])]
    return pytest.mark.parametrize("seed", seeds, ids=lambda seed: f"part_{seed // ROUNDS_OF_A_PART + 1}-{seed}")


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with one_broker(tmp_path_factory.mktemp("histories") / "broker") as target:
        yield target


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    if TARGET != HEADGATE:
        pytest.skip("the cluster is of Headgates")
    with three_brokers(tmp_path_factory.mktemp("histories") / "cluster") as target:
        yield target


def play(target: Target, name: str, seed: int, figure: Callable[[str], None], replicas: int = 1) -> None:
    """Run a round; its history stays where it has an anomaly."""
    path = KEPT / f"{TARGET}-{name}-{seed}.jsonl"
    topic = f"history-{seed}"
    configs = {"min.insync.replicas": str((replicas + 1) // 2), "max.message.bytes": str(MAX_MESSAGE_BYTES)}
    create_topics(target.bootstrap, {topic: configs}, PARTITIONS, replicas)
    played = Round(target, topic, seed, PLAN, path)
    anomalies = played.play()
    again = f"""HEADGATE_ROUND={seed} make soak ARGS="-k {name}" plays it again
.venv/bin/python -m compat_tests.histories.checker {path} checks it again"""
    assert not anomalies, f"{report(anomalies)}\n{'; '.join(played.faults)}\n{again}"
    figure(f"{name}, round {seed}: {sum(played.recorder.acknowledged.values())} writes; {len(played.faults)} faults")
    for made in (path, played.java_log):
        made.unlink()
    if SOAK and "HEADGATE_ROUND" not in os.environ:
        progress(name).note_passed(seed)


@rounds(ONE)
def test_histories_of_one_broker_have_no_anomaly(single: Target, seed: int, figure: Callable[[str], None]) -> None:
    play(single, ONE, seed, figure)


@rounds(THREE)
def test_histories_of_three_brokers_have_no_anomaly(cluster: Target, seed: int, figure: Callable[[str], None]) -> None:
    play(cluster, THREE, seed, figure, replicas=3)


@pytest.mark.soak
def test_late_ends_of_the_old_protocol_are_anomalies(single: Target, tmp_path: Path) -> None:
    """A round sees an anomaly that every broker has."""
    found: set[str] = set()
    for seed in range(5):
        topic = f"late-{seed}"
        create_topics(single.bootstrap, {topic: {"max.message.bytes": str(MAX_MESSAGE_BYTES)}}, PARTITIONS)
        anomalies = Round(single, topic, seed, OLD_PROTOCOL, tmp_path / f"{seed}.jsonl").play()
        found |= {anomaly.name for anomaly in anomalies}
        assert found <= ITS_ANOMALIES, report(anomalies)
        if found:
            return
    raise AssertionError("no round had an anomaly")
