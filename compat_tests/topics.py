"""Topics made and changed by the admin client of confluent-kafka; each call returns when the broker has answered."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
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


def new_topic(bootstrap: str, partitions: int, configs: Mapping[str, str] | None = None) -> str:
    """Create a topic with a name of its own; the name."""
    name = f"compat-{next(NUMBERS)}"
    create_topics(bootstrap, {name: configs or {}}, partitions)
    return name


def create_topics(bootstrap: str, topics: Mapping[str, Mapping[str, str]], partitions: int = 1) -> None:
    """Create topics by name, each with its configs."""
    wanted = [NewTopic(name, partitions, 1, config=dict(configs)) for name, configs in topics.items()]
    wait(AdminClient({"bootstrap.servers": bootstrap}).create_topics(wanted, operation_timeout=LIMIT_S))


def delete_topic(bootstrap: str, topic: str) -> None:
    wait(AdminClient({"bootstrap.servers": bootstrap}).delete_topics([topic], operation_timeout=LIMIT_S))


def add_partitions(bootstrap: str, topic: str, count: int) -> None:
    """Raise the number of partitions to `count`."""
    wanted = [NewPartitions(topic, count)]
    wait(AdminClient({"bootstrap.servers": bootstrap}).create_partitions(wanted, operation_timeout=LIMIT_S))


def set_config(bootstrap: str, topic: str, name: str, value: str) -> None:
    setting = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[setting])
    wait(AdminClient({"bootstrap.servers": bootstrap}).incremental_alter_configs([resource]))


def delete_before(bootstrap: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Delete the records before an offset of each partition."""
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    wait(AdminClient({"bootstrap.servers": bootstrap}).delete_records(wanted))


def wait(answers: Mapping[Any, Any]) -> None:
    """Raise what the broker refused."""
    results: Iterable[Any] = answers.values()
    for one in results:
        one.result(LIMIT_S)
