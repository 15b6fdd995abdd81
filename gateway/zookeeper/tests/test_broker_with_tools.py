"""A whole broker over the model of ZooKeeper, and tools that write there while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from headgate.gateway.tests.harness import MemoryBroker, run_broker_with_zookeeper
from headgate.gateway.tests.requests import commit_request, produce_request
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.store_world import Tool
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.metadata import MetadataRequest
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from headgate.protocol.records.batch import Record, build

pytestmark = pytest.mark.slow


class Client:
    """A client that asks again as long as the broker tells it to."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.wire = broker.connect()

    async def until(self, ask: Callable[[], Awaitable[int]], wanted: int = 0) -> None:
        for _ in range(200):
            if await ask() == wanted:
                return
            await trio.sleep(0.1)
        raise AssertionError(f"{await ask()} is not {wanted}")

    async def produce(self, topic: str, index: int) -> int:
        batch = build([Record(offset=0, timestamp=0, key=None, value=b"v")])
        response = await self.wire.ask(produce_request(batch, topic, index, acks=1, timeout_ms=1_000), 7)
        code: int = response.responses[0].partition_responses[0].error_code
        return code

    async def leader_epochs(self, topic: str) -> list[int]:
        response = await self.wire.ask(MetadataRequest(topics=None), 7)
        found = [one for one in response.topics if one.name == topic]
        return [one.leader_epoch for one in found[0].partitions if one.leader_id == 0] if found else []

    async def count(self, topic: str) -> int:
        return len(await self.leader_epochs(topic))

    async def coordinator(self) -> int:
        code: int = (await self.wire.ask(FindCoordinatorRequest("g"), 0)).error_code
        return code

    async def commit(self, offset: int) -> int:
        response = await self.wire.ask(commit_request("g", {0: offset}), 2)
        code: int = response.topics[0].partitions[0].error_code
        return code

    async def committed(self) -> int:
        response = await self.wire.ask(OffsetFetchRequest("g", topics=[OffsetFetchRequestTopic("t", [0])]), 1)
        row = response.topics[0].partitions[0]
        return -2 if row.error_code else int(row.committed_offset)


def test_topics_of_tools_are_served(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()
    tool = Tool(keeper)

    async def scenario(broker: MemoryBroker) -> None:
        client = Client(broker)
        tool.write_topic("t", [0])
        await client.until(lambda: client.produce("t", 0))
        tool.write_topic("t", [0], [0])
        await client.until(lambda: client.produce("t", 1))
        tool.write_configs("topics/t", {"segment.bytes": "12345"}, "t")
        await client.until(lambda: _segment_bytes(broker), 12345)
        tool.delete_topic("t")
        await client.until(lambda: client.produce("t", 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        tool.write_topic("t", [0])
        await client.until(lambda: client.produce("t", 0))

    run_broker_with_zookeeper(keeper, tmp_path, scenario, auto_create_topics_enable="false")
    assert "/brokers/topics/t/partitions/0/state" in keeper.tree.nodes


async def _segment_bytes(broker: MemoryBroker) -> int:
    return broker.broker.services.partitions.get("t", 0).log.config.segment_bytes


def test_offsets_of_groups_survive_restarts(tmp_path: Path) -> None:
    """The coordinator loads its partitions once they are led."""
    keeper, offsets = ZooKeeperModel(), list[int]()
    Tool(keeper)

    async def scenario(broker: MemoryBroker) -> None:
        client = Client(broker)
        await client.until(client.coordinator)
        if offsets:
            await client.until(client.committed, offsets[-1])
        else:
            Tool(keeper).write_topic("t", [0])
        await client.until(lambda: client.count("t"), 1)
        offsets.append(len(offsets) + 5)
        await client.until(lambda: client.commit(offsets[-1]))

    for _ in range(3):
        run_broker_with_zookeeper(keeper, tmp_path, scenario, offsets_topic_num_partitions="3")
    assert offsets == [5, 6, 7]


def test_clients_are_served_without_zookeeper(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()

    async def scenario(broker: MemoryBroker) -> None:
        client = Client(broker)
        Tool(keeper).write_topic("t", [0])
        await client.until(lambda: client.produce("t", 0))
        keeper.stop()
        assert await client.produce("t", 0) == 0
        topics = [CreatableTopic("u", num_partitions=1, replication_factor=1)]
        response = await client.wire.ask(CreateTopicsRequest(topics, timeout_ms=60_000), 2)
        assert response.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        response = await client.wire.ask(InitProducerIdRequest(None, transaction_timeout_ms=1_000), 0)
        assert response.error_code in {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        keeper.expire(keeper.sessions[-1].session_id)
        keeper.start()
        await client.until(lambda: _ids(client))
        assert await client.leader_epochs("t") == [0], "nobody else was the controller: epochs stay"
        response = await client.wire.ask(CreateTopicsRequest(topics, timeout_ms=60_000), 2)
        assert response.topics[0].error_code == 0

    run_broker_with_zookeeper(keeper, tmp_path, scenario)
    assert keeper.tree.nodes["/controller_epoch"].data == b"2"


async def _ids(client: Client) -> int:
    response = await client.wire.ask(InitProducerIdRequest(None, transaction_timeout_ms=1_000), 0)
    code: int = response.error_code
    return code


def test_a_topic_node_that_was_removed_costs_no_offset(tmp_path: Path) -> None:
    """The node of the topic is removed by mistake, and written again after a restart; then the topic is deleted."""
    keeper, starts = ZooKeeperModel(), list[int]()
    tool = Tool(keeper)
    saved: dict[str, bytes] = {}

    async def scenario(broker: MemoryBroker) -> None:
        client = Client(broker)
        starts.append(len(starts))
        await client.until(client.coordinator)
        if starts == [0]:
            tool.write_topic("t", [0])
            configs = {"headgate.offsets.store": "dual", "headgate.offsets.source": "zookeeper"}
            tool.write_configs("groups/g", configs)
            await client.until(lambda: client.produce("t", 0))
            await client.until(lambda: client.commit(5))
            await client.until(lambda: _value(keeper), 5)
        if starts == [0, 1]:
            await client.until(client.committed, 5)
            await trio.sleep(5)
            assert keeper.tree.nodes[_OFFSET].data == b"5"
            tool.put("/brokers/topics/t", saved["t"])
        if len(starts) > 1:
            await client.until(lambda: client.produce("t", 0))
            assert broker.broker.services.partitions.get("t", 0).log.end_offset == len(starts)
            await client.until(client.committed, 5)
        if starts == [0, 1, 2]:
            tool.delete_topic("t")
            await client.until(lambda: client.produce("t", 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            tool.write_topic("t", [0])
            await client.until(lambda: client.produce("t", 0))
            await client.until(client.committed, -1)
            assert _OFFSET not in keeper.tree.nodes

    for _ in range(3):
        run_broker_with_zookeeper(keeper, tmp_path, scenario, auto_create_topics_enable="false")
        if starts == [0]:
            saved["t"] = keeper.tree.nodes["/brokers/topics/t"].data or b""
            for path in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
                tool.delete(f"/brokers/topics/t{path}")
    assert not keeper.tree.nodes["/headgate/deleted_topics"].children


_OFFSET = "/consumers/g/offsets/t/0"


async def _value(keeper: ZooKeeperModel) -> int:
    node = keeper.tree.nodes.get(_OFFSET)
    return -1 if node is None else int(node.data or b"-1")
