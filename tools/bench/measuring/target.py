"""A target: one broker, or a cluster, under measurement, with its topics and samples."""

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from headgate.tools.bench.measuring import machine
from headgate.tools.bench.measuring.brokers import Broker, Launcher
from headgate.tools.bench.measuring.cluster import Cluster
from headgate.tools.bench.measuring.figures import Sample
from headgate.tools.bench.measuring.gauge import Gauge, mean_microseconds
from headgate.tools.bench.measuring.generator import GeneratorRun, LoadResult, TlsLoad, run_load
from headgate.tools.bench.measuring.secure_listeners import SecurePorts
from headgate.tools.bench.requests.client import BenchError

_GONE_WITHIN_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Topic:
    """A created topic; the id is zero if the broker has no topic ids."""

    name: str
    topic_id: bytes
    partitions: int


class FilledTopic(NamedTuple):
    """A topic filled with equal batches, which differ in their offsets only."""

    topic: Topic
    batch: bytes
    batches_per_partition: int


@dataclass(slots=True)
class Target:
    """A broker under measurement. `generators`: the directory of the C programs; `scratch`: of template files."""

    broker: Broker
    generators: Path
    scratch: Path
    versions: dict[int, tuple[int, int]]
    java: Sequence[str] = ()
    """The command that runs a class of Kafka's jars; empty without Java."""
    gauge: Gauge | None = None
    launcher: Launcher | None = None
    """Starts another broker of this kind, with other settings; None where no row needs one."""
    kept: dict[object, FilledTopic] = field(default_factory=dict)
    """Filled topics by their content; they stay until the end of the run."""
    many: list[Topic] = field(default_factory=list)
    """Topics of one empty partition (many_topics.py); they stay until the end of the run."""
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def name(self) -> str:
        return self.broker.name

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.broker.port}"

    def scratch_file(self, name: str) -> Path:
        return self.scratch / f"{self.name}-{name}"

    def new_topic(self, partitions: int, configs: Mapping[str, str] | None = None) -> Topic:
        name = f"bench-{os.getpid()}-{next(self._numbers)}"
        return Topic(name, self.broker.client.create_topic(name, partitions, configs), partitions)

    @contextmanager
    def topic(self, partitions: int, configs: Mapping[str, str] | None = None) -> Iterator[Topic]:
        """A new topic, deleted with its files before the next measurement."""
        topic = self.new_topic(partitions, configs)
        yield topic
        self.broker.client.delete_topic(topic.name)
        self.wait_until_gone(topic.name)

    def wait_until_gone(self, name: str, within_seconds: float = _GONE_WITHIN_SECONDS) -> None:
        wait_until_gone(self.broker, name, within_seconds)

    def touch_pages(self, size: int) -> None:
        """Back pages before a load that writes `size` bytes, so that the broker pays for no fault of the host."""
        machine.touch_pages(self.scratch_file("touched"), size)

    def run(self, load: GeneratorRun) -> LoadResult:
        return run_load(self.generators, load, self._port(load))

    def _port(self, load: GeneratorRun) -> int:
        if not isinstance(load, TlsLoad):
            return self.broker.port
        return self.secure_ports.tls

    @property
    def secure_ports(self) -> SecurePorts:
        """The ports of the listeners over TLS and with logins. Raises BenchError where there are none."""
        if self.broker.secure_ports is None:
            raise BenchError(f"{self.name} runs without the listeners of rows of security")
        return self.broker.secure_ports

    def sample(self, load: GeneratorRun, start_another: Callable[[], int] | None = None) -> Sample:
        """Measure the broker's CPU time under a load, with all connections open from before to after.

        `start_another` starts a second generator when the first one is connected, and returns the process id: the
        second generator does not count as another process.
        """
        at: list[_Clocks] = []
        process_ids: list[int] = []

        def begin(process_id: int) -> None:
            process_ids.append(process_id)
            if start_another is not None:
                process_ids.append(start_another())
            read(process_id)

        def read(_: int) -> None:
            at.append(self._clocks(sum(map(machine.process_cpu_seconds, process_ids))))

        result = run_load(self.generators, load, self._port(load), begin, read)
        return _sample(result, *at)

    def measure(self, work: Callable[[], LoadResult]) -> Sample:
        """The same for a client that opens and closes connections, in child processes that `work` starts and ends."""
        before = self._clocks(machine.own_cpu_seconds())
        result = work()
        return _sample(result, before, self._clocks(machine.own_cpu_seconds()))

    def _clocks(self, client_seconds: float) -> "_Clocks":
        gauge = self.gauge.read() if self.gauge else []
        servers = self.server_cpu_seconds(), self.zookeeper_cpu_seconds()
        return _Clocks(*servers, client_seconds, machine.machine_time(), gauge)

    def server_cpu_seconds(self) -> float:
        return machine.process_cpu_seconds(self.broker.process.pid)

    def zookeeper_cpu_seconds(self) -> float:
        """Of a ZooKeeper that serves this target alone."""
        return 0.0


