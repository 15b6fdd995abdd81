"""`headgate groups migrate` with old and new clients: one group, one position, whoever reads."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest

from compat_tests.harness.broker import TARGET, installed_command
from compat_tests.harness.waiting import until
from compat_tests.matrix.client import Client
from compat_tests.matrix.rows.jvm import NEWEST
from compat_tests.matrix.rows.python import ROWS as PYTHON
from compat_tests.zookeeper.old_consumer import OldConsumer, Read, RollingGroup
from compat_tests.zookeeper.old_world import World, old_world
from compat_tests.zookeeper.test_old_consumers import COUNT, read_until

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="Kafka cannot do it")

VERSION: Final = "0.8.2.2"
LIMIT_S: Final = 60
KAFKA_PYTHON: Final = next(row for row in PYTHON if row.name == "kafka-python 1.4.7")
# What is done before, the store of the clients, and the partitions that messages come to
TO_KAFKA: Final = ("start", "--source", "zookeeper")
STEPS: Final = (
    ((), "zookeeper", (0, 1, 2, 3)),
    (TO_KAFKA, "zookeeper", (0, 1)),
    ((), "kafka", (0, 2)),
    (("finish", "--force"), "kafka", (0, 1, 2, 3)),  # Scala members stay in ZooKeeper, whatever their offsets.storage
    (("back",), "kafka", (0, 1)),
    ((), "zookeeper", (0, 2)),
    (("finish", "--in", "zookeeper"), "zookeeper", (0, 1, 2, 3)),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with old_world(tmp_path_factory.mktemp("migration"), {"group.initial.rebalance.delay.ms": "0"}) as world:
        yield world


def migrate(world: World, step: tuple[str, ...], group: str) -> list[dict[str, Any]]:
    """Run a step of the command; its rows."""
    name, *options = step
    typed = [*installed_command(), "groups", "migrate", name, *options]
    typed += ["--bootstrap-server", world.broker.bootstrap, "--json"]
    typed += ["--execute"] if name in {"start", "finish", "back"} else []
    done = subprocess.run([*typed, group], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, f"{step} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "is_idle", [pytest.param(False, id="busy"), pytest.param(True, id="idle", marks=pytest.mark.soak)]
)
def test_a_group_goes_over_and_back_by_the_command(world: World, is_idle: bool) -> None:
    """No client has dual.commit.enabled; each is stopped and started between its stores."""
    topic = world.new_topic(4)
    group = f"g-{topic}"
    read: list[Read] = []
    for step, storage, busy in STEPS:
        if step:
            migrate(world, step, group)
        if not is_idle or len(busy) == 4:
            world.produce(topic, dict.fromkeys(busy, COUNT))
        read += read_until(world, topic, group, VERSION, read, storage=storage)
        assert world.missing_and_repeated(topic, read) == (0, 0), (step, storage)
        if step in {TO_KAFKA, ("back",)}:
            migrate(world, ("verify",), group)


def test_two_are_bounced_by_the_command(world: World, figure: Callable[[str], None]) -> None:
    """One member of each store at a time, while messages come."""
    topic = world.new_topic(4)
    group = f"g-{topic}"
    with RollingGroup() as members:
        with world.producing(topic, 4):
            for step, storage, _ in STEPS:
                if step:
                    migrate(world, step, group)
                else:
                    members.bounce(partial(OldConsumer, VERSION, world.connect, group, topic, storage=storage))
        world.wait_for_all(topic, members)
        missing, repeated = world.missing_and_repeated(topic, members.gone)
    count = len(world.sent[topic])
    figure(
        f"by the command, two members bounced, {count} messages: {repeated} read twice, {members.rebalances} rebalances"
    )
    assert missing == 0
    assert repeated <= 2 * 2 * members.rebalances


def test_one_group_of_three_ages(world: World) -> None:
    """The Scala consumer of 0.8.2.2, kafka-python 1.4.7, Java 4.4 with KIP-848, and back: each goes on."""
    topic = world.new_topic(2)
    group = f"g-{topic}"
    positions = {0: 0, 1: 0}

    def more(count: int = COUNT) -> list[tuple[int, int]]:
        """Send to each partition; the places of what was sent."""
        world.produce(topic, dict.fromkeys(positions, count))
        places = [(one, positions[one] + index) for one in positions for index in range(count)]
        for one in positions:
            positions[one] += count
        return places

    def old(storage: str) -> None:
        wanted = more()
        with OldConsumer(VERSION, world.connect, group, topic, storage=storage) as consumer:
            until(lambda: len(consumer.records) >= len(wanted), f"{len(wanted)} messages: {consumer.errors}")
        assert sorted((read.partition, read.offset) for read in consumer.records) == wanted

    def new(client: Client) -> None:
        wanted = more()
        found = client.read_in_group(world.broker.bootstrap, topic, group, len(wanted))
        assert sorted((read.partition, read.offset) for read in found) == wanted, client.name

    old("zookeeper")
    migrate(world, TO_KAFKA, group)
    for client in (KAFKA_PYTHON, NEWEST):
        new(client)
    migrate(world, ("finish",), group)
    for client in (NEWEST, KAFKA_PYTHON):
        new(client)
    old("kafka")
    migrate(world, ("back",), group)
    for client in (NEWEST, KAFKA_PYTHON):
        new(client)
        old("zookeeper")
    migrate(world, ("finish", "--in", "zookeeper"), group)
    old("zookeeper")
