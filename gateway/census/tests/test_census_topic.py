"""The topic of the census where another broker leads it, and after its deletion."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.gateway.census.tests.counted_broker import API_VERSIONS, CountedBroker
from headgate.gateway.metadata.image import CENSUS
from headgate.gateway.tests.builders import led_elsewhere
from headgate.protocol.census.records import decode_key, encode_key, encode_value
from headgate.protocol.census.rows import VersionUse
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from headgate.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record, build

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
