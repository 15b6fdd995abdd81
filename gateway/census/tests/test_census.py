"""The census of a broker: counts of connections become rows, and rows records of the topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.gateway.census.census import COUNTS_EVERY_MS, RECENT_MS
from headgate.gateway.census.tests.counted_broker import INTERVAL_MS, METADATA, CountedBroker
from headgate.gateway.census.tests.open_connections import fetched, produced
from headgate.gateway.metadata.image import CENSUS
from headgate.gateway.network.links import SOFTWARE_NAME as LINK_SOFTWARE
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.census.records import decode_key, encode_key, encode_value
from headgate.protocol.census.rows import CensusClient, VersionUse
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.records.batch import Record, build


def test_a_broker_without_clients_has_no_topic(broker: CountedBroker) -> None:
    broker.connect()  # sends nothing
    broker.passes(10 * INTERVAL_MS)
    broker.flush()
    assert CENSUS not in broker.node.services.metadata.image.topics


def test_new_clients_and_versions_are_kept_within_an_interval(broker: CountedBroker) -> None:
    connection = broker.connect("User:alice")
    broker.ask(connection, METADATA, 9)
    broker.passes()
    ((key, value),) = broker.stored()
    client = CensusClient("User:alice", "app", None, None, "192.0.2.9", "PLAINTEXT")
    now_ms = broker.node.time.clock.now_ms()
    assert decode_key(key) == (0, client)
    assert value == encode_value([VersionUse(3, 9, 1, now_ms, now_ms)])
    broker.ask(connection, fetched("t"), 11)
    broker.passes()
    assert broker.clients() == {"app": 2}
    configs = broker.node.services.metadata.image.topic_configs(CENSUS)
    assert configs["cleanup.policy"] == "compact"


def test_counts_of_known_clients_are_kept_once_an_hour(broker: CountedBroker) -> None:
    connection = broker.connect()
    broker.ask(connection, METADATA, 9)
    broker.passes()
    for _ in range(30):
        broker.ask(connection, METADATA, 9)
        broker.passes()
    assert len(broker.stored()) == 1
    assert next(iter(broker.census.rows(0))).requests == 31
    broker.passes(COUNTS_EVERY_MS)
    assert (len(broker.stored()), broker.clients()) == (2, {"app": 31})


def test_connections_that_have_ended_are_counted_whole(broker: CountedBroker) -> None:
    for _ in range(3):
        connection = broker.connect()
        broker.ask(connection, METADATA, 9)
        broker.passes()
        broker.ask(connection, METADATA, 9)
        broker.connections.remove(connection)
        broker.census.fold(connection.client)
    (row,) = broker.census.rows(0)
    assert row.requests == 6


def test_a_clean_stop_keeps_everything(broker: CountedBroker) -> None:
    connection = broker.connect()
    broker.ask(connection, METADATA, 9)
    broker.passes()
    broker.ask(connection, METADATA, 9)
    broker.flush()
    assert broker.clients() == {"app": 2}
    broker.ask(connection, fetched("t"), 11)
    broker.passes(10 * INTERVAL_MS)
    assert len(broker.stored()) == 2, "the census is over"


def test_a_new_process_continues_the_rows(broker: CountedBroker) -> None:
    broker.ask(broker.connect(), METADATA, 9)
    broker.flush()
    first = next(iter(broker.census.rows(0)))
    broker.connections.clear()
    broker.new_census()
    broker.ask(broker.connect(), METADATA, 9)
    broker.passes()
    (row,) = broker.census.rows(0)
    assert (row.requests, row.first_ms) == (2, first.first_ms)
    assert len(broker.stored()) == 1, "the client and its versions are known"
    broker.flush()
    assert broker.clients() == {"app": 2}


def test_rows_of_other_brokers_are_not_this_brokers(broker: CountedBroker) -> None:
    broker.ask(broker.connect(), METADATA, 9)
    broker.flush()
    replica = broker.node.services.partitions.get(CENSUS, 0)
    client = next(iter(broker.census.rows(0))).client._replace(client_id="elsewhere")
    records = [Record(-1, 1, encode_key(7, client), encode_value([VersionUse(1, 4, 5, 1, 2)]))]
    replica.append(memoryview(build(records)), 1, 1)
    broker.new_census()
    broker.passes()
    assert [row.client.client_id for row in broker.census.rows(0)] == ["app"]
    assert broker.clients() == {"app": 1, "elsewhere": 5}


def test_brokers_and_clients_before_a_login_are_left_out(tmp_path: Path) -> None:
    node = HandlerBroker(
        tmp_path, headgate_census="false", listener_security_protocol_map="PLAINTEXT:PLAINTEXT,IN:SASL_PLAINTEXT"
    )
    broker = CountedBroker(node)
    follower, stranger, known = broker.connect(), broker.connect(listener="IN"), broker.connect("User:a", "IN")
    for number, connection in enumerate((follower, stranger, known)):
        broker.ask(connection, METADATA, 9, f"client-{number}")
    follower.client.note_broker()
    broker.passes()
    assert broker.clients() == {"client-2": 1}
    node.close()


def test_a_connection_is_counted_once_it_asks_for_something(broker: CountedBroker) -> None:
    connection = broker.connect()
    request = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.6.0")
    broker.ask(connection, request, 3)
    broker.passes()
    assert len(broker.census.table) == 0, "a follower begins in the same way"
    broker.ask(connection, METADATA, 9)
    broker.passes()
    (row,) = broker.census.rows(0)
    assert (row.client.software_name, row.client.software_version, row.requests) == ("librdkafka", "2.6.0", 2)


def test_links_of_a_headgate_are_left_out(broker: CountedBroker) -> None:
    connection = broker.connect()
    request = ApiVersionsRequest(client_software_name=LINK_SOFTWARE, client_software_version="1")
    broker.ask(connection, request, 3)
    broker.ask(connection, METADATA, 9)
    broker.passes()
    broker.census.fold(connection.client)
    assert len(broker.census.table) == 0


def test_topics_of_long_ago_are_not_shown(broker: CountedBroker) -> None:
    broker.node.services.metadata.create_topic("a", 1)
    connection = broker.connect()
    broker.ask(connection, produced("a"), 7)
    connection.client.topics_written["a"] = broker.node.time.clock.monotonic_ms()
    broker.passes(RECENT_MS / 2)
    assert "a" in connection.client.topics_written
    broker.passes(RECENT_MS)
    assert "a" not in connection.client.topics_written


def test_a_deleted_topic_comes_back_with_the_next_news(broker: CountedBroker) -> None:
    broker.ask(broker.connect(), METADATA, 9)
    broker.passes()
    broker.node.services.metadata.delete_topic(CENSUS)
    broker.passes()
    assert CENSUS not in broker.node.services.metadata.image.topics
    broker.ask(broker.connect(), METADATA, 9, "other")
    broker.passes()
    assert broker.clients() == {"app": 1, "other": 1}


def test_a_full_disk_delays_the_rows(broker: CountedBroker, caplog: pytest.LogCaptureFixture) -> None:
    broker.ask(broker.connect(), METADATA, 9)
    broker.passes()
    (directory,) = broker.node.services.partitions.directories.values()
    directory.set_full(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full"))
    broker.ask(broker.connect(), METADATA, 9, "other")
    for _ in range(3):
        broker.passes()
    assert broker.clients() == {"app": 1}
    assert broker.census.failures == 3
    assert caplog.text.count("the census cannot be kept for now, and is tried again") == 1
    directory.set_full(None)
    broker.passes()
    assert broker.clients() == {"app": 1, "other": 1}
