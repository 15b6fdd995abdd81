"""Rows of a cluster that loses a broker: the time until clients are served again, and what others notice meanwhile.

The lost broker is never the controller. With ZooKeeper the time begins with the end of the lost broker's session, which
is a time-out and the same for each kind of broker.
"""

import itertools
import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

from headgate.tools.bench.measuring.cluster import IDS, Cluster, ClusterLauncher
from headgate.tools.bench.measuring.figures import Figure
from headgate.tools.bench.measuring.generator import Bystander, Load, LoadResult, run_load, run_templates
from headgate.tools.bench.measuring.registrations import registrations
from headgate.tools.bench.measuring.target import Topic, wait_until_gone
from headgate.tools.bench.requests import frames, group_frames
from headgate.tools.bench.requests.client import BenchError, Client
from headgate.tools.bench.requests.group_frames import TopicPartitions
from headgate.tools.bench.requests.templates import write_templates
from headgate.tools.bench.rows.cluster.acknowledgements import TICK_SECONDS, Acknowledgements
from headgate.tools.bench.rows.cluster.replicated import ACKS_ALL
from headgate.tools.bench.rows.coordinators.groups import new_group
from headgate.tools.bench.rows.row import BATCH_16K, BATCH_TINY, produce_templates

_PRODUCE_VERSION: Final = 7
_COMMIT_VERSION: Final = 7
_SESSION_WITHIN_SECONDS: Final = 60.0
_SERVED_WITHIN_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.002
_CAUGHT_UP_WITHIN_SECONDS: Final = 300.0
_GONE_WITHIN_SECONDS: Final = 60.0


_numbers = itertools.count()


class Times(NamedTuple):
    """The result of one turn, of which a row names two or three figures; see the rows."""

    seconds: float
    detail: float
    cpu_seconds: float
    zookeeper_cpu_seconds: float


Run = Callable[[], Times]


class Fault(Protocol):
    """One row: what happens to a cluster in each turn."""

    def opened(self, cluster: Cluster, generators: Path) -> AbstractContextManager[Run]:
        """A context in which the cluster has what the row needs."""
        ...

    def quick(self) -> Self:
        """The same row with less work, for a first look."""
        ...

    def figures(self) -> Mapping[Figure, Callable[[Times], float]]:
        """The figures of the row, each with its part of the result."""
        ...


def _figure(name: str, *, mark: float | None = None, limit: float | None = None, unit: str = "") -> Figure:
    return Figure(name, lambda _: math.nan, mark=mark, limit=limit, unit=unit)


_CPU: Final[Mapping[Figure, Callable[[Times], float]]] = {
    _figure("CPU s"): lambda times: times.cpu_seconds,
    _figure("ZooKeeper CPU s"): lambda times: times.zookeeper_cpu_seconds,
}


