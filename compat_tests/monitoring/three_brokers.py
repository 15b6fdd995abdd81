"""Three brokers with a ZooKeeper: followers that stand still, leaders that stop, replicas that move, unclean elections.

The roles: the controller stays until the end; `still` is stopped by SIGSTOP; `leaving` stops and comes back, and may
be the coordinator of the transaction.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from compat_tests.cluster.cluster import HEADGATE, IDS, Cluster
from compat_tests.cluster.test_directories import new_broker
from compat_tests.harness import toolchain
from compat_tests.harness.apache_kafka import REASSIGN
from compat_tests.harness.broker import HTTP
from compat_tests.harness.tool_jvm import tool_output
from compat_tests.harness.topics import placed_topic, set_config
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import LIMIT_S
from compat_tests.monitoring.readings import Reading, Readings

SETTINGS: Final = {
    HTTP: "http://127.0.0.1:0",
    "min.insync.replicas": "2",
    "transaction.state.log.num.partitions": "1",
    "controlled.shutdown.retry.backoff.ms": "200",
    "replica.fetch.max.bytes": "1",
}
"""A follower fetches batch by batch: 2,000 of them take it longer than a reading."""
UNCLEAN: Final = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
MISSED_BATCHES: Final = 2_000


class ThreeBrokers:
    """The cluster, its roles, and its readings."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.readings = Readings()
        self.bootstrap = cluster.bootstrap
        self.transaction = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": "pay", "acks": "all"})
        self.transaction.init_transactions(LIMIT_S)
        self.controller = cluster.roles().controller
        self.coordinator = cluster.view(self.controller).partitions["__transaction_state", 0].leader
        self.still = min(set(IDS) - {self.controller, self.coordinator})
        (self.leaving,) = set(IDS) - {self.controller, self.still}

    def until(
        self, broker: int, family: str, above: float = 0, *, below: float | None = None, **labels: str
    ) -> Reading:
        return self.readings.until(
            f"broker-{broker}", self.cluster.brokers[broker], family, above, below=below, **labels
        )

    def read(self) -> None:
        """Read all brokers that answer."""
        for broker in self.cluster.serving():
            with suppress(OSError):
                self.readings.read(f"broker-{broker}", self.cluster.brokers[broker])

    def topic(self, *placement: tuple[int, ...], configs: dict[str, str] | None = None) -> str:
        name = placed_topic(self.bootstrap, placement, configs)
        self.cluster.wait_for_topic(name, len(placement))
        return name

    def send(self, topic: str, count: int = 10, size: int = 100, partition: int = 0) -> None:
        """Records with acks=1, each a batch."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": 1, "batch.num.messages": 1})
        for _ in range(count):
            producer.produce(topic, bytes(size), partition=partition)
        assert producer.flush(LIMIT_S) == 0


def scenario(directory: Path) -> Readings:
    """Everything, and the readings."""
    toolchain.jars("broker")
    with Cluster(directory, HEADGATE, SETTINGS, new_broker=new_broker) as cluster:
        three = ThreeBrokers(cluster, directory)
        for step in (a_follower_stands_still, leaders_stop, a_disk_is_gone, the_controller_stops):
            three.read()
            step(three)
        return three.readings


def a_follower_stands_still(three: ThreeBrokers) -> None:
    """It leaves the in-sync sets, a transaction waits for it, a replica moves to it; then it catches up."""
    controller, still, leaving = three.controller, three.still, three.leaving
    shared = three.topic((controller, still, leaving))
    moving = three.topic((controller,))
    ending = three.topic((still, controller))
    contended = three.topic((leaving, still))
    for topic in (shared, moving, contended):
        three.send(topic)
    three.read()
    transaction = three.transaction
    transaction.begin_transaction()
    transaction.produce(ending, b"paid")
    assert transaction.flush(LIMIT_S) == 0

    three.cluster.pause(still)
    commit = threading.Thread(target=transaction.commit_transaction, args=(LIMIT_S,))
    commit.start()
    try:
        state = f"/brokers/topics/{contended}/partitions/0/state"
        three.cluster.nodes.set(state, three.cluster.nodes.get(state)[0])  # newer than the leader knows
        for topic in (shared, contended):
            three.send(topic)
        three.until(controller, "headgate_follower_max_lag", follower=str(still))
        move(three, moving, [controller, still])
        three.until(controller, "headgate_partitions_reassigning")
        three.until(three.coordinator, "headgate_transactions_ending")
        three.until(controller, "headgate_partitions_under_replicated")
        three.until(controller, "headgate_isr_shrinks_total")
        three.until(controller, "headgate_partitions_at_min_isr")
        three.until(leaving, "headgate_isr_refusals_total")
        set_config(three.bootstrap, shared, "min.insync.replicas", "3")
        three.until(controller, "headgate_partitions_under_min_isr")
        three.read()
        three.send(shared, MISSED_BATCHES)
    finally:
        three.cluster.resume(still)
    three.until(still, "headgate_replica_max_lag")
    three.until(controller, "headgate_partitions_reassigning", below=1)
    three.until(controller, "headgate_isr_expands_total")
    three.until(still, "headgate_replica_max_lag", below=1)
    commit.join()
    three.until(three.coordinator, "headgate_transactions_ending", below=1)
    three.cluster.wait_for_full_sets()
    three.read()


def move(three: ThreeBrokers, topic: str, replicas: list[int]) -> None:
    """By Kafka's tool, which does not wait."""
    plan = three.directory / "plan.json"
    row = {"topic": topic, "partition": 0, "replicas": replicas}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    command = ("--reassignment-json-file", str(plan), "--execute")
    tool_output(REASSIGN, "--bootstrap-server", three.cluster.brokers[three.controller].bootstrap, *command)


