"""Whole brokers replicate: acknowledged records are on all in-sync replicas, byte for byte, whoever leads or dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.gateway.replication.tests.memory_cluster import PRODUCE_VERSION, TOPIC, Cluster, run_cluster
from headgate.gateway.tests.builders import NOW_MS, records
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.errors import ErrorCode

pytestmark = pytest.mark.slow


def batch(*values: bytes) -> memoryview:
    return records(*values, timestamp=NOW_MS)


def test_followers_have_what_is_acknowledged_byte_for_byte(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        for number in range(20):
            assert await cluster.produce(0, batch(b"%d" % number, b"v" * 100)) == ErrorCode.NONE
        assert {end for _, end in cluster.ends().values()} == {40}
        await cluster.until(cluster.are_equal)
        assert len({cluster.stored(node_id) for node_id in range(3)}) == 1
        assert len(cluster.stored(0)) > 2000
        for node_id in (1, 2):
            assert await cluster.produce(node_id, batch(b"v")) == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await cluster.fetch(node_id)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run_cluster(tmp_path, scenario)


def test_a_killed_follower_catches_up(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.produce(0, batch(b"first")) == ErrorCode.NONE
        await cluster.kill(2)
        assert await cluster.produce(0, batch(b"second")) == ErrorCode.NONE, "once broker 2 has left the set"
        assert cluster.state.isr == (0, 1)
        await cluster.start(2)
        cluster.order(2)
        await cluster.until(lambda: cluster.state.isr == (0, 1, 2))
        await cluster.until(cluster.are_equal)
        assert cluster.stored(2) == cluster.stored(0)

    run_cluster(tmp_path, scenario, replica_lag_time_max_ms="2000")


def test_a_deposed_leader_is_cut_where_histories_part(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.produce(0, batch(b"committed")) == ErrorCode.NONE
        await cluster.until(cluster.are_equal)
        cluster.refused.add(cluster.live[0].host)
        for node_id in (1, 2):
            cluster.live[node_id].broker.parts.fetchers.unfollow(cluster.replica(node_id).key)  # type: ignore[attr-defined]
        assert await cluster.produce(0, batch(b"lost"), acks=1) == ErrorCode.NONE
        cluster.order(1, 2, leader=1, isr=(1, 2))
        assert await cluster.produce(1, batch(b"kept")) == ErrorCode.NONE
        assert b"lost" in cluster.stored(0)
        assert b"lost" not in bytes((await cluster.fetch(0)).records), "a consumer sees what is committed"
        cluster.order(0)
        await cluster.until(cluster.are_equal)
        assert cluster.ends()[0] == (2, 2)
        assert b"kept" in cluster.stored(0)
        assert len({cluster.stored(node_id) for node_id in range(3)}) == 1

    run_cluster(tmp_path, scenario)


def test_a_follower_leads_with_its_high_watermark(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        for _ in range(3):
            assert await cluster.produce(0, batch(b"v")) == ErrorCode.NONE
        await cluster.until(cluster.are_equal)
        await cluster.kill(0)
        cluster.order(1, leader=1, isr=(1, 2))
        assert cluster.replica(1).high_watermark == 3, "before any follower has fetched"
        cluster.order(2)
        assert await cluster.produce(1, batch(b"v")) == ErrorCode.NONE
        await cluster.start(0)
        cluster.order(0)
        await cluster.until(cluster.are_equal)
        assert cluster.ends()[0] == (4, 4)

    run_cluster(tmp_path, scenario)


def test_waiting_producers_hear_of_the_end_of_the_lead(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        for node_id in (1, 2):
            await cluster.kill(node_id)
        client = cluster.client(0)
        await client.send(produce_request(batch(b"v"), TOPIC), PRODUCE_VERSION)
        await cluster.until(lambda: cluster.replica(0).uncommitted == 1)
        cluster.order(0, leader=1)
        response = await client.receive()
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run_cluster(tmp_path, scenario)


def test_a_leader_at_another_address_is_found_in_the_same_epoch(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await cluster.produce(0, batch(b"v")) == ErrorCode.NONE
        cluster.move(0)
        assert await cluster.produce(0, batch(b"v")) == ErrorCode.NONE
        await cluster.until(cluster.are_equal)
        assert cluster.opened == ["0-1", "0-1-moved"]

    run_cluster(tmp_path, scenario, 2)