@dataclass(slots=True)
class ClusterTarget(Target):
    """Three brokers; `broker` is the one that leads the first partition of the newest topic.

    The CPU time is the sum of all brokers, with the ZooKeeper's apart.
    """

    cluster: Cluster = field(kw_only=True)

    @classmethod
    def of(cls, cluster: Cluster, generators: Path, scratch: Path, gauge: Gauge | None = None) -> "ClusterTarget":
        broker = next(iter(cluster.brokers.values()))
        return cls(broker, generators, scratch, broker.client.versions(), gauge=gauge, cluster=cluster)

    def new_topic(self, partitions: int, configs: Mapping[str, str] | None = None) -> Topic:
        number = next(self._numbers)
        name = f"bench-{os.getpid()}-{number}"
        self.cluster.create_topic(name, partitions, configs or {}, first=number)
        self.broker = self.cluster.brokers[self.cluster.replicas_of(number)[0]]
        return Topic(name, bytes(16), partitions)

    @contextmanager
    def topic(self, partitions: int, configs: Mapping[str, str] | None = None) -> Iterator[Topic]:
        topic = self.new_topic(partitions, configs)
        yield topic
        self.cluster.at_controller().delete_topic(topic.name)
        self.wait_until_gone(topic.name)

    def wait_until_gone(self, name: str, within_seconds: float = _GONE_WITHIN_SECONDS) -> None:
        for broker in self.cluster.brokers.values():
            wait_until_gone(broker, name, within_seconds)

    def server_cpu_seconds(self) -> float:
        return self.cluster.cpu_seconds()

    def zookeeper_cpu_seconds(self) -> float:
        return self.cluster.zookeeper_cpu_seconds()


def wait_until_gone(broker: Broker, name: str, within_seconds: float) -> None:
    """Wait until a deleted topic has no files; a partition's directory keeps its prefix <topic>- while deleted."""
    deadline = time.monotonic() + within_seconds
    while left := list(broker.data.glob(f"{name}-*")):
        if time.monotonic() > deadline:
            raise BenchError(f"{broker.name} deleted {name} but {left[0]} is still there after {within_seconds:g} s")
        time.sleep(0.02)


class _Clocks(NamedTuple):
    """CPU seconds until now, and the gauge's durations since the last reading."""

    server: float
    zookeeper: float
    client: float
    machine: machine.MachineTime
    gauge_ns: list[list[int]]


def _sample(result: LoadResult, before: _Clocks, after: _Clocks) -> Sample:
    server, client = after.server - before.server, after.client - before.client
    zookeeper = after.zookeeper - before.zookeeper
    return Sample(
        requests=result.requests,
        record_bytes=result.record_bytes,
        seconds=result.seconds,
        server_cpu_seconds=server,
        client_cpu_seconds=client,
        zookeeper_cpu_seconds=zookeeper,
        others_share=machine.others_share(after.machine.since(before.machine), server + zookeeper + client),
        p50_us=result.p50_us,
        p99_us=result.p99_us,
        mean_us=result.mean_us,
        max_us=result.max_us,
        gauge_us=mean_microseconds(after.gauge_ns),
        transaction_p50_us=result.transaction_p50_us,
        transaction_p99_us=result.transaction_p99_us,
    )


def resident_megabytes(broker: Broker) -> float:
    return machine.resident_bytes(broker.process.pid) / 1e6
