"""Names of new topics, and placement of new partitions on brokers. Pure: all is checked against an image."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from itertools import product
from random import Random

from headgate.gateway.metadata.image import Image, PartitionState
from headgate.protocol.errors import ErrorCode, KafkaError

MAX_NAME_LENGTH = 249  # with a partition number behind, still a legal file name
# The limit of Kafka's controller for one step; each partition costs files and memory.
MAX_PARTITIONS_AT_ONCE = 10_000
METADATA_TOPIC = "__headgate_metadata"
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""Kafka's id of its own metadata topic."""
_RESERVED_IDS = (bytes(16), METADATA_TOPIC_ID)
_RESERVED = frozenset((METADATA_TOPIC, "__cluster_metadata"))
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_SEPARATOR = re.compile(r"[._]")

# Partition -> brokers, the preferred leader first.
Assignments = Mapping[int, Sequence[int]]


def check_name(name: str) -> None:
    """Raises KafkaError(INVALID_TOPIC_EXCEPTION) for a name that Kafka refuses too."""
    if not name:
        raise _invalid_topic("the topic name is illegal: it must not be empty")
    if name in (".", ".."):
        raise _invalid_topic(f"the topic name {name!r} is illegal")
    if len(name) > MAX_NAME_LENGTH:
        raise _invalid_topic(
            f"the topic name {name[:40]!r}... is illegal: {len(name)} characters exceed {MAX_NAME_LENGTH}"
        )
    if _LEGAL.fullmatch(name) is None:
        raise _invalid_topic(
            f"the topic name {name!r} is illegal: only ASCII letters, digits, '.', '_' and '-' are allowed"
        )
    if name in _RESERVED:
        raise _invalid_topic(f"{name!r} is the name of an internal log")


def colliding(name: str, topics: Mapping[str, object]) -> str | None:
    """The topic that differs from `name` in '.' and '_' only: Kafka's metrics cannot tell such topics apart."""
    parts = _SEPARATOR.split(name)
    if len(parts) == 1:
        return None
    if 1 << len(parts) > len(topics):  # fewer topics than spellings
        key = name.replace(".", "_")
        return next((other for other in topics if other.replace(".", "_") == key), None)
    separated = [choice for part in parts[:-1] for choice in ((part,), "._")]
    return next(filter(topics.__contains__, map("".join, product(*separated, parts[-1:]))), None)


def new_topic_id(random: Random, taken: Container[bytes]) -> bytes:
    """A random topic id: a UUID of version 4 (RFC 9562)."""
    while True:
        made = bytearray(random.randbytes(16))
        made[6] = made[6] & 0x0F | 0x40
        made[8] = made[8] & 0x3F | 0x80
        topic_id = bytes(made)
        if topic_id not in _RESERVED_IDS and topic_id not in taken:
            return topic_id


def check_new(name: str, image: Image) -> None:
    """Raises KafkaError: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS."""
    check_name(name)
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"the topic {name!r} already exists")
    other = colliding(name, image.topics)
    if other is not None:
        raise _invalid_topic(f"{name!r} collides with {other!r}: the two names differ in '.' and '_' only")


def new_partitions(image: Image, first: int, count: int, factor: int) -> list[PartitionState]:
    """`count` partitions from index `first` on, spread over the live brokers.

    Raises KafkaError: INVALID_PARTITIONS, POLICY_VIOLATION, INVALID_REPLICATION_FACTOR.
    """
    check_count(count)
    brokers = sorted(image.brokers)
    if factor <= 0:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, f"replication factor {factor} is less than one")
    if factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} is larger than available brokers: {len(brokers)} are alive",
        )
    return [
        _fresh([brokers[(index + step) % len(brokers)] for step in range(factor)])
        for index in range(first, first + count)
    ]


def check_count(count: int) -> None:
    """Raises KafkaError: INVALID_PARTITIONS, POLICY_VIOLATION."""
    if count <= 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"{count} partitions are too few: a topic has at least one")
    if count > MAX_PARTITIONS_AT_ONCE:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{count} partitions at once are too many: the limit is {MAX_PARTITIONS_AT_ONCE}",
        )


def assigned_partitions(image: Image, first: int, assignments: Assignments) -> list[PartitionState]:
    """Partitions on the brokers that the client assigns. Raises KafkaError(INVALID_REPLICA_ASSIGNMENT)."""
    if sorted(assignments) != list(range(first, first + len(assignments))):
        raise _invalid_assignment(f"the partitions must be numbered from {first} on, and are {sorted(assignments)}")
    check_count(len(assignments))
    factors = {len(brokers) for brokers in assignments.values()}
    if len(factors) != 1:
        raise _invalid_assignment("all partitions of a topic must have as many replicas as the first")
    for index, brokers in assignments.items():
        check_brokers(index, brokers, image)
    return [_fresh(assignments[index]) for index in sorted(assignments)]


def check_brokers(index: int, brokers: Sequence[int], image: Image) -> None:
    """Raises KafkaError(INVALID_REPLICA_ASSIGNMENT) unless the brokers are different and alive."""
    if not brokers:
        raise _invalid_assignment(f"partition {index} has no replica")
    if len(set(brokers)) != len(brokers):
        raise _invalid_assignment(f"partition {index} names a broker twice: {list(brokers)}")
    unknown = [broker for broker in brokers if broker not in image.brokers]
    if unknown:
        raise _invalid_assignment(f"partition {index} names brokers that are not alive: {unknown}")


def _fresh(brokers: Sequence[int]) -> PartitionState:
    replicas = tuple(brokers)
    return PartitionState(replicas[0], 0, replicas, replicas, 0)


def _invalid_topic(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, sentence)


def _invalid_assignment(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, sentence)
