"""The census of one broker: folds the counts of connections into rows, and keeps the rows in a topic.

    connection: one addition a request ──> once an interval, and at the end of the connection ──> row
    row: new client or version ──> the topic, at the end of the interval
         counts alone ──> the topic, once an hour and at a clean stop

So a known client costs the topic one record an hour. Rows are folded and written in steps of less than a millisecond.
The rows of an earlier process of this broker are read before the first ones are written. Connections of brokers are
left out, and clients that have not logged in where their listener asks for a login.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from typing import Final, Protocol

from headgate.gateway.api.context import Client, Services
from headgate.gateway.census.census_table import CensusTable
from headgate.gateway.census.census_topic import CensusTopic
from headgate.gateway.config.listeners import SASL_PROTOCOLS
from headgate.gateway.coordinator.broker_requests import OtherBrokers
from headgate.gateway.metadata.image import Image
from headgate.gateway.network.connection import Connection
from headgate.gateway.network.links import SOFTWARE_NAME as LINK_SOFTWARE
from headgate.gateway.runtime.clock import Clock
from headgate.gateway.runtime.log_output import LimitedLog
from headgate.gateway.runtime.metrics import Metrics
from headgate.gateway.runtime.request_counts import RequestCounts
from headgate.gateway.runtime.scheduler import Timer
from headgate.gateway.runtime.tasks import PAUSE, Running, Task, Tasks
from headgate.protocol.acls import ANONYMOUS
from headgate.protocol.census.records import CensusRecords
from headgate.protocol.census.rows import CensusClient, CensusRow
from headgate.protocol.errors import KafkaError

logger = logging.getLogger("headgate.census")

COUNTS_EVERY_MS: Final = 3_600_000.0
"""How often rows whose counts alone have grown are written."""
RECENT_MS: Final = 600_000.0
"""How long a topic of a connection is shown without another request for it."""
CREATION_MS: Final = 10_000.0
STOPPING_MS: Final = 1_000.0
"""The longest wait for the topic's leader: usually, and at a stop."""
ROWS_OF_BATCH: Final = 1_000
FOLDED_AT_ONCE: Final = 32


class ConnectionDriver(Protocol):
    """Moves the bytes of a connection."""

    @property
    def connection(self) -> Connection: ...


