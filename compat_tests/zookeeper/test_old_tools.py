"""Tools that speak to ZooKeeper: Kafka 0.8.2.2, 0.9.0.1, 2.8. What they write is done, what they read is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from compat_tests.harness.broker import TARGET
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.waiting import until
from compat_tests.zookeeper.old_consumer import OldConsumer
from compat_tests.zookeeper.old_world import World, configs_of, leaders, old_world

TOPICS, CONFIGS = "kafka.admin.TopicCommand", "kafka.admin.ConfigCommand"
REASSIGN, ELECT = "kafka.admin.ReassignPartitionsCommand", "kafka.admin.PreferredReplicaLeaderElectionCommand"
CHECKER, EXPORT, IMPORT = (
    f"kafka.tools.{name}" for name in ("ConsumerOffsetChecker", "ExportZkOffsets", "ImportZkOffsets")
)
JAR_SETS: Final = {"0.8.2.2": "broker08", "0.9.0.1": "matrix/scala-0.9.0.1", "2.8": "broker28"}
# Kafka since 0.9 does not apply the changes of configs that a tool of 0.8 writes, Kafka 0.8 does not apply newer ones
KNOWN: Final = {"kafka08": ["0.8.2.2"], "kafka28": ["0.9.0.1", "2.8"], "kafka39": ["0.9.0.1", "2.8"]}
VERSIONS: Final = KNOWN.get(TARGET, list(JAR_SETS))
# The oldest and the newest; what lies between is left to the long run
EACH_TOPIC: Final = [
    pytest.param(version, marks=[pytest.mark.soak] if version == "0.9.0.1" else []) for version in VERSIONS
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with old_world(tmp_path_factory.mktemp("tools")) as world:
        yield world


def tool(world: World, version: str, main_class: str, *arguments: str) -> list[str]:
    """The lines that a tool prints, with one blank where it has several and none around colons."""
    said = tool_output(main_class, "--zookeeper", world.connect, *arguments, jar_set=JAR_SETS[version])
    return [re.sub(r":\s+", ":", " ".join(line.split())) for line in said.splitlines() if line.strip()]


@pytest.mark.parametrize("version", EACH_TOPIC)
def test_a_topic_from_its_creation_to_its_end(world: World, version: str) -> None:
    topic = f"tool-{version}"
    sizes = ("--partitions", "3", "--replication-factor", "1")
    tool(world, version, TOPICS, "--create", "--topic", topic, *sizes, "--config", "retention.ms=1000000")
    until(lambda: leaders(world.broker.bootstrap, topic) == [0, 0, 0], "the topic's leaders")
    world.produce(topic, {0: 5, 1: 5, 2: 5})
    assert topic in tool(world, version, TOPICS, "--list")
    head, *rows = tool(world, version, TOPICS, "--describe", "--topic", topic)
    assert without_id(head) == f"Topic:{topic} PartitionCount:3 ReplicationFactor:1 Configs:retention.ms=1000000"
    assert rows == [f"Topic:{topic} Partition:{one} Leader:0 Replicas:0 Isr:0" for one in range(3)]
    assert configs_of(world, topic, "retention.ms") == "1000000"

    tool(world, version, TOPICS, "--alter", "--topic", topic, "--partitions", "5")
    until(lambda: leaders(world.broker.bootstrap, topic) == [0] * 5, "the new partitions")
    world.produce(topic, {4: 5})
    assert len(tool(world, version, TOPICS, "--describe", "--topic", topic)) == 6

    change = ("--config", "max.message.bytes=99999", "--delete-config", "retention.ms")
    tool(world, version, TOPICS, "--alter", "--topic", topic, *change)
    until(lambda: configs_of(world, topic, "max.message.bytes") == "99999", "the altered config")
    assert configs_of(world, topic, "retention.ms") == "604800000"
    until(lambda: not world.takes(topic, 100_000), "a large message to be refused")

    with OldConsumer("0.8.2.2", world.connect, f"g-{topic}", topic) as consumer:
        until(lambda: len(consumer.records) >= 20, f"20 messages: {consumer.errors}")

    tool(world, version, TOPICS, "--delete", "--topic", topic)
    until(lambda: not world.nodes.exists(f"/brokers/topics/{topic}"), "the end of the topic's node")
    until(lambda: leaders(world.broker.bootstrap, topic) == [], "the end of the topic")
    until(lambda: not world.nodes.exists(f"/admin/delete_topics/{topic}"), "the end of the wish to delete it")
    assert not world.nodes.exists(f"/config/topics/{topic}")
    until(lambda: not world.broker.partition_directory(topic, 0).exists(), "the end of its directories")


def without_id(line: str) -> str:
    """Newer tools print the topic's id."""
    return re.sub(r" TopicId:\S+", "", line)


