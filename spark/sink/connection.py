"""Questions to a cluster that are repeated until they are answered: a broker may restart, a leader may move.

Every question of the sink may be asked again: transactions are idempotent by their producer's epoch, batches by their
sequences.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Self, TypeAlias, TypeVar

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import Client, ClientError
from headgate.tools.client.cluster import TRANSIENT, Answers, Cluster
from headgate.tools.groups.offsets import CommittedOffsets, fetch_committed, list_ends

RETRIABLE = TRANSIENT | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""Errors after which the same question may be answered."""
FENCING = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
    }
)
"""Errors that say: the transaction has ended already, by its timeout or by a newer producer of its transactional id."""

DELIVERY_TIMEOUT_S = 120.0
_REQUEST_TIMEOUT_S = 30.0
_RETRY_AFTER_S = 0.05

V = TypeVar("V")
Found: TypeAlias = tuple[dict[TopicPartition, V], dict[TopicPartition, Failure]]


class SinkFailed(Exception):
    """A step failed; another try of the batch may succeed. `code` is NONE if no broker gave the reason."""

    def __init__(self, text: str, code: int = ErrorCode.NONE) -> None:
        super().__init__(text)
        self.code = code


class Connection:
    """A cluster, connected at first use and again after each failed connection. Use `with`."""

    def __init__(
        self,
        bootstrap: str,
        timeout_s: float = DELIVERY_TIMEOUT_S,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`timeout_s`: for one question with all its repetitions (Kafka's delivery.timeout.ms)."""
        self.bootstrap = bootstrap
        self._timeout_s, self._clock_s, self._sleep = timeout_s, clock_s, sleep
        self._cluster: Cluster | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; the next question opens new ones."""
        if self._cluster is not None:
            self._cluster.__exit__()
            self._cluster = None

    def ask_leader(
        self, partition: TopicPartition, ask: Callable[[Client, list[TopicPartition]], Answers[TopicPartition, V]]
    ) -> V:
        """The answer of a partition's leader. Raises SinkFailed."""
        return self.ask_leaders([partition], ask)[partition]

    def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[Client, list[TopicPartition]], Answers[TopicPartition, V]],
        on_retry: Callable[[], None] = lambda: None,
    ) -> dict[TopicPartition, V]:
        """The answers of the leaders. `on_retry` is called before a question is repeated. Raises SinkFailed."""
        deadline = self._clock_s() + self._timeout_s
        answers: dict[TopicPartition, V] = {}
        missing = list(partitions)
        while missing:
            try:
                found, failed = self._connected().ask_leaders(missing, ask)
            except ClientError as error:
                found, failed = {}, dict.fromkeys(missing, Failure(ErrorCode.NONE, str(error)))
            answers |= found
            missing = list(failed)
            if failed:
                self._wait(failed, deadline)
                on_retry()
        return answers

    def ask_coordinator(self, key: str, key_type: int, ask: Callable[[Client], V | Failure]) -> V:
        """The answer of the coordinator of a group or a transactional id. Raises SinkFailed."""
        deadline = self._clock_s() + self._timeout_s

        def ask_one(client: Client, keys: list[str]) -> Answers[str, V]:
            yield key, ask(client)

        while True:
            try:
                found, failed = self._connected().ask_coordinators([key], ask_one, key_type)
            except ClientError as error:
                found, failed = {}, {key: Failure(ErrorCode.NONE, str(error))}
            if not failed:
                return found[key]
            self._wait(failed, deadline)

    def ask_any(self, ask: Callable[[Client], V]) -> V:
        """The answer of any broker. Raises SinkFailed."""
        deadline = self._clock_s() + self._timeout_s
        while True:
            try:
                with Client(self.bootstrap, timeout_s=_REQUEST_TIMEOUT_S) as client:
                    return ask(client)
            except ClientError as error:
                self._wait({self.bootstrap: Failure(ErrorCode.NONE, str(error))}, deadline)

    def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """The log start offset and the high watermark of a partition. Raises SinkFailed."""
        deadline = self._clock_s() + self._timeout_s
        while True:
            try:
                found = list_ends(self._connected(), [partition])
                failed = dict(found.failed)
            except ClientError as error:
                failed = {partition: Failure(ErrorCode.NONE, str(error))}
            if not failed:
                return found.starts[partition], found.ends[partition]
            self._wait(failed, deadline)

    def committed_offsets(self, group: str) -> CommittedOffsets:
        """The committed offsets of a group. Raises SinkFailed."""
        deadline = self._clock_s() + self._timeout_s
        while True:
            try:
                found, failed = fetch_committed(self._connected(), [group])
            except ClientError as error:
                found, failed = {}, {group: Failure(ErrorCode.NONE, str(error))}
            if not failed:
                return found.get(group, {})
            self._wait(failed, deadline)

    def partition_count(self, topic: str) -> int:
        """The number of partitions of a topic; 0 if there is no such topic. Raises SinkFailed."""
        deadline = self._clock_s() + self._timeout_s
        while True:
            try:
                found = self._connected().topics([topic]).get(topic)
            except ClientError as error:
                self._wait({topic: Failure(ErrorCode.NONE, str(error))}, deadline)
                continue
            if found is None or found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return 0
            if not found.error_code:
                return len(found.partitions)
            self._wait({topic: Failure.of(found.error_code)}, deadline)

    def wait_for_topic(self, topic: str) -> None:
        """Wait until the brokers know a topic that was created. Raises SinkFailed."""
        deadline = self._clock_s() + self._timeout_s
        while not self.partition_count(topic):
            self._wait({topic: Failure.of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}, deadline)

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self.bootstrap, timeout_s=min(_REQUEST_TIMEOUT_S, self._timeout_s))
        return self._cluster

    def _wait(self, failed: dict[V, Failure], deadline: float) -> None:
        """Wait before the next repetition; a failure that stays, and one at the deadline, raises SinkFailed."""
        for key, failure in failed.items():
            is_lasting = failure.code != ErrorCode.NONE and failure.code not in RETRIABLE
            if is_lasting or self._clock_s() >= deadline:
                raise SinkFailed(f"{key}: {failure.text}", failure.code)
        # A new connection has new metadata too
        self.close()
        self._sleep(_RETRY_AFTER_S)
