"""Consumers that live in ZooKeeper: they read, commit, go over to the coordinator and back, and every message is counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from compat_tests.old_consumer import JAR_SETS, OldConsumer, Read
from compat_tests.old_world import World, old_world
from compat_tests.waiting import until

VERSIONS = list(JAR_SETS)
WITH_BOTH_STORES = VERSIONS[1:]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with old_world(tmp_path_factory.mktemp("old")) as world:
        yield world


@pytest.mark.parametrize("version", VERSIONS)
def test_it_reads_commits_and_goes_on(world: World, version: str) -> None:
    topic = world.new_topic(3)
    group = f"g-{topic}"
    read: list[Read] = []
    for count in (20, 7):
        world.produce(topic, dict.fromkeys(range(3), count))
        read += read_all(world, topic, group, version, len(world.sent[topic]) - len(read))
    assert world.missing_and_repeated(topic, read) == (0, 0)
    assert [world.offset(group, topic, one) for one in range(3)] == [27, 27, 27]


def read_all(world: World, topic: str, group: str, version: str, count: int, **flags: object) -> list[Read]:
    """What one consumer reads until it has so many messages, and leaves."""
    with OldConsumer(version, world.connect, group, topic, **flags) as consumer:  # type: ignore[arg-type]
        until(lambda: len(consumer.records) >= count, f"{count} messages: {consumer.errors}")
    return consumer.records
