"""A simulated cluster from its seed to its checks.

One seed again, with its trace: python -m headgate.gateway.tests.simulation.simulation SEED
"""

from __future__ import annotations

import logging
import sys
from random import Random
from typing import Final

from headgate.gateway.tests.simulation.checks import Checks
from headgate.gateway.tests.simulation.clients import GROUP, READ_COMMITTED, READ_UNCOMMITTED, ClientHost, History
from headgate.gateway.tests.simulation.cluster import Cluster
from headgate.gateway.tests.simulation.faults import Faults
from headgate.gateway.tests.simulation.members import Member
from headgate.gateway.tests.simulation.transactions import SOURCE, TARGET, Transformer
from headgate.gateway.tests.simulation.world import World

MODULE: Final = "headgate.gateway.tests.simulation.simulation"
PARTITIONS: Final = 2
RECORDS: Final = 36
COMMITS: Final = 8
FAULTS_MS: Final = 5_000.0
WHOLE_WITHIN_MS: Final = 25_000.0
"""From the end of the faults: all in-sync sets are full again, and all clients have ended their work."""


class Simulation:
    """One cluster, its clients, and its faults."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        plan = Random(seed)
        settings: dict[str, str] = {}
        if plan.random() < 0.4:
            settings["headgate.flush"] = "commit"
        if plan.random() < 0.3:
            settings["replica.fetch.max.bytes"] = "300"
        self._has_members, self._has_transactions = plan.random() < 0.4, plan.random() < 0.5
        self._times_out = plan.random() < 0.3
        is_dual = not self._has_members and plan.random() < 0.3
        if is_dual:
            settings["headgate.offsets.store"] = f"{GROUP}=dual:kafka"
        self.cluster = Cluster(self.world, plan.choices((3, 4, 5), (7, 2, 1))[0], settings)
        self.cluster.has_slow_threads = plan.random() < 0.3
        self.history = History()
        self.checks = Checks(self.cluster, self.history, PARTITIONS, is_dual=is_dual)
        self.faults = Faults(self.cluster, plan)
        self._topic = {"segment.bytes": "1500"} if plan.random() < 0.3 else {}

    def run(self) -> None:
        """The whole history. Raises AssertionError."""
        world, cluster = self.world, self.cluster
        for node_id in cluster.node_ids:
            cluster.start(node_id)
        self._begin_clients()
        self.faults.begin(FAULTS_MS)
        self.world.run_for(FAULTS_MS)
        self.faults.heal()
        world.run_until(self._is_whole, WHOLE_WITHIN_MS, "all clients have ended, all in-sync sets are full")
        last = self._client("last")
        last.begin(last.look_at_offsets())
        world.run_until(lambda: not self.history.working, WHOLE_WITHIN_MS, "the last look at the offsets")
        world.run_for(1_000)
        world.run_until(self.checks.is_told, 1_000, "all brokers know the leaders")
        self.checks.finish()
        world.run_for(1.0)

    def _client(self, name: str) -> ClientHost:
        return ClientHost(self.cluster, name, self.history)

    def _begin_clients(self) -> None:
        admin = self._client("admin")
        admin.begin(admin.create_topic(PARTITIONS, self._topic))
        self.world.run_until(lambda: not self.history.working, 10_000, "the topic is created")
        for index in range(PARTITIONS):
            if index == SOURCE or not self._has_transactions:
                producer = self._client(f"producer-{index}")
                producer.begin(producer.produce(index, RECORDS, FAULTS_MS / RECORDS * 4))
            level = READ_COMMITTED if index == TARGET and self._has_transactions else READ_UNCOMMITTED
            consumer = self._client(f"consumer-{index}")
            consumer.begin(consumer.consume(index, level), must_end=False)
        watcher = self._client("watcher")
        watcher.backoff_ms = 20.0
        self.checks.when_elected.append(lambda index: watcher.begin(watcher.look_at_ends(index), must_end=False))
        if self._has_transactions:
            transformer = Transformer(self.cluster, "transformer", self.history)
            transformer.timeout_ms = 2_000 if self._times_out else 60_000
            transformer.begin(transformer.transform(RECORDS))
        if self._has_members:
            for number in range(2):
                member = Member(self.cluster, f"member-{number}", self.history)
                member.begin(member.take_part(PARTITIONS, COMMITS, FAULTS_MS / COMMITS))
        else:
            committer = self._client("committer")
            committer.begin(committer.commit_offsets(COMMITS, FAULTS_MS / COMMITS))

    def _is_whole(self) -> bool:
        return not self.history.working and self.checks.are_sets_full()


def run(seed: int) -> Simulation:
    """One history."""
    simulation = Simulation(seed)
    try:
        simulation.run()
    except BaseException as error:
        error.add_note("\n".join([*simulation.world.trace, f"python -m {MODULE} {seed}"]))
        raise
    return simulation


def show(seed: int) -> None:
    """One history, with the lines of all brokers in between."""
    made = Simulation(seed)
    logging.basicConfig(level=logging.INFO, format="            %(name)s: %(message)s", stream=sys.stdout)
    made.world.note = made.world.show  # type: ignore[method-assign]
    made.run()
    made.world.show(f"{made.world.events} events, {len(made.history.acknowledged)} acknowledged records")


if __name__ == "__main__":
    show(int(sys.argv[1]))
