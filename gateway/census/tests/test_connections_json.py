"""`/v1/connections.json`: the rows of open connections."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headgate
from headgate.gateway.api.context import Client
from headgate.gateway.census import connections_json
from headgate.gateway.census.connections_json import Now
from headgate.gateway.network.connection import Connection
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.tests.builders import HandlerBroker, records
from headgate.protocol.compiler import write
from headgate.protocol.header import RequestHeader, write_request_header
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.schema import Message

PAGE = Path(headgate.__file__).resolve().parents[2] / "docs" / "http.md"
OPENED_MS, NOW = 5_000.0, Now(1_700_000_000_000, 9_000.0)


class OpenConnections:
    """The connections of a broker without sockets."""

    def __init__(self, node: HandlerBroker) -> None:
        self.node = node
        self.connections: list[Connection] = []

    def connect(self, principal: str = "User:ANONYMOUS") -> Connection:
        client = Client("192.0.2.9", 50_000 + len(self.connections), "192.0.2.1", 9092, principal=principal)
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

    def answer(self, now: Now = NOW) -> dict[str, Any]:
        drivers = [SimpleNamespace(connection=connection) for connection in self.connections]
        counts = self.node.parts.dispatcher.request_counts
        body = connections_json.answer(drivers, counts, 3, now).body
        answer: dict[str, Any] = json.loads(b"".join(body))
        return answer

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.answer()["connections"]
        return rows


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OpenConnections]:
    node = HandlerBroker(tmp_path)
    yield OpenConnections(node)
    node.close()


def produced(topic: str) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records(b"value"))
    return ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def fetched(topic: str, offset: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic, partitions=[wanted])])


def test_a_connection_shows_its_client_and_its_requests(broker: OpenConnections) -> None:
    connection = broker.connect("User:alice")
    request = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.6.0")
    broker.ask(connection, request, 3)
    broker.ask(connection, ApiVersionsRequest(), 0)
    (row,) = broker.rows()
    assert (row["principal"], row["client_id"], row["address"], row["port"]) == (
        "User:alice",
        "app",
        "192.0.2.9",
        50_000,
    )
    assert (row["software_name"], row["software_version"]) == ("librdkafka", "2.6.0")
    assert (row["opened_ms"], row["active_ms"]) == (NOW.wall_ms - 4_000, NOW.wall_ms - 1_000)
    assert row["requests"] == 2
    assert row["apis"] == [
        {"api": "ApiVersions", "versions": [{"version": 0, "requests": 1}, {"version": 3, "requests": 1}]}
    ]
    assert row["in_bytes"] == connection.bytes_in > 40
    assert row["out_bytes"] == connection.bytes_out > 100


def test_a_silent_client_is_shown_too(broker: OpenConnections) -> None:
    broker.connect()
    (row,) = broker.rows()
    assert (row["client_id"], row["software_name"], row["requests"], row["apis"]) == (None, None, 0, [])
    assert row["is_logged_in"]


def test_topics_are_those_of_records_that_went_over_it(broker: OpenConnections) -> None:
    for topic in ("a", "b"):
        broker.node.services.metadata.create_topic(topic, 1)
    writer, reader = broker.connect(), broker.connect()
    broker.ask(writer, produced("a"), 7)
    broker.ask(writer, produced("nowhere"), 7)
    broker.ask(reader, fetched("a"), 11)
    broker.ask(reader, fetched("b"), 11)  # has no records
    shown = [(row["topics_written"], row["topics_read"]) for row in broker.rows()]
    assert shown == [(["a"], []), ([], ["a"])]


def test_the_last_error_has_its_topic_if_there_is_one(broker: OpenConnections) -> None:
    broker.node.services.metadata.create_topic("a", 1)
    reader, writer = broker.connect(), broker.connect()
    broker.ask(reader, fetched("a", 99), 11)
    broker.ask(writer, produced("nowhere"), 7)
    errors = [row["last_error"] for row in broker.rows()]
    at_ms = NOW.wall_ms - 1_000
    assert errors == [
        {"error": "OFFSET_OUT_OF_RANGE", "api": "Fetch", "topic": "a", "at_ms": at_ms},
        {"error": "UNKNOWN_TOPIC_OR_PARTITION", "api": "Produce", "topic": None, "at_ms": at_ms},
    ]


def test_a_paused_connection_says_so(broker: OpenConnections) -> None:
    connection = broker.connect()
    connection.client.mute(broker.node.services.scheduler, 500)
    (row,) = broker.rows()
    assert (row["is_throttled"], row["throttles"], row["throttled_ms"]) == (True, 1, 500)
    broker.node.time.advance(500)
    (row,) = broker.rows()
    assert (row["is_throttled"], row["throttles"], row["throttled_ms"]) == (False, 1, 500)


def test_a_connection_has_a_verdict(broker: OpenConnections) -> None:
    old, new = broker.connect(), broker.connect()
    broker.ask(old, fetched("a"), 2)
    broker.ask(new, fetched("a"), 11)
    verdicts = [row["kafka"] for row in broker.rows()]
    assert [verdict["breaks"] for verdict in verdicts] == [True, False]
    assert verdicts[0]["refused"] == [{"api": "Fetch", "version": 2, "since": "4.0", "is_too_new": False}]


def test_an_answer_is_bounded(broker: OpenConnections, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(25):
        broker.connect()
    monkeypatch.setattr(connections_json, "MAX_ROWS", 20)
    answer = broker.answer()
    assert (answer["node_id"], answer["omitted"], len(answer["connections"])) == (3, 5, 20)


def test_a_connection_that_ends_meanwhile_has_no_row(broker: OpenConnections) -> None:
    for _ in range(25):
        broker.connect()
    drivers = [SimpleNamespace(connection=connection) for connection in broker.connections]
    slices = iter(connections_json.answer(drivers, broker.node.parts.dispatcher.request_counts, 3, NOW).body)
    text = next(slices)
    broker.connections[-1].close()
    assert len(json.loads(text + b"".join(slices))["connections"]) == 24


def test_the_page_has_every_field(broker: OpenConnections) -> None:
    (example,) = re.findall(
        r"^`/v1/connections.json`:\n\n```json\n(.*?)```", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    broker.connect()
    (row,) = broker.rows()
    assert list(json.loads(example)["connections"][0]) == list(row)
