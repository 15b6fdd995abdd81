"""The tools' client: what it asks, and what it says when it gets no answer."""

import socket

import pytest

from headgate.protocol.client.tests.scripted_peer import Answer
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.create_topics import CreateTopicsRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headgate.protocol.schema import Message
from headgate.tools.client.client import Client, ClientError, parse_addresses
from headgate.tools.tests.fake_broker import SERVED, fake_broker


def instead_of_metadata(reply: Message | bytes | None) -> Answer:
    return lambda request, version: SERVED if isinstance(request, ApiVersionsRequest) else reply


@pytest.mark.parametrize(
    "text, addresses",
    [
        ("localhost:9093", [("localhost", 9093)]),
        ("localhost", [("localhost", 9092)]),
        ("a:1, b:2 ,c", [("a", 1), ("b", 2), ("c", 9092)]),
        ("[::1]:9093,[::1]", [("::1", 9093), ("::1", 9092)]),
    ],
)
def test_addresses(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_addresses(text) == addresses


@pytest.mark.parametrize("text", ["", ":9092", "a:b", "::1:9092", "a:70000", "a:"])
def test_wrong_addresses_are_refused(text: str) -> None:
    with pytest.raises(ClientError, match="is no address of a broker; write host:port"):
        parse_addresses(text)


@pytest.mark.sockets
def test_requests_use_the_newest_common_version() -> None:
    asked: list[tuple[Message, int]] = []

    def answer(request: Message, version: int) -> Message:
        asked.append((request, version))
        return SERVED if isinstance(request, ApiVersionsRequest) else MetadataResponse(cluster_id="c")

    with fake_broker(answer) as address, Client(address) as client:
        assert client.ask(MetadataRequest(topics=None)).cluster_id == "c"
        assert client.ask(MetadataRequest(topics=[]), 1).cluster_id is None
    assert [(type(request), version) for request, version in asked] == [
        (ApiVersionsRequest, 3),
        (MetadataRequest, 9),
        (MetadataRequest, 1),
    ]


@pytest.mark.sockets
def test_requests_are_sent_ahead_and_answered_in_order() -> None:
    def answer(request: Message, version: int) -> Message:
        return SERVED if isinstance(request, ApiVersionsRequest) else MetadataResponse(cluster_id=str(version))

    with fake_broker(answer) as address, Client(address) as client:
        for version in (2, 3, 4):
            client.send(MetadataRequest(topics=[]), version)
        assert [client.receive().cluster_id for _ in range(3)] == ["2", "3", "4"]


@pytest.mark.sockets
def test_a_broker_older_than_2_4_is_asked_once_more() -> None:
    """It refuses the version, without a list: what it serves it says to the first one."""
    asked: list[int] = []

    def answer(request: Message, version: int) -> Message | bytes:
        asked.append(version)
        if version == 3:
            return b"\0\0\0\x0a\0\0\0\0\0\x23\0\0\0\0"  # correlation id 0, error 35, no list: version 0
        return SERVED

    with fake_broker(answer) as address, Client(address) as client:
        assert client.serves(MetadataRequest)
    assert asked == [3, 0]


@pytest.mark.sockets
def test_a_broker_that_refuses_to_say_what_it_serves() -> None:
    refused = ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with (
        fake_broker(lambda request, version: refused) as address,
        pytest.raises(ClientError, match="refuses ApiVersions: CLUSTER_AUTHORIZATION_FAILED"),
    ):
        Client(address)


@pytest.mark.sockets
def test_a_version_within_bounds() -> None:
    served = ApiVersionsResponse(api_keys=[ApiVersion(api_key=MetadataRequest.api_key, min_version=4, max_version=7)])
    with fake_broker(lambda request, version: served) as address, Client(address) as client:
        assert client.serves(MetadataRequest)
        assert not client.serves(CreateTopicsRequest)
        assert client.version(MetadataRequest, 12) == 7
        assert client.version(MetadataRequest, 5) == 5
        sentence = "too old or too new for this: it has Metadata 4-7, this needs "
        with pytest.raises(ClientError, match=f"{sentence}0-3"):
            client.version(MetadataRequest, 3)
        with pytest.raises(ClientError, match=f"{sentence}8-12"):
            client.version(MetadataRequest, 12, 8)
        with pytest.raises(ClientError, match="CreateTopicsRequest: the broker does not serve it"):
            client.version(CreateTopicsRequest, 3)


@pytest.mark.sockets
def test_the_next_address_is_tried() -> None:
    with (
        fake_broker(instead_of_metadata(MetadataResponse())) as address,
        socket.create_server(("127.0.0.1", 0)) as free,
    ):
        dead = f"127.0.0.1:{free.getsockname()[1]}"
        free.close()
        with Client(f"{dead},{address}") as client:
            assert client.address == address


@pytest.mark.sockets
def test_an_unreachable_broker_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ClientError, match=f"no broker answers at .*:{port} .Connection refused.; start one"):
        Client(f"127.0.0.1:{port}")


@pytest.mark.sockets
@pytest.mark.parametrize(
    "reply, sentence",
    [
        (None, "hung up at MetadataRequest; its log says why"),
        (b"\0\0\0\x05\0\0\x27\x0f\0", "does not answer as a Kafka broker does: a response to request 9999 came"),
        (b"HTTP/1.1 400 Bad Request", "does not answer as a Kafka broker does"),
    ],
)
def test_malformed_answers_are_errors(reply: bytes | None, sentence: str) -> None:
    with (
        fake_broker(instead_of_metadata(reply)) as address,
        Client(address) as client,
        pytest.raises(ClientError, match=sentence),
    ):
        client.ask(MetadataRequest(topics=None))


@pytest.mark.sockets
def test_a_broker_that_is_too_old_is_an_error() -> None:
    with (
        fake_broker(instead_of_metadata(None)) as address,
        Client(address) as client,
        pytest.raises(ClientError, match="is too old or too new for this: CreateTopicsRequest"),
    ):
        client.ask(CreateTopicsRequest())


@pytest.mark.sockets
def test_a_silent_broker_is_an_error() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(ClientError, match=r"did not answer ApiVersionsRequest within 0\.01 s"),
    ):
        Client(f"127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.01)
