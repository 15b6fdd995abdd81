"""Plans that create topics, delete topics and add partitions. Pure: an image in, records out."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from headgate.gateway.config import topic_config as topic_configs
from headgate.gateway.config.broker import BrokerConfig
from headgate.gateway.metadata.image import Image, PartitionState
from headgate.gateway.metadata.new_topics import (
    Assignments,
    assigned_partitions,
    check_new,
    configured_factor,
    new_partitions,
)
from headgate.gateway.metadata.records import config_records, partition_records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import MetadataRecord, RemoveTopicRecord, TopicRecord


class NewTopic(NamedTuple):
    """A topic as a client wants it. -1 means the broker's default; `assignments` replaces both numbers.

    `before`: the image at the beginning of a request for several topics, see `check_new`.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = MappingProxyType({})
    assignments: Assignments = MappingProxyType({})
    before: Image | None = None


def create_topic(
    image: Image, config: BrokerConfig, topic_id: bytes, wanted: NewTopic, random: Random
) -> list[MetadataRecord]:
    """The records of a new topic: the topic, its partitions, its configs.

    Raises KafkaError: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, POLICY_VIOLATION,
    INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST, INVALID_CONFIG.
    """
    check_new(wanted.name, image, wanted.before)
    topic_configs.check(wanted.configs)
    states = _place(image, config, wanted, random)
    return [
        TopicRecord(name=wanted.name, topic_id=topic_id),
        *partition_records(topic_id, 0, states),
        *config_records(wanted.name, wanted.configs),
    ]


def _place(image: Image, config: BrokerConfig, wanted: NewTopic, random: Random) -> list[PartitionState]:
    partitions, factor = wanted.partitions, wanted.replication_factor
    if wanted.assignments:
        for what, number in (("replication factor", factor), ("numPartitions", partitions)):
            if number != -1:
                message = f"A manual partition assignment was specified, but {what} was not set to -1."
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        return assigned_partitions(image, 0, wanted.assignments)
    return new_partitions(
        image,
        config.num_partitions if partitions == -1 else partitions,
        configured_factor(image, config.default_replication_factor) if factor == -1 else factor,
        random,
    )


def delete_topic(image: Image, config: BrokerConfig, name: str) -> list[MetadataRecord]:
    """The record that removes a topic. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_DELETION_DISABLED."""
    topic = image.topic(name)
    if not config.delete_topic_enable:
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "topics are not deleted: delete.topic.enable is false")
    return [RemoveTopicRecord(topic_id=topic.topic_id)]


def create_partitions(
    image: Image, name: str, total: int, random: Random, assignments: Assignments | None = None
) -> list[MetadataRecord]:
    """The records that raise the number of a topic's partitions to `total`. `assignments`: new index -> brokers.

    Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, POLICY_VIOLATION,
    INVALID_REPLICATION_FACTOR, REASSIGNMENT_IN_PROGRESS.
    """
    topic = image.topic(name)
    if any(state.is_reassigning for state in topic.partitions):
        message = f"A partition reassignment is in progress for the topic '{name}'; retry after its end."
        raise KafkaError(ErrorCode.REASSIGNMENT_IN_PROGRESS, message)
    present = len(topic.partitions)
    if total == present:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s): {name}")
    if total < present:
        message = f"The topic {name} currently has {present} partition(s); {total} would not be an increase."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
    factor = len(topic.partitions[0].replicas)
    if assignments is None:
        states = new_partitions(image, total - present, factor, random, topic.partitions)
    elif len(assignments) != total - present:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {total - present} additional partition(s), but only {len(assignments)} assignment(s)"
            f" were specified: {name}",
        )
    else:
        states = assigned_partitions(image, present, assignments, factor)
    return partition_records(topic.topic_id, present, states)
