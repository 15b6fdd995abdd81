"""A broker's services without a loop and without a network, and requests put to its handlers."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from headgate.gateway.api.context import Client, HandlerContext, Services
from headgate.gateway.api.conversion import Conversions
from headgate.gateway.api.fetch_sessions import FetchSessions
from headgate.gateway.api.handlers import Outcome, load
from headgate.gateway.config import BrokerConfig
from headgate.gateway.coordinator.groups.group_coordinator import GroupCoordinator
from headgate.gateway.coordinator.loader import CoordinatorServices
from headgate.gateway.coordinator.producer_ids import ProducerIds
from headgate.gateway.maintenance.broker_maintenance import BrokerMaintenance
from headgate.gateway.metadata.embedded import EmbeddedMetadata
from headgate.gateway.metadata.image import Node as Broker
from headgate.gateway.metadata.image import Topic
from headgate.gateway.metadata.new_topics import METADATA_TOPIC
from headgate.gateway.metadata.registration import register
from headgate.gateway.metadata.snapshot import load as load_metadata
from headgate.gateway.metadata.store import MetadataStore
from headgate.gateway.replication.append_queue import DiskMonitor
from headgate.gateway.replication.leader_epoch_bumps import LeaderEpochBumps
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.replication.write_batcher import WriteBatcher
from headgate.gateway.runtime.purgatory import Purgatory, Waiting
from headgate.gateway.runtime.time_slices import TimeSlices
from headgate.gateway.tests.manual import ManualTime
from headgate.gateway.tests.shared_metadata import Cluster, SharedMetadata
from headgate.protocol.compiler import read, write
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.schema import Message
from headgate.protocol.steps import finish, is_steps
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.disk.reserve import Reserve
from headgate.storage.files import File, Files, parent


class _UnsyncedFile(File):
    __slots__ = ()

    def sync(self) -> None:
        pass


class UnsyncedFiles(Files):
    """The disk, without waiting for it: for tests in which nothing crashes."""

    def open(self, path: str, *, create: bool = False) -> File:
        return _UnsyncedFile(os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644))

    def write(self, path: str, data: bytes | bytearray, *, sync: bool = False) -> None:
        super().write(path, data)

    def sync(self, path: str) -> None:
        pass


class Node:
    """The services of one broker over a directory, with time that stands still, and one client.

    Settings are Kafka's names with underscores: `Node(path, num_partitions="3")`.
    """

    clusters: ClassVar[dict[Path, Cluster] | None] = None
    """The clusters of which nodes are brokers, by their directories; None where each has a metadata log of its own."""
    cluster: Cluster | None = None

    def __init__(self, directory: Path, **settings: str) -> None:
        overrides = {name.replace("_", "."): value for name, value in settings.items()}
        few = {"offsets.topic.num.partitions": "4"}  # each costs files, and tests make many brokers
        self.config = BrokerConfig.load("", {"log.dirs": str(directory), **few, **overrides})
        self.time = ManualTime()
        self.random = Random(0)
        self.client = Client("192.0.2.9", 50_000, "192.0.2.1", 9092)
        if self.clusters is not None:
            self.cluster = self.clusters.setdefault(directory, Cluster())
        self._store = self._open_store()
        self.services = self._build()

    def disk(self) -> Files:
        """Where it keeps its files; a subclass may have another one."""
        return UnsyncedFiles()

    def _open_store(self) -> LogManager:
        stores = LogManager.take(
            self.config.log_directories,
            files=self.disk(),
            node_id=self.config.node_id,
            config=self.config.log_config({}),
            random=self.random,
        )
        now_ms = self.time.clock.now_ms()
        log = stores.open_now((METADATA_TOPIC, 0), self.config.log_config({}), now_ms)
        if log is not None:
            loaded = load_metadata(log)
            self.config.change(*loaded.image.broker_configs(self.config.node_id))
            stores.removed |= loaded.removed
            stores.remove_strays(loaded.image.has_partition)
            stores.resolve_duplicates(loaded.image.topic_id_of)
        for store in stores:
            store.open_all(now_ms)
        return stores

    def _build(self) -> Services:
        clock, scheduler = self.time.clock, self.time.scheduler
        scheduler.in_thread = at_once  # type: ignore[method-assign]
        purgatory = Purgatory(clock, scheduler)
        partitions = ReplicaManager(self._store, self.config, purgatory, partial(DiskMonitor, clock, scheduler))
        metadata, are_raised = self._open_metadata(partitions, purgatory)
        partitions.start(metadata.image, epochs_are_raised=are_raised)
        bumps = LeaderEpochBumps(metadata, partitions, scheduler)
        appends = WriteBatcher()
        scheduler.settle = appends.commit
        slices = TimeSlices(clock, scheduler)
        shared = CoordinatorServices(clock, scheduler, purgatory, appends, slices)
        groups = GroupCoordinator(self.config, self.random, shared, metadata, partitions)
        partitions.events.epoch_needed.append(bumps.soon)
        partitions.events.online.append(groups.came_online)
        partitions.events.truncated.append(groups.log_was_truncated)
        metadata.on_change(partitions.follow)
        metadata.on_change(groups.follow)
        groups.start()
        return Services(
            config=self.config,
            clock=clock,
            random=self.random,
            scheduler=scheduler,
            purgatory=purgatory,
            metadata=metadata,
            partitions=partitions,
            fetch_sessions=FetchSessions(
                self.config.max_incremental_fetch_session_cache_slots,
                self.random,
                touch=purgatory.touch,
                run_in_slices=TimeSlices(clock, scheduler).add,
            ),
            producer_ids=ProducerIds(metadata),
            groups=groups,
            slices=slices,
            conversions=Conversions(scheduler),
            appends=appends,
        )

    def _open_metadata(self, partitions: ReplicaManager, purgatory: Purgatory) -> tuple[MetadataStore, bool]:
        """The metadata, and whether this start has raised all leader epochs."""
        prepare, touch = partitions.prepare, purgatory.touch
        if self.cluster is not None:
            return SharedMetadata(self.cluster, self.config, self.random, prepare, touch), False
        metadata = EmbeddedMetadata(
            self._store, self.config, self.time.clock, self.random, prepare=prepare, touch=touch
        )
        reserve = Reserve(self._store.files, parent(metadata.directory))
        return metadata, register(metadata, self.config, Random(1), reserve, was_clean=self._store.was_clean)

    def context(self, version: int) -> HandlerContext:
        """What a handler of a request of `version` gets."""
        return HandlerContext(self.services, self.client, version, "test")

    def handle(self, request: Message, version: int) -> Outcome:
        """What the registered handler returns, or the error response of the KafkaError that it raises."""
        served = load()[request.api_key].find(version)
        assert served is not None
        if self.cluster is not None:
            self.cluster.change_something()
        try:
            outcome: Any = served.handler(request, self.context(version))
            while is_steps(outcome):
                outcome = finish(outcome)
        except KafkaError as error:
            return request.error_response(version, error.code, error.message)
        finally:
            self.services.appends.commit()
        assert not hasattr(outcome, "__await__")
        assert outcome is None or isinstance(outcome, Message | Waiting)
        return outcome

    def ask(self, request: Message, version: int) -> Any:
        """The response as a client reads it: both messages go over the wire of `version`."""
        response = self.handle(over_the_wire(request, version), version)
        assert isinstance(response, Message)
        return over_the_wire(response, version)

    def restart(self) -> None:
        """Stop, and start again on the same directory."""
        self._store.close()
        self._store = self._open_store()
        self.services = self._build()
        self.time.advance()  # groups are loaded

    def close(self) -> None:
        """Let go of the directory."""
        self._store.close()


def at_once(work: Callable[[], Any], done: Callable[[Any], None]) -> None:
    """What a thread would do, without one."""
    try:
        result = work()
    except Exception as error:  # noqa: BLE001  as the scheduler hands it on
        done(error)
    else:
        done(result)


def refusal(node: Node, request: Message, version: int) -> ErrorCode:
    """The code of the KafkaError that a handler raises for a request as a whole."""
    served = load()[request.api_key].find(version)
    assert served is not None
    try:
        outcome = served.handler(request, node.context(version))
        if is_steps(outcome):
            finish(outcome)
    except KafkaError as error:
        return error.code
    raise AssertionError(f"{type(request).__name__} was not refused")


def over_the_wire(message: Message, version: int) -> Any:
    """A message as the other side reads it."""
    out = bytearray()
    write(message, version, out, [])
    received, end = read(type(message), version, out)
    assert end == len(out)
    return received


def led_elsewhere(node: Node, leader: int, *names: str) -> None:
    """Topics whose partition 0 is led by another node of the cluster, in epoch 7."""
    metadata = node.services.metadata
    for name in names:
        if name not in metadata.image.topics:
            metadata.create_topic(name, 1)
    old = metadata.image
    topics = {name: led_by(topic, leader) if name in names else topic for name, topic in old.topics.items()}
    others = {5: Broker(5, "r5", {"PLAINTEXT": ("five.example", 9095)}), 6: Broker(6, None, {"INSIDE": ("six", 1)})}
    metadata.image = old._replace(topics=topics, brokers={**old.brokers, **others})
    node.services.partitions.follow(old, metadata.image, names)


def led_by(topic: Topic, leader: int) -> Topic:
    return topic._replace(partitions=(topic.partitions[0]._replace(leader=leader, leader_epoch=7),))


def upkeep(node: Node, space_is_back: Callable[[str], None] = lambda _: None) -> BrokerMaintenance:
    """What recurs on its directories; the last one made hears of their errors."""
    services = node.services
    made = BrokerMaintenance(
        node._store, services.partitions, node.config, services.clock, services.scheduler, space_is_back
    )
    services.partitions.events.disk_failed[:] = [made.note_disk_error]
    return made
