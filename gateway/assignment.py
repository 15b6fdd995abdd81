"""Which brokers hold the partitions of a new topic: what a client may ask for, checked (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from protocol.errors import ErrorCode, KafkaError

DEFAULT = -1
MAX_PARTITIONS_PER_REQUEST = 10_000
"""As in Apache Kafka: beyond it, one request would keep the broker from serving others for seconds."""

Replicas = tuple[int, ...]


def count_partitions(wanted: int, default: int) -> int:
    """How many partitions a topic gets. Raises KafkaError(INVALID_PARTITIONS)."""
    if wanted == 0 or wanted < DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, f"a topic has at least one partition, not {wanted}; -1 means {default}"
        )
    return default if wanted == DEFAULT else wanted


def count_replicas(wanted: int, default: int, brokers: Sequence[int]) -> int:
    """How many replicas a partition gets. Raises KafkaError(INVALID_REPLICATION_FACTOR)."""
    if wanted == 0 or wanted < DEFAULT:
        message = f"the replication factor is at least 1, not {wanted}; -1 means the default"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if wanted > len(brokers):
        message = f"the replication factor cannot be {wanted}: {len(brokers)} brokers are there"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    return min(default, len(brokers)) if wanted == DEFAULT else wanted


def check_manual(partitions: Mapping[int, Sequence[int]], brokers: Sequence[int]) -> list[Replicas]:
    """The replicas of every partition as a client assigned them. Raises KafkaError(INVALID_REPLICA_ASSIGNMENT)."""
    if sorted(partitions) != list(range(len(partitions))):
        _refuse("partitions are numbered from 0 without gaps")
    checked = [check_replicas(partitions[index], brokers) for index in range(len(partitions))]
    if len({len(replicas) for replicas in checked}) > 1:
        _refuse("every partition of a topic has the same number of replicas")
    return checked


def check_replicas(replicas: Sequence[int], brokers: Sequence[int]) -> Replicas:
    """One partition's replicas. Raises KafkaError(INVALID_REPLICA_ASSIGNMENT)."""
    if not replicas:
        _refuse("a partition needs a broker")
    if len(set(replicas)) != len(replicas):
        _refuse(f"a broker stands twice in {list(replicas)}")
    for broker in replicas:
        if broker not in brokers:
            _refuse(f"there is no broker {broker}")
    return tuple(replicas)


def _refuse(message: str) -> None:
    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
