"""Three brokers of one kind as processes on loopback, for the rows of replication (docs/performance.md).

Headgate and Apache Kafka 3.9 have a ZooKeeper beside them, Apache Kafka 4.1 has its controllers in the brokers. The
time-outs of all are the same. A topic's replicas are placed by the bench, so that each kind leads the
same partitions at the same brokers.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headgate.tools.bench.measuring.brokers import (
    HEADGATE,
    JVM_FLAGS,
    KAFKA,
    SHARED_SETTINGS,
    Broker,
    format_storage,
    free_port,
    headgate_program,
    kafka_command,
    new_cluster_id,
    run_broker,
    wait_for_brokers,
)
from headgate.tools.bench.measuring.machine import process_cpu_seconds
from headgate.tools.bench.measuring.zookeeper import ZOOKEEPER_JARS, ZooKeeperServer
from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError, Client, PartitionState, TopicState

IDS: Final = (1, 2, 3)
SESSION_MS: Final = 6000
_SETTINGS: Final[Mapping[str, str]] = {
    **SHARED_SETTINGS,
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",  # a row moves leads by itself
    "offsets.topic.replication.factor": "3",
    "log.segment.delete.delay.ms": "100",
}
_ZOOKEEPER_SETTINGS: Final[Mapping[str, str]] = {"zookeeper.session.timeout.ms": str(SESSION_MS)}
_KRAFT_SETTINGS: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "broker.session.timeout.ms": str(SESSION_MS),
    "log.initial.task.delay.ms": "500",
}
_START_WITHIN_SECONDS: Final = 120.0
_STOP_WITHIN_SECONDS: Final = 60.0
_FULL_WITHIN_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.05


class Node(ABC):
    """One broker of a cluster, which keeps its id, its ports and its directory from one start to the next."""

    name: str

    def __init__(self, broker_id: int, directory: Path) -> None:
        self.broker_id, self.directory, self.port = broker_id, directory, free_port()

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @abstractmethod
    def command(self) -> list[str]:
        """The command to execute; also creates every file that the broker needs."""

    def run(self) -> Broker:
        """The broker's process, which may not serve yet."""
        self.data.mkdir(parents=True, exist_ok=True)
        return run_broker(self.name, self.command(), self.data, self.port)

    def settings(self) -> dict[str, str]:
        listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{self.port}", "log.dirs": str(self.data)}
        return {**_SETTINGS, **listeners}


class HeadgateNode(Node):
    """Headgate with ZooKeeper."""

    name = HEADGATE

    def __init__(self, program: str, zookeeper: str, broker_id: int, directory: Path) -> None:
        super().__init__(broker_id, directory)
        self.program, self.zookeeper = program, zookeeper

    def command(self) -> list[str]:
        return [self.program, "serve", *(f"--override={name}={value}" for name, value in self.settings().items())]

    def settings(self) -> dict[str, str]:
        own = {"broker.id": str(self.broker_id), "zookeeper.connect": self.zookeeper}
        return {**super().settings(), **_ZOOKEEPER_SETTINGS, **own}


class KafkaNode(Node):
    """Apache Kafka of KRaft, a broker and a controller in one process."""

    name = KAFKA

    def __init__(self, java: Sequence[str], broker_id: int, directory: Path) -> None:
        super().__init__(broker_id, directory)
        self.java, self.controller_port = java, free_port()
        self.cluster_id, self.voters = "", ""

    def command(self) -> list[str]:
        properties = self.directory / "server.properties"
        if not properties.exists():
            properties.write_text("".join(f"{name}={value}\n" for name, value in self.settings().items()))
            self.prepare(properties)
        return [self.java[0], *JVM_FLAGS, *self.java[1:], "kafka.Kafka", str(properties)]

    def prepare(self, properties: Path) -> None:
        format_storage(self.java, properties, self.cluster_id)

    def settings(self) -> dict[str, str]:
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}"
        own = {"node.id": str(self.broker_id), "listeners": listeners, "controller.quorum.voters": self.voters}
        return {**super().settings(), **_KRAFT_SETTINGS, **own}


class ZooKeeperKafkaNode(KafkaNode):
    """Apache Kafka 3.9 with ZooKeeper."""

    def __init__(self, java: Sequence[str], zookeeper: str, broker_id: int, directory: Path) -> None:
        super().__init__(java, broker_id, directory)
        self.zookeeper = zookeeper

    def prepare(self, properties: Path) -> None:
        """Nothing: a broker with ZooKeeper formats its directories."""

    def settings(self) -> dict[str, str]:
        own = {"broker.id": str(self.broker_id), "zookeeper.connect": self.zookeeper}
        return {**Node.settings(self), **_ZOOKEEPER_SETTINGS, **own}


