"""The client side: correlation, negotiation, and what it refuses."""

from __future__ import annotations

import struct

import pytest

from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.client.tests.scripted_peer import arrive, connected, drive, respond
from headgate.protocol.compiler import write
from headgate.protocol.errors import ErrorCode, KafkaError, MalformedRequest
from headgate.protocol.header import write_response_header
from headgate.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headgate.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.schema import Message

TABLE = ApiVersionsResponse(api_keys=[ApiVersion(3, 0, 12), ApiVersion(1, 30, 40)])


def reply(response: Message, correlation_id: int, version: int) -> bytes:
    out = bytearray()
    write_response_header(out, correlation_id, response.api_key, version)
    write(response, version, out, [])
    return struct.pack(">i", len(out)) + out


def negotiated() -> ClientConnection:
    connection = ClientConnection("test")
    connection.request(ApiVersionsRequest(), 3)
    connection.receive(reply(TABLE, 0, 3))
    return connection


def test_a_request_is_a_frame_with_a_header() -> None:
    frame = ClientConnection("me").request(MetadataRequest(topics=None), 1)
    assert frame == struct.pack(">ihhih2si", 16, 3, 1, 0, 2, b"me", -1)


def test_responses_come_with_their_requests_in_order() -> None:
    connection = ClientConnection()
    requests = [MetadataRequest(), MetadataRequest(topics=None)]
    for request in requests:
        connection.request(request, 9)
    answers = [MetadataResponse(cluster_id="a"), MetadataResponse(cluster_id="b")]
    data = b"".join(reply(answer, number, 9) for number, answer in enumerate(answers))
    got = connection.receive(data[:10]) + connection.receive(data[10:])
    assert got == list(zip(requests, answers, strict=True))
    assert not connection.in_flight


def test_the_rest_of_a_response_is_received_in_place() -> None:
    connection = ClientConnection()
    connection.request(MetadataRequest(), 9)
    data = reply(MetadataResponse(cluster_id="a" * 100), 0, 9)
    assert connection.incomplete_size == 0
    assert connection.receive(data[:20]) == []
    assert connection.incomplete_size == len(data) - 4
    for part in (data[20:50], data[50:]):
        connection.get_buffer()[: len(part)] = part
        answers = connection.buffer_updated(len(part))
    [(_, answer)] = answers
    assert answer.cluster_id == "a" * 100
    assert connection.incomplete_size == 0


@pytest.mark.parametrize("slice_bytes", [1, 1000, 1 << 20])
def test_large_answers_arrive_in_slices_while_more_are_asked(slice_bytes: int) -> None:
    connection = connected()
    fetches = [FetchRequest(max_wait_ms=number) for number in range(3)]
    frames = [connection.request(fetch, 12) for fetch in fetches]
    records = [bytes([number]) * 5_000 for number in range(3)]

    def answer(request: FetchRequest, version: int) -> Message:
        row = PartitionData(partition_index=0, records=records[request.max_wait_ms])
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[row])])

    answered = arrive(connection, b"".join(respond(frame, answer) for frame in frames), slice_bytes)
    assert [request for request, _ in answered] == fetches
    assert [response.responses[0].partitions[0].records for _, response in answered] == records
    assert not connection.in_flight
    assert not connection.incomplete_size


def test_the_usable_version_is_the_latest_of_both_sides() -> None:
    assert negotiated().latest_usable_version(MetadataRequest) == 12


def test_a_missing_common_version_is_an_error() -> None:
    connection = negotiated()
    with pytest.raises(KafkaError, match="FetchRequest: the broker has versions 30-40, this side 0-18"):
        connection.latest_usable_version(FetchRequest)
    with pytest.raises(KafkaError, match="ProduceRequest: the broker does not serve it"):
        connection.latest_usable_version(ProduceRequest)
    with pytest.raises(KafkaError, match="was not asked"):
        ClientConnection().request(MetadataRequest())


def test_the_newest_version_of_a_range_is_usable() -> None:
    connection = negotiated()
    assert connection.usable_version(MetadataRequest, newest=9, oldest=4) == 9
    assert connection.usable_version(MetadataRequest, newest=20) == 12
    with pytest.raises(KafkaError, match="it has Metadata 0-12, this needs 13-14"):
        connection.usable_version(MetadataRequest, newest=14, oldest=13)


def test_an_old_broker_is_asked_for_its_versions_again() -> None:
    connection, asked = ClientConnection(), []

    def answer(request: ApiVersionsRequest, version: int) -> Message:
        asked.append(version)
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION) if len(asked) == 1 else TABLE

    assert drive(connection, connection.negotiate("test"), answer) == 0
    assert asked == [3, 0]
    assert connection.latest_usable_version(MetadataRequest) == 12


def test_unknown_api_versions_are_answered_in_version_0() -> None:
    connection = ClientConnection()
    connection.request(ApiVersionsRequest(), 5)
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=TABLE.api_keys)
    [(_, answer)] = connection.receive(reply(refusal, 0, 0))
    assert answer == refusal
    assert connection.latest_usable_version(MetadataRequest) == 12


def test_produce_without_acks_expects_no_response() -> None:
    connection = ClientConnection()
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, b"batch")])]
    connection.request(ProduceRequest(acks=0, topic_data=data), 9)
    assert not connection.in_flight


def test_a_response_to_another_request_is_refused() -> None:
    connection = ClientConnection()
    connection.request(MetadataRequest(), 9)
    with pytest.raises(MalformedRequest, match="response to request 7 came, but request 0 is the next"):
        connection.receive(reply(MetadataResponse(), 7, 9))


def test_a_response_without_a_request_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="without a request"):
        ClientConnection().receive(reply(MetadataResponse(), 0, 9))


def test_correlation_ids_stay_positive() -> None:
    connection = ClientConnection()
    connection._correlation_id = 0x7FFF_FFFF
    connection.request(MetadataRequest(), 0)
    connection.request(MetadataRequest(), 0)
    assert [waiting.correlation_id for waiting in connection.in_flight] == [0x7FFF_FFFF, 0]
