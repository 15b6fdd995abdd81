"""Groups of the 0.8 age in the survey of a whole broker, over the model of ZooKeeper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.tests.requests import produce_request
from headgate.gateway.zookeeper.session import Create
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.whole_broker import TOOL, WholeBroker
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.records.batch import Record, build

pytestmark = pytest.mark.slow

MEMBER = "old_web-1.example-1795244443115-0a1b2c3d"
REGISTRATION = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'


def put(keeper: ZooKeeperModel, path: str, data: bytes) -> None:
    """Create a node and its parents."""
    names = path.split("/")[1:]
    for count in range(1, len(names) + 1):
        above = "/" + "/".join(names[:count])
        if above not in keeper.tree.nodes:
            keeper.transact(TOOL, [Create(above, data if above == path else b"")])


def groups(node: WholeBroker) -> dict[str, Any]:
    node.settle(2_000)
    return {group["group"]: group for group in json.loads(b"".join(node.parts.lag.json()))["groups"]}


def test_a_group_of_zookeeper_has_lag_members_and_a_verdict(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    keeper.start()
    node = WholeBroker(tmp_path, keeper, headgate_lag_interval_ms="500")
    node.answer(CreateTopicsRequest(topics=[CreatableTopic("t", 2, 1)], timeout_ms=1_000), 2)
    batch = build([Record(timestamp=node.time.clock.now_ms() - 5_000 + number, value=b"v") for number in range(4)])
    node.answer(produce_request(batch, acks=1), 7)
    put(keeper, "/consumers/old/offsets/t/0", b"1")
    put(keeper, "/consumers/old/offsets/t/1", b"0")
    put(keeper, f"/consumers/old/ids/{MEMBER}", REGISTRATION)
    put(keeper, "/consumers/old/owners/t/0", f"{MEMBER}-0".encode())
    put(keeper, "/consumers/strange/offsets/t/0", b"no number")
    node.parts.lag.start()
    node.settle(4_000)
    old = groups(node)["old"]
    assert (old["type"], old["state"], old["members"], old["lag_records"], old["error"]) == (
        "zookeeper", "Stable", 1, 3, None,
    )  # fmt: skip
    first, second = old["partitions"]
    assert (first["committed_offset"], first["end_offset"], first["owner"]["member_id"]) == (1, 4, MEMBER)
    assert first["lag_ms"] >= 5_000
    assert (second["lag_records"], second["lag_ms"]) == (0, 0)
    assert groups(node)["strange"]["partitions"] == []
    node.settle(6_000)
    assert groups(node)["old"]["verdict"] == "STOP"


def test_groups_are_named_while_zookeeper_is_away(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    keeper.start()
    node = WholeBroker(tmp_path, keeper, headgate_lag_interval_ms="500")
    put(keeper, "/consumers/old/offsets/t/0", b"1")
    node.parts.lag.start()
    node.settle(3_000)
    assert groups(node)["old"]["error"] is None
    keeper.stop()
    node.settle(10_000)
    old = groups(node)["old"]
    assert (old["lag_records"], old["partitions"]) == (None, [])
    assert old["error"]
