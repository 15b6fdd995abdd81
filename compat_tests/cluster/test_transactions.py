"""Consume, transform and produce in transactions over three brokers: the coordinators' broker is killed under load.

Partitions, groups and transactional ids are spread over the brokers, so that markers and verifications go from broker
to broker. In the end each record before the group's offset is in the output once, in order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.cluster.cluster import HEADGATE, IDS, Cluster
from compat_tests.groups import restless
from compat_tests.harness.waiting import Late, until
from compat_tests.transactions.copiers.committed_values import committed_values
from compat_tests.transactions.copiers.copier import FAST, KINDS, STEADY
from compat_tests.transactions.copiers.pipeline import Pipeline

SETTINGS: Final = {
    **restless.SETTINGS,
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
}
NAMES: Final = ("java-4.4", "confluent-kafka")
STATE: Final = "__transaction_state"
# More than is copied before the copiers are started again, faster
FED: Final = 4_000
STUCK_S: Final = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", HEADGATE, SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def pipelines(cluster: Cluster, tmp_path: Path) -> Iterator[list[Pipeline]]:
    directory = tmp_path / "copiers"
    directory.mkdir()
    kinds = [kind for kind in KINDS if kind.name in NAMES]
    made = [Pipeline(cluster.bootstrap, kind, directory, replicas=len(IDS)) for kind in kinds]
    yield made
    for pipeline in made:
        pipeline.kill()


def feed(cluster: Cluster, pipelines: Iterable[Pipeline]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 2})
    for pipeline in pipelines:
        pipeline.feed(producer, FED)
    assert producer.flush(STUCK_S) == 0


def wait_for_commits(pipelines: Iterable[Pipeline], more: int = 5) -> float:
    """Until each pipeline has committed a few transactions more; the seconds."""
    wanted = {pipeline: pipeline.commits + more for pipeline in pipelines}

    def are_there() -> bool:
        for pipeline in wanted:
            pipeline.keep_alive(STEADY)
        return all(pipeline.commits >= commits for pipeline, commits in wanted.items())

    try:
        return until(are_there, "commits of all copiers", STUCK_S)
    except Late as late:
        raise Late(f"{late}: {[pipeline.state() for pipeline in wanted]}") from None


def committed(cluster: Cluster, pipeline: Pipeline) -> dict[int, int]:
    """The stable offsets of the group; none has gone back behind an acknowledged one."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": pipeline.group, "log_level": 2}
    with closing(Consumer({**settings, "isolation.level": "read_committed"})) as consumer:
        asked = [TopicPartition(pipeline.input, partition) for partition in pipeline.least]
        stored = {one.partition: max(one.offset, 0) for one in consumer.committed(asked, timeout=STUCK_S)}
    pipeline.note_acknowledged()
    behind = {one: (least, stored[one]) for one, least in pipeline.least.items() if stored[one] < least}
    assert not behind, f"{pipeline.group}: acknowledged, and stored now: {behind}"
    return stored


def copy_all(cluster: Cluster, pipeline: Pipeline) -> None:
    def is_drained() -> bool:
        pipeline.keep_alive(FAST)
        pipeline.least = committed(cluster, pipeline)
        return all(pipeline.least[partition] == len(values) for partition, values in enumerate(pipeline.values))

    until(is_drained, f"{pipeline.kind.name} to copy the rest", STUCK_S, 0.2)


def test_copies_are_exact_across_a_kill_of_the_coordinators_broker(
    cluster: Cluster, pipelines: list[Pipeline], figure: Callable[[str], None]
) -> None:
    began_s = time.monotonic()
    feed(cluster, pipelines)
    for pipeline in pipelines:
        pipeline.start(STEADY)
    wait_for_commits(pipelines)
    coordinator = cluster.states(STATE)[0].leader
    cluster.kill(coordinator)
    gone_s = wait_for_commits(pipelines)
    cluster.start(coordinator)
    cluster.wait_for_full_sets()
    assert all(coordinator != state.leader for state in cluster.states(STATE))
    for pipeline in pipelines:
        pipeline.kill()
        pipeline.start(FAST)
    for pipeline in pipelines:
        copy_all(cluster, pipeline)
        pipeline.kill()
    found = committed_values(cluster.bootstrap, [place for pipeline in pipelines for place in pipeline.places])
    for pipeline in pipelines:
        pipeline.assert_copied(found)
    copied = {pipeline.kind.name: f"{sum(pipeline.least.values())} in {pipeline.commits}" for pipeline in pipelines}
    took_s = time.monotonic() - began_s
    figure(f"copied over three brokers in {took_s:.0f} s: {copied}; commits again {gone_s:.1f} s after the kill")
