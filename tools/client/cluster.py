"""Requests to the brokers of a cluster, each to the broker that can answer; transient errors are retried.

A question about a group or a transactional id goes to its coordinator, one about a partition to its leader. A broker
that cannot be reached fails the questions to this broker, and no others.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Self, TypeAlias, TypeVar

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.find_coordinator import GROUP, Coordinator, FindCoordinatorRequest
from headgate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import DEFAULT_TIMEOUT_S, Client, ClientError

TRANSIENT = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors that pass by themselves while a cluster starts, loads, or moves partitions and groups."""

_RETRY_AFTER_S = 0.1
_KEYS_AT_ONCE = 1000
_SHOWN_NAMES = 5
_NO_AUTO_CREATION = 4  # the first version of Metadata that can ask for a topic without creating it

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def group_by_failure(failures: Mapping[TopicPartition, Failure]) -> list[tuple[str, Failure]]:
    """Partitions grouped by failure: their names as one text, and the failure."""
    partitions: defaultdict[Failure, list[str]] = defaultdict(list)
    for partition, why in sorted(failures.items()):
        partitions[why].append(str(partition))
    return [(shorten_list(names), why) for why, names in partitions.items()]


def shorten_list(names: Sequence[str]) -> str:
    """The first five of the names, and the number of the others."""
    more = len(names) - _SHOWN_NAMES
    return ", ".join([*names[:_SHOWN_NAMES], f"and {more} more"] if more > 0 else names)


Answers: TypeAlias = Iterable[tuple[K, V | Failure]]
Routes: TypeAlias = tuple[dict[int, list[K]], dict[K, Failure]]


