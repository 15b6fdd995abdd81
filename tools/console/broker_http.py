"""The HTTP listeners of Headgate's brokers, for what Kafka's protocol lacks: connections, metrics, progress.

The console reads them on the loopback interface, without a login. So a visitor sees what comes from there only if the
visitor's principal may Describe the cluster, as the listener itself asks of its users beyond loopback.

A broker that hangs must not slow down the pages about the others: after a time-out it is asked again `PAUSE_S` later,
for `QUICK_S` then, until it answers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from headgate.protocol.acls import AclOperation
from headgate.protocol.client.failure import Failure
from headgate.protocol.messages.describe_cluster import DescribeClusterRequest
from headgate.protocol.security.client_security import ClientSecurity
from headgate.tools import metrics
from headgate.tools.client.client import Client, ClientError, parse_addresses
from headgate.tools.client.cluster import Cluster, sole_answer
from headgate.tools.console.connection_sampler import ConnectionSampler
from headgate.tools.console.listening import is_loopback
from headgate.tools.console.live.histories import LiveHistories

TIMEOUT_S: Final = 5.0
QUICK_S: Final = 1.0
PAUSE_S: Final = 5.0
CLIENT_ID: Final = "headgate-console"
CONNECTIONS: Final = "/v1/connections.json"
BROKER_METRICS: Final = "/metrics/broker"
READINESS: Final = "/readyz"
BROKER: Final = "/v1/broker.json"
_ACCEPTED: Final = (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE)
"""A broker that is not ready says so with 503, and what it waits for."""
DEFAULT_LISTENER: Final = "http://127.0.0.1:9644"
NO_ADDRESS: Final = (
    "the wire of Kafka does not tell this; Headgate's brokers do over HTTP: start the console with"
    f" --http {DEFAULT_LISTENER}"
)
NOT_ALLOWED: Final = "this principal may not Describe the cluster"


class BadHttpAddress(ValueError):
    """An address is none of a listener that the console may ask; the text says what to write."""


def parse_http_addresses(text: str) -> tuple[str, ...]:
    """`host:port` of each of `http://host:port,...` on the loopback interface. Raises BadHttpAddress."""
    return tuple(dict.fromkeys(_parse_address(part.strip()) for part in text.split(",") if part.strip()))


def _parse_address(text: str) -> str:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    is_plain = parts.scheme == "http" and parts.path in {"", "/"} and parts.username is None and not parts.query
    if not is_plain or port is None or not is_loopback(host):
        raise BadHttpAddress(f"{text!r} is not http://host:port on the loopback interface, as in {DEFAULT_LISTENER}")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _TimeOut(NamedTuple):
    """A listener has not answered in time. `until_s`: it is not asked before."""

    sentence: str
    until_s: float


class BrokerHttp:
    """The listeners that the console may ask; `addresses` are `host:port`. Threads may share it."""

    def __init__(self, addresses: Sequence[str] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self.addresses = tuple(addresses)
        self._clock = clock
        self._time_outs: dict[str, _TimeOut] = {}
        self._names: dict[str, str] = {}
        self.connections = ConnectionSampler(lambda address: self.json(address, CONNECTIONS))
        self.histories = LiveHistories(addresses, lambda address: self.text(address, BROKER_METRICS))

    def text(self, address: str, path: str) -> str:
        """The text at a path of one listener. Raises ClientError."""
        [(host, port)] = parse_addresses(address)
        before = self._time_outs.get(address)
        if before is not None and self._clock() < before.until_s:
            raise ClientError(before.sentence)
        timeout_s = TIMEOUT_S if before is None else QUICK_S
        try:
            text = metrics.read(host, port, timeout_s, path=path, accepted=_ACCEPTED)
        except metrics.ReadError as error:
            sentence = str(error)
            if isinstance(error.__cause__, TimeoutError):
                sentence = f"{address} does not answer; is the broker overloaded, or its process suspended?"
                self._time_outs[address] = _TimeOut(sentence, self._clock() + PAUSE_S)
            raise ClientError(sentence) from None
        self._time_outs.pop(address, None)
        return text

    def broker_name(self, address: str) -> str:
        """`broker 1`; the address, as long as the broker has never answered."""
        if address not in self._names:
            try:
                self._names[address] = f"broker {self.json(address, BROKER)['node_id']}"
            except (ClientError, KeyError):
                return address
        return self._names[address]

    def json(self, address: str, path: str) -> dict[str, Any]:
        """The answer at a path of one listener. Raises ClientError."""
        try:
            answer = json.loads(self.text(address, path))
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise ClientError(
                f"{address} answers {path} with something else than JSON; is it an HTTP listener of Headgate?"
            )
        return answer


class ConsoleCluster(Cluster):
    """The cluster as a visitor sees it, and the HTTP listeners of its brokers."""

    def __init__(self, bootstrap: str, timeout_s: float, security: ClientSecurity, http: BrokerHttp) -> None:
        super().__init__(bootstrap, timeout_s=timeout_s, security=security, client_id=CLIENT_ID)
        self.http = http


def may_describe_cluster(cluster: Cluster) -> bool:
    """Whether the visitor's principal may Describe the cluster (KIP-430). Raises ClientError."""

    def ask(client: Client) -> bool | Failure:
        answer = client.ask(DescribeClusterRequest(include_cluster_authorized_operations=True))
        if answer.error_code:
            return Failure.of(answer.error_code, answer.error_message)
        operations: int = answer.cluster_authorized_operations
        return bool(operations >> AclOperation.DESCRIBE & 1)

    return sole_answer(cluster.ask_any("the operations on the cluster", ask))
