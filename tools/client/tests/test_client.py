"""The tools' client: what it asks, and what it says when it gets no answer."""

import socket
import threading
from functools import partial
from types import SimpleNamespace

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.client.tests.scripted_peer import Answer
from headgate.protocol.client.tests.scripted_peer import reply as reply_bytes
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.create_topics import CreateTopicsRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headgate.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headgate.protocol.schema import Message
from headgate.protocol.security.client_security import ClientSecurity
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client import client as client_module
from headgate.tools.client.client import Client, ClientError, SecurityError, parse_addresses
from headgate.tools.client.cluster import Cluster, RetryPolicy
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
@pytest.mark.parametrize("text", ["x" * 40_000, "\ud800"], ids=["long", "surrogate"])
def test_a_text_that_does_not_fit_is_refused_before_it_is_sent(text: str) -> None:
    with fake_broker(instead_of_metadata(MetadataResponse(cluster_id="c"))) as address, Client(address) as client:
        with pytest.raises(ClientError, match="MetadataRequest cannot be written, as a value does not fit"):
            client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=text)]), 1)
        assert client.ask(MetadataRequest(topics=None)).cluster_id == "c", "the connection goes on"


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


LINE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="hush";'
LOGIN = ClientSecurity.of_properties(
    {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": LINE}
)
WITH_SASL = ApiVersionsResponse(api_keys=[*SERVED.api_keys, ApiVersion(17, 0, 1), ApiVersion(36, 0, 2)])


def with_login(asked: list[str], refusal: str = "") -> Answer:
    """A broker whose sessions last 10 s."""

    def answer(request: Message, version: int) -> Message:
        asked.append(type(request).__name__)
        code = ErrorCode.SASL_AUTHENTICATION_FAILED if refusal else ErrorCode.NONE
        responses = {
            ApiVersionsRequest: WITH_SASL,
            MetadataRequest: MetadataResponse(cluster_id="c"),
            SaslHandshakeRequest: SaslHandshakeResponse(mechanisms=["PLAIN"]),
            SaslAuthenticateRequest: SaslAuthenticateResponse(code, refusal, session_lifetime_ms=10_000),
        }
        return responses[type(request)]

    return answer


@pytest.mark.sockets
def test_a_session_is_renewed_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    clock = SimpleNamespace(now_s=100.0)
    monkeypatch.setattr(client_module, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    with fake_broker(with_login(asked)) as address, Client(address, security=LOGIN) as client:
        login = ["SaslHandshakeRequest", "SaslAuthenticateRequest"]
        assert asked == ["ApiVersionsRequest", *login]
        for after_s, expected in ((8.4, []), (0.2, login), (0.1, []), (8.5, login)):
            del asked[:]
            clock.now_s += after_s
            client.ask(MetadataRequest(topics=[]))
            assert asked == [*expected, "MetadataRequest"]


@pytest.mark.sockets
@pytest.mark.parametrize("asks_leader", [False, True])
def test_a_refused_login_is_not_repeated(asks_leader: bool) -> None:
    asked: list[str] = []
    repeats = RetryPolicy(lambda _failure: True)
    with fake_broker(with_login(asked, "wrong password")) as address:
        cluster = Cluster(address, 1.0, repeats, security=LOGIN)
        of_leader = partial(cluster.ask_leaders, [TopicPartition("t", 0)], lambda client, partitions: [])
        of_any = partial(cluster.ask_any, "key", lambda client: Failure(ErrorCode.NONE, "never asked"))
        with pytest.raises(SecurityError, match="the broker refuses the login by PLAIN: wrong password") as refused:
            (of_leader if asks_leader else of_any)()
    assert asked.count("SaslAuthenticateRequest") == 1
    assert "hush" not in str(refused.value)


@pytest.mark.sockets
def test_an_alert_of_tls_names_the_protocol() -> None:
    with (
        fake_broker(lambda request, version: b"\x15\x03\x03\0\x02\x02\x50") as address,
        pytest.raises(SecurityError, match=r"speaks TLS; set security\.protocol=SSL or SASL_SSL"),
    ):
        Client(address)


@pytest.mark.sockets
def test_a_connection_that_its_broker_has_closed_is_known() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        is_over = threading.Event()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                request = connection.recv(1 << 16)
                connection.sendall(reply_bytes(memoryview(request)[4:], lambda request, version: SERVED) or b"")
                is_over.wait(60)

        thread = threading.Thread(target=serve)
        thread.start()
        with Client(f"127.0.0.1:{listener.getsockname()[1]}") as client:
            assert not client.has_ended
            is_over.set()
            thread.join(60)
            assert client.has_ended