class _Cpu:
    """The CPU seconds of the brokers that run now, and of ZooKeeper, from here on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._before = cluster.cpu_seconds(), cluster.zookeeper_cpu_seconds()

    def since(self) -> tuple[float, float]:
        brokers, zookeeper = self._before
        return self._cluster.cpu_seconds() - brokers, self._cluster.zookeeper_cpu_seconds() - zookeeper


def _other_than_the_controller(cluster: Cluster) -> int:
    controller = cluster.controller()
    return next(broker_id for broker_id in IDS if broker_id != controller)


def _wait_for_session_end(cluster: Cluster, broker_id: int) -> float:
    """The time at which ZooKeeper has removed a broker that is gone, within `_POLL_SECONDS`. Raises BenchError."""
    assert cluster.zookeeper is not None
    deadline = time.perf_counter() + _SESSION_WITHIN_SECONDS
    with registrations(cluster.zookeeper.port) as registered:
        while registered.has(broker_id):
            if time.perf_counter() > deadline:
                raise BenchError(f"{cluster.name}: the session of broker {broker_id} does not end")
            time.sleep(_POLL_SECONDS)
    return time.perf_counter()


def _ports(cluster: Cluster) -> dict[int, int]:
    return {broker_id: broker.port for broker_id, broker in cluster.brokers.items()}


@dataclass(frozen=True, slots=True)
class Failover:
    """SIGKILL of a broker that leads a third of the partitions; `seconds` until each has an acknowledgement elsewhere.

    `detail`: the seconds to the first one. Each turn ends with the leads where they were.
    """

    partitions: int = 300

    @contextmanager
    def opened(self, cluster: Cluster, generators: Path) -> Iterator[Run]:
        with _led_topic(cluster, self.partitions) as topic:

            def run() -> Times:
                victim = _other_than_the_controller(cluster)
                lost = [number for number in range(self.partitions) if cluster.replicas_of(number)[0] == victim]
                cluster.kill(victim)
                ended_at, cpu = _wait_for_session_end(cluster, victim), _Cpu(cluster)
                client = Acknowledgements(topic, dict.fromkeys(lost), _ports(cluster), math.inf)
                try:
                    client.run(lambda: len(client.acknowledged_at) == len(lost), _SERVED_WITHIN_SECONDS)
                finally:
                    client.close()
                times = sorted(client.acknowledged_at.values())
                result = Times(times[-1] - ended_at, times[0] - ended_at, *cpu.since())
                _bring_back(cluster, victim, topic, self.partitions)
                return result

            yield run

    def quick(self) -> Self:
        return self

    def figures(self) -> Mapping[Figure, Callable[[Times], float]]:
        return {
            _figure("s to the last first acknowledgement", mark=1.0): lambda times: times.seconds,
            _figure("s to the first"): lambda times: times.detail,
            **_CPU,
        }


@dataclass(frozen=True, slots=True)
class ControlledStop:
    """SIGTERM to a broker that leads a third of the partitions, with a producer to all that it leads.

    `seconds` until each has an acknowledgement elsewhere; `detail`: the longest time of a partition without one.
    """

    partitions: int = 300
    interval_seconds: float = 0.03
    warm_up_seconds: float = 1.0

    @contextmanager
    def opened(self, cluster: Cluster, generators: Path) -> Iterator[Run]:
        with _led_topic(cluster, self.partitions) as topic:

            def run() -> Times:
                victim = _other_than_the_controller(cluster)
                led = [number for number in range(self.partitions) if cluster.replicas_of(number)[0] == victim]
                client = Acknowledgements(topic, dict.fromkeys(led, victim), _ports(cluster), self.interval_seconds)
                try:
                    result = self._stopped(cluster, victim, client)
                finally:
                    client.close()
                cluster.stop(victim)
                _bring_back(cluster, victim, topic, self.partitions)
                return result

            yield run

    def _stopped(self, cluster: Cluster, victim: int, client: Acknowledgements) -> Times:
        begins_at = time.perf_counter() + self.warm_up_seconds
        client.run(lambda: time.perf_counter() > begins_at, _SERVED_WITHIN_SECONDS)
        cpu, began_at = _Cpu(cluster), time.perf_counter()
        client.longest_gap_seconds = 0.0
        cluster.brokers[victim].process.send_signal(signal.SIGTERM)
        client.run(lambda: victim not in client.acknowledged_by.values(), _SERVED_WITHIN_SECONDS)
        last_at = max(client.moved_at.values())
        return Times(last_at - began_at, client.longest_gap_seconds, *cpu.since())

    def quick(self) -> Self:
        return self

    def figures(self) -> Mapping[Figure, Callable[[Times], float]]:
        return {
            _figure("s to the last first acknowledgement", mark=1.0): lambda times: times.seconds,
            _figure("longest gap ms", limit=250, unit="ms"): lambda times: times.detail * 1e3,
            **_CPU,
        }


def _bring_back(cluster: Cluster, broker_id: int, topic: str, partitions: int) -> None:
    cluster.run(broker_id)
    cluster.wait_for_sets([topic])
    cluster.elect_preferred_leaders(topic, partitions)


@contextmanager
def _led_topic(cluster: Cluster, partitions: int) -> Iterator[str]:
    """A topic whose partitions each have a record."""
    topic = f"led-{next(_numbers)}"
    cluster.create_topic(topic, partitions, {"min.insync.replicas": "2"})
    client = Acknowledgements(topic, dict.fromkeys(range(partitions)), _ports(cluster), math.inf)
    try:
        client.run(lambda: len(client.acknowledged_at) == partitions, _SERVED_WITHIN_SECONDS)
    finally:
        client.close()
    yield topic


@dataclass(frozen=True, slots=True)
class GroupFailover:
    """SIGKILL of the coordinator of a group; `seconds` until the group's next commit, `detail`: until it is found."""

    @contextmanager
    def opened(self, cluster: Cluster, generators: Path) -> Iterator[Run]:
        topic = "grouped"
        cluster.create_topic(topic, 1, {})
        self._until_committed(cluster, new_group(topic), topic)  # the first one creates __consumer_offsets
        cluster.wait_for_sets(["__consumer_offsets"])

        def run() -> Times:
            group, victim = self._group_away_from(cluster, cluster.controller())
            self._until_committed(cluster, group, topic)
            cluster.kill(victim)
            ended_at, cpu = _wait_for_session_end(cluster, victim), _Cpu(cluster)
            found_at = self._until_committed(cluster, group, topic)
            result = Times(time.perf_counter() - ended_at, found_at - ended_at, *cpu.since())
            cluster.run(victim)
            cluster.wait_for_sets(["__consumer_offsets", topic])
            return result

        yield run

    def _group_away_from(self, cluster: Cluster, controller: int) -> tuple[str, int]:
        """A group that another broker coordinates, and that broker."""
        for _ in itertools.repeat(None, 200):
            group = new_group("failover")
            coordinator = _coordinator(cluster.any_client(), group)
            if coordinator not in {None, controller} and coordinator in cluster.brokers:
                return group, coordinator
        raise BenchError(f"{cluster.name}: broker {controller} coordinates every group")

    def _until_committed(self, cluster: Cluster, group: str, topic: str) -> float:
        """Try each tick to commit; the time at which the coordinator of the commit was found."""
        commit = group_frames.offset_commit(_COMMIT_VERSION, group, TopicPartitions(topic, [0]))
        clients = {broker_id: broker.client for broker_id, broker in cluster.brokers.items()}
        deadline = time.perf_counter() + _SERVED_WITHIN_SECONDS
        for asked in itertools.cycle(clients.values()):
            found = _coordinator(asked, group)
            found_at = time.perf_counter()
            if found in clients and _commit_error(clients[found], commit) == 0:
                return found_at
            if found_at > deadline:
                break
            time.sleep(TICK_SECONDS)
        raise BenchError(f"{cluster.name}: group {group} has no commit after {_SERVED_WITHIN_SECONDS:g} s")

    def quick(self) -> Self:
        return self

    def figures(self) -> Mapping[Figure, Callable[[Times], float]]:
        return {
            _figure("s to the first commit", mark=1.0): lambda times: times.seconds,
            _figure("s to its coordinator"): lambda times: times.detail,
            **_CPU,
        }


