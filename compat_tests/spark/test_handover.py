"""A consumer of the 0.8 age reads a third of a topic, a streaming query the next, the consumer the rest.

The consumer keeps its offsets in ZooKeeper. The query begins there by `startingOffsets`, and goes back by `headgate
spark offsets`, or in a dual group by the commits of its listener, which reach ZooKeeper while it runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.harness.waiting import until
from compat_tests.spark.spark_format import with_millis
from compat_tests.spark.test_kafka_streaming import finish
from compat_tests.spark.test_positions import command, new_listener
from compat_tests.zookeeper.old_consumer import OldConsumer, Read
from compat_tests.zookeeper.old_world import IS_HEADGATE, World, alter_group, old_world

PARTITIONS: Final = 4
COUNT: Final = 20
# Partition 2 is idle while the query reads, partition 3 for ever
BUSY: Final = ((0, 1, 2), (0, 1), (0, 1, 2))
DUAL: Final = {"headgate.offsets.store": "dual", "headgate.offsets.source": "zookeeper"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with old_world(tmp_path_factory.mktemp("old")) as world:
        yield world


@pytest.mark.skipif(not IS_HEADGATE, reason="a query of today needs a broker of today")
@pytest.mark.parametrize("way", ["offsets", "dual"])
def test_a_query_takes_over_from_a_consumer_and_gives_back(world: World, spark: Any, tmp_path: Path, way: str) -> None:
    topic = world.new_topic(PARTITIONS)
    group = f"g-{topic}"
    if way == "dual":
        alter_group(world.broker.bootstrap, group, DUAL)
    read = consume(world, topic, group, BUSY[0], [])

    said = command(world.broker, "spark", "offsets", f"zookeeper:{group}", "spark:")
    starts = json.loads(said.output)[topic]
    assert (said.code, starts) == (0, {"0": COUNT, "1": COUNT, "2": COUNT, "3": starts["3"]})
    assert starts["3"] in (-2, 0), "nothing was there to commit"
    world.produce(topic, dict.fromkeys(BUSY[1], COUNT))
    checkpoint = tmp_path / "checkpoint"
    listener = new_listener(world.broker, group) if way == "dual" else None
    query = query_of(spark, world, topic, said.output.strip(), checkpoint, listener)
    assert len(query) == COUNT * len(BUSY[1])
    read += query

    if way == "offsets":
        back = ("spark", "offsets", f"checkpoint:{checkpoint}", f"zookeeper:{group}")
        assert command(world.broker, *back).code == 0
        assert world.offset(group, topic, 0) == COUNT, "a dry run"
        assert command(world.broker, *back, "--execute").code == 0
    until(
        lambda: [world.offset(group, topic, one) for one in range(3)] == [2 * COUNT, 2 * COUNT, COUNT],
        "the offsets in ZooKeeper",
    )
    read += consume(world, topic, group, BUSY[2], read)
    assert world.missing_and_repeated(topic, read) == (0, 0)


def consume(world: World, topic: str, group: str, busy: tuple[int, ...], before: list[Read]) -> list[Read]:
    """New messages, and what a consumer of 0.8.2.2 reads until it has left."""
    world.produce(topic, dict.fromkeys(busy, COUNT))
    with OldConsumer("0.8.2.2", world.connect, group, topic) as consumer:
        consumer.wait_for_start()
        until(
            lambda: world.missing_and_repeated(topic, [*before, *consumer.records])[0] == 0,
            f"{consumer.name} to read all of {topic}: {consumer.errors}",
        )
    return consumer.records


def query_of(spark: Any, world: World, topic: str, starts: str, checkpoint: Path, listener: Any) -> list[Read]:
    """What a query reads from these offsets to the end, in batches."""
    rows: list[Read] = []

    def keep(frame: Any, batch: int) -> None:
        rows.extend(Read(topic, row.partition, row.offset, None, bytes(row.value)) for row in frame.collect())

    options = {"kafka.bootstrap.servers": world.broker.bootstrap, "subscribe": topic, "startingOffsets": starts}
    frame = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger="15").load()
    writer = with_millis(frame).writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(keep)
    if listener is not None:
        spark.streams.addListener(listener)
    try:
        finish(writer)
    finally:
        if listener is not None:
            until(lambda: world.offset(f"g-{topic}", topic, 0) == 2 * COUNT, "the commits of the listener")
            spark.streams.removeListener(listener)
    return rows