class Census:
    """The census of one broker."""

    def __init__(
        self,
        topic: CensusTopic,
        counts: RequestCounts,
        drivers: Callable[[], Collection[ConnectionDriver]],
        is_known: Callable[[Client], bool],
        tasks: Tasks,
        clock: Clock,
        interval_ms: float,
        table: CensusTable,
    ) -> None:
        """`drivers`: those of the open connections. `is_known`: whether a client has logged in, if it has to."""
        self.table = table
        self.failures = 0
        """Failed writes; their rows are written later."""
        self._topic = topic
        self._counts = counts
        self._drivers = drivers
        self._is_known = is_known
        self._tasks = tasks
        self._clock = clock
        self._interval_ms = interval_ms
        self._is_loaded = False
        self._is_over = False
        self._counts_written_ms = clock.monotonic_ms()
        self._timer: Timer | None = None
        self._passing: Running[None] | None = None
        self._log = LimitedLog(logger, clock, lines=1, interval_ms=COUNTS_EVERY_MS)

    def measure(self, metrics: Metrics) -> None:
        """Add the metrics of the census."""
        metrics.gauge("census.rows", lambda: len(self.table))
        metrics.gauge("census.rows.dropped", lambda: self.table.dropped)
        metrics.gauge("census.write.failures", lambda: self.failures)

    def follow(self, old: Image, new: Image, names: Collection[str]) -> None:
        """A listener of the metadata."""
        self._topic.requests.follow(old, new, names)

    # The interval

    def start(self) -> None:
        """Fold and write once an interval. The scheduler runs."""
        self._timer = self._tasks.scheduler.call_after(self._interval_ms, self._begin)

    def _begin(self) -> None:
        if self._is_over:
            return
        if self._passing is None or self._passing.is_over:
            self._passing = self._tasks.start(self._pass())
        self.start()

    def _pass(self) -> Task[None]:
        for _ in self.fold_all():
            yield PAUSE
        now_ms = self._clock.monotonic_ms()
        is_due = now_ms - self._counts_written_ms >= COUNTS_EVERY_MS
        if (yield from self._write(news_alone=not is_due)) and is_due:
            self._counts_written_ms = now_ms

    def flush(self) -> Task[None]:
        """Write everything, before a clean stop."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for _ in self.fold_all():
            yield PAUSE
        yield from self._write(news_alone=False)

    # Folding

    def fold_all(self) -> Iterator[None]:
        """Fold the counts of all open connections, in steps."""
        before_ms = self._clock.monotonic_ms() - RECENT_MS
        for number, driver in enumerate(list(self._drivers()), 1):
            client = driver.connection.client
            if client.folded or self._counts.has_begun(client):
                self.fold(client)
            for topics in (client.topics_written, client.topics_read):
                for name in [name for name, noted_ms in topics.items() if noted_ms < before_ms]:
                    del topics[name]
            if number % FOLDED_AT_ONCE == 0:
                yield

    def fold(self, client: Client) -> None:
        """Move the counts of a connection, since the last time, into the row of its client."""
        if client.requests == client.folded or _is_broker(client) or not self._is_known(client):
            return
        self.table.count(census_client(client), self._counts.take_new(client), self._clock.now_ms())

    def rows(self, node_id: int) -> Iterator[CensusRow]:
        """The rows of this broker, the client that was seen last first."""
        return self.table.rows(node_id)

    # The topic

    def _write(self, *, news_alone: bool) -> Task[bool]:
        """Write rows that the topic does not have. Returns whether it has all of them."""
        try:
            yield from self._load()
            if not self._topic.exists:
                self.table.note_lost_topic()
            while rows := self.table.take_unwritten(ROWS_OF_BATCH, news_alone=news_alone):
                try:
                    yield from self._topic.write(rows, STOPPING_MS if self._is_over else CREATION_MS)
                except BaseException:
                    self.table.give_back(rows)
                    raise
        except (KafkaError, OSError) as error:
            self.failures += 1
            self._log.warning("write", "the census cannot be kept for now, and is tried again: %s", error)
            return False
        return True

    def _load(self) -> Task[None]:
        """Read the rows of an earlier process of this broker, once. Raises KafkaError."""
        if self._is_loaded:
            return
        if self._topic.exists:
            records = CensusRecords(self._topic.node_id)
            yield from self._topic.read(records)
            for number, row in enumerate(records.rows(), 1):
                self.table.load(row)
                if number % FOLDED_AT_ONCE == 0:
                    yield PAUSE
            self.table.end_load()
        self._is_loaded = True


def _is_broker(client: Client) -> bool:
    """Whether the other end is a broker: a request has shown that, or it is a link of a Headgate."""
    return client.is_broker or client.software_name == LINK_SOFTWARE


def census_client(client: Client) -> CensusClient:
    """The client of a connection, as the census distinguishes clients."""
    name, version = (None if text == "unknown" else text for text in (client.software_name, client.software_version))
    return CensusClient(client.principal, client.client_id, name, version, client.remote_host, client.listener)


def make_census(
    services: Services,
    brokers: OtherBrokers,
    counts: RequestCounts,
    drivers: Callable[[], Collection[ConnectionDriver]],
) -> Census:
    """The census of a broker, of its parts."""
    config, protocols = services.config, services.config.listener_security_protocol_map

    def is_known(client: Client) -> bool:
        return client.principal != ANONYMOUS or protocols.get(client.listener) not in SASL_PROTOCOLS

    topic, table = CensusTopic(services, brokers), CensusTable(config.headgate_census_max_rows)
    interval_ms = config.headgate_census_interval_ms
    return Census(topic, counts, drivers, is_known, services.tasks, services.clock, interval_ms, table)