def _coordinator(client: Client, group: str) -> int | None:
    try:
        reader = client.call(group_frames.find_coordinator(group), _SERVED_WITHIN_SECONDS)
    except OSError:
        return None
    reader.number("i")  # throttle time
    error = reader.number("h")
    reader.string()
    return None if error else reader.number("i")


def _commit_error(client: Client, commit: frames.RequestWriter) -> int | None:
    try:
        reader = client.call(commit, _SERVED_WITHIN_SECONDS)
    except OSError:
        return None
    for field in "ii":  # throttle time, topics
        reader.number(field)
    reader.string()
    for field in "ii":  # partitions, number
        reader.number(field)
    return reader.number("h")


@dataclass(frozen=True, slots=True)
class CatchUp:
    """A follower is killed, then its leader gets `size` bytes, then the follower starts: `seconds` until in sync.

    A bystander produces a record with acks=all every 2 ms to a partition of its own at the same leader, from the
    follower's start on for `beside_seconds`; `detail`: its p99 in microseconds.
    """

    size: int = 1 << 30
    partitions: int = 4
    beside_seconds: float = 10.0
    interval_us: int = 2000

    @contextmanager
    def opened(self, cluster: Cluster, generators: Path) -> Iterator[Run]:
        numbers = itertools.count()
        beside = "beside"
        cluster.create_topic(beside, 1, {})
        follower, leader = IDS[1], cluster.replicas_of(0)[0]

        def run() -> Times:
            topic = f"behind-{os.getpid()}-{next(numbers)}"
            cluster.create_topic_led_by(topic, self.partitions, leader)
            cluster.kill(follower)
            cluster.wait_for_sets_without(follower, [topic, beside])
            port = cluster.brokers[leader].port
            self._fill(topic, generators, port)
            with ThreadPoolExecutor(1) as pool:
                bystander = pool.submit(self._beside, beside, generators, port)
                cpu, began_at = _Cpu(cluster), time.perf_counter()
                cluster.run(follower)
                self._wait_until_in_sync(cluster, leader, topic)
                seconds, used = time.perf_counter() - began_at, cpu.since()
                result = Times(seconds, bystander.result().p99_us, *used)
            cluster.wait_for_sets([topic, beside])
            cluster.at_controller().delete_topic(topic)
            for broker in cluster.brokers.values():
                wait_until_gone(broker, topic, _GONE_WITHIN_SECONDS)
            return result

        yield run

    def _fill(self, topic: str, generators: Path, port: int) -> None:
        batch = BATCH_16K.build()
        templates = produce_templates(Topic(topic, bytes(16), self.partitions), batch, _PRODUCE_VERSION)
        path, count = generators / "behind.templates", self.size // len(batch) // self.partitions
        load = Load(frames.PRODUCE, _PRODUCE_VERSION, path, self.partitions, in_flight=5, requests=count)
        run_templates(generators, load, templates, port)

    def _beside(self, topic: str, generators: Path, port: int) -> LoadResult:
        path = generators / "beside.templates"
        one = Topic(topic, bytes(16), 1)
        write_templates(path, produce_templates(one, BATCH_TINY.build(), _PRODUCE_VERSION, ACKS_ALL))
        bystander = Bystander(_PRODUCE_VERSION, path, self.interval_us, self.beside_seconds)
        return run_load(generators, bystander, port)

    def _wait_until_in_sync(self, cluster: Cluster, leader: int, topic: str) -> None:
        deadline = time.perf_counter() + _CAUGHT_UP_WITHIN_SECONDS
        client = cluster.brokers[leader].client
        while True:
            (state,) = client.metadata([topic]).topics
            if all(len(each.in_sync) == len(IDS) for each in state.partitions):
                return
            if time.perf_counter() > deadline:
                raise BenchError(f"{cluster.name}: {topic} is not in sync after {_CAUGHT_UP_WITHIN_SECONDS:g} s")
            time.sleep(TICK_SECONDS)

    def quick(self) -> Self:
        return replace(self, size=self.size // 8)

    def figures(self) -> Mapping[Figure, Callable[[Times], float]]:
        return {
            _figure("s to catch up"): lambda times: times.seconds,
            _figure("p99 ms beside"): lambda times: times.detail / 1e3,
            **_CPU,
        }


FAULTS: Final[Mapping[str, Fault]] = {
    "catch-up": CatchUp(),
    "failover": Failover(),
    "controlled-stop": ControlledStop(),
    "group-failover": GroupFailover(),
}
BESIDE_ZOOKEEPER_KAFKA: Final = frozenset(("failover", "controlled-stop", "group-failover"))
"""Rows beside Apache Kafka 3.9 with ZooKeeper: with the same session, so that the rest can be compared."""


def measure_faults(
    fault: Fault, launchers: Sequence[ClusterLauncher], directory: Path, generators: Path, turns: int
) -> Iterator[tuple[str, int, Times]]:
    """(kind, number of the turn, result), in turns, after one of each kind that does not count: a JVM is cold."""
    with ExitStack() as stack:
        runs: dict[str, Run] = {}
        for launcher in launchers:
            cluster = stack.enter_context(launcher.running(directory / launcher.name))
            runs[launcher.name] = stack.enter_context(fault.opened(cluster, generators))
        for run in runs.values():
            run()
        for number in range(turns):
            for name, run in runs.items():
                yield name, number, run()
