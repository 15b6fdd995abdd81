"""`headgate metadata` with a real ZooKeeper: a broker's topics, configs, records and groups go there and come back."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from compat_tests.harness.broker import TARGET, HeadgateBroker, installed_command
from compat_tests.harness.topics import create_topics, set_config
from compat_tests.harness.writing import send
from compat_tests.harness.zookeeper import ZooKeeper

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="a command of ours")

GROUP, COUNT, LIMIT_S = "readers", 60, 60
TOPICS = {f"t{number}": {"retention.ms": str(10**9 + number)} for number in range(40)}


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper() as server:
        yield server


def carry(broker: HeadgateBroker, zookeeper: ZooKeeper, direction: str, *options: str) -> list[str]:
    """The command with a chroot of the test's own, and the broker's settings."""
    result = subprocess.run(
        carrying(broker, zookeeper, direction, *options), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def carrying(broker: HeadgateBroker, zookeeper: ZooKeeper, direction: str, *options: str) -> list[str]:
    wanted = {
        "listeners": f"PLAINTEXT://{broker.bootstrap}",
        "log.dirs": str(broker.data),
        "zookeeper.connect": f"{zookeeper.connect}/{broker.directory.name}",
    }
    overrides = [word for name, value in wanted.items() for word in ("--override", f"{name}={value}")]
    return [*installed_command(), "metadata", direction, *options, *overrides]


def described(broker: HeadgateBroker) -> dict[str, Any]:
    """Ids and configs by topic, and the highest leader epoch."""
    command = [*installed_command(), "topics", "describe", *TOPICS, "--bootstrap-server", broker.bootstrap, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return {row["topic"]: (row["topic_id"], row["configs"]) for row in rows}


def read(broker: HeadgateBroker) -> list[int]:
    """The next records of the group, committed."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest",
         "enable.auto.commit": "false"}
    )  # fmt: skip
    numbers: list[int] = []
    position = consumer.committed([TopicPartition("t0", 0)], LIMIT_S)[0]
    consumer.assign([TopicPartition("t0", 0, max(position.offset, 0))])
    deadline = time.monotonic() + LIMIT_S
    while len(numbers) < COUNT and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            numbers.append(int(message.value() or b""))
    consumer.commit(offsets=[TopicPartition("t0", 0, numbers[-1] + 1)], asynchronous=False)
    consumer.close()
    return numbers


def test_metadata_go_there_and_come_back(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    broker = HeadgateBroker(tmp_path / "whole")
    broker.start()
    create_topics(broker.bootstrap, TOPICS, 1)
    send(broker.bootstrap, "t0", map(str, range(COUNT)))
    assert read(broker) == list(range(COUNT))
    before = described(broker)
    broker.stop()
    assert "would be written" in carry(broker, zookeeper, "to-zookeeper")[-1]
    carry(broker, zookeeper, "to-zookeeper", "--execute")

    broker.settings["zookeeper.connect"] = f"{zookeeper.connect}/{broker.directory.name}"
    broker.start()
    assert described(broker) == before
    send(broker.bootstrap, "t0", map(str, range(COUNT, 2 * COUNT)))
    assert read(broker) == list(range(COUNT, 2 * COUNT))
    set_config(broker.bootstrap, "t1", "retention.ms", "5000")
    broker.stop()
    carry(broker, zookeeper, "to-embedded", "--execute")

    del broker.settings["zookeeper.connect"]
    broker.start()
    after = described(broker)
    assert after["t1"][1] == {"retention.ms": "5000"}
    assert {**after, "t1": before["t1"]} == before
    send(broker.bootstrap, "t0", map(str, range(2 * COUNT, 3 * COUNT)))
    assert read(broker) == list(range(2 * COUNT, 3 * COUNT))
    broker.stop()


def test_a_killed_transfer_goes_on(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    broker = HeadgateBroker(tmp_path / "killed")
    broker.start()
    create_topics(broker.bootstrap, TOPICS, 4)
    before = described(broker)
    broker.stop()
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    random_ = random.Random(seed)
    for _ in range(4):
        process = subprocess.Popen(carrying(broker, zookeeper, "to-zookeeper", "--execute"), stdout=subprocess.DEVNULL)
        time.sleep(random_.uniform(0.3, 0.9))
        process.kill()
        process.wait()
    if not (broker.data / "__headgate_metadata-0.in-zookeeper").exists():
        carry(broker, zookeeper, "to-zookeeper", "--execute")
    broker.settings["zookeeper.connect"] = f"{zookeeper.connect}/{broker.directory.name}"
    broker.start()
    assert described(broker) == before
    broker.stop()
