"""A quota: what the client is told, and for how long it is not answered (KIP-219)."""

from __future__ import annotations

import pytest

from headgate.gateway.api.handler_registration import load
from headgate.gateway.api.routes import Route
from headgate.gateway.api.tests.throttled_client import (
    ANYONE,
    HEARTBEAT,
    MUTATIONS,
    PERCENT,
    PRODUCER,
    ThrottledClient,
    limit,
    produced,
    use_up,
)
from headgate.gateway.security.quotas.quota_manager import QuotaManager
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from headgate.protocol.messages.metadata import MetadataRequest
from headgate.protocol.messages.produce import ProduceRequest
from headgate.protocol.security.quotas import QuotaEntity


@pytest.fixture
def quotas() -> QuotaManager:
    return QuotaManager()


@pytest.fixture
def wire(node: HandlerBroker, quotas: QuotaManager) -> ThrottledClient:
    return ThrottledClient(node, quotas)


def test_a_throttled_client_is_told_at_once_and_answered_later(wire: ThrottledClient) -> None:
    use_up(wire, 250)
    wire.send((MetadataRequest(None), 9), (MetadataRequest(None), 9))
    (told,) = wire.answers((MetadataRequest, 9))
    assert told.throttle_time_ms == 250
    assert not wire.connection.has_more
    wire.node.time.advance(249)
    assert not wire.wakes
    wire.node.time.advance(1)
    assert wire.wakes
    assert wire.connection.has_more


def test_a_new_request_waits_for_the_end_of_the_pause(wire: ThrottledClient) -> None:
    use_up(wire, 100)
    wire.send((MetadataRequest(None), 9))
    wire.answers((MetadataRequest, 9))
    wire.send((MetadataRequest(None), 9))
    assert not wire.connection.outgoing
    wire.node.time.advance(100)
    wire.connection.proceed()
    assert len(wire.answers((MetadataRequest, 9))) == 1


def test_a_version_without_the_field_is_muted_all_the_same(wire: ThrottledClient) -> None:
    use_up(wire, 100)
    wire.send((MetadataRequest(None), 1), (MetadataRequest(None), 1))
    assert len(wire.answers((MetadataRequest, 1))) == 1


def test_an_error_is_throttled_too(wire: ThrottledClient) -> None:
    use_up(wire, 100)
    wire.send((HeartbeatRequest("", 1, "m"), 3), (HEARTBEAT, 3))
    (response,) = wire.answers((HeartbeatRequest, 3))
    assert (response.error_code, response.throttle_time_ms) == (ErrorCode.INVALID_GROUP_ID, 100)


def test_a_parked_request_is_throttled_with_its_answer(wire: ThrottledClient) -> None:
    limit(wire, PERCENT, 100.0)
    join = JoinGroupRequest(
        "g", 10_000, 1_000, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"")]
    )
    wire.send((join, 3), (MetadataRequest(None), 9))
    assert wire.connection.parked
    wire.node.time.advance(2_900)
    use_up(wire, 500)
    wire.node.time.advance(100)
    (response,) = wire.answers((JoinGroupRequest, 3))
    assert 0 < response.throttle_time_ms <= 1_000
    assert not wire.connection.has_more
    wire.node.time.advance(1_000)
    assert wire.connection.has_more


def test_the_bytes_of_a_produce_request_count(wire: ThrottledClient) -> None:
    wire.node.ask(CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)]), 5)
    limit(wire, PRODUCER, 100.0)
    wire.send((produced(3, 1), 9))
    (first,) = wire.answers((ProduceRequest, 9))
    assert first.throttle_time_ms == 0
    wire.send((produced(20, 1), 9), (MetadataRequest(None), 9))
    (second,) = wire.answers((ProduceRequest, 9))
    assert second.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert 10_000 < second.throttle_time_ms < 20_000
    assert not wire.connection.has_more


def test_without_a_reply_the_client_is_muted(wire: ThrottledClient) -> None:
    wire.node.ask(CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)]), 5)
    limit(wire, PRODUCER, 1.0)
    wire.send((produced(1, 0), 9), (MetadataRequest(None), 9))
    assert not wire.connection.outgoing
    wire.node.time.advance(1_000_000)
    wire.connection.proceed()
    assert len(wire.answers((MetadataRequest, 9))) == 1


def create(wire: ThrottledClient, version: int, *topics: tuple[str, int]) -> CreateTopicsResponse:
    wire.send((CreateTopicsRequest([CreatableTopic(name, count, 1) for name, count in topics]), version))
    (response,) = wire.answers((CreateTopicsRequest, version))
    assert isinstance(response, CreateTopicsResponse)
    return response


def test_a_strict_version_refuses_mutations_in_debt(wire: ThrottledClient) -> None:
    limit(wire, MUTATIONS, 1.0)
    response = create(wire, 6, ("a", 12), ("not valid", 5), ("b", 1), ("c", 1))
    codes = {row.name: ErrorCode(row.error_code) for row in response.topics}
    refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert codes == {"a": 0, "not valid": ErrorCode.INVALID_TOPIC_EXCEPTION, "b": refused, "c": refused}
    assert response.throttle_time_ms == 1_000
    assert "b" not in wire.node.services.metadata.image.topics
    wire.node.time.advance(1_000)
    wire.connection.proceed()
    assert create(wire, 6, ("b", 1)).topics[0].error_code == ErrorCode.NONE


def test_an_older_version_is_throttled_only(wire: ThrottledClient) -> None:
    limit(wire, MUTATIONS, 1.0)
    response = create(wire, 5, ("a", 12), ("b", 1))
    assert [row.error_code for row in response.topics] == [ErrorCode.NONE, ErrorCode.NONE]
    assert response.throttle_time_ms == 2_000


