"""Names of new topics, and placement of new partitions on brokers. Pure: all is checked against an image.

Refusals begin with the sentences of Apache Kafka 4.1: scripts look for them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from itertools import product, zip_longest
from random import Random
from typing import Any

from headgate.gateway.metadata.image import Image, PartitionState
from headgate.protocol.errors import ErrorCode, KafkaError

MAX_NAME_LENGTH = 249  # a partition number is appended for the directory's name
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
        raise _illegal_name("the empty string is not allowed")
    if name in (".", ".."):
        raise _illegal_name(f"'{name}' is not allowed")
    if len(name) > MAX_NAME_LENGTH:
        shown = f"{name[:MAX_NAME_LENGTH]}..."
        raise _illegal_name(f"the length of '{shown}' is longer than the max allowed length {MAX_NAME_LENGTH}")
    if _LEGAL.fullmatch(name) is None:
        raise _illegal_name(
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )
    if name in _RESERVED:
        raise _illegal_name(f"'{name}' is the name of an internal log")


def colliding(name: str, topics: Mapping[str, object]) -> str | None:
    """The topic that differs from `name` in '.' and '_' only: Kafka's metrics confuse such topics."""
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


def check_new(name: str, image: Image, before: Image | None = None) -> None:
    """Check the name of a new topic. `before`: the image without the topics that the same request creates.

    As in Kafka, topics of one request do not collide with each other. Raises KafkaError: INVALID_TOPIC_EXCEPTION,
    TOPIC_ALREADY_EXISTS, INVALID_REQUEST for the name of an internal log.
    """
    if name in _RESERVED:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    check_name(name)
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = colliding(name, (image if before is None else before).topics)
    if other is not None:
        message = f"Topic '{name}' collides with existing topic: {other}; the two names differ in '.' and '_' only"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def configured_factor(image: Image, factor: int) -> int:
    """A replication factor of the configuration. In a cluster of one broker it is 1.

    A value that was written for a larger cluster must not keep a broker alone from working. A cluster of one has no
    other broker among its replicas, dead ones included: a topic must not get fewer replicas because brokers are down.
    """
    brokers = image.brokers.keys()
    if factor == 1 or brokers != {image.controller_id}:
        return factor
    states = (state for topic in image.topics.values() for state in topic.partitions)
    return 1 if all(brokers >= set(state.replicas) for state in states) else factor


