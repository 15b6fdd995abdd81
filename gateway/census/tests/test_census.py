"""The census of a broker: counts of connections become rows, and rows records of the topic."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate.gateway.census import census_json
from headgate.gateway.census.census import COUNTS_EVERY_MS, RECENT_MS, Census, make_census
from headgate.gateway.census.tests.open_connections import OpenConnections, fetched, produced
from headgate.gateway.coordinator.broker_requests import OtherBrokers
from headgate.gateway.coordinator.tests.fake_links import FakeLinks
from headgate.gateway.metadata.image import CENSUS
from headgate.gateway.tests.builders import HandlerBroker, led_elsewhere
from headgate.protocol.census.records import CensusRecords, decode_key, encode_key, encode_value
from headgate.protocol.census.rows import CensusClient, VersionUse
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from headgate.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record, build

PAGE = Path(headgate.__file__).resolve().parents[2] / "docs" / "http.md"
INTERVAL_MS = 60_000
API_VERSIONS = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.6.0")


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


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[CountedBroker]:
    node = HandlerBroker(tmp_path, headgate_census="false")
    yield CountedBroker(node)
    node.close()


def test_a_broker_without_clients_has_no_topic(broker: CountedBroker) -> None:
    broker.connect()  # sends nothing
    broker.passes(10 * INTERVAL_MS)
    broker.flush()
    assert CENSUS not in broker.node.services.metadata.image.topics


def test_new_clients_and_versions_are_kept_within_an_interval(broker: CountedBroker) -> None:
    connection = broker.connect("User:alice")
    broker.ask(connection, API_VERSIONS, 3)
    broker.passes()
    ((key, value),) = broker.stored()
    client = CensusClient("User:alice", "app", "librdkafka", "2.6.0", "192.0.2.9", "PLAINTEXT")
    now_ms = broker.node.time.clock.now_ms()
    assert decode_key(key) == (0, client)
    assert value == encode_value([VersionUse(18, 3, 1, now_ms, now_ms)])
    broker.ask(connection, fetched("t"), 11)
    broker.passes()
    assert broker.clients() == {"app": 2}
    configs = broker.node.services.metadata.image.topic_configs(CENSUS)
    assert configs["cleanup.policy"] == "compact"


def test_counts_of_known_clients_are_kept_once_an_hour(broker: CountedBroker) -> None:
    connection = broker.connect()
    broker.ask(connection, API_VERSIONS, 3)
    broker.passes()
    for _ in range(30):
        broker.ask(connection, API_VERSIONS, 3)
        broker.passes()
    assert len(broker.stored()) == 1
    assert next(iter(broker.census.rows(0))).requests == 31
    broker.passes(COUNTS_EVERY_MS)
    assert (len(broker.stored()), broker.clients()) == (2, {"app": 31})


def test_connections_that_have_ended_are_counted_whole(broker: CountedBroker) -> None:
    for _ in range(3):
        connection = broker.connect()
        broker.ask(connection, API_VERSIONS, 3)
        broker.passes()
        broker.ask(connection, API_VERSIONS, 3)
        broker.connections.remove(connection)
        broker.census.fold(connection.client)
    (row,) = broker.census.rows(0)
    assert row.requests == 6


def test_a_clean_stop_keeps_everything(broker: CountedBroker) -> None:
    connection = broker.connect()
    broker.ask(connection, API_VERSIONS, 3)
    broker.passes()
    broker.ask(connection, API_VERSIONS, 3)
    broker.flush()
    assert broker.clients() == {"app": 2}
    broker.ask(connection, fetched("t"), 11)
    broker.passes(10 * INTERVAL_MS)
    assert len(broker.stored()) == 2, "the census is over"


def test_a_new_process_continues_the_rows(broker: CountedBroker) -> None:
    broker.ask(broker.connect(), API_VERSIONS, 3)
    broker.flush()
    first = next(iter(broker.census.rows(0)))
    broker.connections.clear()
    broker.new_census()
    broker.ask(broker.connect(), API_VERSIONS, 3)
    broker.passes()
    (row,) = broker.census.rows(0)
    assert (row.requests, row.first_ms) == (2, first.first_ms)
    assert len(broker.stored()) == 1, "the client and its versions are known"
    broker.flush()
    assert broker.clients() == {"app": 2}


def test_rows_of_other_brokers_are_not_this_brokers(broker: CountedBroker) -> None:
    broker.ask(broker.connect(), API_VERSIONS, 3)
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
        broker.ask(connection, API_VERSIONS, 3, f"client-{number}")
    follower.client.note_broker()
    broker.passes()
    assert broker.clients() == {"client-2": 1}
    node.close()


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
    broker.ask(broker.connect(), API_VERSIONS, 3)
    broker.passes()
    broker.node.services.metadata.delete_topic(CENSUS)
    broker.passes()
    assert CENSUS not in broker.node.services.metadata.image.topics
    broker.ask(broker.connect(), API_VERSIONS, 3, "other")
    broker.passes()
    assert broker.clients() == {"app": 1, "other": 1}


def test_a_full_disk_delays_the_rows(broker: CountedBroker, caplog: pytest.LogCaptureFixture) -> None:
    broker.ask(broker.connect(), API_VERSIONS, 3)
    broker.passes()
    (directory,) = broker.node.services.partitions.directories.values()
    directory.set_full(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full"))
    broker.ask(broker.connect(), API_VERSIONS, 3, "other")
    for _ in range(3):
        broker.passes()
    assert broker.clients() == {"app": 1}
    assert broker.census.failures == 3
    assert caplog.text.count("the census cannot be kept for now, and is tried again") == 1
    directory.set_full(None)
    broker.passes()
    assert broker.clients() == {"app": 1, "other": 1}


def test_the_answer_over_http_has_present_counts(broker: CountedBroker) -> None:
    connection = broker.connect()
    broker.ask(connection, API_VERSIONS, 3)
    broker.ask(connection, fetched("t"), 2)
    answer = json.loads(b"".join(census_json.answer(broker.census, 0, 5).body))
    assert (answer["node_id"], answer["measured_ms"], answer["is_on"], answer["dropped"]) == (0, 5, True, 0)
    (row,) = answer["clients"]
    assert (row["client_id"], row["requests"], row["kafka"]["breaks"]) == ("app", 2, True)


def test_the_page_has_every_field(broker: CountedBroker) -> None:
    (example,) = re.findall(r"^`/v1/census.json`:\n\n```json\n(.*?)```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    broker.ask(broker.connect(), fetched("t"), 2)
    answer = json.loads(b"".join(census_json.answer(broker.census, 0, 5).body))
    shown, row = json.loads(example)["clients"][0], answer["clients"][0]
    assert list(shown) == list(row)
    assert shown["kafka"] == row["kafka"]
    assert list(shown["apis"][0]["versions"][0]) == list(row["apis"][0]["versions"][0])


def test_the_answer_without_a_census_is_empty() -> None:
    answer = json.loads(b"".join(census_json.answer(None, 3, 5).body))
    assert answer == {"node_id": 3, "measured_ms": 5, "is_on": False, "dropped": 0, "clients": []}


# A leader elsewhere

LEADER = 5


@pytest.fixture
def led(broker: CountedBroker) -> CountedBroker:
    """Another broker leads the topic, which has no replica here."""
    broker.node.services.metadata.create_topic(CENSUS, 1)
    led_elsewhere(broker.node, LEADER, CENSUS)
    return broker


def produce_answer(code: int = 0) -> ProduceResponse:
    row = PartitionProduceResponse(0, ErrorCode(code), 0)
    return ProduceResponse([TopicProduceResponse(CENSUS, bytes(16), [row])])


def asked(broker: CountedBroker) -> Any:
    """The last request to the leader."""
    return broker.links.opened[LEADER].asked[-1]


def test_rows_go_to_the_leader(led: CountedBroker) -> None:
    led.ask(led.connect(), API_VERSIONS, 3)
    led.passes()
    request = asked(led)
    (topic,) = request.topic_data
    assert (topic.name, topic.topic_id) == (CENSUS, led.node.services.metadata.image.topics[CENSUS].topic_id)
    (record,) = batch.iterate(topic.partition_data[0].records)
    assert decode_key(record.key or b"")[1].client_id == "app"
    led.links.opened[LEADER].answer(produce_answer())
    led.passes()
    assert asked(led) is request, "nothing is new"


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_rows_that_the_leader_refuses_are_sent_again(led: CountedBroker, code: ErrorCode) -> None:
    led.ask(led.connect(), API_VERSIONS, 3)
    led.passes()
    first = asked(led)
    led.links.opened[LEADER].answer(produce_answer(code))
    led.passes()
    assert led.census.failures == 1
    assert asked(led) is not first
    assert asked(led).topic_data[0].partition_data[0].records is not None


def test_a_silent_leader_is_not_waited_for(led: CountedBroker) -> None:
    led.ask(led.connect(), API_VERSIONS, 3)
    led.flush()
    led.passes(2_000)
    assert led.census.failures == 1


def test_earlier_rows_come_from_the_leader(led: CountedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(led.node.services.partitions, "hosted", lambda *_: None)
    led.ask(led.connect(), API_VERSIONS, 3)
    led.passes()
    request = asked(led)
    assert [partition.fetch_offset for partition in request.topics[0].partitions] == [0]
    led.census.fold_all()
    client = next(iter(led.census.rows(0))).client
    kept = build([Record(-1, 1, encode_key(0, client), encode_value([VersionUse(18, 3, 41, 100, 200)]))])
    row = PartitionData(0, ErrorCode.NONE, 1, records=kept)
    led.links.opened[LEADER].answer(FetchResponse(responses=[FetchableTopicResponse(CENSUS, bytes(16), [row])]))
    led.node.time.advance()
    assert asked(led).topics[0].partitions[0].fetch_offset == 1
    row = PartitionData(0, ErrorCode.NONE, 1, records=b"")
    led.links.opened[LEADER].answer(FetchResponse(responses=[FetchableTopicResponse(CENSUS, bytes(16), [row])]))
    led.node.time.advance()
    (found,) = led.census.rows(0)
    assert (found.requests, found.first_ms) == (42, 100)