@dataclass(slots=True)
class Cluster:
    """Three nodes, and the processes of those that run."""

    name: str
    nodes: dict[int, Node]
    zookeeper: ZooKeeperServer | None
    brokers: dict[int, Broker] = field(default_factory=dict)

    def start_all(self) -> None:
        for broker_id, node in self.nodes.items():
            self.brokers[broker_id] = node.run()
        for broker in self.brokers.values():
            wait_for_brokers(broker, len(self.nodes), _START_WITHIN_SECONDS)

    def run(self, broker_id: int) -> Broker:
        """Start one broker again, without a wait for its service."""
        self.brokers[broker_id] = self.nodes[broker_id].run()
        return self.brokers[broker_id]

    def kill(self, broker_id: int) -> None:
        """SIGKILL: its session goes on until the time-out."""
        self.brokers.pop(broker_id).kill()

    def stop(self, broker_id: int) -> None:
        """SIGTERM: a controlled stop, to its end."""
        self.brokers.pop(broker_id).stop(_STOP_WITHIN_SECONDS)

    def close(self) -> None:
        """SIGKILL for all: an orderly stop of a whole cluster of Kafka takes half a minute."""
        for broker_id in list(self.brokers):
            self.kill(broker_id)

    def cpu_seconds(self) -> float:
        """Of all brokers that run."""
        return sum(process_cpu_seconds(broker.process.pid) for broker in self.brokers.values())

    def zookeeper_cpu_seconds(self) -> float:
        return self.zookeeper.cpu_seconds() if self.zookeeper else 0.0

    def any_client(self) -> Client:
        return next(iter(self.brokers.values())).client

    def controller(self) -> int:
        """The id of the broker that creates topics and elects leaders: any one, where Kafka has KRaft."""
        deadline = time.monotonic() + _START_WITHIN_SECONDS
        while (controller := self.any_client().metadata([]).controller) not in self.brokers:
            if time.monotonic() > deadline:
                raise BenchError(f"{self.name} has no controller after {_START_WITHIN_SECONDS:g} s")
            time.sleep(_POLL_SECONDS)
        return controller

    def at_controller(self) -> Client:
        return self.brokers[self.controller()].client

    # Topics

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str], first: int = 0) -> None:
        """Create a topic of three replicas, and wait for its sets. Partition 0 is placed as `replicas_of(first)`."""
        self._create(name, [self.replicas_of(first + number) for number in range(partitions)], configs)

    def create_topic_led_by(self, name: str, partitions: int, leader: int) -> None:
        """The same with one leader for all partitions."""
        self._create(name, [self.replicas_of(IDS.index(leader))] * partitions, {})

    def _create(self, name: str, replicas: Sequence[Sequence[int]], configs: Mapping[str, str]) -> None:
        timeout_ms = int(_FULL_WITHIN_SECONDS * 1000)
        request = frames.create_topic(name, -1, timeout_ms, configs, replicas)
        self.at_controller().begin_topic(request, _FULL_WITHIN_SECONDS)
        self.wait_for_sets([name])

    def replicas_of(self, number: int) -> tuple[int, ...]:
        """The placement of a partition: each broker in turn is the preferred leader."""
        first = number % len(IDS)
        return (*IDS[first:], *IDS[:first])

    def wait_for_sets(self, topics: Sequence[str], within_seconds: float = _FULL_WITHIN_SECONDS) -> None:
        """Wait until each running broker knows full in-sync sets of these topics, and each leader answers."""
        self._wait("full in-sync sets", within_seconds, topics, lambda one: len(one.in_sync) == len(self.nodes))

    def wait_for_sets_without(self, broker_id: int, topics: Sequence[str]) -> None:
        """Wait until each running broker knows in-sync sets and leaders without a broker that is gone."""

        def is_out(one: PartitionState) -> bool:
            return broker_id not in one.in_sync and one.leader in self.brokers

        self._wait(f"sets without broker {broker_id}", _FULL_WITHIN_SECONDS, topics, is_out)

    def elect_preferred_leaders(self, topic: str, partitions: int) -> None:
        """Bring the leads of a topic back to where `create_topic` placed them."""
        self.at_controller().call(frames.elect_preferred_leaders(topic, partitions))
        self._wait("the preferred leaders", _FULL_WITHIN_SECONDS, [topic], lambda one: one.leader == one.replicas[0])

    def _wait(self, what: str, within_seconds: float, topics: Sequence[str], check: "PartitionCheck") -> None:
        deadline = time.monotonic() + within_seconds
        for broker_id, broker in list(self.brokers.items()):
            while not _serves(broker_id, broker.client, topics, check):
                if time.monotonic() > deadline:
                    raise BenchError(f"{self.name}: no {what} of {topics[0]} after {within_seconds:g} s")
                time.sleep(_POLL_SECONDS)


