"""What holds in a simulated cluster: at every write to ZooKeeper, while it runs, and at its end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from headgate.gateway.replication.follower import Follower
from headgate.gateway.tests.simulation.clients import GROUP, History
from headgate.gateway.tests.simulation.cluster import MIN_IN_SYNC, TOPIC, Cluster
from headgate.gateway.tests.simulation.replicas import Replicas, batches
from headgate.gateway.tests.simulation.transactions import SOURCE, transformed
from headgate.gateway.zookeeper.layout.topics import LeaderAndIsr
from headgate.protocol.records import control
from headgate.protocol.records.batch import iterate

LOOK_MS: Final = 500.0
_is_state: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state").fullmatch


class Checks:
    """The rules."""

    def __init__(self, cluster: Cluster, history: History, partitions: int, *, is_dual: bool) -> None:
        self._is_dual = is_dual
        self._cluster = cluster
        self._history = history
        self._partitions = partitions
        self._replicas = Replicas(cluster)
        self._leaders: dict[tuple[str, int, int], int] = {}
        self.when_elected: list[Callable[[int], None]] = []
        """Called with a partition of the topic that has a new leader epoch."""
        cluster.keeper.written.append(self._note_write)
        history.when_grown.append(self._check_in_sync)
        history.when_acknowledged.append(self._check_copies)
        self._look()

    def _require(self, holds: bool, rule: str) -> None:
        if not holds:
            self._cluster.world.note(f"BROKEN: {rule}")
            self._cluster.world.failures.append(rule)

    # ZooKeeper

    def _note_write(self, session_id: int, path: str, before: bytes | None, after: bytes | None) -> None:
        if path == "/controller" and after:
            self._cluster.world.note(f"broker {json.loads(after)['brokerid']} is the controller")
        if path == "/controller_epoch" and before and after:
            self._require(int(after) > int(before), f"the controller epoch was {before!r}, and is {after!r}")
        place = _is_state(path)
        if place is not None and before and after:
            name = f"{place[1]}-{place[2]}"
            self._note_state(session_id, name, json.loads(before), json.loads(after))
        if place is not None and place[1] == TOPIC:
            self._check_in_sync(int(place[2]))

    def _note_state(self, session_id: int, name: str, old: Any, new: Any) -> None:
        self._cluster.world.note(f"{name}: leader {new['leader']}, epoch {new['leader_epoch']}, in sync {new['isr']}")
        self._require(new["leader_epoch"] >= old["leader_epoch"], f"{name}: the leader epoch falls: {old} {new}")
        self._require(new["controller_epoch"] >= old["controller_epoch"], f"{name}: the controller epoch falls")
        self._require(bool(new["isr"]), f"{name}: nothing is in sync")
        self._require(new["leader"] in {-1, *new["isr"]}, f"{name}: the leader is not in sync: {new}")
        if new["leader_epoch"] == old["leader_epoch"]:
            self._require(new["leader"] == old["leader"], f"{name}: two leaders in one epoch: {old} {new}")
            return
        if name.rpartition("-")[0] == TOPIC:
            for listener in self.when_elected:
                listener(int(name.rpartition("-")[2]))
        clean = new["leader"] in {-1, *old["isr"]}
        self._require(clean, f"{name}: {new['leader']} was not in sync, and leads: {old} {new}")
        self._require(set(new["isr"]) <= set(old["isr"]), f"{name}: an election adds to the in-sync set: {old} {new}")
        host = self._cluster.keeper.host_of(session_id)
        controller = self._cluster.keeper.tree.nodes.get("/controller")
        is_controller = controller is not None and controller.owner == session_id
        self._require(is_controller, f"{name}: {host} elects a leader, and is not the controller")

    # Brokers

    def _check_in_sync(self, index: int) -> None:
        """Every acknowledged record, and every one that a consumer saw, is in each in-sync replica."""
        end, state = self._history.ends.get(index, 0), self._cluster.keeper.fields(LeaderAndIsr.path(TOPIC, index))
        for node_id in state.get("isr", ()):
            there = self._replicas.end(node_id, TOPIC, index)
            rule = f"broker {node_id} is in sync for {index} with records before {there}; the clients know of {end}"
            self._require(there >= end or self._cluster.has_dropped, rule)

    def _check_copies(self, index: int, end: int) -> None:
        """What was acknowledged just now is on enough disks, whatever consumers may read of a leader that is alone."""
        copies = sum(self._replicas.end(node_id, TOPIC, index) >= end for node_id in self._cluster.node_ids)
        self._require(
            copies >= MIN_IN_SYNC or self._cluster.has_dropped,
            f"{copies} replicas of {index} have the records before {end}",
        )

    def _look(self) -> None:
        """Look at all brokers, now and then."""
        for broker in self._cluster.brokers.values():
            for replica in broker.leads:
                if replica.replicas and not isinstance(replica, Follower) and not replica.has_resigned:
                    key = replica.topic, replica.index, replica.leader_epoch
                    leader = self._leaders.setdefault(key, broker.node_id)
                    self._require(leader == broker.node_id, f"{key} has leaders {leader} and {broker.node_id}")
        for index in range(self._partitions):
            self._check_in_sync(index)
        self._cluster.world.after(LOOK_MS, self._look)

    def are_sets_full(self) -> bool:
        """Whether every replica is in sync."""
        there = list(self._there())
        return len(there) >= self._partitions and all(self._is_full(*each) for each in there)

    def _is_full(self, topic: str, index: int) -> bool:
        state = self._cluster.keeper.fields(LeaderAndIsr.path(topic, index))
        return len(state["isr"]) == 3 and state["leader"] >= 0

    def is_told(self) -> bool:
        """Whether every broker has the last state of every partition: the balance of leaders may still change one."""
        return not any(self._outdated(*each) for each in self._there())

    def _there(self) -> Iterator[tuple[str, int]]:
        """The topic and number of each partition that ZooKeeper has."""
        for place in filter(None, map(_is_state, self._cluster.keeper.tree.nodes)):
            yield place[1], int(place[2])

    # The end

    def finish(self) -> None:
        """Check what must be there at the end."""
        for topic, index in self._there():
            self._check_replicas(topic, index)
            outdated = self._outdated(topic, index)
            self._require(not outdated, f"brokers have other metadata of {topic}-{index}: {outdated}")
        for index in range(self._partitions):
            self._check_partition(index)
        offset = self._history.committed.get((GROUP, 0))
        if self._is_dual and offset is not None:
            found = self._cluster.keeper.tree.nodes[f"/consumers/{GROUP}/offsets/{TOPIC}/0"].data
            self._require(found == str(offset).encode(), f"ZooKeeper has {found!r}, and {offset} was committed")

    def _check_replicas(self, topic: str, index: int) -> None:
        isr = self._cluster.keeper.fields(LeaderAndIsr.path(topic, index))["isr"]
        stored = {node_id: self._replicas.stored(node_id, topic, index) for node_id in isr}
        self._require(len(set(stored.values())) == 1, f"the replicas of {topic}-{index} differ: {_ends(stored)}")

    def _outdated(self, topic: str, index: int) -> list[str]:
        """The brokers that have another state of a partition than ZooKeeper."""
        fields = self._cluster.keeper.fields(LeaderAndIsr.path(topic, index))
        found = []
        for broker in self._cluster.brokers.values():
            image = broker.parts.services.metadata.image
            state = image.topics[topic].partitions[index]
            is_known = (state.leader, state.leader_epoch) == (fields["leader"], fields["leader_epoch"])
            if not is_known or set(image.brokers) != set(self._cluster.brokers):
                found.append(f"{broker} has {state} and knows of {set(image.brokers)}: {fields}")
        return found

    def _check_partition(self, index: int) -> None:
        leader = self._cluster.state(index).leader
        values = committed_values(self._replicas.stored(leader, TOPIC, index))
        for (partition, value), offset in self._history.acknowledged.items():
            if partition == index:
                found = [at for at, each in values.items() if each == value]
                self._require(bool(found), f"{value!r} of {index} was acknowledged, and is lost")
                self._require(offset < 0 or found == [offset], f"{value!r} was acknowledged at {offset}: {found}")
        for (partition, offset), value in self._history.seen.items():
            if partition == index:
                self._require(values.get(offset) == value, f"a consumer has seen {value!r} at {offset} of {index}")
        sent = [value for partition, value in self._history.sent if partition == index]
        if not sent:
            sent = [transformed(value) for partition, value in self._history.sent if partition == SOURCE]
        there = list(values.values())
        self._require(len(set(there)) == len(there), f"records of {index} are there twice")
        self._require(there == sent, f"{index} has not what was sent, in its order")


def committed_values(stored: bytes) -> dict[int, bytes]:
    """Offset -> value of the records of a replica, without those of aborted and open transactions."""
    values, opened = dict[int, bytes](), dict[int, dict[int, bytes]]()
    for header, batch in batches(stored):
        marker = control.read(batch) if header.is_control else None
        if marker is not None:
            ended = opened.pop(header.producer_id, {})
            values.update(ended if marker.is_commit else {})
            continue
        into = opened.setdefault(header.producer_id, {}) if header.is_transactional else values
        into.update({record.offset: record.value or b"" for record in iterate(batch)})
    return dict(sorted(values.items()))


def _ends(stored: dict[int, bytes]) -> str:
    ends = {
        node_id: max((header.last_offset for header, _ in batches(data)), default=-1) + 1
        for node_id, data in stored.items()
    }
    return f"ends {ends}, bytes { {node_id: len(data) for node_id, data in stored.items()} }"
