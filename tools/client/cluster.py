"""Requests to the brokers of a cluster, each to the broker that can answer; only `ask_with_retries` repeats requests.

A question about a group or a transactional id goes to its coordinator, one about a partition to its leader. A broker
that cannot be reached fails the questions to this broker, and no others.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

from headgate.protocol.client.connection import Exchange
from headgate.protocol.client.failure import Failure, Recovery
from headgate.protocol.client.routing import ANY_BROKER, Routes, Routing
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.find_coordinator import GROUP
from headgate.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from headgate.protocol.security.client_security import ClientSecurity
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import (
    DEFAULT_CLIENT_ID,
    DEFAULT_TIMEOUT_S,
    PLAINTEXT,
    Client,
    ClientError,
    NoBrokerAnswers,
    SecurityError,
)

_LASTING = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Retriable errors that last until an operator acts: starts a broker, repairs a disk, creates a topic."""

_SHOWN_NAMES = 5

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")
Answers: TypeAlias = Iterable[tuple[K, V | Failure]]
AnswersAndFailures: TypeAlias = tuple[dict[K, V], dict[K, Failure]]
FindRoutes: TypeAlias = Callable[[Sequence[K]], Routes[K]]


def passes_by_itself(failure: Failure) -> bool:
    """True for failures that end while a cluster starts, loads, or moves partitions and groups."""
    return failure.recovery is not Recovery.NEVER and failure.code not in _LASTING


class RetryPolicy(NamedTuple):
    """The failures that a client repeats, and the pause before.

    `is_all_or_nothing`: a failure that is not repeated ends the whole question; the other keys get no answer.
    """

    repeats: Callable[[Failure], bool] = passes_by_itself
    pause_s: float = 0.1
    is_all_or_nothing: bool = False


_OF_COMMANDS = RetryPolicy()


