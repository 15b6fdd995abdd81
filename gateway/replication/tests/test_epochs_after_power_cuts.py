"""A consumer of the whole broker over a power cut: what tells it that records went, and others have their offsets."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from headgate.gateway.app.broker import Broker
from headgate.gateway.app.composition import Seams
from headgate.gateway.config import BrokerConfig
from headgate.gateway.runtime.scheduler import TrioClock
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler
from headgate.gateway.tests.harness import MemoryBroker, MemoryListener, WireClient
from headgate.gateway.tests.requests import commit_request, produce_request
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from headgate.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headgate.protocol.records.batch import Record, build, iterate, split
from headgate.storage.errors import StorageError
from headgate.storage.log import flushing
from headgate.storage.tests.crashing_files import CrashingFiles

Scenario = Callable[[MemoryBroker], Awaitable[None]]
GROUP = "g"


def run(files: CrashingFiles, scenario: Scenario) -> None:
    """Run `scenario` beside a broker on a disk. The broker is not stopped in order: its power goes afterwards."""

    async def main() -> None:
        config = BrokerConfig.load("", ["log.dirs=/data", "offsets.topic.num.partitions=1"])
        listener = MemoryListener()
        broker = Broker(config, Seams(TrioClock(), files, Random(0), FakeScheduler))
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run, [("PLAINTEXT", listener)])
            await scenario(MemoryBroker(broker, listener))
            disks.append(files.copy(only_durable=True))
            await broker.stop()

    disks: list[CrashingFiles] = []
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    files.root = disks[0].root
    files.locked.clear()


async def create(client: WireClient, **configs: str) -> None:
    rows = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in configs.items()]
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=rows)
    response = await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5)
    assert response.topics[0].error_code == 0


async def produce(client: WireClient, count: int, word: bytes, acks: int = -1) -> None:
    for number in range(count):
        records = build([Record(timestamp=1_700_000_000_000, value=b"%s %d" % (word, number))])
        response = await client.ask(produce_request(records, acks=acks), 9)
        assert response.responses[0].partition_responses[0].error_code == 0


async def fetch(
    client: WireClient,
    offset: int,
    version: int = 12,
    *,
    last_fetched_epoch: int = -1,
    current_leader_epoch: int = -1,
) -> Any:
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    partition.last_fetched_epoch, partition.current_leader_epoch = last_fetched_epoch, current_leader_epoch
    topic = FetchTopic("t", partitions=[partition])
    response = await client.ask(FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=[topic]), version)
    ((row,),) = [topic.partitions for topic in response.responses]
    return row


def values(row: Any) -> list[bytes | None]:
    return [record.value for _, view in split(memoryview(row.records)) for record in iterate(view)]


async def end_of_epoch(client: WireClient, epoch: int, current: int) -> tuple[int, int, int]:
    wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("t", [wanted])])
    ((row,),) = [topic.partitions for topic in (await client.ask(request, 4)).topics]
    return row.error_code, row.leader_epoch, row.end_offset


async def epoch_in_metadata(client: WireClient) -> int:
    response = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
    ((row,),) = [topic.partitions for topic in response.topics]
    assert row.error_code == 0
    epoch = row.leader_epoch
    assert isinstance(epoch, int)
    return epoch


async def commit(client: WireClient, offset: int, epoch: int) -> None:
    request = commit_request(GROUP, {0: offset}, leader_epoch=epoch)
    for _ in range(10):
        if not (await client.ask(request, 8)).topics[0].partitions[0].error_code:
            return
        await trio.sleep(1)
    raise AssertionError("the group is not loaded")


async def committed(client: WireClient) -> tuple[int, int]:
    request = OffsetFetchRequest(GROUP, topics=[OffsetFetchRequestTopic("t", [0])])
    for _ in range(10):
        response = await client.ask(request, 7)
        if not response.error_code:
            row = response.topics[0].partitions[0]
            return row.committed_offset, row.committed_leader_epoch
        await trio.sleep(1)
    raise AssertionError("the group is not loaded")


async def synced(broker: MemoryBroker, topic: str = "t") -> None:
    flushing.flush(broker.broker.services.partitions.get(topic, 0).log)


@pytest.mark.slow
def test_a_consumer_learns_that_its_position_is_in_another_history() -> None:
    files = CrashingFiles()

    async def before(broker: MemoryBroker) -> None:
        client = broker.connect()
        await create(client)
        await produce(client, 80, b"old")
        await synced(broker)
        await produce(client, 20, b"lost")
        read = values(await fetch(client, 0))
        assert (len(read), read[-1]) == (100, b"lost 19")
        assert await epoch_in_metadata(client) == 0
        await commit(client, 100, 0)
        await synced(broker, "__consumer_offsets")

    async def after(broker: MemoryBroker) -> None:
        client = broker.connect()
        assert await committed(client) == (100, 0)
        epoch = await epoch_in_metadata(client)
        assert epoch == 1
        assert await end_of_epoch(client, 0, epoch) == (0, 0, 80), "before anything is written in the new epoch"
        out_of_range = await fetch(client, 100, last_fetched_epoch=-1, current_leader_epoch=epoch)
        assert out_of_range.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        await produce(client, 60, b"new")
        assert await end_of_epoch(client, 0, epoch) == (0, 0, 80)
        row = await fetch(client, 100, last_fetched_epoch=0, current_leader_epoch=epoch)
        assert (row.error_code, row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (0, 0, 80)
        assert not row.records
        row = await fetch(client, 80, last_fetched_epoch=0, current_leader_epoch=epoch)
        assert (row.diverging_epoch.epoch, values(row)) == (-1, [b"new %d" % number for number in range(60)])
        stale = await fetch(client, 100, last_fetched_epoch=0, current_leader_epoch=0)
        assert stale.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (await fetch(client, 100, version=11, current_leader_epoch=0)).error_code == stale.error_code
        assert (await end_of_epoch(client, 0, 0))[0] == stale.error_code
        assert (await fetch(client, 100, version=8)).error_code == 0, "this old a client cannot be told"

    run(files, before)
    run(files, after)


def test_a_position_from_list_offsets_is_told_too() -> None:
    """It has the epoch of the leader, in which nothing was written."""
    files = CrashingFiles()

    async def before(broker: MemoryBroker) -> None:
        client = broker.connect()
        await create(client)
        await produce(client, 80, b"old")
        await synced(broker)

    async def between(broker: MemoryBroker) -> None:
        client = broker.connect()
        wanted = ListOffsetsTopic("t", [ListOffsetsPartition(0, current_leader_epoch=1, timestamp=-1)])
        ((row,),) = [topic.partitions for topic in (await client.ask(ListOffsetsRequest(topics=[wanted]), 4)).topics]
        assert (row.offset, row.leader_epoch) == (80, 1)
        assert await end_of_epoch(client, 1, 1) == (0, 1, 80)

    async def after(broker: MemoryBroker) -> None:
        client = broker.connect()
        assert await end_of_epoch(client, 1, 2) == (0, 0, 80)
        await produce(client, 1, b"new")
        assert await end_of_epoch(client, 1, 2) == (0, 0, 80), "the position is as good as it was"

    for scenario in (before, between, after):
        run(files, scenario)


@pytest.mark.parametrize("acks", [-1, 1])
def test_with_commit_nobody_has_anything_to_notice(acks: int) -> None:
    """Nothing that was acknowledged to acks=all, or shown to a consumer, is lost: no position is beyond its epoch."""
    files = CrashingFiles()
    seen: list[bytes | None] = []

    async def before(broker: MemoryBroker) -> None:
        client = broker.connect()
        await create(client, headgate_flush="commit")
        await produce(client, 100, b"kept", acks)
        seen.extend(values(await fetch(client, 0)))
        assert len(seen) == 100 or acks == 1

    async def after(broker: MemoryBroker) -> None:
        client = broker.connect()
        position = len(seen)
        await produce(client, 5, b"new", acks)
        epoch = await epoch_in_metadata(client)
        assert epoch == 1
        if position:
            code, known, end_offset = await end_of_epoch(client, 0, epoch)
            assert (code, known, end_offset >= position) == (0, 0, True)
        row = await fetch(client, position, last_fetched_epoch=0 if position else -1, current_leader_epoch=epoch)
        assert (row.error_code, row.diverging_epoch.epoch) == (0, -1)
        assert values(await fetch(client, 0))[:position] == seen

    run(files, before)
    run(files, after)


def test_consumers_learn_of_dropped_records_while_the_broker_runs() -> None:
    files = CrashingFiles()
    files.drops_failed = (".log",)

    async def scenario(broker: MemoryBroker) -> None:
        client = broker.connect()
        await create(client)
        await produce(client, 5, b"old")
        await synced(broker)
        await produce(client, 3, b"lost")
        replica = broker.broker.services.partitions.get("t", 0)
        waiting = broker.connect()
        topic = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=8, partition_max_bytes=1 << 20)])
        await waiting.send(FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20, topics=[topic]), 12)
        files.fail(errno.EIO, "sync", path="/t-0/", times=1)
        replica.sync_soon()
        ((row,),) = [topic.partitions for topic in (await waiting.receive()).responses]
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await trio.sleep(5)
        assert await epoch_in_metadata(client) == 1
        assert broker.broker.services.partitions.get("t", 0) is replica
        await produce(client, 6, b"new")
        row = await fetch(client, 8, last_fetched_epoch=0, current_leader_epoch=1)
        assert (row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (0, 5)
        assert values(await fetch(client, 5))[0] == b"new 0"

    run(files, scenario)


def test_a_start_that_was_refused_does_not_pass_for_a_stop_in_order() -> None:
    """It has opened logs that lost records, but clients were not told: the next start has to raise the epochs, too."""
    files = CrashingFiles()

    async def scenario(broker: MemoryBroker) -> None:
        client = broker.connect()
        await create(client)
        await produce(client, 3, b"lost")

    run(files, scenario)
    config = BrokerConfig.load("", ["log.dirs=/data"])
    files.fail(errno.EIO, "write", path="__headgate_metadata-0", times=1)
    with pytest.raises(StorageError, match="cannot be recorded"):
        Broker(config, Seams(random=Random(0), files=files))
    files.heal()
    files.remove("/data/.headgate-reserve")
    files.room = 0
    with pytest.raises(StorageError, match="cannot be recorded"):
        Broker(config, Seams(random=Random(0), files=files))
    files.heal()
    broker = Broker(config, Seams(random=Random(0), files=files))
    assert broker.services.partitions.get("t", 0).leader_epoch == 1
