"""Whole brokers beside each other in one loop, over memory streams; the test is the controller.

Every broker has the image that the test gives: `Cluster.order` sends each state of a partition to all live brokers.
In-sync sets change as in ZooKeeper, by conditional writes.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import trio
import trio.testing

from headgate.gateway.app.broker import Broker
from headgate.gateway.app.composition import Seams
from headgate.gateway.app.metadata_sources import Foundation
from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image, Node, PartitionState
from headgate.gateway.metadata.store import Change, MetadataStore, Prepare
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.scheduler import TrioClock
from headgate.gateway.runtime.tasks import Ask, Tasks
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler
from headgate.gateway.tests.builders import UnsyncedFiles
from headgate.gateway.tests.harness import MemoryListener, WireClient
from headgate.gateway.tests.quiet_source import QuietSource
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import MetadataRecord, PartitionRecord, TopicRecord
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

TOPIC, TOPIC_ID = "t", b"i" * 16
PRODUCE_VERSION, FETCH_VERSION = 9, 15
FAR_MS, STEP_MS = 60_000, 10


class ScriptedMetadata(MetadataStore):
    """The image is what the test says."""

    end_offset = 0

    def _write(self, change: Change) -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "the test is the controller")

    def order(self, *records: MetadataRecord) -> None:
        self._written_by_others(records)

    def set_brokers(self, brokers: Mapping[int, Node]) -> None:
        old, self.image = self.image, self.image._replace(brokers=brokers)
        for listener in self._listeners:
            listener(old, self.image, ())


class ScriptedSource(QuietSource):
    """The metadata of a broker, as the wiring takes them."""

    broker_epoch = 7

    def __init__(self, base: Foundation) -> None:
        super().__init__(Image.empty("c" * 22, 99), base)

    def open(self, prepare: Prepare, tasks: Tasks, _links: object) -> tuple[MetadataStore, bool]:
        return ScriptedMetadata(self.image, self._base.config, self._base.random, prepare, tasks.touch), True


class LiveBroker:
    """One running broker."""

    def __init__(self, broker: Broker, host: str, scope: trio.CancelScope, listener: MemoryListener) -> None:
        self.broker = broker
        self.host = host
        self.scope = scope
        self.listener = listener
        self.ended = trio.Event()

    @property
    def metadata(self) -> ScriptedMetadata:
        metadata = self.broker.services.metadata
        assert isinstance(metadata, ScriptedMetadata)
        return metadata

    def replica(self) -> Replica:
        """The replica of partition 0, in any role."""
        (replica,) = [each for each in self.broker.services.partitions if each.topic == TOPIC]
        return replica


class Cluster:
    """Brokers with the ids 0, 1, ..., and one topic with one partition."""

    def __init__(self, directory: Path, count: int, nursery: trio.Nursery, settings: Mapping[str, str]) -> None:
        self._directory = directory
        self._nursery = nursery
        self._settings = settings
        self._starts = 0
        self.live: dict[int, LiveBroker] = {}
        self.refused: set[str] = set()
        """Hosts that no connection reaches."""
        self.opened: list[str] = []
        """The hosts to which connections were opened."""
        replicas = tuple(range(count))
        self.state = PartitionState(0, 0, replicas, replicas, 0)
        self.configs: list[MetadataRecord] = []

    async def start(self, *node_ids: int) -> None:
        """Start brokers, each at a new address. They have no image before `order`."""
        for node_id in node_ids:
            await self._nursery.start(self._run, node_id)
        self._publish_brokers()

    async def _run(self, node_id: int, task_status: trio.TaskStatus[None]) -> None:
        settings = {"log.dirs": str(self._directory / str(node_id)), "node.id": str(node_id), **self._settings}
        config = BrokerConfig.load("", [f"{name}={value}" for name, value in settings.items()])
        listener = MemoryListener()
        seams = Seams(
            TrioClock(),
            UnsyncedFiles(),
            random=Random(node_id),
            make_scheduler=FakeScheduler,
            metadata=ScriptedSource,
            check_directories=lambda *_: None,
            open_stream=self._open_stream,
        )
        broker = Broker(config, seams)
        self._starts += 1
        with trio.CancelScope() as scope:
            live = self.live[node_id] = LiveBroker(broker, f"{node_id}-{self._starts}", scope, listener)
            broker.parts.partitions.leadership.in_sync_replicas.changes = self
            async with trio.open_nursery() as nursery:
                await nursery.start(broker.run, [("PLAINTEXT", listener)])
                task_status.started()
        live.ended.set()

    async def _open_stream(self, host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        for live in self.live.values():
            if live.host == host and host not in self.refused:
                self.opened.append(host)
                return live.listener.connect()
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")

    async def kill(self, node_id: int) -> None:
        """Kill a broker: it writes nothing more."""
        live = self.live.pop(node_id)
        live.broker.parts.log_manager.abandon()
        live.scope.cancel()
        await live.ended.wait()
        self._publish_brokers()

    def move(self, node_id: int) -> None:
        """Have a broker listen at another address; its old one takes no connection any more."""
        live = self.live[node_id]
        live.host += "-moved"
        self._publish_brokers()

    async def stop(self) -> None:
        while self.live:
            _, live = self.live.popitem()
            await live.broker.stop()

    def _publish_brokers(self) -> None:
        brokers = {number: Node(number, None, {"PLAINTEXT": (live.host, 1)}) for number, live in self.live.items()}
        for live in self.live.values():
            live.metadata.set_brokers(brokers)

    # The controller

    def order(self, *node_ids: int, **changes: Any) -> None:
        """Change the state of the partition, and send it to these brokers; to all without one."""
        if changes:
            epoch = self.state.leader_epoch + ("leader" in changes)
            self.state = self.state._replace(
                leader_epoch=epoch, partition_epoch=self.state.partition_epoch + 1, **changes
            )
        state = self.state
        for node_id in node_ids or tuple(self.live):
            metadata = self.live[node_id].metadata
            records: list[MetadataRecord] = []
            if TOPIC not in metadata.image.topics:
                records = [TopicRecord(name=TOPIC, topic_id=TOPIC_ID), *self.configs]
            partition = PartitionRecord(
                partition_id=0,
                topic_id=TOPIC_ID,
                replicas=list(state.replicas),
                isr=list(state.isr),
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
            )
            metadata.order(*records, partition)

    def alter(self, replica: Replica, isr: tuple[int, ...], partition_epoch: int) -> Ask:
        """For `InSyncReplicas`: a conditional write."""
        return partial(self._alter, replica.leader_epoch, isr, partition_epoch)

    def _alter(
        self, leader_epoch: int, isr: tuple[int, ...], partition_epoch: int, resume: Callable[[Any], None]
    ) -> None:
        if (leader_epoch, partition_epoch) != (self.state.leader_epoch, self.state.partition_epoch):
            resume(KafkaError(ErrorCode.INVALID_UPDATE_VERSION))
            return
        self.state = self.state._replace(isr=isr, partition_epoch=partition_epoch + 1)
        resume(self.state.partition_epoch)

    # Clients

    def client(self, node_id: int) -> WireClient:
        return WireClient(self.live[node_id].listener.connect())

    async def produce(self, node_id: int, batch: bytes | memoryview, acks: int = -1) -> int:
        """Produce to a broker. Returns the error code."""
        request = produce_request(batch, TOPIC, acks=acks)
        response = await self.client(node_id).ask(request, PRODUCE_VERSION)
        code: int = response.responses[0].partition_responses[0].error_code
        return code

    async def fetch(self, node_id: int, offset: int = 0) -> Any:
        """The row of a consumer's fetch."""
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, session_id=0, session_epoch=-1, topics=topics)
        response = await self.client(node_id).ask(request, FETCH_VERSION)
        return response.responses[0].partitions[0]

    # What is there

    def replica(self, node_id: int) -> Replica:
        return self.live[node_id].replica()

    def stored(self, node_id: int) -> bytes:
        """The bytes of the `.log` files of a broker."""
        directory = self._directory / str(node_id) / f"{TOPIC}-0"
        return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))

    def ends(self) -> dict[int, tuple[int, int]]:
        """The high watermark and the log end of each live broker."""
        replicas = {node_id: live.replica() for node_id, live in sorted(self.live.items())}
        return {node_id: (replica.high_watermark, replica.log.end_offset) for node_id, replica in replicas.items()}

    def are_equal(self) -> bool:
        """Whether all live brokers have the same records, all of them committed."""
        ends = set(self.ends().values())
        return len(ends) == 1 and len(set(next(iter(ends)))) == 1

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, for a minute of the mock clock at the most."""
        for _ in range(FAR_MS // STEP_MS):
            if holds():
                return
            await trio.sleep(STEP_MS / 1000)
        raise AssertionError(f"still not: {self.ends()}")


def run_cluster(
    directory: Path, scenario: Callable[[Cluster], Awaitable[None]], count: int = 3, **settings: str
) -> None:
    """Run `scenario` with brokers that have started; the first one leads."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            named = {name.replace("_", "."): value for name, value in settings.items()}
            cluster = Cluster(directory, count, nursery, named)
            await cluster.start(*range(count))
            cluster.order()
            await scenario(cluster)
            await cluster.stop()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
