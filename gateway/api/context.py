"""What a handler may touch: the services of the broker, and who asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from headgate.gateway.coordinator.decision import RequestContext
from headgate.gateway.replication.write_batcher import WriteBatcher
from headgate.gateway.runtime.metrics import Metrics

if TYPE_CHECKING:
    from headgate.gateway.api.conversion import Conversions
    from headgate.gateway.api.fetch_sessions import FetchSessions
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.coordinator.producer_ids import ProducerIds
    from headgate.gateway.coordinator.runtime import Coordinators
    from headgate.gateway.metadata.store import MetadataStore
    from headgate.gateway.replication.replica_manager import ReplicaManager
    from headgate.gateway.runtime.clock import Clock
    from headgate.gateway.runtime.purgatory import Purgatory
    from headgate.gateway.runtime.scheduler import Scheduler
    from headgate.gateway.runtime.time_slices import TimeSlices


class CloseConnection(Exception):
    """The connection cannot go on; the text says why, for the log."""


@dataclass(slots=True)
class Client:
    """The other end of one connection. Hosts are addresses as text; names are what the client says of itself."""

    remote_host: str
    remote_port: int
    local_host: str
    local_port: int
    listener: str = "PLAINTEXT"
    principal: str = "User:ANONYMOUS"
    software_name: str = "unknown"
    software_version: str = "unknown"
    client_id: str | None = field(default=None)

    def __str__(self) -> str:
        name = f" client.id={self.client_id[:80]!r}" if self.client_id else ""
        software = "" if self.software_name == "unknown" else f" {self.software_name}-{self.software_version}"
        return f"{self.remote_host}:{self.remote_port}{name}{software}"


@dataclass(slots=True)
class Services:
    """The parts of a broker that handlers work with; built once, by `gateway.app.broker`."""

    config: BrokerConfig
    clock: Clock
    random: Random
    scheduler: Scheduler
    purgatory: Purgatory
    metadata: MetadataStore
    partitions: ReplicaManager
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    groups: Coordinators
    conversions: Conversions
    appends: WriteBatcher = field(default_factory=WriteBatcher)
    metrics: Metrics = field(default_factory=Metrics)

    @property
    def slices(self) -> TimeSlices:
        """Where long works go on, a millisecond of each turn."""
        return self.groups.slices


@dataclass(slots=True)
class Context:
    """One request: its version, who sent it, and the broker that answers."""

    broker: Services
    client: Client
    version: int
    client_id: str | None

    @property
    def request_context(self) -> RequestContext:
        """What the machines of groups may know of the client."""
        return RequestContext(self.client_id or "", f"/{self.client.remote_host}", self.version)