def leaders_stop(three: ThreeBrokers) -> None:
    """One stops with the only replica of a partition; another partition gets a leader that is not in sync."""
    controller, still, leaving = three.controller, three.still, three.leaving
    three.topic((leaving,))
    risky = three.topic((leaving, still), configs=UNCLEAN)
    led = three.topic((leaving, controller))
    three.send(risky)
    three.read()
    three.cluster.stop(still)
    until(lambda: three.cluster.stored_states(risky)[0]["isr"] == [leaving], "the in-sync set of one")
    three.send(risky)
    three.cluster.stop(leaving)
    three.until(controller, "headgate_partitions_offline", 1)
    three.until(controller, "headgate_leader_elections_total")
    assert three.cluster.states(led)[0].leader == controller
    three.cluster.start(still)
    three.until(controller, "headgate_unclean_elections_total")
    three.cluster.start(leaving)
    three.until(controller, "headgate_partitions_offline", below=1)
    three.cluster.wait_for_full_sets()


def a_disk_is_gone(three: ThreeBrokers) -> None:
    """One log directory of a broker: others lead, and replace its replicas."""
    broker = three.cluster.brokers[three.leaving]
    disk, away = (broker.directory / name for name in ("b", "away"))
    spread = three.topic(*[(three.leaving, three.still)] * 4)
    disk.rename(away)
    for partition in range(4):
        three.send(spread, partition=partition)  # so that a checkpoint is due, which is the first write to a new file
    three.until(three.leaving, "headgate_replicas_offline")
    away.rename(disk)
    three.until(three.leaving, "headgate_replicas_offline", below=1)


def the_controller_stops(three: ThreeBrokers) -> None:
    """Another broker is the controller."""
    three.cluster.stop(three.controller)
    left = [broker for broker in IDS if broker != three.controller]

    def controllers() -> float:
        three.read()
        return sum(
            three.readings.read(f"broker-{one}", three.cluster.brokers[one]).sum("headgate_controller_active")
            for one in left
        )

    until(lambda: controllers() == 1, "another controller")
