"""OffsetCommit and OffsetFetch of all versions, with a whole broker over the model of ZooKeeper."""

from pathlib import Path
from typing import Any

import pytest
import trio

from headgate.gateway.config.resource_type import ResourceType
from headgate.gateway.tests.harness import MemoryBroker, WireClient, run_broker, run_broker_with_zookeeper
from headgate.gateway.tests.requests import commit_request
from headgate.gateway.zookeeper.session import ANY_VERSION, SetData
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headgate.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
)
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

NODE = "/consumers/g/offsets/t/0"
SET, DELETE = 0, 1


async def created(client: WireClient) -> None:
    topic = CreatableTopic("t", 3, 1)
    response = await client.ask(CreateTopicsRequest([topic], 30_000), 5)
    assert response.topics[0].error_code == ErrorCode.NONE


async def configured(client: WireClient, **configs: str | None) -> Any:
    rows = [
        AlterableConfig(f"headgate.offsets.{name}", DELETE if value is None else SET, value)
        for name, value in configs.items()
    ]
    resource = AlterConfigsResource(ResourceType.GROUP, "g", rows)
    response = await client.ask(IncrementalAlterConfigsRequest([resource]), 1)
    return response.responses[0]


async def committed(client: WireClient, version: int, *offsets: int) -> list[int]:
    request = commit_request("g", dict(enumerate(offsets)))
    while True:
        response = await client.ask(request, version)
        codes = [row.error_code for row in response.topics[0].partitions]
        if not {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS} & set(codes):
            return codes
        await trio.sleep(0.1)


async def fetched(client: WireClient, version: int, *indexes: int) -> list[tuple[int, int]]:
    if version < 8:
        response = await client.ask(OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", list(indexes))]), version)
        rows = response.topics[0].partitions
    else:
        topic = OffsetFetchRequestTopics("t", partition_indexes=list(indexes))
        others = OffsetFetchRequestGroup("other", topics=[topic])
        request = OffsetFetchRequest(groups=[others, OffsetFetchRequestGroup("g", topics=[topic])])
        response = await client.ask(request, version)
        rows = response.groups[1].topics[0].partitions
    return [(row.committed_offset, row.error_code) for row in rows]


def test_version_zero_needs_zookeeper(tmp_path: Path) -> None:
    async def scenario(broker: MemoryBroker) -> None:
        response = await broker.connect().ask(ApiVersionsRequest(), 0)
        served = {row.api_key: row.min_version for row in response.api_keys}
        assert served[OffsetCommitRequest.api_key] == served[OffsetFetchRequest.api_key] == 1
        refused = await configured(broker.connect(), store="kafka")
        assert refused.error_code == ErrorCode.INVALID_CONFIG
        assert "zookeeper.connect" in refused.error_message

    run_broker(tmp_path, scenario)


@pytest.mark.slow
def test_a_group_goes_through_all_stores(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()

    async def scenario(broker: MemoryBroker) -> None:
        client = broker.connect()
        response = await client.ask(ApiVersionsRequest(), 0)
        served = {row.api_key: row.min_version for row in response.api_keys}
        assert served[OffsetCommitRequest.api_key] == served[OffsetFetchRequest.api_key] == 0
        await created(client)
        assert await committed(client, 0, 41, 42) == [0, 0]
        assert keeper.tree.nodes[NODE].data == b"41"
        assert await committed(client, 2, 10) == [0]
        assert await fetched(client, 0, 0, 1, 2) == [(41, 0), (42, 0), (-1, 3)]
        assert await fetched(client, 8, 0, 1) == [(10, 0), (-1, 0)]

        refused = await configured(client, store="dual")
        assert refused.error_code == ErrorCode.INVALID_CONFIG
        assert "headgate.offsets.source" in refused.error_message
        changed = await configured(client, store="dual", source="zookeeper")
        assert changed.error_code == ErrorCode.NONE
        assert await fetched(client, 8, 0, 1) == [(41, 0), (42, 0)]
        assert await committed(client, 9, 50, 51) == [0, 0]
        assert keeper.tree.nodes[NODE].data == b"50"
        keeper.transact(0, [SetData(NODE, b"7", ANY_VERSION)])
        for version in (0, 1, 5, 7, 8):
            assert await fetched(client, version, 0) == [(7, 0)]

        changed = await configured(client, store="kafka")
        assert changed.error_code == ErrorCode.NONE
        assert await committed(client, 0, 60) == [0]
        assert await fetched(client, 0, 0, 1, 2) == [(60, 0), (51, 0), (-1, 3)]
        assert keeper.tree.nodes[NODE].data == b"7"
        entries = await described(client)
        assert entries == {"headgate.offsets.store": "kafka", "headgate.offsets.source": "zookeeper"}
        refused = await configured(client, store="dual")
        assert refused.error_code == ErrorCode.INVALID_CONFIG, "the side that leads is a question of the moment"

    run_broker_with_zookeeper(keeper, tmp_path, scenario)


async def described(client: WireClient) -> dict[str, str]:
    names = ["headgate.offsets.store", "headgate.offsets.source"]
    resource = DescribeConfigsResource(ResourceType.GROUP, "g", names)
    response = await client.ask(DescribeConfigsRequest([resource]), 4)
    return {row.name: row.value for row in response.results[0].configs}


@pytest.mark.slow
def test_the_store_of_a_group_survives_a_restart(tmp_path: Path) -> None:
    keeper = ZooKeeperModel()

    async def first(broker: MemoryBroker) -> None:
        client = broker.connect()
        await created(client)
        assert await committed(client, 2, 10) == [0]
        await configured(client, store="dual", source="kafka")
        assert await committed(client, 2, 11) == [0]

    async def second(broker: MemoryBroker) -> None:
        client = broker.connect()
        assert await committed(client, 2, 60, 61) == [0, 0]
        assert keeper.tree.nodes[NODE].data == b"60"

    run_broker_with_zookeeper(keeper, tmp_path, first)
    assert keeper.tree.nodes[NODE].data == b"11"
    keeper.transact(0, [SetData(NODE, b"55", ANY_VERSION)])
    run_broker_with_zookeeper(keeper, tmp_path, second)
