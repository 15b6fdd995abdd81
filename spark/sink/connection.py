"""Questions to a cluster that are repeated until they are answered: a broker may restart, a leader may move.

Every question of the sink may be asked again: transactions are idempotent by their producer's epoch, batches by their
sequences.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Self, TypeVar

from headgate.protocol.client.failure import Failure, Recovery
from headgate.protocol.errors import ErrorCode
from headgate.protocol.security.client_security import ClientSecurity
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import PLAINTEXT, Client
from headgate.tools.client.cluster import Answers, Cluster, RetryPolicy
from headgate.tools.groups.offsets import CommittedOffsets, fetch_committed, list_ends

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

V = TypeVar("V")
K = TypeVar("K")


class SinkFailed(Exception):
    """A step failed; another try of the batch may succeed. `code` is NONE if no broker gave the reason."""

    def __init__(self, text: str, code: int = ErrorCode.NONE) -> None:
        super().__init__(text)
        self.code = code


def _repeats(failure: Failure) -> bool:
    return failure.recovery is not Recovery.NEVER


_RETRIES = RetryPolicy(_repeats, pause_s=0.05, is_all_or_nothing=True)


class Connection:
    """A cluster, connected at first use and again after each failed connection. Use `with`."""

    def __init__(
        self,
        bootstrap: str,
        timeout_s: float = DELIVERY_TIMEOUT_S,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        *,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """`timeout_s`: for one question with all its repetitions (Kafka's delivery.timeout.ms)."""
        self.bootstrap, self.security = bootstrap, security
        request_timeout_s = min(_REQUEST_TIMEOUT_S, timeout_s)
        self._cluster = Cluster(
            bootstrap,
            timeout_s,
            _RETRIES,
            request_timeout_s=request_timeout_s,
            security=security,
            clock=clock_s,
            sleep=sleep,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; the next question opens new ones."""
        self._cluster.close()

    def ask_leader(
        self, partition: TopicPartition, ask: Callable[[Client, list[TopicPartition]], Answers[TopicPartition, V]]
    ) -> V:
        """The answer of a partition's leader. Raises SinkFailed."""
        return self.ask_leaders([partition], ask)[partition]

    def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[Client, list[TopicPartition]], Answers[TopicPartition, V]],
    ) -> dict[TopicPartition, V]:
        """The answers of the leaders. Raises SinkFailed."""
        return _answers(*self._cluster.ask_leaders(partitions, ask))

    def ask_coordinator(self, key: str, key_type: int, ask: Callable[[Client], V | Failure]) -> V:
        """The answer of the coordinator of a group or a transactional id. Raises SinkFailed."""
        answers = self._cluster.ask_coordinators([key], lambda client, _: [(key, ask(client))], key_type)
        return _answers(*answers)[key]

    def ask_any(self, ask: Callable[[Client], V | Failure]) -> V:
        """The answer of any broker. Raises SinkFailed."""
        return _answers(*self._cluster.ask_any(self.bootstrap, ask))[self.bootstrap]

    def ask_controller(self, ask: Callable[[Client], V | Failure]) -> V:
        """The answer of the controller. Raises SinkFailed."""
        return _answers(*self._cluster.ask_controller(self.bootstrap, ask))[self.bootstrap]

    def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """The log start offset and the high watermark of a partition. Raises SinkFailed."""
        found = list_ends(self._cluster, [partition])
        _answers({}, found.failed)
        return found.starts[partition], found.ends[partition]

    def committed_offsets(self, group: str) -> CommittedOffsets:
        """The committed offsets of a group. Raises SinkFailed."""
        return _answers(*fetch_committed(self._cluster, [group])).get(group, {})

    def partition_count(self, topic: str) -> int:
        """The number of partitions of a topic; 0 if there is no such topic. Raises SinkFailed."""

        def ask(_: Client) -> int | Failure:
            count = self._count(topic)
            is_missing = isinstance(count, Failure) and count.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return 0 if is_missing else count

        return _answers(*self._cluster.ask_any(topic, ask))[topic]

    def wait_for_topic(self, topic: str) -> None:
        """Wait until the brokers know a topic that was created. Raises SinkFailed."""
        _answers(*self._cluster.ask_any(topic, lambda _: self._count(topic)))

    def _count(self, topic: str) -> int | Failure:
        row = self._cluster.topics([topic]).get(topic)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if row is None else row.error_code
        return Failure.of(code) if row is None or code else len(row.partitions)


def _answers(found: dict[K, V], failed: Mapping[K, Failure]) -> dict[K, V]:
    """The answers. Raises SinkFailed for the first failure."""
    for key, failure in failed.items():
        raise SinkFailed(f"{key}: {failure.text}", failure.code)
    return found
