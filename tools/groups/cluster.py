"""The brokers of a cluster, each asked what it alone can answer; what is not settled yet is asked again.

Groups are asked of their coordinators, partitions of their leaders. A broker that cannot be reached fails what it was
to be asked, and nothing else.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias, TypeVar

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.find_coordinator import GROUP, Coordinator, FindCoordinatorRequest
from headgate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from headgate.tools.client import DEFAULT_TIMEOUT_S, Client, ClientError
from headgate.tools.output import reason

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
"""Errors that pass by themselves while a cluster starts, loads, or moves something."""

_ASK_AGAIN_AFTER_S = 0.1
_KEYS_AT_ONCE = 1000
_SHOWN_NAMES = 5
_NAMED_TOPICS = 4  # the first Metadata that can ask for a topic without making it

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TopicPartition(NamedTuple):
    """A partition by topic and number; it sorts as people expect, and shows as Kafka writes it."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


class Failure(NamedTuple):
    """Why something could not be answered. The code is NONE where no broker said so."""

    code: int
    text: str

    @classmethod
    def of(cls, code: int, message: str | None = None) -> Failure:
        return cls(code, reason(code, message))


def together(failures: Mapping[TopicPartition, Failure]) -> list[tuple[str, Failure]]:
    """Partitions with the same failure in one sentence: their names, and why."""
    partitions: defaultdict[Failure, list[str]] = defaultdict(list)
    for partition, why in sorted(failures.items()):
        partitions[why].append(str(partition))
    return [(some(names), why) for why, names in partitions.items()]


def some(names: Sequence[str]) -> str:
    """The first of many names, and how many more there are."""
    more = len(names) - _SHOWN_NAMES
    return ", ".join([*names[:_SHOWN_NAMES], f"and {more} more"] if more > 0 else names)


Answers: TypeAlias = Iterable[tuple[K, V | Failure]]
Routes: TypeAlias = tuple[dict[int, list[K]], dict[K, Failure]]