def test_added_and_deleted_partitions_count(wire: ThrottledClient) -> None:
    create(wire, 6, ("a", 12), ("b", 2))
    limit(wire, MUTATIONS, 1.0)
    wire.send((CreatePartitionsRequest([CreatePartitionsTopic("b", 5, None)]), 3))
    (grown,) = wire.answers((CreatePartitionsRequest, 3))
    assert (grown.results[0].error_code, grown.throttle_time_ms) == (ErrorCode.NONE, 0)
    wire.send((DeleteTopicsRequest(topic_names=["a", "b"]), 5))
    (deleted,) = wire.answers((DeleteTopicsRequest, 5))
    codes = [ErrorCode(row.error_code) for row in deleted.responses]
    assert codes == [ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert deleted.throttle_time_ms == 4_000


def test_a_muted_connection_holds_up_no_stop_and_ends_with_its_client(wire: ThrottledClient) -> None:
    use_up(wire, 900)
    wire.send((MetadataRequest(None), 9))
    wire.answers((MetadataRequest, 9))
    assert not wire.connection.parked
    assert wire.connection.awaits_broker  # so that it is not closed for being idle
    wire.connection.end_of_stream()
    assert wire.connection.is_answered
    wire.connection.finish()
    assert wire.client.connection is None  # the client refers to the connection no more
    wire.node.time.advance(60_000)
    assert not wire.wakes


def route_of(wire: ThrottledClient, api_key: int, version: int) -> Route:
    route = wire.dispatcher._open_route(api_key, version)
    assert route is not None
    return route


@pytest.mark.parametrize("api_key, version", [(3, 9), (0, 9), (1, 11), (19, 6)])
def test_without_a_quota_no_step_is_built(wire: ThrottledClient, api_key: int, version: int) -> None:
    served = load()[api_key].find(version)
    assert served is not None
    route = route_of(wire, api_key, version)
    read = route.read
    for _ in range(2):
        assert route.handler is served.handler
        assert route.is_lasting is served.is_lasting
        assert route.read is read
        limit(wire, PERCENT, 5.0)
        assert route.handler is not served.handler
        limit(wire, "connection_creation_rate", 5.0, QuotaEntity.of({"ip": None}))


def test_a_quota_of_bytes_adds_no_step_to_other_apis(wire: ThrottledClient) -> None:
    limit(wire, PRODUCER, 5.0)
    steps = {api_key: route_of(wire, api_key, 9).throttling is not None for api_key in (0, 1, 3)}
    assert steps == {0: True, 1: False, 3: False}


def test_orders_between_brokers_have_no_step(wire: ThrottledClient) -> None:
    limit(wire, PERCENT, 5.0)
    assert route_of(wire, LeaderAndIsrRequest.api_key, 4).throttling is None


def test_cached_answers_count_and_stay_cached(wire: ThrottledClient) -> None:
    limit(wire, PERCENT, 100.0)
    for _ in range(2):
        wire.send((MetadataRequest(None), 9))
        assert wire.answers((MetadataRequest, 9))[0].throttle_time_ms == 0
    assert wire.client.limits is not None
    assert wire.client.limits.request is not None
    assert wire.client.limits.request.pending > 0
    use_up(wire, 300)
    wire.send((MetadataRequest(None), 9))
    assert wire.answers((MetadataRequest, 9))[0].throttle_time_ms == 300
    wire.node.time.advance(12_000)
    wire.connection.proceed()
    wire.send((MetadataRequest(None), 9))
    assert wire.answers((MetadataRequest, 9))[0].throttle_time_ms == 0


def test_a_client_with_another_name_has_other_limits(wire: ThrottledClient) -> None:
    limit(wire, PERCENT, 1e-6, QuotaEntity.of({"client-id": "other"}))
    wire.send((HEARTBEAT, 3))
    assert wire.answers((HeartbeatRequest, 3))[0].throttle_time_ms == 0
    wire.client.principal = "User:ann"
    limit(wire, PERCENT, 1e-6, QuotaEntity.of({"user": "ann"}))
    wire.send((HEARTBEAT, 3))
    wire.answers((HeartbeatRequest, 3))
    assert wire.client.limits is not None
    assert wire.client.limits.request is not None


def test_a_client_that_logs_in_has_the_limits_of_its_user(wire: ThrottledClient) -> None:
    limit(wire, PERCENT, 100.0, QuotaEntity.of({"user": "ann"}))
    for principal in ("User:ANONYMOUS", "User:ann"):
        wire.client.principal = principal
        wire.send((HEARTBEAT, 3))
        wire.answers((HeartbeatRequest, 3))
        assert wire.client.limits is not None
        assert (wire.client.limits.request is not None) == (principal == "User:ann")


def test_each_request_counts_for_its_own_client_id(wire: ThrottledClient) -> None:
    limit(wire, PERCENT, 100.0)
    for name in ("me", "you"):
        wire.client_id = name
        wire.send((HEARTBEAT, 3))
        wire.answers((HeartbeatRequest, 3))
    assert wire.dispatcher.quotas is not None
    assert wire.dispatcher.quotas.bucket_count == 2


def test_the_metadata_bring_quotas_to_the_dispatcher(node: HandlerBroker) -> None:
    assert not node.parts.quotas.quotas
    node.services.metadata.change_quotas(ANYONE, {PRODUCER: 5.0})
    assert node.parts.quotas.quotas == {ANYONE: {PRODUCER: 5.0}}
    assert node.parts.quotas.counts(PRODUCER)
