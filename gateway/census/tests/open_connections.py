"""A broker without sockets, and connections whose bytes a test moves."""

from __future__ import annotations

import json
import struct
from types import SimpleNamespace
from typing import Any

from headgate.gateway.api.context import Client
from headgate.gateway.census import connections_json
from headgate.gateway.census.connections_json import Now
from headgate.gateway.network.connection import Connection
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.tests.builders import HandlerBroker, records
from headgate.protocol.compiler import write
from headgate.protocol.header import RequestHeader, write_request_header
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.schema import Message

OPENED_MS, NOW = 5_000.0, Now(1_700_000_000_000, 9_000.0)


class OpenConnections:
    """The connections of a broker without sockets."""

    def __init__(self, node: HandlerBroker) -> None:
        self.node = node
        self.connections: list[Connection] = []

    def connect(self, principal: str = "User:ANONYMOUS", listener: str = "PLAINTEXT") -> Connection:
        port = 50_000 + len(self.connections)
        client = Client("192.0.2.9", port, "192.0.2.1", 9092, listener, principal)
        parts = self.node.parts
        connection = Connection(client, parts.dispatcher, 1 << 20, MemoryBudget(1 << 20), lambda *_: None)
        connection.opened_ms = connection.active_ms = OPENED_MS
        client.connection = connection
        self.connections.append(connection)
        return connection

    def ask(self, connection: Connection, request: Message, version: int, client_id: str = "app") -> None:
        frame = bytearray()
        write_request_header(frame, RequestHeader(request.api_key, version, 7, client_id))
        write(request, version, frame, [])
        connection.receive(memoryview(bytearray(struct.pack(">i", len(frame)) + frame)), 8_000.0)
        while connection.outgoing:
            piece = connection.take()
            if not isinstance(piece, bytes | bytearray | memoryview):
                piece.release()

    @property
    def drivers(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(connection=connection) for connection in self.connections]

    def answer(self, now: Now = NOW) -> dict[str, Any]:
        counts = self.node.parts.dispatcher.request_counts
        body = connections_json.answer(self.drivers, counts, 3, now).body
        answer: dict[str, Any] = json.loads(b"".join(body))
        return answer

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.answer()["connections"]
        return rows


def produced(topic: str) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records(b"value"))
    return ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def fetched(topic: str, offset: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic, partitions=[wanted])])
