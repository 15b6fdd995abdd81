"""A ZooKeeper, a broker that lives in it, and messages of the oldest format: what clients of the 0.8 age expect.

`HEADGATE_COMPAT_TARGET` is headgate, or kafka08, kafka28, kafka39: Apache Kafka 0.8.2.2, 2.8 or 3.9 in ZooKeeper mode.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import struct
import threading
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kazoo.client import KazooClient

from compat_tests.harness import toolchain, wire
from compat_tests.harness.broker import TARGET, Broker, HeadgateBroker
from compat_tests.harness.kafka_target import KafkaZooKeeperBroker
from compat_tests.harness.waiting import until
from compat_tests.harness.zookeeper import ZooKeeper
from compat_tests.zookeeper.old_consumer import Read, RollingGroup
from compat_tests.zookeeper.test_start import Wire

ON_ZOOKEEPER: Final = {"kafka08": "broker08", "kafka28": "broker28", "kafka39": "broker39"}
IS_HEADGATE: Final = TARGET == "headgate"
SETTINGS: Final = {
    "zookeeper.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "1",
    # Who asks for the leaders of a deleted topic must not create it
    "auto.create.topics.enable": "false",
}
INCREMENTAL_ALTER_CONFIGS, GROUP, DELETE = 44, 32, 1
MESSAGE_TOO_LARGE: Final = 10
DEFAULTS: Final = {"retention.ms": "604800000", "segment.ms": "604800000"}
LIMIT_S: Final = 60
PERIOD_S: Final = 0.02
_NUMBERS: Final = itertools.count()


@dataclass
class World:
    """`zookeeper` is the server, `nodes` a client of it; `wire` is between it and the broker, if at all."""

    zookeeper: ZooKeeper
    broker: Broker
    nodes: Any
    wire: Wire | None = None
    sent: dict[str, list[tuple[int, bytes]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def connect(self) -> str:
        return self.zookeeper.connect

    def new_topic(self, partitions: int) -> str:
        """Create a topic, named by us, as the tools of its time do: by its node."""
        return self.create(f"old-{next(_NUMBERS)}", partitions)

    def create(self, topic: str, partitions: int) -> str:
        value = {"version": 1, "partitions": {str(one): [0] for one in range(partitions)}}
        self.nodes.create(f"/brokers/topics/{topic}", json.dumps(value).encode(), makepath=True)
        until(lambda: leaders(self.broker.bootstrap, topic) == [0] * partitions, f"the leaders of {topic}")
        return topic

    def produce(self, topic: str, counts: Mapping[int, int]) -> None:
        """So many messages to each partition, each with a value of its own."""
        for partition, count in counts.items():
            values = [f"{topic} {partition} {next(_NUMBERS)}".encode() for _ in range(count)]
            produce(self.broker.bootstrap, topic, partition, values)
            self.sent[topic] += [(partition, value) for value in values]

    @contextlib.contextmanager
    def producing(self, topic: str, partitions: int) -> Iterator[None]:
        """Messages come to all partitions in turn, some hundred a second, until the block ends."""
        is_over = threading.Event()

        def run() -> None:
            while not is_over.wait(PERIOD_S):
                self.produce(topic, dict.fromkeys(range(partitions), 1))

        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(run)
            try:
                yield
            finally:
                is_over.set()
            running.result()

    def takes(self, topic: str, size: int) -> bool:
        """Send one message of so many bytes to partition 0; false if it is too large."""
        return produce_to(self.broker.bootstrap, topic, 0, [bytes(size)])[0] != MESSAGE_TOO_LARGE

    def offset(self, group: str, topic: str, partition: int) -> int | None:
        """The committed offset in ZooKeeper."""
        path = f"/consumers/{group}/offsets/{topic}/{partition}"
        return int(self.nodes.get(path)[0]) if self.nodes.exists(path) else None

    def wait_for_all(self, topic: str, members: RollingGroup) -> None:
        """Until the members have read all messages; they have left by then."""
        names = " ".join(str(member.errors) for member in members.members)
        until(lambda: self.missing_and_repeated(topic, members.records)[0] == 0, f"all of {topic} to be read: {names}")
        members.leave_all()

    def missing_and_repeated(self, topic: str, read: Iterable[Read]) -> tuple[int, int]:
        """How many messages were never read, and how many reads were repetitions."""
        counts = Counter((record.partition, record.value) for record in read if record.topic == topic)
        assert not counts.keys() - set(self.sent[topic]), "messages that nobody sent"
        return len(set(self.sent[topic]) - counts.keys()), counts.total() - len(counts)


@contextlib.contextmanager
def old_world(
    directory: Path, settings: Mapping[str, str] | None = None, *, is_cut_off: bool = False
) -> Iterator[World]:
    """Started, ended whatever happens; `is_cut_off`: a test will cut the broker off from ZooKeeper."""
    toolchain.jars("zookeeper")
    with ZooKeeper(is_synced=False) as zookeeper, contextlib.ExitStack() as stack:
        wire = stack.enter_context(contextlib.closing(Wire(zookeeper.port))) if is_cut_off else None
        connect = f"127.0.0.1:{wire.port}" if wire else zookeeper.connect
        wanted = {**SETTINGS, **(settings or {})}
        nodes = KazooClient(zookeeper.connect)
        nodes.start()
        broker = new_broker(directory, connect, wanted)
        try:
            broker.start()
            yield World(zookeeper, broker, nodes, wire)
        finally:
            broker.stop()
            nodes.stop()
            nodes.close()


def new_broker(directory: Path, connect: str, settings: Mapping[str, str]) -> Broker:
    if IS_HEADGATE:
        return HeadgateBroker(directory, {"zookeeper.connect": connect, "broker.id": "0", **settings})
    return KafkaZooKeeperBroker(directory, connect, settings, ON_ZOOKEEPER[TARGET])


def leaders(bootstrap: str, topic: str) -> list[int]:
    """The leader of each partition, by Metadata v0; none while the topic is not known."""
    body = struct.pack(">i", 1) + wire.string(topic)
    with wire.connect(bootstrap) as stream:
        reader = wire.Reader(wire.ask(stream, wire.METADATA, 0, body))
    for _ in range(reader.number("i")):
        reader.number("i")
        reader.string()
        reader.number("i")
    found = {}
    for _ in range(reader.number("i")):
        reader.number("h")
        reader.string()
        for _ in range(reader.number("i")):
            reader.number("h")
            partition, leader = reader.number("i"), reader.number("i")
            found[partition] = leader
            reader.numbers()
            reader.numbers()
    return [leader for _, leader in sorted(found.items())]


def produce(bootstrap: str, topic: str, partition: int, values: Iterable[bytes]) -> int:
    """Messages of format 0, acknowledged; the first offset."""
    error, offset = produce_to(bootstrap, topic, partition, values)
    assert error == 0, f"Produce to {topic}-{partition} was answered with error {error}"
    return offset


def produce_to(bootstrap: str, topic: str, partition: int, values: Iterable[bytes]) -> tuple[int, int]:
    """One request, Produce v0; the error and the first offset."""
    messages = b"".join(map(_message, values))
    row = struct.pack(">i", partition) + struct.pack(">i", len(messages)) + messages
    body = struct.pack(">hii", -1, 30_000, 1) + wire.string(topic) + struct.pack(">i", 1) + row
    with wire.connect(bootstrap, 60) as stream:
        answer = wire.ask(stream, wire.PRODUCE, 0, body)
    error, offset = struct.unpack(">hq", answer[-10:])
    return int(error), int(offset)


def _message(value: bytes) -> bytes:
    body = struct.pack(">bbii", 0, 0, -1, len(value)) + value
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def alter_group(bootstrap: str, group: str, configs: Mapping[str, str | None]) -> None:
    """IncrementalAlterConfigs v0 of a group: None deletes a config."""
    rows = [
        wire.string(name) + (struct.pack(">bh", DELETE, -1) if value is None else b"\0" + wire.string(value))
        for name, value in configs.items()
    ]
    resource = struct.pack(">b", GROUP) + wire.string(group) + struct.pack(">i", len(rows)) + b"".join(rows)
    with wire.connect(bootstrap, 60) as stream:
        answer = wire.ask(stream, INCREMENTAL_ALTER_CONFIGS, 0, struct.pack(">i", 1) + resource + b"\0")
    assert answer[8:10] == bytes(2), f"the configs of {group} were answered with {answer[8:]!r}"


def configs_of(world: World, topic: str, name: str) -> str | None:
    """The value of a topic's config, as the broker has it; Kafka 0.8.2 cannot be asked, there it is in ZooKeeper."""
    if TARGET == "kafka08":
        return configured(world, topic).get(name, DEFAULTS.get(name))
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": world.broker.bootstrap})
    value: str | None = admin.describe_configs([resource])[resource].result(LIMIT_S)[name].value
    return value


def configured(world: World, topic: str) -> dict[str, str]:
    configs: dict[str, str] = json.loads(world.nodes.get(f"/config/topics/{topic}")[0])["config"]
    return configs
