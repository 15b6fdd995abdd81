"""A broker whose census is taken when a test says so."""

from __future__ import annotations

from headgate.gateway.census.census import Census, make_census
from headgate.gateway.census.tests.open_connections import OpenConnections
from headgate.gateway.coordinator.broker_requests import OtherBrokers
from headgate.gateway.coordinator.tests.fake_links import FakeLinks
from headgate.gateway.metadata.image import CENSUS
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.census.records import CensusRecords
from headgate.protocol.messages.metadata import MetadataRequest
from headgate.protocol.records import batch

INTERVAL_MS = 60_000
METADATA = MetadataRequest(topics=[])


class CountedBroker(OpenConnections):
    """A broker whose census is taken when a test says so."""

    def __init__(self, node: HandlerBroker) -> None:
        super().__init__(node)
        self.links = FakeLinks()
        self.census = self.new_census()

    def new_census(self) -> Census:
        """As a new process of the broker makes it."""
        services = self.node.services
        others = OtherBrokers(0, "PLAINTEXT", services.metadata, services.tasks, self.links, 30_000.0)
        self.census = make_census(services, others, self.node.parts.dispatcher.request_counts, lambda: self.drivers)
        services.metadata.on_change(self.census.follow)
        self.census.start()
        return self.census

    def passes(self, elapsed_ms: float = INTERVAL_MS) -> None:
        self.node.time.advance(elapsed_ms)

    def flush(self) -> None:
        """A clean stop."""
        self.node.services.tasks.start(self.census.flush())
        self.node.time.advance()

    def stored(self) -> list[tuple[bytes, bytes | None]]:
        """The records of the topic."""
        if CENSUS not in self.node.services.metadata.image.topics:
            return []
        log = self.node.services.partitions.get(CENSUS, 0).log
        piece = log.read(0, 1 << 20, log.written_end, at_least_one=True)
        if piece is None:
            return []
        data, position, found = memoryview(piece.read()), 0, []
        piece.release()
        while position < len(data):
            header = batch.read_header(data, position)
            found += [
                (record.key or b"", record.value) for record in batch.iterate(data[position : position + header.size])
            ]
            position += header.size
        return found

    def clients(self) -> dict[str | None, int]:
        """The requests by client id, as a reader of the topic sees them."""
        records = CensusRecords()
        for record in self.stored():
            records.replay(*record)
        return {row.client.client_id: row.requests for row in records.rows()}