class Cluster:
    """Connections to the brokers of a cluster, opened at first use. Use `with`."""

    def __init__(
        self,
        bootstrap: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Connect to the first broker that answers; retry transient errors for `timeout_s`. Raises ClientError."""
        self._timeout_s = timeout_s
        self._clock, self._sleep = clock, sleep
        self._first = Client(bootstrap, timeout_s=timeout_s)
        self._clients: dict[int, Client] = {}
        self._addresses: dict[int, str] = {}
        self._topics: dict[str, MetadataResponseTopic] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._is_stale = False
        self.cluster_id: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for client in (self._first, *self._clients.values()):
            client.close()

    # ----------------------------------------------------------------------------------------------------- requests

    def ask_coordinators(
        self, keys: Iterable[str], ask: Callable[[Client, list[str]], Answers[str, V]], key_type: int = GROUP
    ) -> tuple[dict[str, V], dict[str, Failure]]:
        """Answers of the coordinators by key, and failures by key; a key is a group or a transactional id."""
        return self._ask_with_retries(keys, lambda keys: self._route_keys(keys, key_type), ask)

    def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[Client, list[TopicPartition]], Answers[TopicPartition, V]],
    ) -> tuple[dict[TopicPartition, V], dict[TopicPartition, Failure]]:
        """Answers of the leaders by partition, and failures by partition."""
        return self._ask_with_retries(partitions, self._route_partitions, ask)

    def ask_all_brokers(
        self, ask: Callable[[Client, list[int]], Answers[int, V]]
    ) -> tuple[dict[int, V], dict[int, Failure]]:
        """Answers of all registered brokers by node id, and failures by node id."""
        self.refresh([])
        return self._ask_with_retries(self._addresses, lambda nodes: ({node: [node] for node in nodes}, {}), ask)

    def _ask_with_retries(
        self,
        keys: Iterable[K],
        route: Callable[[Sequence[K]], Routes[K]],
        ask: Callable[[Client, list[K]], Answers[K, V]],
    ) -> tuple[dict[K, V], dict[K, Failure]]:
        """Ask for all keys; repeat keys with a transient error, over new routes, until the timeout."""
        deadline = self._clock() + self._timeout_s
        found: dict[K, V] = {}
        failed: dict[K, Failure] = {}
        pending = list(dict.fromkeys(keys))
        while pending:
            retries: list[K] = []
            for key, answer in self._ask_once(pending, route, ask):
                if not isinstance(answer, Failure):
                    found[key] = answer
                elif answer.code in TRANSIENT and self._clock() < deadline:
                    retries.append(key)
                else:
                    failed[key] = answer
            pending = retries
            if pending:
                self._sleep(_RETRY_AFTER_S)
                self._is_stale = True
        return found, failed

    def _ask_once(
        self,
        keys: Sequence[K],
        route: Callable[[Sequence[K]], Routes[K]],
        ask: Callable[[Client, list[K]], Answers[K, V]],
    ) -> Iterator[tuple[K, V | Failure]]:
        """One answer or failure for each key."""
        nodes, unrouted = route(keys)
        yield from unrouted.items()
        for node, wanted in nodes.items():
            missing = dict.fromkeys(wanted)
            try:
                for key, answer in ask(self._client(node), wanted):
                    if key in missing:
                        del missing[key]
                        yield key, answer
                reason = "the broker's answer lacks it"
            except ClientError as error:
                self._disconnect(node)
                reason = str(error)
            for key in missing:
                yield key, Failure(ErrorCode.NONE, reason)

    # ------------------------------------------------------------------------------------------------------- routes

    def _route_keys(self, keys: Sequence[str], key_type: int) -> Routes[str]:
        nodes: defaultdict[int, list[str]] = defaultdict(list)
        failed = {}
        for row in self._find_coordinators(keys, key_type):
            if row.error_code:
                failed[row.key] = Failure.of(row.error_code, row.error_message)
            else:
                self._addresses[row.node_id] = _address(row.host, row.port)
                nodes[row.node_id].append(row.key)
        return nodes, failed

    def _find_coordinators(self, keys: Sequence[str], key_type: int) -> Iterator[Coordinator]:
        """The coordinators of many keys: many in one request since version 4, before that one in each."""
        version = self._first.version(FindCoordinatorRequest, newest=6)
        if version >= 4:
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                wanted = list(keys[start : start + _KEYS_AT_ONCE])
                request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=wanted)
                yield from self._first.ask(request, version).coordinators
            return
        for key in keys:
            row = self._first.ask(FindCoordinatorRequest(key=key, key_type=key_type), version)
            yield Coordinator(key, row.node_id, row.host, row.port, row.error_code, row.error_message or None)

    def _route_partitions(self, partitions: Sequence[TopicPartition]) -> Routes[TopicPartition]:
        self.topics({partition.topic for partition in partitions})
        nodes: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        failed = {}
        for partition in partitions:
            leader = self.leader(partition)
            if isinstance(leader, Failure):
                failed[partition] = leader
            else:
                nodes[leader].append(partition)
        return nodes, failed

    def leader(self, partition: TopicPartition) -> int | Failure:
        """The node id of a partition's leader. Call `topics` with the partition's topic before."""
        topic = self._topics.get(partition.topic)
        if topic is None or topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
        if topic.error_code:
            return Failure.of(topic.error_code)
        node = self._leaders.get(partition)
        if node in self._addresses:
            return node
        if node is not None:
            return Failure(ErrorCode.NONE, "the partition has no leader at the moment")
        return Failure(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no such partition: the topic has {len(topic.partitions)}"
        )

    # ----------------------------------------------------------------------------------------------------- metadata

    def topics(self, names: Iterable[str] | None) -> dict[str, MetadataResponseTopic]:
        """Topics by name; None: all topics. A topic that does not exist comes with its error. Raises ClientError."""
        if names is None:
            return {topic.name or "": topic for topic in self.refresh(None).topics}
        wanted = list(dict.fromkeys(names))
        unknown = [name for name in wanted if self._is_stale or name not in self._topics]
        if unknown:
            self._is_stale = False
            self.refresh(unknown)
        return {name: self._topics[name] for name in wanted if name in self._topics}

    def refresh(self, names: Sequence[str] | None) -> MetadataResponse:
        """Ask for the brokers and for topics. Raises ClientError.

        An old broker creates each topic that Metadata names, so the request to an old broker names none and gets all.
        """
        version = self._first.version(MetadataRequest, newest=12, oldest=1)
        creates_nothing = version >= _NO_AUTO_CREATION or not names
        topics = [MetadataRequestTopic(name=name) for name in names or ()]
        request = MetadataRequest(
            topics=topics if names is not None and creates_nothing else None, allow_auto_topic_creation=False
        )
        answer: MetadataResponse = self._first.ask(request, version)
        self._addresses = {row.node_id: _address(row.host, row.port) for row in answer.brokers}
        for topic in answer.topics:
            self._topics[topic.name or ""] = topic
            self._leaders |= {
                TopicPartition(topic.name or "", row.partition_index): row.leader_id for row in topic.partitions
            }
        self.cluster_id = answer.cluster_id
        return answer

    def _client(self, node: int) -> Client:
        """The connection to a broker. Raises ClientError."""
        address = self._addresses[node]
        if address == self._first.address:
            return self._first
        if node not in self._clients:
            self._clients[node] = self.connect(node)
        return self._clients[node]

    def connect(self, node: int) -> Client:
        """A new connection to a broker, for the caller alone. Raises ClientError."""
        address = self._addresses[node]
        try:
            return Client(address, timeout_s=self._timeout_s)
        except ClientError as error:
            raise ClientError(f"broker {node} is advertised at {address}: {error}") from None

    def _disconnect(self, node: int) -> None:
        client = self._clients.pop(node, None)
        if client is not None:
            client.close()


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def select_partitions(
    cluster: Cluster, topics: Mapping[str, list[int] | None]
) -> tuple[list[TopicPartition], list[str]]:
    """The partitions of `parse_topics`, and a sentence for each topic that does not exist.

    The named partitions of a topic are not checked.
    """
    known = cluster.topics(topics)
    partitions, failures = [], []
    for name, numbers in topics.items():
        row = known.get(name)
        if numbers is not None:
            partitions += [TopicPartition(name, number) for number in numbers]
        elif row is None or row.error_code:
            failures.append(f"{name}: there is no such topic; `headgate topics list` shows all")
        else:
            partitions += sorted(TopicPartition(name, one.partition_index) for one in row.partitions)
    return partitions, failures