@pytest.mark.parametrize("version", [version for version in VERSIONS if version != "0.8.2.2"])
def test_configs(world: World, version: str) -> None:
    """Of a topic: the notification of 0.9 names the entity by its type, that of 2.8 by its path."""
    topic = world.new_topic(1)
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    tool(world, version, CONFIGS, "--alter", *of_topic, "--add-config", "max.message.bytes=99999,segment.ms=500000")
    until(lambda: configs_of(world, topic, "segment.ms") == "500000", "the added config")
    said = " ".join(tool(world, version, CONFIGS, "--describe", *of_topic))
    assert "max.message.bytes=99999" in said
    assert "segment.ms=500000" in said
    tool(world, version, CONFIGS, "--alter", *of_topic, "--delete-config", "segment.ms")
    until(lambda: configs_of(world, topic, "segment.ms") == "604800000", "the deleted config")
    assert configs_of(world, topic, "max.message.bytes") == "99999"


def test_preferred_leaders_and_a_reassignment(world: World, tmp_path: Path) -> None:
    """With one broker there is nothing to do, and the tools see that it is done."""
    topic = world.new_topic(2)
    partitions = [{"topic": topic, "partition": one} for one in range(2)]
    elected, moved = tmp_path / "elected.json", tmp_path / "moved.json"
    elected.write_text(json.dumps({"partitions": partitions}))
    moved.write_text(json.dumps({"version": 1, "partitions": [{**one, "replicas": [0]} for one in partitions]}))
    for version in [version for version in VERSIONS if version != "0.9.0.1"]:
        tool(world, version, ELECT, "--path-to-json-file", str(elected))
        until(lambda: not world.nodes.exists("/admin/preferred_replica_election"), "the election to be over")
        tool(world, version, REASSIGN, "--reassignment-json-file", str(moved), "--execute")
        until(lambda: not world.nodes.exists("/admin/reassign_partitions"), "the reassignment to be over")
        said = " ".join(tool(world, version, REASSIGN, "--reassignment-json-file", str(moved), "--verify"))
        assert said.count("completed successfully") + said.count("is complete") == 2, said
    assert leaders(world.broker.bootstrap, topic) == [0, 0]


def test_offsets_are_checked_exported_and_imported(world: World, tmp_path: Path) -> None:
    topic = world.new_topic(2)
    group = f"g-{topic}"
    world.produce(topic, {0: 20, 1: 30})
    with OldConsumer("0.8.2.2", world.connect, group, topic) as consumer:
        until(lambda: len(consumer.records) == 50, f"50 messages: {consumer.errors}")
        consumer.commit()
        world.produce(topic, {1: 4})
        until(lambda: len(consumer.records) == 54, f"54 messages: {consumer.errors}")
        assert checked(world, group, topic)[0][:6] == [group, topic, "0", "20", "20", "0"]
    _, second = checked(world, group, topic)
    assert second == [group, topic, "1", "34", "34", "0", "none"]

    exported = tmp_path / "offsets.txt"
    tool_output(
        EXPORT, "--zkconnect", world.connect, "--group", group, "--output-file", str(exported), jar_set="broker08"
    )
    lines = sorted(exported.read_text().split())
    assert lines == [f"/consumers/{group}/offsets/{topic}/{one}:{offset}" for one, offset in ((0, 20), (1, 34))]
    exported.write_text(exported.read_text().replace(":34", ":31"))
    tool_output(IMPORT, "--zkconnect", world.connect, "--input-file", str(exported), jar_set="broker08")
    assert [row[3:6] for row in checked(world, group, topic)] == [["20", "20", "0"], ["31", "34", "3"]]
    with OldConsumer("0.8.2.2", world.connect, group, topic) as again:
        until(lambda: len(again.records) == 3, f"three messages: {again.errors}")
    assert [(read.partition, read.offset) for read in again.records] == [(1, 31), (1, 32), (1, 33)]


def checked(world: World, group: str, topic: str) -> list[list[str]]:
    """The rows of ConsumerOffsetChecker: group, topic, partition, offset, end, lag, owner."""
    said = tool_output(CHECKER, "--zookeeper", world.connect, "--group", group, "--topic", topic, jar_set="broker08")
    return [line.split() for line in said.splitlines() if line.startswith(group)]
