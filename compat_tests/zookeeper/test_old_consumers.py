"""Consumers that live in ZooKeeper: they read, commit, go over to the coordinator and back; every message is counted.

What Kafka itself repeats is stated beside what is asserted of Headgate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import pytest

from compat_tests.harness.broker import TARGET
from compat_tests.harness.waiting import until
from compat_tests.zookeeper.old_consumer import JAR_SETS, OldConsumer, Read, RollingGroup
from compat_tests.zookeeper.old_world import IS_HEADGATE, World, alter_group, old_world

VERSIONS: Final = [version for version in JAR_SETS if TARGET != "kafka08" or version.startswith("0.8")]
# 0.8.1 has one store. What a newer version shows besides is left to the long run
WITH_BOTH_STORES: Final = [
    pytest.param(version, marks=[] if version == "0.8.2.2" else [pytest.mark.soak])
    for version in VERSIONS
    if version != "0.8.1.1"
]
STORE, SOURCE = "headgate.offsets.store", "headgate.offsets.source"
COUNT: Final = 20


class Step(NamedTuple):
    """A group of one, stopped and started with these flags; then messages come to some partitions."""

    name: str
    storage: str
    dual: bool
    busy: tuple[int, ...]
    # What Headgate is told before
    store: Mapping[str, str | None] | None = None


# Partition 2 is idle on the way back, partition 3 while both are written
STEPS: Final = (
    Step("at first", "zookeeper", dual=False, busy=(0, 1, 2, 3)),
    Step("to Kafka, both are written", "kafka", dual=True, busy=(0, 1, 2), store={STORE: "dual", SOURCE: "zookeeper"}),
    Step("in Kafka", "kafka", dual=False, busy=(0, 1, 2, 3)),
    Step("back, both are written", "kafka", dual=True, busy=(0, 1)),
    Step("back in ZooKeeper", "zookeeper", dual=False, busy=(0, 1, 2, 3)),
)
# A group that nothing comes to while both are written
IDLE_STEPS: Final = tuple(step if not step.dual else step._replace(busy=()) for step in STEPS)
OVER_AND_BACK: Final = [
    *(
        pytest.param(STEPS, version, id=f"busy-{version}", marks=[pytest.mark.soak] if version == "0.9.0.1" else [])
        for version in VERSIONS
        if version != "0.8.1.1"
    ),
    *(pytest.param(IDLE_STEPS, *one.values, id=f"idle-{one.values[0]}", marks=one.marks) for one in WITH_BOTH_STORES),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with old_world(tmp_path_factory.mktemp("old")) as world:
        yield world


@pytest.mark.parametrize("version", VERSIONS)
def test_it_reads_commits_and_goes_on(world: World, version: str) -> None:
    topic = world.new_topic(3)
    group = f"g-{topic}"
    read: list[Read] = []
    for count in (COUNT, 7):
        world.produce(topic, dict.fromkeys(range(3), count))
        read += read_until(world, topic, group, version, read)
    assert world.missing_and_repeated(topic, read) == (0, 0)
    assert [world.offset(group, topic, one) for one in range(3)] == [COUNT + 7] * 3


@pytest.mark.parametrize("steps, version", OVER_AND_BACK)
def test_a_group_goes_over_and_back(
    world: World, version: str, steps: tuple[Step, ...], figure: Callable[[str], None]
) -> None:
    """By the steps that Kafka's documentation has: dual.commit.enabled, offsets.storage, one bounce each."""
    topic = world.new_topic(4)
    group = f"g-{topic}"
    read: list[Read] = []
    repeated = []
    for step in steps:
        if IS_HEADGATE and step.store:
            alter_group(world.broker.bootstrap, group, step.store)
        world.produce(topic, dict.fromkeys(step.busy, COUNT))
        read += read_until(world, topic, group, version, read, storage=step.storage, dual=step.dual)
        missing, count = world.missing_and_repeated(topic, read)
        assert missing == 0, step.name
        repeated.append(count)
    figure(f"{version}, {len(world.sent[topic])} messages over and back: {repeated} read twice by step")
    if IS_HEADGATE:
        assert repeated == [0] * len(steps)


@pytest.mark.parametrize("version", WITH_BOTH_STORES)
def test_two_are_bounced_while_messages_come(world: World, version: str, figure: Callable[[str], None]) -> None:
    """Each step is a rolling bounce. What is read twice is what the client itself repeats at a rebalance."""
    topic = world.new_topic(4)
    group = f"g-{topic}"
    with RollingGroup() as members:
        with world.producing(topic, 4):
            for step in STEPS:
                if IS_HEADGATE and step.store:
                    alter_group(world.broker.bootstrap, group, step.store)
                flags: dict[str, Any] = {"storage": step.storage, "dual": step.dual}
                members.bounce(partial(OldConsumer, version, world.connect, group, topic, **flags))
        world.wait_for_all(topic, members)
        missing, repeated = world.missing_and_repeated(topic, members.gone)
    count = len(world.sent[topic])
    figure(f"{version}, two members bounced, {count} messages: {repeated} read twice, {members.rebalances} rebalances")
    assert missing == 0
    if IS_HEADGATE:
        assert repeated <= 2 * 2 * members.rebalances


def read_until(
    world: World,
    topic: str,
    group: str,
    version: str,
    before: list[Read],
    *,
    storage: str = "zookeeper",
    dual: bool = False,
) -> list[Read]:
    """What one consumer reads until nothing is missing any more and nothing more comes; it has left by then."""
    with OldConsumer(version, world.connect, group, topic, storage=storage, dual=dual) as consumer:
        consumer.wait_for_start()
        until(
            lambda: world.missing_and_repeated(topic, [*before, *consumer.records])[0] == 0,
            f"{consumer.name} to read all of {topic}: {consumer.errors}",
        )
        # One that begins too early repeats from there on: its partitions end where ours do
        wait_for_ends(world, topic, consumer)
    return consumer.records


def wait_for_ends(world: World, topic: str, consumer: OldConsumer) -> None:
    """Until the consumer stands at the end of each partition that it read of."""
    ends = {partition: sum(one == partition for one, _ in world.sent[topic]) for partition, _ in world.sent[topic]}

    def is_there() -> bool:
        return all(
            max((read.offset + 1 for read in consumer.records if read.partition == partition), default=end) == end
            for partition, end in ends.items()
        )

    until(is_there, f"{consumer.name} to come to the ends of {topic}")
