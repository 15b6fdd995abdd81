"""The context of a handler: the services of the broker, and the client of the request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from headgate.gateway.coordinator.decision import RequestContext
from headgate.gateway.replication.write_batcher import WriteBatcher
from headgate.gateway.runtime.metrics import Metrics
from headgate.gateway.runtime.request_counts import NO_REQUESTS
from headgate.gateway.runtime.stall_watch import StallWatch
from headgate.gateway.runtime.tasks import Silent, Task
from headgate.protocol.acls import ANONYMOUS
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.schema import Message

if TYPE_CHECKING:
    from headgate.gateway.api.conversion import Conversions
    from headgate.gateway.api.fetch_sessions import FetchSessions
    from headgate.gateway.audit.audit_log import AuditLog
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.coordinator.groups.group_coordinator import GroupCoordinator
    from headgate.gateway.coordinator.producer_ids import ProducerIds
    from headgate.gateway.coordinator.transactions.markers import PartitionMarkers
    from headgate.gateway.coordinator.transactions.transaction_coordinator import TransactionCoordinator
    from headgate.gateway.metadata.store import MetadataStore
    from headgate.gateway.replication.replica_manager import ReplicaManager
    from headgate.gateway.request_log.request_trace import ConnectionTrace
    from headgate.gateway.runtime.clock import Clock
    from headgate.gateway.runtime.log_output import LimitedLog
    from headgate.gateway.runtime.memory_budget import MemoryBudget
    from headgate.gateway.runtime.scheduler import Scheduler
    from headgate.gateway.runtime.tasks import Tasks
    from headgate.gateway.security.quotas.quota_manager import ClientLimits
    from headgate.gateway.security.tls.reloads import TlsReloads
    from headgate.gateway.security.tokens.token_secrets import TokenSecrets
    from headgate.gateway.zookeeper.group_view import GroupView
    from headgate.gateway.zookeeper.membership.broker_listeners import BrokerListeners
    from headgate.gateway.zookeeper.offsets.offset_stores import OffsetStores
    from headgate.gateway.zookeeper.store.controller_orders import ControllerOrders
    from headgate.protocol.messages.api_versions import ApiVersion


class CloseConnection(Exception):
    """The connection has to end; the text is the reason for the log."""


def _no_connection(_client: Client) -> None:
    """The client of a test has no connection to put first."""


MAX_RECENT_TOPICS: Final = 32
_NO_TOPICS: Final[dict[str, float]] = {}


class Mutable(Protocol):
    """A connection that answers nothing more for some time."""

    active_ms: float
    trace: ConnectionTrace | None

    def mute(self, scheduler: Scheduler, throttle_ms: int) -> None: ...


class LastError(NamedTuple):
    """The last refused request of a client, or the last refused row of its requests.

    `at_ms`: when the client's bytes last arrived, on the monotonic clock.
    """

    api: str
    error: ErrorCode
    topic: str
    at_ms: float


class SkippedOffsets(NamedTuple):
    """Offsets of a partition that have no message for one client, such as those of transaction markers.

    `history`: topic id, leader epoch and isolation level. With another history, the offsets may have other records.
    """

    history: tuple[bytes | None, int, int]
    first_offset: int
    next_offset: int


@dataclass(slots=True)
class Client:
    """The client of one connection. Hosts are addresses as text; the client itself reports its id and software."""

    remote_host: str
    remote_port: int
    local_host: str
    local_port: int
    listener: str = "PLAINTEXT"
    principal: str = ANONYMOUS
    is_by_delegation_token: bool = False
    """Whether the client has logged in by a delegation token (KIP-48)."""
    software_name: str = "unknown"
    software_version: str = "unknown"
    client_id: str | None = field(default=None)
    connection: Mutable | None = field(default=None, compare=False, repr=False)
    """The open connection of the client; None if there is no other end to pause."""
    is_broker: bool = field(default=False, compare=False, repr=False)
    put_first: Callable[[Client], None] = field(default=_no_connection, compare=False, repr=False)
    """Serve the connection of this client before those of others."""
    limits: ClientLimits | None = field(default=None, compare=False, repr=False)
    """The quotas of the client, as long as they are valid (`gateway.api.throttling`)."""
    skipped: dict[tuple[object, int], SkippedOffsets] | None = field(default=None, compare=False, repr=False)
    """The end of the last fetch of message sets, by topic and partition, where it found no message (Fetch 0 to 3)."""
    requests: list[int] = field(default_factory=lambda: NO_REQUESTS, compare=False, repr=False)
    folded: list[int] = field(default_factory=lambda: NO_REQUESTS, compare=False, repr=False)
    """The counts of requests, by the numbers of `gateway.runtime.request_counts`; and those that the census has."""
    topics_written: dict[str, float] = field(default_factory=lambda: _NO_TOPICS, compare=False, repr=False)
    topics_read: dict[str, float] = field(default_factory=lambda: _NO_TOPICS, compare=False, repr=False)
    """The topics of the client's records, each with the time of its note; the census removes old notes."""
    throttles: int = field(default=0, compare=False, repr=False)
    throttled_ms: int = field(default=0, compare=False, repr=False)
    """How often a quota has paused the connection, and for how long in all."""
    last_error: LastError | None = field(default=None, compare=False, repr=False)

    @property
    def active_ms(self) -> float:
        """When the client's bytes last arrived, on the monotonic clock."""
        return 0.0 if self.connection is None else self.connection.active_ms

    @property
    def trace(self) -> ConnectionTrace | None:
        """The trace of the connection for the request log; None while the log is off."""
        return None if self.connection is None else self.connection.trace

    def mute(self, scheduler: Scheduler, throttle_ms: int) -> None:
        """Answer nothing more on the connection for so many milliseconds (KIP-219)."""
        self.throttles += 1
        self.throttled_ms += throttle_ms
        if self.connection is not None:
            self.connection.mute(scheduler, throttle_ms)

    def note_written(self, topic: str) -> None:
        """The client writes to a topic that is not in `topics_written`."""
        self.topics_written = _with_topic(self.topics_written, topic, self.active_ms)

    def note_read(self, topic: str) -> None:
        """The client reads a topic that is not in `topics_read`."""
        self.topics_read = _with_topic(self.topics_read, topic, self.active_ms)

    def note_error(self, api: str, error: ErrorCode, topic: str = "") -> None:
        """A request of the client, or a part of one, is refused."""
        self.last_error = LastError(api, error, topic, self.active_ms)

    def note_broker(self) -> None:
        """The client is a broker, as a request that needs ClusterAction has shown: its connection comes first."""
        if not self.is_broker:
            self.is_broker = True
            self.limits = None  # a broker has none
            self.put_first(self)

    def __str__(self) -> str:
        name = f" client.id={self.client_id[:80]!r}" if self.client_id else ""
        software = "" if self.software_name == "unknown" else f" {self.software_name}-{self.software_version}"
        return f"{self.remote_host}:{self.remote_port}{name}{software}"