class Cluster:
    """Connections to the brokers of a cluster, opened at first use, and again after one is lost. Use `with`."""

    def __init__(
        self,
        bootstrap: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        retries: RetryPolicy = _OF_COMMANDS,
        *,
        request_timeout_s: float | None = None,
        security: ClientSecurity = PLAINTEXT,
        client_id: str = DEFAULT_CLIENT_ID,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`timeout_s`: for a question with all repetitions. `request_timeout_s`: for one request; default: the same."""
        self.bootstrap = bootstrap
        self.security, self._client_id = security, client_id
        self.routing = Routing()
        self._timeout_s, self._request_timeout_s = timeout_s, request_timeout_s or timeout_s
        self._retries, self._clock, self._sleep = retries, clock, sleep
        self._clients: dict[int, Client] = {}

    def __enter__(self) -> Self:
        """Connect to the first broker that answers. Raises ClientError."""
        self._client(ANY_BROKER)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; the next question opens new ones."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        self.routing.expire()

    # ----------------------------------------------------------------------------------------------------- requests

    def ask_coordinators(
        self, keys: Iterable[str], ask: Callable[[Client, list[str]], Answers[str, V]], key_type: int = GROUP
    ) -> AnswersAndFailures[str, V]:
        """Ask coordinators; a key is a group or a transactional id. Raises ClientError."""
        return self.ask_with_retries(
            self._deadline(), keys, lambda keys: self._run(self.routing.find_coordinators, keys, key_type), ask
        )

    def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[Client, list[TopicPartition]], Answers[TopicPartition, V]],
    ) -> AnswersAndFailures[TopicPartition, V]:
        """Ask leaders. Raises ClientError."""
        return self.ask_with_retries(
            self._deadline(), partitions, lambda keys: self._run(self.routing.find_leaders, keys), ask
        )

    def ask_all_brokers(self, ask: Callable[[Client, list[int]], Answers[int, V]]) -> AnswersAndFailures[int, V]:
        """Ask all registered brokers, by node id. Raises ClientError."""
        self.refresh([])
        nodes = list(self.routing.addresses)
        return self.ask_with_retries(self._deadline(), nodes, lambda nodes: ({node: [node] for node in nodes}, {}), ask)

    def ask_any(self, key: K, ask: Callable[[Client], V | Failure]) -> AnswersAndFailures[K, V]:
        """Ask any broker; the key names what is asked for. Raises ClientError."""
        return self._ask_one(key, ask, lambda keys: ({ANY_BROKER: list(keys)}, {}))

    def ask_controller(self, key: K, ask: Callable[[Client], V | Failure]) -> AnswersAndFailures[K, V]:
        """Ask the controller; the key names what is asked for. Raises ClientError."""
        return self._ask_one(key, ask, lambda keys: self._run(self.routing.find_controller, keys))

    def ask_broker(self, node: int, key: K, ask: Callable[[Client], V | Failure]) -> AnswersAndFailures[K, V]:
        """Ask the broker with this id; the key names what is asked for. Raises ClientError."""
        self.refresh([])
        if node not in self.routing.addresses:
            return {}, {key: Failure(ErrorCode.NONE, f"no live broker has the id {node}")}
        return self._ask_one(key, ask, lambda keys: ({node: list(keys)}, {}))

    def _ask_one(self, key: K, ask: Callable[[Client], V | Failure], route: FindRoutes[K]) -> AnswersAndFailures[K, V]:
        return self.ask_with_retries(self._deadline(), [key], route, lambda client, _: [(key, ask(client))])

    def _deadline(self) -> float:
        return self._clock() + self._timeout_s

    def ask_with_retries(
        self,
        deadline: float,
        keys: Iterable[K],
        route: FindRoutes[K],
        ask: Callable[[Client, list[K]], Answers[K, V]],
    ) -> AnswersAndFailures[K, V]:
        """Ask for all keys; ask again for those that fail and may be repeated, until the deadline. Raises ClientError.

        Only this function repeats requests. New routes are found where the error asks for another broker.
        """
        found: dict[K, V] = {}
        failed: dict[K, Failure] = {}
        pending = list(dict.fromkeys(keys))
        while pending:
            repeated: dict[K, Failure] = {}
            for key, answer in self._ask_once(pending, route, ask):
                if not isinstance(answer, Failure):
                    found[key] = answer
                elif self._clock() < deadline and self._retries.repeats(answer):
                    repeated[key] = answer
                else:
                    failed[key] = answer
            if failed and self._retries.is_all_or_nothing:
                break
            pending = list(repeated)
            if pending:
                self._sleep(self._retries.pause_s)
            if any(failure.recovery is Recovery.ELSEWHERE for failure in repeated.values()):
                self.routing.expire()
        return found, failed

    def _ask_once(
        self, keys: Sequence[K], route: FindRoutes[K], ask: Callable[[Client, list[K]], Answers[K, V]]
    ) -> Iterator[tuple[K, V | Failure]]:
        """One answer or failure for each key. Raises ClientError if no broker names the routes."""
        try:
            nodes, unrouted = route(keys)
        except SecurityError:
            raise
        except ClientError as error:
            lost = Failure(ErrorCode.NONE, str(error))
            if not self._retries.repeats(lost):
                raise
            nodes, unrouted = {}, dict.fromkeys(keys, lost)
        yield from unrouted.items()
        for node, wanted in nodes.items():
            missing = dict.fromkeys(wanted)
            reason = "the broker's answer lacks it"
            try:
                with self._connected(node) as client:
                    for key, answer in ask(client, wanted):
                        if key in missing:
                            del missing[key]
                            yield key, answer
            except SecurityError:
                raise
            except ClientError as error:
                reason = str(error)
            for key in missing:
                yield key, Failure(ErrorCode.NONE, reason)

    # ----------------------------------------------------------------------------------------------------- metadata

    def topics(self, names: Iterable[str] | None) -> dict[str, MetadataResponseTopic]:
        """Topics by name; None: all topics. A topic that does not exist comes with its error. Raises ClientError."""
        if names is None:
            return {topic.name or "": topic for topic in self.refresh(None).topics}
        wanted = list(dict.fromkeys(names))
        self._run(self.routing.find_topics, wanted)
        return {name: self.routing.topics[name] for name in wanted if name in self.routing.topics}

    def refresh(self, names: Sequence[str] | None) -> MetadataResponse:
        """Ask for the brokers and for topics; None: all topics. Raises ClientError."""
        return self._run(self.routing.refresh, names)

    # -------------------------------------------------------------------------------------------------- connections

    @property
    def is_connected(self) -> bool:
        """True while the broker that names the others is connected."""
        return ANY_BROKER in self._clients

    def _run(self, find: Callable[..., Exchange[T]], *arguments: Any) -> T:
        """Run an exchange of the routing with any broker. Raises ClientError."""
        with self._connected(ANY_BROKER) as client:
            return client.run(find(client.peer, *arguments))

    @contextmanager
    def _connected(self, node: int) -> Iterator[Client]:
        """The connection to a broker, which a ClientError closes. Raises ClientError."""
        client = self._client(node)
        try:
            yield client
        except ClientError:
            self.disconnect(client)
            raise

    def _client(self, node: int) -> Client:
        """The connection to a broker. Raises ClientError."""
        first = self._clients.get(ANY_BROKER)
        if node == ANY_BROKER:
            client = first or self._open(self.bootstrap)
        elif first is not None and first.address == self.routing.addresses[node]:
            return first
        else:
            client = self._clients.get(node) or self._dial(node, self.routing.addresses[node])
        self._clients[node] = client
        return client

    def _dial(self, node: int, address: str) -> Client:
        try:
            return self._open(address)
        except NoBrokerAnswers as error:
            found = str(error).partition("; ")[0]
            cure = "start it, or correct its advertised.listeners: `headgate doctor` tells which"
            raise NoBrokerAnswers(f"broker {node} is advertised at {address}: {found}; {cure}") from None
        except ClientError as error:
            raise type(error)(f"broker {node} is advertised at {address}: {error}") from None

    def _open(self, address: str) -> Client:
        return Client(address, self._client_id, self._request_timeout_s, self.security)

    def drop_ended(self) -> None:
        """Close the connections that their brokers have closed; the next question opens others."""
        for client in {id(client): client for client in self._clients.values() if client.has_ended}.values():
            self.disconnect(client)

    def disconnect(self, client: Client) -> None:
        """Close a connection; the next question to its broker opens another."""
        client.close()
        self._clients = {node: other for node, other in self._clients.items() if other is not client}


class FailedAnswer(ClientError):
    """A question without an answer; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def sole_answer(answers: AnswersAndFailures[K, V]) -> V:
    """The answer to a question with one key. Raises FailedAnswer."""
    found, failed = answers
    for failure in failed.values():
        raise FailedAnswer(failure)
    [answer] = found.values()
    return answer


def group_by_failure(failures: Mapping[Any, Failure]) -> list[tuple[str, Failure]]:
    """Keys, such as partitions, grouped by failure: their names as one text, and the failure."""
    keys: defaultdict[Failure, list[str]] = defaultdict(list)
    for key, why in sorted(failures.items()):
        keys[why].append(str(key))
    return [(shorten_list(names), why) for why, names in keys.items()]


def shorten_list(names: Sequence[str]) -> str:
    """The first five of the names, and the number of the others."""
    more = len(names) - _SHOWN_NAMES
    return ", ".join([*names[:_SHOWN_NAMES], f"and {more} more"] if more > 0 else names)


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
