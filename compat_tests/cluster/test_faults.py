"""Three brokers under load, each fault once: what was acknowledged stays, once and in order, and all replicas agree.

A topic has two leaders and one broker that only follows. The fault hits one of the three, or ZooKeeper; it lasts until
it has had its effect, and some traffic longer. Then all in-sync sets are full within the stated time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from compat_tests.cluster.cluster import FULL_LIMIT_S, HEADGATE, IDS, KAFKA, OFFSETS, Cluster, Roles
from compat_tests.cluster.traffic import CONFIGS, Traffic
from compat_tests.harness import toolchain
from compat_tests.harness.broker import Broker, HeadgateBroker
from compat_tests.harness.topics import delete_topic, placed_topic
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import commit, send
from compat_tests.storage.small_disk import SmallDisk

KINDS = [HEADGATE, pytest.param(KAFKA, marks=pytest.mark.soak)]
# How long the producers may be without an acknowledgement: the session, and the election after it
FLOW_LIMIT_S = 30.0
# The broker looks for followers twice in replica.lag.time.max.ms
GO_ON_LIMIT_S = 15.0
DISK_BYTES = 64 << 20
SOAK_FAULTS = 200


@dataclass(frozen=True)
class Target:
    """The broker that a fault hits, and the two that lead the topic's partitions."""

    name: str
    choose: Callable[[Roles], int]
    leaders: Callable[[Roles], tuple[int, int]]


FOLLOWER = Target("a follower", lambda roles: roles.idle, lambda roles: (roles.controller, roles.other))
LEADER = Target("a leader", lambda roles: roles.idle, lambda roles: (roles.idle, roles.other))
CONTROLLER = Target("the controller", lambda roles: roles.controller, lambda roles: (roles.controller, roles.other))
COORDINATOR = Target("the coordinator", lambda roles: roles.coordinator, lambda roles: (roles.controller, roles.other))


@dataclass(frozen=True)
class Fault:
    """`begin` and `end` act on one broker; `end` is called once `lasts` has returned."""

    name: str
    target: Target
    begin: Callable[[Cluster, int], None]
    lasts: Callable[[Cluster, int, Traffic], object]
    end: Callable[[Cluster, int], object]


def until_lag(cluster: Cluster, target: int, traffic: Traffic) -> None:
    """Longer than replica.lag.time.max.ms: the leaders take the broker out of their sets, though it is registered."""
    cluster.wait_for_sets(traffic.topic, without=target)
    assert cluster.is_registered(target)


def until_session_end(cluster: Cluster, target: int, traffic: Traffic) -> None:
    """Longer than the session: other brokers lead."""
    cluster.wait_for_session_end(target)
    cluster.wait_for_sets(traffic.topic, without=target)


def until_taken_over(cluster: Cluster, target: int, traffic: Traffic) -> None:
    """A broker that is cut off from ZooKeeper loses its session; producers must find the next leader."""
    cluster.wait_for_session_end(target)
    until(lambda: target not in leaders_in_zookeeper(cluster, traffic.topic), f"other leaders than {target}")


def traffic_goes_on(_cluster: Cluster, _target: int, traffic: Traffic) -> None:
    """Producers and consumers need no ZooKeeper."""
    traffic.flow()


def leaders_in_zookeeper(cluster: Cluster, topic: str) -> set[int]:
    return {state["leader"] for state in cluster.stored_states(topic)}


def kill_zookeeper(cluster: Cluster, _target: int) -> None:
    cluster.zookeeper.stop()


def start_zookeeper(cluster: Cluster, _target: int) -> None:
    cluster.zookeeper.start()


def pause_zookeeper(cluster: Cluster, _target: int) -> None:
    os.kill(cluster.zookeeper.pid, signal.SIGSTOP)


def resume_zookeeper(cluster: Cluster, _target: int) -> None:
    os.kill(cluster.zookeeper.pid, signal.SIGCONT)


