"""A real ZooKeeper that comes back empty or from an older copy, and nodes that somebody deletes below a broker."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from compat_tests.harness.broker import HeadgateBroker
from compat_tests.harness.topics import create_topics
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import send
from compat_tests.harness.zookeeper import ZooKeeper
from compat_tests.zookeeper.test_start import consume, reader

OUTDATED = "came back empty or from an older copy"
WAY_OUT = "start by `headgate serve --adopt` without zookeeper.connect, stop, and run `headgate metadata to-zookeeper`"


@pytest.fixture
def zookeeper() -> Iterator[ZooKeeper]:
    with ZooKeeper(is_synced=False) as server:
        yield server


@pytest.fixture
def broker(tmp_path: Path, zookeeper: ZooKeeper) -> Iterator[HeadgateBroker]:
    """A broker with a topic and a record."""
    settings = {
        "offsets.topic.num.partitions": "1",
        "zookeeper.connect": f"{zookeeper.connect}/kafka",
        "zookeeper.session.timeout.ms": "2000",
    }
    made = HeadgateBroker(tmp_path / "broker", settings)
    try:
        made.start()
        create_topics(made.bootstrap, {"t": {}})
        send(made.bootstrap, "t", ["a"], is_idempotent=False)
        yield made
    finally:
        made.kill()


def replace_data(zookeeper: ZooKeeper, copy: Path | None = None) -> None:
    """Start ZooKeeper with other data, or with none."""
    zookeeper.stop()
    shutil.rmtree(zookeeper.directory / "data")
    if copy is not None:
        shutil.copytree(copy, zookeeper.directory / "data")
    zookeeper.start()


def copied(zookeeper: ZooKeeper, path: Path) -> Path:
    zookeeper.stop()
    shutil.copytree(zookeeper.directory / "data", path)
    zookeeper.start()
    return path


def errors(broker: HeadgateBroker, phrase: str) -> list[str]:
    return [line for line in broker.error_lines() if " ERROR " in line and phrase in line]


def can_create(broker: HeadgateBroker, topic: str) -> Callable[[], bool]:
    def is_created() -> bool:
        with suppress(KafkaException):
            create_topics(broker.bootstrap, {topic: {}})
            return True
        return False

    return is_created


def run_metadata(broker: HeadgateBroker) -> None:
    command = broker.command()
    place = command.index("serve")
    command[place : place + 1] = ["metadata", "to-zookeeper", "--execute"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def test_an_older_copy_is_named_and_the_right_data_help(
    zookeeper: ZooKeeper, broker: HeadgateBroker, tmp_path: Path
) -> None:
    older = copied(zookeeper, tmp_path / "older")
    until(can_create(broker, "u"), "the session to be back", 60)
    right = copied(zookeeper, tmp_path / "right")
    replace_data(zookeeper, older)
    until(lambda: bool(errors(broker, OUTDATED)), "the error", 60)
    send(broker.bootstrap, "t", ["b"], is_idempotent=False)
    time.sleep(3)
    assert len(errors(broker, OUTDATED)) == 1
    assert WAY_OUT in errors(broker, OUTDATED)[0]
    replace_data(zookeeper, right)
    until(can_create(broker, "v"), "the broker to go on", 60)
    assert consume(broker.bootstrap, "t", 2) == ["a", "b"]


def test_the_way_out_of_an_empty_zookeeper(zookeeper: ZooKeeper, broker: HeadgateBroker) -> None:
    replace_data(zookeeper)
    until(lambda: bool(errors(broker, OUTDATED)), "the error", 60)
    broker.stop()
    refused = subprocess.run(broker.command(), check=False, capture_output=True, text=True, timeout=60)
    assert "/kafka has no cluster, but " in refused.stderr.splitlines()[-1]
    assert refused.stderr.endswith(f"{WAY_OUT}\n")
    connect = broker.settings.pop("zookeeper.connect")
    broker.arguments = ["--adopt"]
    broker.start()
    assert consume(broker.bootstrap, "t", 1) == ["a"]
    broker.arguments = []
    broker.stop()
    broker.settings["zookeeper.connect"] = connect
    run_metadata(broker)
    broker.start()
    until(can_create(broker, "u"), "the broker to be the controller", 30)
    send(broker.bootstrap, "t", ["b"], is_idempotent=False)
    assert consume(broker.bootstrap, "t", 1) == ["b"], "the group goes on behind its commit"


def test_nodes_that_are_deleted_below_a_broker(zookeeper: ZooKeeper, broker: HeadgateBroker) -> None:
    with reader(zookeeper.connect) as client:
        until(lambda: is_empty(client), "ZooKeeper to be empty", 30)
        until(lambda: bool(errors(broker, "has lost cluster")), "the error", 30)
        with pytest.raises(KafkaException, match="ZooKeeper has lost this cluster: /cluster/id is not there"):
            create_topics(broker.bootstrap, {"u": {}})
    time.sleep(3)
    assert len(errors(broker, "has lost cluster")) == 1
    assert sum("is tried again" in line for line in broker.error_lines()) <= 1
    assert not any("Traceback" in line for line in broker.error_lines())


def is_empty(client: KazooClient) -> bool:
    """Delete all that is below the chroot; the broker may create some of it meanwhile."""
    with suppress(KazooException):
        for name in client.get_children("/kafka"):
            client.delete(f"/kafka/{name}", recursive=True)
        return not client.exists("/kafka/cluster") and not client.exists("/kafka/brokers/topics")
    return False
