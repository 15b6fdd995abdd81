"""A disk that takes as long as the test says: who has nothing to do with it is served meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from headgate.gateway.app.broker import Broker
from headgate.gateway.app.composition import Seams
from headgate.gateway.config import BrokerConfig
from headgate.gateway.replication.replica_manager import PREPARE_MS
from headgate.gateway.runtime.clock import SystemClock
from headgate.gateway.runtime.workers import THREADS_PER_DISK
from headgate.gateway.tests.harness import MemoryBroker, MemoryListener, WireClient
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from headgate.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.records.batch import Record, build
from headgate.storage.files import File, Files, parent

LIMIT_S = 20.0
"""Far more than anything here takes, and far less than the disk would."""


class _GatedFile(File):
    __slots__ = ("_files", "_path")

    def __init__(self, files: GatedFiles, path: str, descriptor: int) -> None:
        super().__init__(descriptor)
        self._files = files
        self._path = path

    def sync(self) -> None:
        self._files.pass_gate("sync", self._path)

    def write_at(self, data: memoryview | bytearray | bytes, position: int) -> None:
        self._files.pass_gate("write", self._path)
        super().write_at(data, position)

    def read_at(self, length: int, position: int) -> bytes:
        self._files.pass_gate("read", self._path)
        return super().read_at(length, position)

    def read_cached(self, length: int, position: int) -> bytes | bytearray | None:
        if self._files.is_closed("read", self._path):
            return None
        return super().read_cached(length, position)

    def warm(self, length: int, position: int) -> None:
        self._files.pass_gate("read", self._path)


class GatedFiles(Files):
    """The disk, behind a gate: while that is closed, syncs of some paths, or what else is said, do not end.

    Before it was opened again nothing that is read of them is in memory.
    """

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.path = ""
        self.operations: tuple[str, ...] = ("sync",)
        self.waiting = 0
        self.loop_thread = 0

    def close(self, path: str, *operations: str) -> None:
        self.path, self.operations = path, operations or ("sync",)
        self.gate.clear()

    def open_gate(self) -> None:
        self.gate.set()

    def is_closed(self, operation: str, path: str) -> bool:
        return not self.gate.is_set() and self.path in path and operation in self.operations

    def pass_gate(self, operation: str, path: str) -> None:
        if not self.is_closed(operation, path):
            return
        assert threading.get_ident() != self.loop_thread, f"{operation} of {path} would stop the loop"
        self.waiting += 1
        self.gate.wait(LIMIT_S)
        self.waiting -= 1

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return _GatedFile(self, path, os.open(path, flags, 0o644))

    def read(self, path: str) -> bytes:
        self.pass_gate("read", path)
        return super().read(path)

    def write(self, path: str, data: bytes | bytearray, *, sync: bool = False) -> None:
        self.pass_gate("write", path)
        super().write(path, data)

    def append(self, path: str, data: bytes | bytearray) -> None:
        self.pass_gate("write", path)
        super().append(path, data)

    def make_directories(self, path: str) -> None:
        self.pass_gate("make", path)
        super().make_directories(path)

    def rename(self, old: str, new: str) -> None:
        self.pass_gate("rename", old)
        super().rename(old, new)

    def sync(self, path: str) -> None:
        self.pass_gate("sync", path)

    async def until_waiting(self) -> None:
        while not self.waiting:  # noqa: ASYNC110  a thread waits, which has no trio to tell of it
            await trio.sleep(0.001)


Scenario = Callable[[MemoryBroker, GatedFiles], Awaitable[None]]


def run(directory: Path, scenario: Scenario, **settings: str) -> None:
    async def main() -> None:
        overrides = {"log.dirs": str(directory), "offsets.topic.num.partitions": "2"}
        overrides |= {name.replace("_", "."): value for name, value in settings.items()}
        files, listener = GatedFiles(), MemoryListener()
        broker = Broker(BrokerConfig.load("", overrides), Seams(files=files, random=Random(0)))
        with trio.fail_after(LIMIT_S):
            async with trio.open_nursery() as nursery:
                await nursery.start(broker.run, [("PLAINTEXT", listener)])
                files.loop_thread = threading.get_ident()
                try:
                    await scenario(MemoryBroker(broker, listener), files)
                finally:
                    files.open_gate()
                await broker.stop()

    trio.run(main)


def creation(name: str, partitions: int = 1, **configs: str) -> CreateTopicsRequest:
    rows = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1, configs=rows)
    return CreateTopicsRequest(topics=[topic], timeout_ms=60_000)


def produced(name: str, *values: bytes, acks: int = -1, later_ms: int = 0, keyed: int = 0) -> ProduceRequest:
    now_ms, key = SystemClock().now_ms() + later_ms, b"k" if keyed else None
    data = build([Record(timestamp=now_ms, key=key, value=value) for value in values])
    return produce_request(data, name, acks=acks, timeout_ms=60_000)


async def append(client: WireClient, name: str, *values: bytes, **options: int) -> tuple[int, int]:
    response = await client.ask(produced(name, *values, **options), 9)
    (row,) = response.responses[0].partition_responses
    return row.error_code, row.base_offset


async def fetched(client: WireClient, name: str) -> Any:
    topic = FetchTopic(name, partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)])
    response = await client.ask(FetchRequest(max_wait_ms=0, topics=[topic]), 11)
    (row,) = response.responses[0].partitions
    return row


def long_poll(name: str) -> FetchRequest:
    topic = FetchTopic(name, partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)])
    return FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[topic])


async def described(client: WireClient, *names: str) -> dict[str, int]:
    topics = [MetadataRequestTopic(name=name) for name in names]
    response = await client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.slow
def test_a_sync_that_takes_long_holds_up_only_who_waits_for_it(tmp_path: Path) -> None:
    async def scenario(broker: MemoryBroker, files: GatedFiles) -> None:
        waits, polls, others = (broker.connect() for _ in range(3))
        for name, flush in (("slow", "commit"), ("other", "commit"), ("plain", "cache")):
            response = await others.ask(creation(name, headgate_flush=flush), 5)
            assert response.topics[0].error_code == 0
        files.close("/slow-0/")
        await polls.send(long_poll("slow"), 11)
        await waits.send(produced("slow", b"a"), 9)
        await files.until_waiting()
        for number in range(3):
            assert await append(others, "plain", b"b") == (0, number)
            assert await append(others, "other", b"b") == (0, number), "a sync of its own"
            assert await append(others, "slow", b"b", acks=1) == (0, 1 + number)
            assert (await fetched(others, "slow")).high_watermark == 0
            assert (await fetched(others, "plain")).high_watermark == number + 1
            assert await described(others, "slow", "plain") == {"slow": 0, "plain": 0}
        files.open_gate()
        response = await waits.receive()
        assert response.responses[0].partition_responses[0].error_code == 0
        polled: Any = await polls.receive()
        assert polled.responses[0].partitions[0].high_watermark == 1, "it was woken by the sync"
        while (await fetched(others, "slow")).high_watermark < 4:  # noqa: ASYNC110  the last sync is asked for by nobody
            await trio.sleep(0.001)

    run(tmp_path, scenario)


def test_metadata_are_written_in_a_thread_and_seen_when_durable(tmp_path: Path) -> None:
    async def scenario(broker: MemoryBroker, files: GatedFiles) -> None:
        clients = [broker.connect() for _ in range(6)]
        others = broker.connect()
        await others.ask(creation("there"), 5)
        files.close("__headgate_metadata")
        await clients[0].send(creation("new"), 5)
        await files.until_waiting()
        await clients[1].send(MetadataRequest(topics=[MetadataRequestTopic(name="auto")]), 9)
        config = AlterableConfig(name="retention.ms", value="5")
        resource = AlterConfigsResource(resource_type=2, resource_name="there", configs=[config])
        await clients[2].send(AlterConfigsRequest(resources=[resource]), 1)
        await clients[3].send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4)
        await clients[4].send(FindCoordinatorRequest(key="g", key_type=0), 3)
        await clients[5].send(MetadataRequest(topics=[MetadataRequestTopic(name="auto")]), 9)
        assert await described(others, "there", "new", "auto") == {"there": 0, "new": 3, "auto": 3}
        assert await append(others, "there", b"a") == (0, 0)
        metadata = broker.broker.services.metadata
        assert metadata.planned is not metadata.image
        files.open_gate()
        answers: list[Any] = [await client.receive() for client in clients]
        assert (answers[0].topics[0].name, answers[0].topics[0].error_code) == ("new", 0)
        for answer in (answers[1], answers[5]):
            ((topic,),) = [answer.topics]
            assert (topic.name, topic.error_code, topic.partitions[0].leader_id) == ("auto", 0, 0)
        assert answers[2].responses[0].error_code == 0
        assert (answers[3].error_code, answers[3].producer_id) == (0, 0)
        assert (answers[4].error_code, answers[4].node_id) == (0, 0)
        assert await described(others, "new", "auto") == {"new": 0, "auto": 0}
        assert broker.broker.services.metadata.image.topics["there"].configs == {"retention.ms": "5"}

    run(tmp_path, scenario)


def test_changes_planned_on_one_not_yet_durable_are_refused_with_it(tmp_path: Path) -> None:
    async def scenario(broker: MemoryBroker, files: GatedFiles) -> None:
        first, second, third = (broker.connect() for _ in range(3))
        await first.ask(creation("the_first_change_makes_files"), 5)
        files.close("__headgate_metadata", "write")
        await first.send(creation("a"), 5)
        await files.until_waiting()
        await second.send(creation("a.b"), 5)
        while "a.b" not in broker.broker.services.metadata.planned.topics:  # noqa: ASYNC110  clients are not in order
            await trio.sleep(0.001)
        clash = await third.ask(creation("a_b"), 5)
        assert clash.topics[0].error_code == 17, "it collides with what is planned"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(File, "write_at", _full)
            files.open_gate()
            answers: list[Any] = [await client.receive() for client in (first, second)]
        assert [answer.topics[0].error_code for answer in answers] == [56, 56]
        assert await described(third, "a", "a.b") == {"a": 3, "a.b": 3}
        answer = await third.ask(creation("a_b"), 5)
        assert answer.topics[0].error_code == 0

    run(tmp_path, scenario)


def _full(file: File, data: bytes, position: int) -> None:
    raise OSError(28, "No space left on device")


def test_a_segment_begins_in_a_thread_while_the_disk_is_slow(tmp_path: Path) -> None:
    async def scenario(broker: MemoryBroker, files: GatedFiles) -> None:
        waits, others = broker.connect(), broker.connect()
        await others.ask(creation("slow", segment_bytes="300"), 5)
        await others.ask(creation("plain"), 5)
        assert await append(others, "slow", bytes(100)) == (0, 0)
        assert await append(others, "plain", b"a") == (0, 0)
        replica = broker.broker.services.partitions.get("slow", 0)
        replica.disk.is_slow = True
        files.close("/slow-0/", "write", "sync")
        for number in range(1, 4):
            await waits.send(produced("slow", bytes(100)), 9)
            await files.until_waiting()
            assert await append(others, "plain", b"b") == (0, number)
            assert await described(others, "slow", "plain") == {"slow": 0, "plain": 0}
            assert (await fetched(others, "slow")).high_watermark == number
            files.open_gate()
            response = await waits.receive()
            assert response.responses[0].partition_responses[0].error_code == 0
            files.close("/slow-0/", "write", "sync")
        assert len(replica.log.segments) > 1
        files.open_gate()

    run(tmp_path, scenario)


def test_a_first_append_does_not_wait_for_the_leader_epoch_file(tmp_path: Path) -> None:
    async def scenario(broker: MemoryBroker, files: GatedFiles) -> None:
        client = broker.connect()
        await client.ask(creation("new", headgate_flush="commit"), 5)
        await client.ask(creation("plain"), 5)
        files.close("leader-epoch-checkpoint", "write")
        for number in range(3):
            assert await append(client, "plain", b"a") == (0, number)
        await files.until_waiting()
        assert await append(client, "plain", b"a") == (0, 3)
        files.open_gate()
        assert await append(client, "new", b"a") == (0, 0)

    run(tmp_path, scenario)


def test_partitions_come_and_go_beside_everybody_else(tmp_path: Path) -> None:
    """Nobody sees one before its files are there; what is made anew waits for the end of the old one."""

    async def scenario(broker: MemoryBroker, files: GatedFiles) -> None:
        waits, others = broker.connect(), broker.connect()
        await others.ask(creation("there"), 5)
        files.close("/new-", "make", "write", "rename")
        await waits.send(creation("new", 3), 5)
        await files.until_waiting()
        assert await described(others, "there", "new") == {"there": 0, "new": 3}
        assert await append(others, "there", b"a") == (0, 0)
        files.open_gate()
        response: Any = await waits.receive()
        assert response.topics[0].error_code == 0
        assert await append(waits, "new", b"a") == (0, 0)
        files.close("/new-", "rename")
        response = await waits.ask(DeleteTopicsRequest(topic_names=["new"], timeout_ms=60_000), 5)
        assert response.responses[0].error_code == 0
        await files.until_waiting()
        assert await described(others, "there", "new") == {"there": 0, "new": 3}
        await waits.send(creation("new"), 5)
        assert await append(others, "there", b"a") == (0, 1)
        files.open_gate()
        response = await waits.receive()
        assert response.topics[0].error_code == 0
        assert await append(waits, "new", b"a") == (0, 0), "it is another one"

    run(tmp_path, scenario)


def test_topics_of_one_directory_do_not_wait_for_another(tmp_path: Path) -> None:
    """A topic of the same name too, whose old partition is not renamed yet."""

    async def scenario(broker: MemoryBroker, files: GatedFiles) -> None:
        client, partitions = broker.connect(), broker.broker.services.partitions
        await client.ask(creation("old"), 5)
        hung = parent(partitions.get("old", 0).log.directory)
        files.close(f"{hung}/", "make", "rename")
        await client.ask(DeleteTopicsRequest(topic_names=["old"], timeout_ms=60_000), 5)
        await files.until_waiting()
        partitions.directories[hung].set_full(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "there is no room"))
        for name in ("old", "new"):
            with trio.fail_after(PREPARE_MS / 2_000):
                response: Any = await client.ask(creation(name), 5)
            assert response.topics[0].error_code == 0
            assert await append(client, name, b"a") == (0, 0)
        assert files.exists(f"{hung}/old-0")

    run(tmp_path, scenario, log_dirs=f"{tmp_path}/a,{tmp_path}/b")


def test_disks_that_hang_leave_threads_to_another_one(tmp_path: Path) -> None:
    async def scenario(broker: MemoryBroker, files: GatedFiles) -> None:
        client = broker.connect()
        files.close("/hung/")
        for _ in range(2 * THREADS_PER_DISK):
            broker.broker.services.scheduler.in_thread(lambda: files.pass_gate("sync", "/hung/"), lambda _: None)
        with trio.fail_after(PREPARE_MS / 2_000):
            response: Any = await client.ask(creation("t"), 5)
        assert response.topics[0].error_code == 0

    run(tmp_path, scenario, log_dirs=f"{tmp_path}/a,{tmp_path}/b,{tmp_path}/c")


def test_the_first_to_ask_for_a_coordinator_waits_for_files_alone(tmp_path: Path) -> None:
    async def scenario(broker: MemoryBroker, files: GatedFiles) -> None:
        waits, others = broker.connect(), broker.connect()
        await others.ask(creation("there"), 5)
        files.close("/__consumer_offsets-1", "make")
        await waits.send(FindCoordinatorRequest(key="g", key_type=0), 3)
        await files.until_waiting()
        assert await append(others, "there", b"a") == (0, 0)
        files.open_gate()
        response: Any = await waits.receive()
        assert (response.error_code, response.node_id) == (0, 0)

    run(tmp_path, scenario)


async def eight(broker: MemoryBroker, files: GatedFiles) -> None:
    """Leave records of some seconds in three segments."""
    client = broker.connect()
    await client.ask(creation("plain"), 5)
    await client.ask(creation("there", segment_bytes="400", index_interval_bytes="0"), 5)
    for number in range(8):
        assert await append(client, "there", bytes(50), later_ms=1_000 * number) == (0, number)
    log = broker.broker.services.partitions.get("there", 0).log
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]


@pytest.mark.parametrize(
    "name,timestamp",
    [(".timeindex", 5), (".index", 5), (".timeindex", -3)],
    ids=["first from a time", "where that is", "newest"],
)
def test_who_seeks_a_time_waits_for_the_indexes_alone(tmp_path: Path, name: str, timestamp: int) -> None:
    """As after a start: then nothing is known yet of what is in the segments."""

    async def scenario(broker: MemoryBroker, files: GatedFiles) -> None:
        waits, others = broker.connect(), broker.connect()
        topics = [ListOffsetsTopic("there", partitions=[ListOffsetsPartition(0, timestamp=timestamp)])]
        files.close(name, "read")
        await waits.send(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
        await files.until_waiting()
        for number in range(3):
            assert await append(others, "plain", b"a") == (0, number)
        files.open_gate()
        response: Any = await waits.receive()
        (row,) = response.topics[0].partitions
        assert (row.error_code, row.offset) == (0, 0 if timestamp == 5 else 7)

    run(tmp_path, eight)
    run(tmp_path, scenario)


@pytest.mark.parametrize("name", [".timeindex", ".log"])
def test_the_first_append_since_a_start_waits_alone_for_the_disk(tmp_path: Path, name: str) -> None:
    async def scenario(broker: MemoryBroker, files: GatedFiles) -> None:
        waits, others = broker.connect(), broker.connect()
        replica = broker.broker.services.partitions.get("there", 0)
        files.close(f"00000000000000000006{name}", "read")
        await waits.send(produced("there", b"a", later_ms=9_000), 9)
        await files.until_waiting()
        for number in range(3):
            assert await append(others, "plain", b"a") == (0, number)
        files.open_gate()
        response: Any = await waits.receive()
        (row,) = response.responses[0].partition_responses
        assert (row.error_code, row.base_offset) == (0, 8)
        assert await append(others, "there", b"b", later_ms=10_000) == (0, 9)
        assert replica.writer() is None, "it is written inline from now on"

    run(tmp_path, eight)
    run(tmp_path, scenario)


def test_old_segments_are_renamed_beside_everybody_else(tmp_path: Path) -> None:
    async def scenario(broker: MemoryBroker, files: GatedFiles) -> None:
        client, there = broker.connect(), tmp_path / "old-0"
        await client.ask(creation("plain"), 5)
        await client.ask(creation("old", segment_bytes="300", retention_bytes="0"), 5)
        files.close("/old-0/", "rename")
        for number in range(3):
            assert await append(client, "old", bytes(200)) == (0, number)
        await files.until_waiting()
        start = broker.broker.services.partitions.get("old", 0).log.start_offset
        assert start > 0
        assert (there / f"{0:020d}.log").exists()
        for number in range(3):
            assert await append(client, "plain", b"a") == (0, number)
        assert (await fetched(client, "old")).error_code == 1, "it begins behind them"
        files.open_gate()
        while list(there.glob("*.log")) != [there / f"{3:020d}.log"]:  # noqa: ASYNC110  nobody tells of it
            await trio.sleep(0.001)
        assert await append(client, "old", b"a") == (0, 3)

    run(tmp_path, scenario, log_retention_check_interval_ms="20")


@pytest.mark.slow
@pytest.mark.parametrize("name", [".log.cleaned", f"{1:020d}.log", ".log.swap"], ids=["winner", "replaced", "settled"])
def test_compaction_renames_beside_everybody_else(tmp_path: Path, name: str) -> None:
    async def scenario(broker: MemoryBroker, files: GatedFiles) -> None:
        client, there = broker.connect(), tmp_path / "latest-0"
        await client.ask(creation("plain"), 5)
        ratio = "0.01"
        topic = creation("latest", cleanup_policy="compact", segment_bytes="400", min_cleanable_dirty_ratio=ratio)
        await client.ask(topic, 5)
        files.close(name, "rename")
        for number in range(6):
            assert await append(client, "latest", bytes(200), keyed=1) == (0, number)
        await files.until_waiting()
        for number in range(3):
            assert await append(client, "plain", b"a") == (0, number)
            assert (await fetched(client, "latest")).error_code == 0
        files.open_gate()
        while list(there.glob("*.swap")) or not list(there.glob("*.deleted")):  # noqa: ASYNC110  nobody tells of it
            await trio.sleep(0.001)
        assert (await fetched(client, "latest")).error_code == 0

    run(tmp_path, scenario, log_cleaner_backoff_ms="20")


@pytest.mark.slow
def test_a_stop_during_a_write_before_a_new_segment(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing more is begun, and the store is left cleanly."""

    async def scenario(broker: MemoryBroker, files: GatedFiles) -> None:
        client, first, second = (broker.connect() for _ in range(3))
        await client.ask(creation("slow", segment_bytes="260"), 5)
        assert await append(client, "slow", bytes(50)) == (0, 0)
        replica = broker.broker.services.partitions.get("slow", 0)
        replica.disk.is_slow = True
        files.close("/slow-0/", "write")
        await first.send(produced("slow", bytes(20)), 9)
        await files.until_waiting()
        await second.send(produced("slow", bytes(100)), 9)
        while not replica.disk.waiting_bytes:  # noqa: ASYNC110  nobody tells of it
            await trio.sleep(0.001)

        async def open_once_it_stops() -> None:
            while not broker.broker.services.scheduler.is_over:  # noqa: ASYNC110  nor of that
                await trio.sleep(0.001)
            files.open_gate()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_once_it_stops)
            await broker.broker.stop()

    run(tmp_path, scenario)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert Files().exists(f"{tmp_path}/.kafka_cleanshutdown")