def cut(cluster: Cluster, target: int) -> None:
    cluster.wires[target].cut()


def mend(cluster: Cluster, target: int) -> None:
    cluster.wires[target].mend()


def killed(target: Target) -> Fault:
    return Fault(f"{target.name} is killed", target, Cluster.kill, until_session_end, Cluster.start)


def stopped(target: Target) -> Fault:
    name = f"{target.name} stands still beyond its session"
    return Fault(name, target, Cluster.pause, until_session_end, Cluster.resume)


def cut_off(target: Target) -> Fault:
    return Fault(f"{target.name} is cut off from ZooKeeper", target, cut, until_taken_over, mend)


FAULTS = (
    *map(killed, (FOLLOWER, LEADER, CONTROLLER)),
    Fault("a follower stands still beyond the lag", FOLLOWER, Cluster.pause, until_lag, Cluster.resume),
    *map(stopped, (FOLLOWER, LEADER, CONTROLLER)),
    Fault("ZooKeeper is killed", CONTROLLER, kill_zookeeper, traffic_goes_on, start_zookeeper),
    Fault("ZooKeeper stands still", CONTROLLER, pause_zookeeper, traffic_goes_on, resume_zookeeper),
    *map(cut_off, (LEADER, CONTROLLER)),
)
# A rolling restart has three of these: test_restarts.py
ORDERLY = Fault("a leader stops in order", LEADER, Cluster.stop, traffic_goes_on, Cluster.start)
# Any of the others may be the coordinator too, by chance
MORE_FAULTS = (*FAULTS, ORDERLY, killed(COORDINATOR), stopped(COORDINATOR), cut_off(COORDINATOR))


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp(request.param), request.param) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def whole_again(request: pytest.FixtureRequest) -> Iterator[None]:
    """A fault that a test did not survive is no fault of the next test."""
    cluster = request.getfixturevalue("cluster") if "cluster" in request.fixturenames else None
    yield
    if cluster is not None:
        cluster.repair()


@pytest.mark.parametrize(
    "fault", [*FAULTS, pytest.param(ORDERLY, marks=pytest.mark.soak)], ids=lambda fault: fault.name
)
def test_nothing_acknowledged_is_lost_to(cluster: Cluster, fault: Fault, figure: Callable[[str], None]) -> None:
    figure(survive(cluster, fault)[1])


@pytest.mark.parametrize("cluster", [HEADGATE], indirect=True)
def test_clients_of_a_broker_without_zookeeper_go_on(cluster: Cluster, figure: Callable[[str], None]) -> None:
    """They know no other broker. A Kafka would name itself the leader and the coordinator until ZooKeeper is back."""
    target = cluster.roles().coordinator
    bootstrap, others = cluster.brokers[target].bootstrap, [one for one in IDS if one != target]
    topic = placed_topic(cluster.bootstrap, [(target, *others)], CONFIGS)
    cluster.wait_for_topic(topic, 1)
    cut(cluster, target)
    try:
        cluster.wait_for_session_end(target)
        led = (topic, OFFSETS[0])
        until(lambda: all(target not in leaders_in_zookeeper(cluster, one) for one in led), f"other leaders of {led}")
        began_s = time.monotonic()
        send(bootstrap, topic, [b"value"], is_idempotent=False)  # an id of a producer needs ZooKeeper
        commit(bootstrap, topic, topic, {0: 1})
        passed_s = time.monotonic() - began_s
    finally:
        mend(cluster, target)
    cluster.wait_for_full_sets()
    assert passed_s < GO_ON_LIMIT_S
    figure(f"clients of a broker without ZooKeeper go on {passed_s:.1f} s after the election")


