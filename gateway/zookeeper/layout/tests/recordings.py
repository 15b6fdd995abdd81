"""The recordings of what Apache Kafka wrote into ZooKeeper; `compat_tests/zookeeper/recorder.py` makes them."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from headgate.gateway.zookeeper.layout.admin import (
    PartitionReassignments,
    PreferredReplicaElection,
)
from headgate.gateway.zookeeper.layout.brokers import BrokerRegistration, broker_id_of
from headgate.gateway.zookeeper.layout.cluster import ClusterId, Controller, ControllerEpoch, ProducerIdBlock
from headgate.gateway.zookeeper.layout.configs import ConfigChange, ConfigEntity, EntityConfigs
from headgate.gateway.zookeeper.layout.consumers import ConsumerOffset, ConsumerRegistration, PartitionOwner
from headgate.gateway.zookeeper.layout.isr_changes import IsrChange
from headgate.gateway.zookeeper.layout.log_dir_events import LogDirEvent
from headgate.gateway.zookeeper.layout.tests.unread_nodes import Features
from headgate.gateway.zookeeper.layout.topics import LeaderAndIsr, TopicAssignment
from headgate.gateway.zookeeper.layout.tree import ZNode

OLD, MIDDLE, NEW = "0.8.2.2", "2.8.2", "3.9.1"
_DIRECTORY = Path(__file__).parent / "of_kafka"


class Write(NamedTuple):
    """A line of a recording; operations with one `zxid` were one multi."""

    zxid: int
    verb: str
    kind: str
    path: str
    data: bytes | None


class Value(Protocol):
    def encode(self) -> bytes: ...


class Reader(NamedTuple):
    """How the nodes of one kind are read: the pattern of their paths, and `decode` of its groups and the data."""

    name: str
    pattern: str
    decode: Callable[..., Value | None]

    def read(self, path: str, data: bytes | None) -> Value | None:
        found = re.fullmatch(self.pattern, path)
        assert found is not None
        return self.decode(*found.groups(), data)


def _state(topic: str, partition: str, data: bytes | None) -> LeaderAndIsr:
    return LeaderAndIsr.decode(topic, int(partition), data)


def _broker(broker_id: str, data: bytes | None) -> BrokerRegistration:
    return BrokerRegistration.decode(broker_id_of(broker_id), data)


def _configs(entity_path: str, data: bytes | None) -> EntityConfigs:
    return EntityConfigs.decode(ConfigEntity.of(entity_path), data)


def _owner(group: str, topic: str, partition: str, data: bytes | None) -> PartitionOwner:
    return PartitionOwner.decode(group, topic, int(partition), data)


def _offset(group: str, topic: str, partition: str, data: bytes | None) -> ConsumerOffset:
    return ConsumerOffset.decode(group, topic, int(partition), data)


READERS = [
    Reader("controller", "/controller", Controller.decode),
    Reader("controller epoch", "/controller_epoch", ControllerEpoch.decode),
    Reader("cluster id", "/cluster/id", ClusterId.decode),
    Reader("features", "/feature", Features.decode),
    Reader("producer ids", "/latest_producer_id_block", ProducerIdBlock.decode),
    Reader("broker", "/brokers/ids/([^/]+)", _broker),
    Reader("topic", "/brokers/topics/([^/]+)", TopicAssignment.decode),
    Reader("state", "/brokers/topics/([^/]+)/partitions/([^/]+)/state", _state),
    Reader("change of configs", "/config/changes/([^/]+)", ConfigChange.decode),
    Reader("configs", "/config/((?!changes/).+)", _configs),
    Reader("member", "/consumers/([^/]+)/ids/([^/]+)", ConsumerRegistration.decode),
    Reader("owner", "/consumers/([^/]+)/owners/([^/]+)/([^/]+)", _owner),
    Reader("offset", "/consumers/([^/]+)/offsets/([^/]+)/([^/]+)", _offset),
    Reader("reassignment", "/admin/reassign_partitions", PartitionReassignments.decode),
    Reader("election", "/admin/preferred_replica_election", PreferredReplicaElection.decode),
    Reader("change of in-sync replicas", "/isr_change_notification/([^/]+)", IsrChange.decode),
    Reader("failed directory", "/log_dir_event_notification/([^/]+)", LogDirEvent.decode),
]


def reader_of(path: str) -> Reader | None:
    return next((reader for reader in READERS if re.fullmatch(reader.pattern, path)), None)


def read(path: str, data: bytes | None) -> Any:
    reader = reader_of(path)
    assert reader is not None, path
    return reader.read(path, data)


@functools.cache
def steps(version: str, scene: str) -> dict[str, list[Write]]:
    """The writes of a scene by the step that caused them."""
    found: dict[str, list[Write]] = {}
    for line in (_DIRECTORY / f"{version}_{scene}.txt").read_text().splitlines():
        if line.startswith("# "):
            found[line[2:]] = []
        else:
            zxid, verb, kind, path, data = line.split("\t")
            found[next(reversed(found))].append(Write(int(zxid), verb, kind, path, ast.literal_eval(data)))
    return found


def scenes() -> list[tuple[str, str]]:
    """Version and name of each."""
    names = sorted(path.stem for path in _DIRECTORY.glob("*.txt"))
    return [(version, scene) for version, _, scene in (name.partition("_") for name in names)]


def written(*versions: str) -> list[tuple[str, str, bytes]]:
    """Version, path and data of every write with data by some versions, or by all; each once."""
    found = [
        (version, write.path, write.data)
        for version, scene in scenes()
        if version in versions or not versions
        for writes in steps(version, scene).values()
        for write in writes
        if write.data
    ]
    return list(dict.fromkeys(found))


def tree_after(version: str, scene: str) -> dict[str, ZNode]:
    """The nodes at the end of a scene, with their versions."""
    nodes: dict[str, ZNode] = {}
    for write in (write for writes in steps(version, scene).values() for write in writes):
        if write.verb == "create":
            nodes[write.path] = ZNode(write.data, 0)
        elif write.verb == "set":
            nodes[write.path] = ZNode(write.data, nodes[write.path].version + 1)
        elif write.verb == "delete":
            del nodes[write.path]
    return nodes
