"""The topic of the census where another broker leads it, and after its deletion."""

from __future__ import annotations

from typing import Any
from unittest.mock import NonCallableMock

import pytest

from headgate.gateway.api.context import Client
from headgate.gateway.census.tests.counted_broker import METADATA, CountedBroker
from headgate.gateway.metadata.image import CENSUS, Node
from headgate.gateway.tests.builders import led_elsewhere
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.acls import AclOperation, AclResource
from headgate.protocol.census.records import decode_key, encode_key, encode_value
from headgate.protocol.census.rows import CensusClient, VersionUse
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
    led.ask(led.connect(), METADATA, 9)
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
    led.ask(led.connect(), METADATA, 9)
    led.passes()
    first = asked(led)
    led.links.opened[LEADER].answer(produce_answer(code))
    led.passes()
    assert led.census.failures == 1
    assert asked(led) is not first
    assert asked(led).topic_data[0].partition_data[0].records is not None


def test_a_silent_leader_is_not_waited_for(led: CountedBroker) -> None:
    led.ask(led.connect(), METADATA, 9)
    led.flush()
    led.passes(2_000)
    assert led.census.failures == 1


def test_earlier_rows_come_from_the_leader(led: CountedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(led.node.services.partitions, "hosted", lambda *_: None)
    led.ask(led.connect(), METADATA, 9)
    led.passes()
    request = asked(led)
    assert [partition.fetch_offset for partition in request.topics[0].partitions] == [0]
    led.census.fold_all()
    client = next(iter(led.census.rows(0))).client
    kept = build([Record(-1, 1, encode_key(0, client), encode_value([VersionUse(3, 9, 41, 100, 200)]))])
    row = PartitionData(0, ErrorCode.NONE, 1, records=kept)
    led.links.opened[LEADER].answer(FetchResponse(responses=[FetchableTopicResponse(CENSUS, bytes(16), [row])]))
    led.node.time.advance()
    assert asked(led).topics[0].partitions[0].fetch_offset == 1
    row = PartitionData(0, ErrorCode.NONE, 1, records=b"")
    led.links.opened[LEADER].answer(FetchResponse(responses=[FetchableTopicResponse(CENSUS, bytes(16), [row])]))
    led.node.time.advance()
    (found,) = led.census.rows(0)
    assert (found.requests, found.first_ms) == (42, 100)


# Another broker's rows, here


def written_by(broker: CountedBroker, client_id: str, listener: str = "PLAINTEXT", topic: str = CENSUS) -> int:
    """The error code of a Produce of a row by this client."""
    client = CensusClient("User:b", "app", None, None, "192.0.2.1", "PLAINTEXT")
    row = Record(-1, 1, encode_key(LEADER, client), encode_value([VersionUse(1, 4, 7, 100, 200)]))
    broker.node.client.client_id, broker.node.client.listener = client_id, listener
    answer = broker.node.ask(produce_request(build([row]), topic, acks=1), 9)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


@pytest.fixture
def leading(broker: CountedBroker) -> CountedBroker:
    """A broker of a cluster that leads the topic."""
    broker.node.services.metadata.create_topic(CENSUS, 1, configs={"cleanup.policy": "compact"})
    broker.node.services.groups.prepare()
    old = broker.node.services.metadata.image
    others = {LEADER: Node(LEADER, None, {"PLAINTEXT": ("five.example", 9095)})}
    broker.node.services.metadata.image = old._replace(brokers={**old.brokers, **others})
    broker.node.services.controller_orders = NonCallableMock()
    return broker


def test_a_link_of_another_broker_writes_rows(leading: CountedBroker) -> None:
    assert written_by(leading, f"broker-{LEADER}-census") == ErrorCode.NONE
    assert leading.clients() == {"app": 7}
    assert leading.node.client.is_broker


@pytest.mark.parametrize(
    "client_id, listener, topic",
    [
        ("app", "PLAINTEXT", CENSUS),
        (f"broker-{LEADER}-lag", "PLAINTEXT", CENSUS),
        ("broker-77-census", "PLAINTEXT", CENSUS),
        (f"broker-{LEADER}-census", "OUTSIDE", CENSUS),
        (f"broker-{LEADER}-census", "PLAINTEXT", "__consumer_offsets"),
    ],
)
def test_no_other_client_writes_rows(leading: CountedBroker, client_id: str, listener: str, topic: str) -> None:
    assert written_by(leading, client_id, listener, topic) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert leading.clients() == {}


def test_a_broker_alone_takes_rows_of_nobody(leading: CountedBroker) -> None:
    leading.node.services.controller_orders = None
    assert written_by(leading, f"broker-{LEADER}-census") == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_link_needs_the_right_of_a_broker(leading: CountedBroker, is_allowed: bool) -> None:
    asked = []

    class ClusterActions:
        def allows(self, client: Client, operation: AclOperation, resource: AclResource, name: str) -> bool:
            asked.append((client.client_id, operation, resource, name))
            return is_allowed

    leading.node.services.authorizer = ClusterActions()
    code = written_by(leading, f"broker-{LEADER}-census")
    assert (code == ErrorCode.NONE) is is_allowed
    right = AclOperation.CLUSTER_ACTION, AclResource.CLUSTER, "kafka-cluster"
    assert asked == [(f"broker-{LEADER}-census", *right)]
