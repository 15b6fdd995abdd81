"""`/v1/connections.json`: the rows of open connections."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate
from headgate.gateway.census import connections_json
from headgate.gateway.census.tests.open_connections import NOW, OpenConnections, fetched, produced
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.messages.api_versions import ApiVersionsRequest

PAGE = Path(headgate.__file__).resolve().parents[2] / "docs" / "http.md"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OpenConnections]:
    node = HandlerBroker(tmp_path)
    yield OpenConnections(node)
    node.close()


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
    slices = iter(connections_json.answer(broker.drivers, broker.node.parts.dispatcher.request_counts, 3, NOW).body)
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