def _with_topic(topics: dict[str, float], topic: str, at_ms: float) -> dict[str, float]:
    """The topics with another one; beyond `MAX_RECENT_TOPICS` the first one makes room."""
    if topics is _NO_TOPICS:
        return {topic: at_ms}
    if len(topics) >= MAX_RECENT_TOPICS:
        del topics[next(iter(topics))]
    topics[topic] = at_ms
    return topics


@dataclass(slots=True)
class Services:
    """The services of a broker for its handlers; `gateway.app.composition` builds them once."""

    config: BrokerConfig
    clock: Clock
    random: Random
    scheduler: Scheduler
    tasks: Tasks
    stall_watch: StallWatch
    metadata: MetadataStore
    partitions: ReplicaManager
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    markers: PartitionMarkers
    parsed_memory: MemoryBudget
    """For the parsed requests that may have more elements than a small one, from the read until the reply."""
    conversions: Conversions
    batcher: WriteBatcher
    metrics: Metrics
    served_versions: list[ApiVersion]
    """The lowest and the highest supported version of each API, in the order of API keys; made once."""
    denied_brokers: LimitedLog
    """Names brokers without CLUSTER_ACTION, each once a minute."""
    controller_orders: ControllerOrders | None = None
    """The orders of the cluster's controller; None without ZooKeeper."""
    broker_listeners: BrokerListeners | None = None
    """The listeners by which brokers of the cluster reach each other; None without ZooKeeper."""
    offset_stores: OffsetStores | None = None
    """The second store of offsets; None without ZooKeeper."""
    zookeeper_groups: GroupView | None = None
    token_secrets: TokenSecrets | None = None
    """The secrets of delegation tokens; None without `delegation.token.secret.key`."""
    authorizer: object | None = None
    """Decides what clients may do (`gateway.api.authorization.Authorizer`); None: they may do everything."""
    audit: AuditLog | None = None
    """The audit log; None without `headgate.audit.log`."""
    tls_reloads: TlsReloads | None = None
    """The reloads of the listeners over TLS; None if there is no such listener."""
    refusals: Counter[ErrorCode] = field(default_factory=Counter)
    """The number of refused rows in otherwise successful responses, by error."""
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The refused rows of Produce and Fetch, by API and existing topic."""

    def note_failure(self, client: Client, api: str, topic: str, error: KafkaError | OSError) -> None:
        """Count a refused row. Names that no topic has are not remembered."""
        is_known = topic in self.metadata.image.topics
        code = error.code if isinstance(error, KafkaError) else ErrorCode.KAFKA_STORAGE_ERROR
        client.note_error(api, code, topic if is_known else "")
        if is_known:
            self.failures[api, topic] += 1


@dataclass(slots=True)
class HandlerContext:
    """The broker that answers one request, the client of the request, and the request's version."""

    broker: Services
    client: Client
    version: int
    client_id: str | None

    @property
    def request_context(self) -> RequestContext:
        """The part of this context that group state machines get."""
        return RequestContext(self.client_id or "", f"/{self.client.remote_host}", self.version)


HandlerOutcome: TypeAlias = Message | Task[Any] | Silent | None
"""The outcome of a handler: a response, a task that makes it, or no response."""
Handler: TypeAlias = Callable[[Any, HandlerContext], HandlerOutcome]