@pytest.mark.soak
@pytest.mark.parametrize("cluster", [HEADGATE], indirect=True)
@pytest.mark.parametrize("number", range(SOAK_FAULTS), ids="number-{:03}".format)
def test_nothing_is_lost_to_faults_in_random_order(
    cluster: Cluster, number: int, figure: Callable[[str], None]
) -> None:
    """`-k number-057` repeats one of them. One cluster has all of them, one after the other."""
    traffic, line = survive(cluster, Random(number).choice(MORE_FAULTS))
    figure(f"number {number}: {line}")
    for topic in (traffic.topic, traffic.java_topic):
        delete_topic(cluster.bootstrap, topic)


def survive(cluster: Cluster, fault: Fault) -> tuple[Traffic, str]:
    """Have a fault under load, and check what it must not have done. Returns the traffic, and a line of figures."""
    roles = cluster.roles()
    target = fault.target.choose(roles)
    first, second = fault.target.leaders(roles)
    (follower,) = set(roles) - {first, second}
    placement = [(first, second, follower), (second, follower, first)] * 2
    with Traffic(cluster, placement) as traffic:
        before = cluster.epochs(traffic.topic)
        fault.begin(cluster, target)
        try:
            fault.lasts(cluster, target, traffic)
            flow_s = traffic.flow()
        finally:
            fault.end(cluster, target)
        full_s = cluster.wait_for_full_sets()
        traffic.flow()
    count = traffic.check()
    after = cluster.epochs(traffic.topic)
    if fault.target is FOLLOWER:
        traffic.assert_undisturbed(placement)
    assert all(old <= new for old, new in zip(before, after, strict=True))
    assert flow_s < FLOW_LIMIT_S
    assert full_s < FULL_LIMIT_S
    figures = f"{count} records in 3 logs; flow after {flow_s:.1f} s, sets full after {full_s:.2f} s, epochs {after}"
    return traffic, f"{cluster.kind}, {fault.name}: {figures}"


class BrokerOnSmallDisk(HeadgateBroker):
    """A broker with its data on a small disk, which has a mount namespace of its own."""

    def __init__(self, directory: Path, disk: SmallDisk, settings: Mapping[str, str]) -> None:
        super().__init__(directory, settings, disk.directory / "data")
        self.disk = disk

    def command(self) -> list[str]:
        return self.disk.enter(super().command())

    def partition_directory(self, topic: str, partition: int) -> Path:
        return self.disk.root / "data" / f"{topic}-{partition}"


@contextmanager
def small_disks(directory: Path) -> Iterator[dict[int, SmallDisk]]:
    """A small disk for each broker: it is not known yet which one will only follow."""
    with ExitStack() as stack:
        disks = {}
        for broker_id in IDS:
            mount = directory / f"disk-{broker_id}"
            mount.mkdir()
            try:
                disks[broker_id] = stack.enter_context(SmallDisk(mount, DISK_BYTES))
            except OSError as error:
                toolchain.missing(f"no small disk: {error}")
        yield disks


def test_nothing_acknowledged_is_lost_to_a_full_disk(tmp_path: Path, figure: Callable[[str], None]) -> None:
    """The disk of a follower, without a byte left: the others take it out of their sets, and in again."""

    def new_broker(directory: Path, broker_id: int, connect: str, settings: Mapping[str, str]) -> Broker:
        wanted = {"zookeeper.connect": connect, "broker.id": str(broker_id), **settings}
        return BrokerOnSmallDisk(directory, disks[broker_id], wanted)

    with small_disks(tmp_path) as disks, Cluster(tmp_path, HEADGATE, new_broker=new_broker) as cluster:
        first, second, follower, _ = cluster.roles()
        with Traffic(cluster, [(first, second, follower), (second, follower, first)] * 2) as traffic:
            disks[follower].fill()
            cluster.wait_for_sets(traffic.topic, without=follower)
            traffic.flow()
            disks[follower].clear()
            full_s = cluster.wait_for_full_sets()
            traffic.flow()
        count = traffic.check()
    figure(f"a follower's disk is full: {count} records in 3 logs; sets full after {full_s:.2f} s")
