"""Groups that only ZooKeeper has, as Kafka's tools and `headgate groups` show them, with a real ZooKeeper."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from compat_tests.harness.apache_kafka import CONSUMER_GROUPS
from compat_tests.harness.broker import TARGET, HeadgateBroker, installed_command
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.topics import create_topics
from compat_tests.harness.zookeeper import ZooKeeper

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="Kafka's brokers show the coordinator's groups alone")

MEMBER = "old_web-1-1795244443115-0a1b2c3d"
REGISTRATION = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1795244443115"}'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadgateBroker]:
    """`old` has a member that owns t-0, `idle` has offsets alone."""
    with ZooKeeper() as zookeeper:
        broker = HeadgateBroker(tmp_path_factory.mktemp("broker"), {"zookeeper.connect": zookeeper.connect})
        broker.start()
        client = KazooClient(zookeeper.connect)
        client.start()
        try:
            create_topics(broker.bootstrap, {"t": {}}, 2)
            for group in ("old", "idle"):
                client.create(f"/consumers/{group}/offsets/t/0", b"0", makepath=True)
            client.create(f"/consumers/old/ids/{MEMBER}", REGISTRATION, makepath=True, ephemeral=True)
            client.create("/consumers/old/owners/t/0", f"{MEMBER}-0".encode(), makepath=True, ephemeral=True)
            yield broker
        finally:
            client.stop()
            broker.stop()


def groups(broker: HeadgateBroker, *arguments: str) -> list[dict[str, Any]]:
    command = [*installed_command(), "groups", *arguments, "--bootstrap-server", broker.bootstrap, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_kafka_lists_and_describes_them(broker: HeadgateBroker) -> None:
    def tool(*arguments: str) -> list[list[str]]:
        shown = tool_output(CONSUMER_GROUPS, "--bootstrap-server", broker.bootstrap, *arguments)
        return [line.split() for line in shown.splitlines() if line.strip()]

    assert tool("--list", "--state")[1:] == [["idle", "Empty"], ["old", "Stable"]]
    (_, row) = tool("--describe", "--group", "old", "--members", "--verbose")
    assert row[:4] == ["old", MEMBER, "/web-1", "zookeeper"]
    assert "t:0" in row
    assert tool("--describe", "--group", "old", "--state")[1][3:] == ["zookeeper", "Stable", "1"]


def test_our_command_marks_them_and_reads_their_offsets(broker: HeadgateBroker) -> None:
    assert [(row["group"], row["state"], row["type"]) for row in groups(broker, "list")] == [
        ("idle", "Empty", "zookeeper"),
        ("old", "Stable", "zookeeper"),
    ]
    (row,) = groups(broker, "lag", "old")
    assert (row["committed"], row["lag"], row["member_id"], row["client_id"]) == (0, 0, MEMBER, "zookeeper")
    (row,) = groups(broker, "describe", "idle")
    assert (row["type"], row["members"], row["partitions"][0]["committed"]) == ("zookeeper", [], 0)