PartitionCheck = Callable[[PartitionState], bool]


def _serves(broker_id: int, client: Client, topics: Sequence[str], check: PartitionCheck) -> bool:
    """True if the check holds for all partitions at this broker, and this broker answers for those that it leads."""
    try:
        states = client.metadata(list(topics)).topics
        return all(_is_served(broker_id, client, topic, check) for topic in states)
    except OSError:
        return False


def _is_served(broker_id: int, client: Client, topic: TopicState, check: PartitionCheck) -> bool:
    if topic.error or not topic.partitions or not all(map(check, topic.partitions)):
        return False
    led = {each.number for each in topic.partitions if each.leader == broker_id}
    errors = client.end_offset_errors(str(topic.name), len(topic.partitions))
    return not any(error for number, error in enumerate(errors) if number in led)


class ClusterLauncher(ABC):
    """Starts a cluster of one kind in a fresh directory."""

    name: str

    @contextmanager
    def running(self, directory: Path) -> Iterator[Cluster]:
        """A cluster whose brokers know each other; all is killed at the end."""
        with ExitStack() as stack:
            zookeeper = self.zookeeper(directory / "zookeeper")
            if zookeeper:
                stack.callback(zookeeper.stop)
                zookeeper.start()
            address = zookeeper.address if zookeeper else ""
            nodes = {number: self.node(number, directory / f"{number}", address) for number in IDS}
            self.connect(nodes)
            cluster = Cluster(self.name, nodes, zookeeper)
            stack.callback(cluster.close)
            cluster.start_all()
            yield cluster

    @abstractmethod
    def node(self, broker_id: int, directory: Path, zookeeper: str) -> Node: ...

    def zookeeper(self, directory: Path) -> ZooKeeperServer | None:
        """The cluster's own ZooKeeper, not yet started."""
        return ZooKeeperServer(ZOOKEEPER_JARS, directory)

    def connect(self, nodes: Mapping[int, Node]) -> None:  # noqa: B027  a ZooKeeper does so
        """Tell the nodes of each other."""


class HeadgateClusterLauncher(ClusterLauncher):
    """Headgate: the installed command, or that of another tree."""

    name = HEADGATE

    def __init__(self, program: Path | None = None) -> None:
        self.program = headgate_program(program)

    def node(self, broker_id: int, directory: Path, zookeeper: str) -> Node:
        return HeadgateNode(self.program, zookeeper, broker_id, directory)


class KafkaClusterLauncher(ClusterLauncher):
    """Apache Kafka of KRaft from Maven jars."""

    name = KAFKA

    def __init__(self, jars: Path) -> None:
        self.java = kafka_command(jars)

    def node(self, broker_id: int, directory: Path, zookeeper: str) -> Node:
        return KafkaNode(self.java, broker_id, directory)

    def zookeeper(self, directory: Path) -> ZooKeeperServer | None:
        return None

    def connect(self, nodes: Mapping[int, Node]) -> None:
        kafkas = [node for node in nodes.values() if isinstance(node, KafkaNode)]
        voters = ",".join(f"{node.broker_id}@127.0.0.1:{node.controller_port}" for node in kafkas)
        cluster_id = new_cluster_id()
        for node in kafkas:
            node.cluster_id, node.voters = cluster_id, voters


class ZooKeeperKafkaClusterLauncher(ClusterLauncher):
    """Apache Kafka 3.9 with ZooKeeper."""

    name = KAFKA

    def __init__(self, jars: Path) -> None:
        self.java = kafka_command(jars)

    def node(self, broker_id: int, directory: Path, zookeeper: str) -> Node:
        return ZooKeeperKafkaNode(self.java, zookeeper, broker_id, directory)