def new_partitions(
    image: Image, count: int, factor: int, random: Random, present: Sequence[PartitionState] = ()
) -> list[PartitionState]:
    """`count` partitions behind the `present` ones of the topic, spread over the live brokers.

    The rule is Kafka's (AdminUtils): leaders follow each other from a random broker on, those of later partitions from
    the first leader of the topic. Replicas follow their leader at a distance that grows with each round of leaders, so
    that the partitions of a lost broker go to different ones. Raises KafkaError: INVALID_PARTITIONS, POLICY_VIOLATION,
    INVALID_REPLICATION_FACTOR.
    """
    check_count(count)
    _check_factor(image, factor)
    racks = _racks(image)
    brokers = _alternated(racks)
    start = distance = 0
    if present:
        first = present[0].replicas[0]
        start = distance = brokers.index(min((broker for broker in racks if broker >= first), default=min(racks)))
    elif len(brokers) > 1:
        start, distance = random.randrange(len(brokers)), random.randrange(len(brokers))
    return [
        _fresh(_spread(racks, brokers, start + index, distance + index // len(brokers), factor))
        for index in range(len(present), len(present) + count)
    ]


def _racks(image: Image) -> dict[int, Any]:
    """The rack of each live broker. Unless all brokers have one, each broker is a rack of its own."""
    nodes = [image.brokers[broker] for broker in sorted(image.brokers)]
    have_racks = all(node.rack is not None for node in nodes)
    return {node.node_id: node.rack if have_racks else node.node_id for node in nodes}


def _alternated(racks: Mapping[int, Any]) -> list[int]:
    """The brokers in an order in which racks alternate: the first broker of each rack, then the second of each."""
    by_rack: dict[Any, list[int]] = {}
    for broker, rack in racks.items():
        by_rack.setdefault(rack, []).append(broker)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for brokers in rounds for broker in brokers if broker is not None]


def _spread(racks: Mapping[int, Any], brokers: Sequence[int], place: int, distance: int, factor: int) -> list[int]:
    """The replicas of a partition: the leader by its place in `brokers`, and brokers behind it from a distance on.

    A rack gets its second replica when each rack has one.
    """
    place %= len(brokers)
    others, rack_count = [*brokers[place + 1 :], *brokers[:place]], len(set(racks.values()))
    begin = distance * rack_count % max(1, len(others))
    replicas, used = [brokers[place]], {racks[brokers[place]]}
    for broker in (*others[begin:], *others, *others[:begin]):
        may_have_rack = racks[broker] not in used or len(used) == rack_count
        if len(replicas) < factor and broker not in replicas and may_have_rack:
            replicas.append(broker)
            used.add(racks[broker])
    return replicas


def _check_factor(image: Image, factor: int) -> None:
    """Raises KafkaError(INVALID_REPLICATION_FACTOR) unless the live brokers can have so many replicas."""
    brokers = image.brokers
    if factor <= 0:
        raise _invalid_factor(f"Replication factor must be larger than 0, or -1 to use the default value: {factor}")
    if factor > len(brokers):  # the last sentence comes from Kafka in ZooKeeper mode
        raise _invalid_factor(
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be"
            f" reached because only {len(brokers)} broker(s) are registered."
            f" Replication factor: {factor} larger than available brokers: {len(brokers)}."
        )


def check_count(count: int) -> None:
    """Raises KafkaError: INVALID_PARTITIONS, POLICY_VIOLATION."""
    if count <= 0:
        message = f"Number of partitions was set to an invalid non-positive value: {count}"
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
    if count > MAX_PARTITIONS_AT_ONCE:
        raise too_many_partitions(count)


def too_many_partitions(count: int) -> KafkaError:
    """The error for more partitions than one request may create."""
    message = f"Excessively large number of partitions per request: {count}; create at most {MAX_PARTITIONS_AT_ONCE}"
    return KafkaError(ErrorCode.POLICY_VIOLATION, message)


def assigned_partitions(
    image: Image, first: int, assignments: Assignments, factor: int | None = None
) -> list[PartitionState]:
    """Partitions on the brokers that the client assigns, `factor` to each; None: as many as to the first.

    Raises KafkaError: INVALID_REPLICA_ASSIGNMENT, POLICY_VIOLATION.
    """
    if sorted(assignments) != list(range(first, first + len(assignments))):
        given = f"from {first} on; the request has {sorted(assignments)}"
        raise _invalid_assignment(f"partitions should be a consecutive 0-based integer sequence, here {given}")
    check_count(len(assignments))
    states = []
    for index, brokers in sorted(assignments.items()):
        check_brokers(index, brokers, image)
        factor = len(brokers) if factor is None else factor
        if len(brokers) != factor:
            raise _invalid_assignment(
                f"The manual partition assignment includes a partition with {len(brokers)} replica(s), but this is not"
                f" consistent with previous partitions, which have {factor} replica(s): partition {index}"
            )
        states.append(_fresh(brokers))
    return states


def check_brokers(index: int, brokers: Sequence[int], image: Image) -> None:
    """Raises KafkaError(INVALID_REPLICA_ASSIGNMENT) unless the brokers are different and alive."""
    if not brokers:
        raise _invalid_assignment(f"The manual partition assignment includes an empty replica list: partition {index}")
    for position, broker in enumerate(brokers):
        if broker in brokers[:position]:
            raise _invalid_assignment(
                f"The manual partition assignment includes the broker {broker} more than once: partition {index}"
            )
        if broker not in image.brokers:
            raise _invalid_assignment(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered:"
                f" partition {index} can be on {sorted(image.brokers)}"
            )


def _fresh(brokers: Sequence[int]) -> PartitionState:
    replicas = tuple(brokers)
    return PartitionState(replicas[0], 0, replicas, replicas, 0)


def _illegal_name(reason: str) -> KafkaError:
    # Kafka before 2.2 said that a name 'is illegal'
    return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}; the name is illegal")


def _invalid_factor(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, sentence)


def _invalid_assignment(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, sentence)
