"""Topics made and changed by the admin client of confluent-kafka; each call returns when the broker has answered."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

LIMIT_S = 60
NUMBERS = itertools.count()


def new_topic(bootstrap: str, partitions: int, configs: Mapping[str, str] | None = None, *, replicas: int = 1) -> str:
    """Create a topic with a name of its own; the name."""
    name = f"compat-{next(NUMBERS)}"
    create_topics(bootstrap, {name: configs or {}}, partitions, replicas)
    return name


def create_topics(
    bootstrap: str, topics: Mapping[str, Mapping[str, str]], partitions: int = 1, replicas: int = 1
) -> None:
    """Create topics by name, each with its configs; the broker places the replicas."""
    wanted = [NewTopic(name, partitions, replicas, config=dict(configs)) for name, configs in topics.items()]
    ask(bootstrap, lambda admin: admin.create_topics(wanted, operation_timeout=LIMIT_S))


def placed_topic(
    bootstrap: str, placement: Sequence[Sequence[int]], configs: Mapping[str, str] | None = None, name: str = ""
) -> str:
    """Create a topic with the replicas of each partition, preferred leaders first; its name, by default a new one."""
    name = name or f"placed-{next(NUMBERS)}"
    assignment = [list(replicas) for replicas in placement]
    wanted = [NewTopic(name, len(placement), replica_assignment=assignment, config=dict(configs or {}))]
    ask(bootstrap, lambda admin: admin.create_topics(wanted, operation_timeout=LIMIT_S))
    return name


def delete_topic(bootstrap: str, topic: str) -> None:
    ask(bootstrap, lambda admin: admin.delete_topics([topic], operation_timeout=LIMIT_S))


def add_partitions(bootstrap: str, topic: str, count: int) -> None:
    """Raise the number of partitions to `count`."""
    wanted = [NewPartitions(topic, count)]
    ask(bootstrap, lambda admin: admin.create_partitions(wanted, operation_timeout=LIMIT_S))


def set_config(bootstrap: str, topic: str, name: str, value: str) -> None:
    setting = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[setting])
    ask(bootstrap, lambda admin: admin.incremental_alter_configs([resource]))


def delete_before(bootstrap: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Delete the records before an offset of each partition."""
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    ask(bootstrap, lambda admin: admin.delete_records(wanted))


def ask(bootstrap: str, request: Callable[[AdminClient], Mapping[Any, Any]]) -> None:
    """Wait for every answer; raises what the broker refuses. An admin client that is gone answers nothing."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for answer in request(admin).values():
        answer.result(LIMIT_S)