class Cluster:
    """Connections to the brokers of a cluster, made when they are needed. Close it, or use `with`."""

    def __init__(
        self,
        bootstrap: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Connect to the first broker that answers. Raises ClientError."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in (self._first, *self._clients.values()):
            client.close()

    # ------------------------------------------------------------------------------------------------------- asking

    def at_coordinators(
        self, groups: Iterable[str], ask: Callable[[Client, list[str]], Answers[str, V]]
    ) -> tuple[dict[str, V], dict[str, Failure]]:
        """What the coordinators of these groups answer, and what could not be answered."""
        return self._settle(groups, self._route_groups, ask)

    def at_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[Client, list[TopicPartition]], Answers[TopicPartition, V]],
    ) -> tuple[dict[TopicPartition, V], dict[TopicPartition, Failure]]:
        """What the leaders of these partitions answer, and what could not be answered."""
        return self._settle(partitions, self._route_partitions, ask)

    def at_every_broker(
        self, ask: Callable[[Client, list[int]], Answers[int, V]]
    ) -> tuple[dict[int, V], dict[int, Failure]]:
        """What each broker that is alive answers, by its node id."""
        self.refresh([])
        return self._settle(self._addresses, lambda nodes: ({node: [node] for node in nodes}, {}), ask)

    def _settle(
        self,
        keys: Iterable[K],
        route: Callable[[Sequence[K]], Routes[K]],
        ask: Callable[[Client, list[K]], Answers[K, V]],
    ) -> tuple[dict[K, V], dict[K, Failure]]:
        """Ask for all keys; those with a transient error again, with new routes, until the time is up."""
        deadline = self._clock() + self._timeout_s
        found: dict[K, V] = {}
        failed: dict[K, Failure] = {}
        pending = list(dict.fromkeys(keys))
        while pending:
            again: list[K] = []
            for key, answer in self._round(pending, route, ask):
                if not isinstance(answer, Failure):
                    found[key] = answer
                elif answer.code in TRANSIENT and self._clock() < deadline:
                    again.append(key)
                else:
                    failed[key] = answer
            pending = again
            if pending:
                self._sleep(_ASK_AGAIN_AFTER_S)
                self._is_stale = True
        return found, failed

    def _round(
        self,
        keys: Sequence[K],
        route: Callable[[Sequence[K]], Routes[K]],
        ask: Callable[[Client, list[K]], Answers[K, V]],
    ) -> Iterator[tuple[K, V | Failure]]:
        """An answer for each key."""
        nodes, lost = route(keys)
        yield from lost.items()
        for node, wanted in nodes.items():
            missing = dict.fromkeys(wanted)
            try:
                for key, answer in ask(self._client(node), wanted):
                    if key in missing:
                        del missing[key]
                        yield key, answer
                silence = "the broker left it out of its answer"
            except ClientError as error:
                self._forget(node)
                silence = str(error)
            for key in missing:
                yield key, Failure(ErrorCode.NONE, silence)

    # ------------------------------------------------------------------------------------------------------- routes

    def _route_groups(self, groups: Sequence[str]) -> Routes[str]:
        nodes: defaultdict[int, list[str]] = defaultdict(list)
        lost = {}
        for row in self._find_coordinators(groups):
            if row.error_code:
                lost[row.key] = Failure.of(row.error_code, row.error_message)
            else:
                self._addresses[row.node_id] = _address(row.host, row.port)
                nodes[row.node_id].append(row.key)
        return nodes, lost

    def _find_coordinators(self, groups: Sequence[str]) -> Iterator[Coordinator]:
        """Many at once since version 4, before that one by one."""
        version = self._first.version(FindCoordinatorRequest, newest=6)
        if version >= 4:
            for start in range(0, len(groups), _KEYS_AT_ONCE):
                keys = list(groups[start : start + _KEYS_AT_ONCE])
                request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=keys)
                yield from self._first.ask(request, version).coordinators
            return
        for group in groups:
            row = self._first.ask(FindCoordinatorRequest(key=group, key_type=GROUP), version)
            yield Coordinator(group, row.node_id, row.host, row.port, row.error_code, row.error_message or None)

    def _route_partitions(self, partitions: Sequence[TopicPartition]) -> Routes[TopicPartition]:
        self.topics({partition.topic for partition in partitions})
        nodes: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        lost = {}
        for partition in partitions:
            leader = self.leader(partition)
            if isinstance(leader, Failure):
                lost[partition] = leader
            else:
                nodes[leader].append(partition)
        return nodes, lost

    def leader(self, partition: TopicPartition) -> int | Failure:
        """The node that leads a partition of a topic that `topics` was asked for."""
        topic = self._topics.get(partition.topic)
        if topic is None or topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
        if topic.error_code:
            return Failure.of(topic.error_code)
        node = self._leaders.get(partition)
        if node in self._addresses:
            return node
        if node is not None:
            return Failure(ErrorCode.NONE, "it has no leader at the moment")
        return Failure(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no such partition: the topic has {len(topic.partitions)}"
        )

    # ----------------------------------------------------------------------------------------------------- metadata

    def topics(self, names: Iterable[str] | None) -> dict[str, MetadataResponseTopic]:
        """Topics by name, None: all. Those that do not exist are there with their error. Raises ClientError."""
        if names is None:
            return {topic.name or "": topic for topic in self.refresh(None).topics}
        wanted = list(dict.fromkeys(names))
        unknown = [name for name in wanted if self._is_stale or name not in self._topics]
        if unknown:
            self._is_stale = False
            self.refresh(unknown)
        return {name: self._topics[name] for name in wanted if name in self._topics}

    def refresh(self, names: Sequence[str] | None) -> MetadataResponse:
        """Ask for the brokers, and for topics. An old broker would make what it is asked for: it is asked for all."""
        version = self._first.version(MetadataRequest, newest=12, oldest=1)
        is_harmless = version >= _NAMED_TOPICS or not names
        topics = [MetadataRequestTopic(name=name) for name in names or ()]
        request = MetadataRequest(
            topics=topics if names is not None and is_harmless else None, allow_auto_topic_creation=False
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
            try:
                self._clients[node] = Client(address, timeout_s=self._timeout_s)
            except ClientError as error:
                raise ClientError(f"broker {node} is advertised at {address}: {error}") from None
        return self._clients[node]

    def _forget(self, node: int) -> None:
        client = self._clients.pop(node, None)
        if client is not None:
            client.close()


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
