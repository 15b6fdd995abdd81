"""A ZooKeeper and three brokers as processes, Headgate or Apache Kafka 3.9, each with its own directory and port.

`guests` are brokers of another kind: they start once the others are a cluster, so the controller is not one of them.

with Cluster(tmp_path, HEADGATE) as cluster:
    cluster.kill(2)                                     # SIGKILL
    cluster.wait_for_sets(topic, without=2)             # the in-sync sets of all partitions have shrunk
    cluster.start(2)
    cluster.wait_for_full_sets()                        # every broker says so
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, NamedTuple, Self

from kazoo.client import KazooClient

from compat_tests.harness import toolchain
from compat_tests.harness.broker import Broker, HeadgateBroker
from compat_tests.harness.kafka_target import KafkaZooKeeperBroker
from compat_tests.harness.leaders import Metadata, Partition, metadata
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.topics import create_topics, delete_topic
from compat_tests.harness.waiting import Late, until
from compat_tests.harness.writing import commit
from compat_tests.harness.zookeeper import ZooKeeper
from compat_tests.tools.kafka_tools import FEATURES
from compat_tests.zookeeper.test_start import Wire

HEADGATE: Final = "headgate"
KAFKA: Final = "kafka39"
IDS: Final = (0, 1, 2)
SESSION_MS, LAG_MS = 6000, 2000
SETTINGS: Final = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "replica.lag.time.max.ms": str(LAG_MS),
    "controlled.shutdown.enable": "true",
    "auto.create.topics.enable": "false",
    # Leads stay where a test has brought them
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
}
# What Kafka 3.9 with ZooKeeper lacks: docs/cluster.md
FEATURES_OFF: Final = ("--feature", "group.version=0", "--feature", "transaction.version=0")
OFFSETS: Final = ("__consumer_offsets", 0)
ANSWER_LIMIT_S: Final = 5.0
# From the moment that all brokers serve until every in-sync set is full
FULL_LIMIT_S: Final = 15.0
STEP_S: Final = 0.05

NewBroker = Callable[[Path, int, str, Mapping[str, str]], Broker]


class Roles(NamedTuple):
    """The first three are different brokers. `idle` is not the coordinator of the groups; any other may be."""

    controller: int
    other: int
    idle: int
    coordinator: int


def new_headgate(directory: Path, broker_id: int, connect: str, settings: Mapping[str, str]) -> Broker:
    return HeadgateBroker(directory, {"zookeeper.connect": connect, "broker.id": str(broker_id), **settings})


def new_kafka(directory: Path, broker_id: int, connect: str, settings: Mapping[str, str]) -> Broker:
    return KafkaZooKeeperBroker(directory, connect, settings, "broker39", broker_id)


KINDS: Final[Mapping[str, NewBroker]] = {HEADGATE: new_headgate, KAFKA: new_kafka}


class Cluster:
    """For the length of a with-block; `wires`, one a broker, lie between ZooKeeper and the brokers.

    `new_broker` makes the brokers, if others than those of their kinds are wanted.
    """

    def __init__(
        self,
        directory: Path,
        kind: str,
        settings: Mapping[str, str] | None = None,
        *,
        guests: Mapping[int, str] = MappingProxyType({}),
        new_broker: NewBroker | None = None,
    ) -> None:
        toolchain.jars("zookeeper")
        self.directory = directory
        self.kind = kind
        self.kinds = {**dict.fromkeys(IDS, kind), **guests}
        self.settings = {**SETTINGS, **(settings or {})}
        self._new_broker = new_broker
        self.zookeeper = ZooKeeper(is_synced=False)
        self.brokers: dict[int, Broker] = {}
        self.wires: dict[int, Wire] = {}
        self.paused: set[int] = set()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack as stack:
            stack.enter_context(self.zookeeper)
            self.nodes = KazooClient(self.zookeeper.connect)
            self.nodes.start()
            stack.callback(self._close_nodes)
            self.prepare()
            for broker_id in IDS:
                wire = self.wires[broker_id] = stack.enter_context(contextlib.closing(Wire(self.zookeeper.port)))
                directory, connect = self.directory / f"broker-{broker_id}", f"127.0.0.1:{wire.port}"
                settings = {**self.settings, **self.settings_of(broker_id)}
                make = self._new_broker or KINDS[self.kinds[broker_id]]
                self.brokers[broker_id] = make(directory, broker_id, connect, settings)
            stack.callback(self._end)
            self._start_all(lambda kind: kind == self.kind)
            if self.kind == HEADGATE and KAFKA in self.kinds.values():
                host = next(one for one, kind in self.kinds.items() if kind == HEADGATE)
                tool_output(FEATURES, "--bootstrap-server", self.brokers[host].bootstrap, "downgrade", *FEATURES_OFF)
            self._start_all(lambda kind: kind != self.kind)
            self.wait_for_full_sets()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start_all(self, is_wanted: Callable[[str], bool]) -> None:
        wanted = [self.brokers[broker_id] for broker_id, kind in self.kinds.items() if is_wanted(kind)]
        with ThreadPoolExecutor(len(IDS)) as pool:
            list(pool.map(lambda broker: broker.start(), wanted))

    def settings_of(self, _broker_id: int) -> Mapping[str, str]:
        """Settings of one broker alone, in a cluster that has some."""
        return {}

    def prepare(self) -> None:
        """What ZooKeeper has to have before a broker starts, in a cluster that needs something."""

    def _close_nodes(self) -> None:
        self.nodes.stop()
        self.nodes.close()

    def _end(self) -> None:
        """SIGKILL: an orderly stop of a whole cluster of Kafka takes half a minute."""
        for broker in self.brokers.values():
            broker.kill()

    # ----------------------------------------------------------------------------------------------------- faults

    def kill(self, broker_id: int) -> None:
        """SIGKILL: the page cache stays, and the session until its time-out."""
        self.brokers[broker_id].kill()
        self.paused.discard(broker_id)

    def stop(self, broker_id: int) -> None:
        """SIGTERM: a controlled stop."""
        self.brokers[broker_id].stop()

    def start(self, broker_id: int) -> float:
        """Start a broker again; the seconds that took. Kafka does not start within the session of its last process."""
        if self.kinds[broker_id] == KAFKA:
            self.wait_for_session_end(broker_id)
        return self.brokers[broker_id].start()

    def pause(self, broker_id: int) -> None:
        """SIGSTOP: connections stay, nothing is answered."""
        os.kill(self.brokers[broker_id].pid, signal.SIGSTOP)
        self.paused.add(broker_id)

    def resume(self, broker_id: int) -> None:
        os.kill(self.brokers[broker_id].pid, signal.SIGCONT)
        self.paused.discard(broker_id)

    def repair(self) -> None:
        """Have everything run and reach each other again, whatever a test that failed has left behind."""
        if self.zookeeper.process is None:
            self.zookeeper.start()
        os.kill(self.zookeeper.pid, signal.SIGCONT)
        for broker_id, wire in self.wires.items():
            if wire.is_cut:
                wire.mend()
            if broker_id in self.paused:
                self.resume(broker_id)
            if not self.brokers[broker_id].is_running():
                self.start(broker_id)
        self.wait_for_full_sets()

    # ------------------------------------------------------------------------------------------------------ waits

    def wait_for_session_end(self, broker_id: int) -> float:
        """Until ZooKeeper has removed the registration of a broker that is gone, or stands still."""
        return until(lambda: not self.is_registered(broker_id), f"the session of broker {broker_id} to end")

    def is_registered(self, broker_id: int) -> bool:
        return self.nodes.exists(f"/brokers/ids/{broker_id}") is not None

    def wait_for_full_sets(self, limit_s: float = FULL_LIMIT_S) -> float:
        """Until every running broker knows all three, and for each partition a leader and a full set; the seconds."""
        return self._wait(lambda view: not gaps(view), limit_s, "full in-sync sets")

    def wait_for_topic(self, topic: str, partitions: int) -> None:
        """Until every running broker knows a new topic, with full sets."""
        self._wait(lambda view: len(of_topic(view, topic)) == partitions, 60.0, f"{topic} at every broker")
        self.wait_for_full_sets()

    def wait_for_sets(self, topic: str, without: int, limit_s: float = 60.0) -> float:
        """Until every running broker knows that all in-sync sets of a topic have lost a broker; the seconds."""

        def have_shrunk(view: Metadata) -> bool:
            states = of_topic(view, topic)
            return bool(states) and all(without not in state.in_sync for state in states)

        return self._wait(have_shrunk, limit_s, f"the in-sync sets of {topic} without {without}")

    def _wait(self, is_so: Callable[[Metadata], bool], limit_s: float, what: str) -> float:
        try:
            return until(lambda: all(map(is_so, self.views())), what, limit_s, STEP_S)
        except Late as late:
            shown = "\n".join(f"broker {one}: {gaps(self.view(one)) or 'full'}" for one in self.serving())
            raise Late(f"{late}; now:\n{shown}\n{self.directory}") from None

    # ------------------------------------------------------------------------------------------------------ state

    @property
    def bootstrap(self) -> str:
        """All three, for bootstrap.servers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def serving(self) -> list[int]:
        """Ids of the brokers that run and do not stand still."""
        return [one for one, broker in self.brokers.items() if broker.is_running() and one not in self.paused]

    def views(self) -> Iterator[Metadata]:
        return map(self.view, self.serving())

    def view(self, broker_id: int) -> Metadata:
        """What one broker says of the cluster; an empty view where it says nothing."""
        try:
            return metadata(self.brokers[broker_id].bootstrap, ANSWER_LIMIT_S)
        except OSError:
            return Metadata(frozenset(), -1, {})

    def states(self, topic: str) -> list[Partition]:
        """The partitions of a topic, as the first serving broker knows them."""
        return of_topic(self.view(self.serving()[0]), topic)

    def roles(self) -> Roles:
        """Who is what at the moment, once the topic of the offsets is there."""
        if OFFSETS not in self.view(0).partitions:
            self._begin_offsets()
        view = self.view(0)
        assert view.controller != -1, "the cluster has no controller"
        coordinator = view.partitions[OFFSETS].leader
        idle = min(set(IDS) - {view.controller, coordinator})
        (other,) = set(IDS) - {view.controller, idle}
        return Roles(view.controller, other, idle, coordinator)

    def _begin_offsets(self) -> None:
        create_topics(self.bootstrap, {"first": {}}, 1, 3)
        commit(self.bootstrap, "first", "first", {0: 0})
        delete_topic(self.bootstrap, "first")
        self.wait_for_full_sets()

    def stored_states(self, topic: str) -> list[dict[str, Any]]:
        """The states of the partitions of a topic in ZooKeeper: `leader`, `leader_epoch`, `isr`, `controller_epoch`."""
        path = f"/brokers/topics/{topic}/partitions"
        numbers = sorted(map(int, self.nodes.get_children(path)))
        return [json.loads(self.nodes.get(f"{path}/{number}/state")[0]) for number in numbers]

    def epochs(self, topic: str) -> list[int]:
        """The leader epoch of each partition of a topic, in ZooKeeper."""
        return [state["leader_epoch"] for state in self.stored_states(topic)]


def of_topic(view: Metadata, topic: str) -> list[Partition]:
    """The partitions of a topic in their order."""
    return [state for (name, _), state in sorted(view.partitions.items()) if name == topic]


def gaps(view: Metadata) -> list[str]:
    """What is missing, as sentences."""
    found = [f"broker {one} is not known" for one in set(IDS) - view.brokers]
    found += ["there is no controller"] * (view.controller not in view.brokers)
    found += [
        f"{topic}-{index}: {state}"
        for (topic, index), state in sorted(view.partitions.items())
        if state.leader not in view.brokers or state.in_sync != set(state.replicas)
    ]
    return found
