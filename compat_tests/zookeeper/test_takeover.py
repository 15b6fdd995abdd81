"""A ZooKeeper and a data directory that Apache Kafka left: taken over, used, and given back to that Kafka."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from compat_tests.harness.apache_kafka import KafkaOnZooKeeper
from compat_tests.harness.broker import HeadgateBroker
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.topics import create_topics
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import send
from compat_tests.harness.zookeeper import ZooKeeper

NODE_ID = 7
PARTITIONS = 3
# No pause of a busy machine ends it: a Kafka that was killed has to be registered yet when a Headgate has started
SESSION = {"zookeeper.session.timeout.ms": "60000"}
CONFIGS = {"retention.ms": "123456789", "max.message.bytes": "2000000"}


def consume(bootstrap: str, group: str, count: int) -> list[str]:
    """Read so many records of topic `t` as a group, and commit."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe(["t"])
    found: list[str] = []

    def is_done() -> bool:
        found.extend((one.value() or b"").decode() for one in consumer.consume(100, 0.1) if one.error() is None)
        return len(found) >= count

    try:
        until(is_done, f"{count} records", 40)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return sorted(found)


def committed(bootstrap: str, group: str) -> int:
    """The sum of the group's offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        wanted = [TopicPartition("t", index) for index in range(PARTITIONS)]
        return sum(max(0, one.offset) for one in consumer.committed(wanted, timeout=60))
    finally:
        consumer.close()


def configs(bootstrap: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, "t")
    admin = AdminClient({"bootstrap.servers": bootstrap})  # which has to outlive the call
    found = admin.describe_configs([resource])[resource].result(20)
    return {name: found[name].value for name in CONFIGS}


@pytest.mark.parametrize("jar_set", ["broker28", "broker39"])
def test_there_and_back(jar_set: str, tmp_path: Path, figure: Callable[[str], None]) -> None:
    with (
        ZooKeeper() as zookeeper,
        KafkaOnZooKeeper(f"{zookeeper.connect}/kafka", NODE_ID, SESSION, jar_set=jar_set) as kafka,
    ):
        create_topics(kafka.bootstrap, {"t": CONFIGS}, PARTITIONS)
        of_kafka = [f"kafka {number}" for number in range(200)]
        send(kafka.bootstrap, "t", of_kafka)
        assert consume(kafka.bootstrap, "g", 200) == sorted(of_kafka)
        kafka.stop()
        broker = HeadgateBroker(tmp_path, {"zookeeper.connect": kafka.connect, **SESSION}, kafka.logs)
        try:
            figure(f"zookeeper: the first start on a directory of {jar_set}: {broker.start():.2f} s")
            assert configs(broker.bootstrap) == CONFIGS
            assert committed(broker.bootstrap, "g") == 200
            of_headgate = [f"headgate {number}" for number in range(100)]
            send(broker.bootstrap, "t", of_headgate)
            assert consume(broker.bootstrap, "g", 100) == sorted(of_headgate), "nothing is read twice"
            assert consume(broker.bootstrap, "all", 300) == sorted(of_kafka + of_headgate)
            create_topics(broker.bootstrap, {"made-by-headgate": {}}, 2)
            if jar_set == "broker28":
                options = ("--zookeeper", kafka.connect, "--describe", "--topic", "t")
                described = tool_output("kafka.admin.TopicCommand", *options, jar_set=jar_set)
                assert described.count(f"Leader: {NODE_ID}") == PARTITIONS
                assert "retention.ms=123456789" in described
            broker.stop()
        finally:
            broker.kill()
        kafka.start()
        send(kafka.bootstrap, "made-by-headgate", ["x"])
        send(kafka.bootstrap, "t", ["again"])
        if jar_set != "broker28":  # which does not know the version of Headgate's records of offsets (KIP-915)
            assert committed(kafka.bootstrap, "g") == 300
            assert consume(kafka.bootstrap, "g", 1) == ["again"]
        assert len(consume(kafka.bootstrap, "another", 301)) == 301
        if jar_set == "broker28":
            kafka.kill()
            check_in_use(kafka, tmp_path)


def check_in_use(kafka: KafkaOnZooKeeper, directory: Path) -> None:
    """A Kafka that was killed is registered until its session ends."""
    broker = HeadgateBroker(directory, {"zookeeper.connect": kafka.connect, **SESSION}, kafka.logs)
    result = subprocess.run(broker.command(), check=False, capture_output=True, text=True, timeout=60)
    address = f"PLAINTEXT://{kafka.bootstrap}"
    assert f"node.id={NODE_ID} is in use in ZooKeeper at {kafka.connect} by {address}, since" in result.stderr
