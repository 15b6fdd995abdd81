"""A broker's services without a loop and without a network, and requests put to its handlers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from headgate.gateway.api.context import Client, Handler, HandlerContext, HandlerOutcome
from headgate.gateway.api.handler_registration import load
from headgate.gateway.app.composition import BrokerParts, Seams
from headgate.gateway.app.metadata_sources import EmbeddedSource, Foundation
from headgate.gateway.config import BrokerConfig
from headgate.gateway.maintenance.log_loading import LogLoader
from headgate.gateway.metadata.image import CONSUMER_OFFSETS, Node, Topic
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tasks import Changes, Running, Silent, Task, Tasks, WaitList, is_task
from headgate.gateway.runtime.tests.fake_scheduler import FakeScheduler, ManualTime
from headgate.gateway.tests.shared_metadata import Cluster, SharedSource
from headgate.protocol.compiler import read, write
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import Record, build
from headgate.protocol.schema import Message
from headgate.storage.directory.log_manager import LogManager
from headgate.storage.files import File, Files
from headgate.storage.tests.builders import open_all

NOW_MS = 1_700_000_000_000
"""The time of `ManualClock` at its start."""


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


class HandlerBroker:
    """The services of one broker over a directory, with time that stands still, and one client.

    Settings are Kafka's names with underscores: `HandlerBroker(path, num_partitions="3")`.
    """

    clusters: ClassVar[dict[Path, Cluster] | None] = None
    """The clusters of which nodes are brokers, by their directories; None where each has a metadata log of its own."""
    cluster: Cluster | None = None

    def __init__(self, directory: Path, **settings: str) -> None:
        overrides = {name.replace("_", "."): value for name, value in settings.items()}
        # Each partition costs files, and tests make many brokers
        few = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}
        self.config = BrokerConfig.load("", {"log.dirs": str(directory), **few, **overrides})
        self.time = ManualTime()
        self.random = Random(0)
        self.client = Client("192.0.2.9", 50_000, "192.0.2.1", 9092)
        if self.clusters is not None:
            self.cluster = self.clusters.setdefault(directory, Cluster())
        self.start()

    def disk(self) -> Files:
        """Where it keeps its files; a subclass may have another one."""
        return UnsyncedFiles()

    def metadata_scheduler(self) -> Scheduler:
        """The threads that write metadata: changes are there at once, also where a test holds up all other threads."""
        return FakeScheduler(self.time.clock)

    def seams(self) -> Seams:
        """The world of the broker; a subclass may have another one."""
        seams = Seams(
            self.time.clock,
            self.disk(),
            self.random,
            self.time.make_scheduler,
            metadata=self._embedded,
            open_logs=open_all_logs,
        )
        if self.cluster is not None:  # which knows the topics of logs without a metadata log beside them
            seams = replace(seams, metadata=partial(SharedSource, self.cluster), check_directories=lambda *_: None)
        return seams

    def start(self) -> None:
        self.parts = BrokerParts(self.config, self.seams())
        self.services, self.log_manager = self.parts.services, self.parts.log_manager
        self.services.groups.start()
        self.services.transactions.start()

    def _embedded(self, base: Foundation) -> EmbeddedSource:
        return EmbeddedSource(replace(base, scheduler=self.metadata_scheduler()))

    def context(self, version: int) -> HandlerContext:
        """What a handler of a request of `version` gets."""
        return HandlerContext(self.services, self.client, version, "test")

    def handle(self, request: Message, version: int) -> HandlerOutcome:
        """What the registered handler returns, or the error response of the KafkaError that it raises."""
        handler = handler_of(request, version)
        if self.cluster is not None:
            self.cluster.change_something()
        try:
            outcome: Any = begun(self.services.tasks, handler(request, self.context(version)))
        except KafkaError as error:
            refusal: Message = request.error_response(version, error.code, error.message)
            return refusal
        finally:
            self.services.batcher.write_all()
        assert outcome is None or isinstance(outcome, Message | Silent) or is_task(outcome)
        return outcome

    def ask(self, request: Message, version: int) -> Any:
        """The response as a client reads it: both messages go over the wire of `version`."""
        response = self.handle(over_the_wire(request, version), version)
        assert isinstance(response, Message)
        return over_the_wire(response, version)

    def restart(self) -> None:
        """Stop, and start again on the same directory."""
        self.log_manager.close()
        self.start()
        self.time.advance()  # groups are loaded

    def close(self) -> None:
        """Let go of the directory."""
        self.log_manager.close()


def handler_of(request: Message, version: int) -> Handler:
    """The handler of a request in a version."""
    served = load()[request.api_key].find(version)
    assert served is not None
    return served.handler


def open_all_logs(log_manager: LogManager, _log_loader: LogLoader, now_ms: int) -> None:
    for directory in log_manager:
        open_all(directory, now_ms)


def records(*values: bytes, timestamp: int = NOW_MS) -> memoryview:
    """One batch, as a client sends it."""
    return memoryview(build([Record(timestamp=timestamp, value=value) for value in values]))


def begun(tasks: Tasks, outcome: Any) -> Any:
    """Begin the task that a handler has returned: its result, or a task that waits for the result."""
    if isinstance(outcome, Silent):
        rest = begun(tasks, outcome.task)
        return rest if rest is None else Silent(rest)
    if not is_task(outcome):
        return outcome
    results: list[Any] = []
    ended = WaitList()

    def done(result: object) -> None:
        results.append(result)
        tasks.touch(ended)

    running = tasks.start(outcome, done)

    def result() -> Any:
        if isinstance(results[0], Exception):
            raise results[0]
        return results[0]

    def rest_of_task() -> Task[Any]:
        try:
            while not results:
                yield Changes((ended,))
        finally:
            running.cancel()
        return result()

    return result() if results else rest_of_task()


def parked(node: HandlerBroker, outcome: object) -> list[Any]:
    """Wait for a reply; the list gets it."""
    replies: list[Any] = []
    start(node, outcome, replies.append)
    return replies


def start(node: HandlerBroker, outcome: object, done: Callable[[Any], None] = lambda _: None) -> Running[Any]:
    """Wait for a reply, which has not come yet."""
    task = outcome.task if isinstance(outcome, Silent) else outcome
    assert is_task(task)
    return node.services.tasks.start(task, done)


def offsets_partitions(node: HandlerBroker) -> list[Replica]:
    """The partitions of the topic of committed offsets."""
    return [replica for replica in node.services.partitions if replica.topic == CONSUMER_OFFSETS]


def reach(replica: Replica, offset: int) -> None:
    """Have everything before an offset on the disk."""
    replica.log.recovery_point = offset
    replica.advance_high_watermark()


def add_follower(replica: Replica, node_id: int = 9) -> None:
    """Have the high watermark wait for an in-sync follower, which has nothing yet."""
    _assign(replica, (replica.isr[0], node_id))


def drop_followers(replica: Replica) -> None:
    """Have this broker alone be in sync, as the only replica."""
    _assign(replica, replica.isr[:1])


def _assign(replica: Replica, isr: tuple[int, ...]) -> None:
    now_ms = replica.disk.clock.monotonic_ms()
    replica.assign(isr[0], replica.leader_epoch, isr, isr, replica.partition_epoch + 1, now_ms)


def refusal(node: HandlerBroker, request: Message, version: int) -> ErrorCode:
    """The code of the KafkaError that a handler raises for a request as a whole."""
    handler = handler_of(request, version)
    try:
        begun(node.services.tasks, handler(request, node.context(version)))
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


def led_elsewhere(node: HandlerBroker, leader: int, *names: str) -> None:
    """Topics whose partition 0 is led by another node of the cluster, in epoch 7."""
    metadata = node.services.metadata
    for name in names:
        if name not in metadata.image.topics:
            metadata.create_topic(name, 1)
    old = metadata.image
    topics = {name: led_by(topic, leader) if name in names else topic for name, topic in old.topics.items()}
    others = {5: Node(5, "r5", {"PLAINTEXT": ("five.example", 9095)}), 6: Node(6, None, {"INSIDE": ("six", 1)})}
    metadata.image = old._replace(topics=topics, brokers={**old.brokers, **others})
    node.services.partitions.follow(old, metadata.image, names)


def led_by(topic: Topic, leader: int) -> Topic:
    return topic._replace(partitions=(topic.partitions[0]._replace(leader=leader, leader_epoch=7),))
