"""Other protocols on a Kafka port: what is recognised, and that their own clients understand the answer."""

import http.client
import shutil
import socket
import ssl
import struct
import subprocess
from typing import Any

import pytest
import trio

from headgate.gateway.network.connection import Closing
from headgate.gateway.network.protocol_detection import ForeignProtocol, detect
from headgate.gateway.network.tests.conformance import TcpEngine, TcpStreams, run
from headgate.gateway.network.tests.test_connection import ScriptedDispatcher, connect, feed, framed, sent

KAFKA_LIMIT_BYTES = 100 * 1024 * 1024  # socket.request.max.bytes as Kafka has it

KNOWN = [
    bytes.fromhex("16030102"),
    bytes.fromhex("16030306"),
    b"GET ",
    b"HEAD",
    b"POST",
    b"PUT ",
    b"DELE",
    b"OPTI",
    b"PRI ",
    b"ruok",
    b"srvr",
    b"stat",
    b"mntr",
    b"envi",
]


def stranger(beginning: bytes) -> ForeignProtocol:
    found = detect(struct.unpack(">i", beginning)[0])
    assert found is not None
    return found


@pytest.mark.parametrize("beginning", KNOWN)
def test_the_first_bytes_of_other_protocols_exceed_every_size_limit(beginning: bytes) -> None:
    assert struct.unpack(">i", beginning)[0] > KAFKA_LIMIT_BYTES
    assert stranger(beginning).reason


@pytest.mark.parametrize("size", [0, 5, 200, KAFKA_LIMIT_BYTES + 1, -1, -(1 << 31), (1 << 31) - 1])
def test_other_sizes_are_nobody(size: int) -> None:
    assert detect(size) is None


def test_the_alert_is_a_record_of_the_version_that_was_spoken() -> None:
    assert stranger(bytes.fromhex("16030102")).answer == bytes.fromhex("15 0301 0002 02 28")
    assert stranger(bytes.fromhex("16030306")).answer == bytes.fromhex("15 0303 0002 02 28")


def test_http_is_answered_with_one_sentence_and_head_with_none() -> None:
    head, _, body = stranger(b"GET ").answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"Connection: close" in head
    assert body.count(b"\n") == 1
    assert stranger(b"HEAD").answer == head + b"\r\n\r\n"


def test_http_2_is_answered_with_settings_and_goaway() -> None:
    answer = stranger(b"PRI ").answer
    assert answer[:9] == bytes.fromhex("000000 04 00 00000000")
    assert answer[12:18] == bytes.fromhex("07 00 00000000")
    assert int.from_bytes(answer[9:12], "big") == len(answer) - 18
    assert struct.unpack(">II", answer[18:26]) == (0, 1)


def test_zookeepers_words_are_not_answered_as_zookeeper_would() -> None:
    assert stranger(b"ruok").answer.endswith(b"\n")
    assert b"imok" not in stranger(b"ruok").answer
    assert "'ruok'" in stranger(b"ruok").reason


@pytest.fixture
def dispatcher() -> ScriptedDispatcher:
    return ScriptedDispatcher()


@pytest.mark.parametrize("beginning", KNOWN)
def test_a_stranger_is_answered_whatever_the_portions(dispatcher: ScriptedDispatcher, beginning: bytes) -> None:
    connection = connect(dispatcher)
    for byte in beginning:
        assert not connection.closing
        feed(connection, bytes([byte]))
    assert connection.closing
    assert sent(connection) == [stranger(beginning).answer]
    assert dispatcher.complaints == [f"127.0.0.1:40000: {stranger(beginning).reason}"]


@pytest.mark.parametrize("beginning", KNOWN)
def test_within_a_limit_that_allows_it_it_is_a_frame(dispatcher: ScriptedDispatcher, beginning: bytes) -> None:
    connection = connect(dispatcher, max_frame_bytes=(1 << 31) - 1)
    feed(connection, beginning + b"/ HTTP/1.1")
    assert not connection.closing
    assert not connection.outgoing


def test_after_a_request_it_is_a_fault_like_another(dispatcher: ScriptedDispatcher) -> None:
    connection = connect(dispatcher)
    feed(connection, framed(b"one") + b"GET / HTTP/1.1\r\n\r\n")
    assert sent(connection) == [b"one"]
    assert "claims 1195725856 bytes" in dispatcher.complaints[0]
    assert connection.closing is not Closing.LINGERING


# Their own clients


def ask_by_tls(host: str, port: int) -> None:
    context = ssl.create_default_context()
    with (
        socket.create_connection((host, port), 5) as plain,
        pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure"),
        context.wrap_socket(plain, server_hostname="localhost"),
    ):
        pass


def ask_by_openssl(host: str, port: int) -> None:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("there is no openssl command")
    command = [program, "s_client", "-connect", f"{host}:{port}"]
    done = subprocess.run(command, input=b"", capture_output=True, check=False, timeout=60)
    assert done.returncode != 0
    assert b"handshake failure" in done.stdout + done.stderr


def ask_by_http(host: str, port: int) -> None:
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request("POST", "/topics/t", body=b"x" * 200_000)
    response = connection.getresponse()
    assert response.status == 400
    assert b"Kafka listener" in response.read()
    connection.close()


def ask_by_curl(host: str, port: int) -> None:
    program = shutil.which("curl")
    if program is None:
        pytest.skip("there is no curl command")
    for option, expected in (("--http1.1", 0), ("--http2-prior-knowledge", None), ("--head", 0)):
        command = [program, "--silent", "--max-time", "5", "--noproxy", "*", option, f"http://{host}:{port}/"]
        done = subprocess.run(command, capture_output=True, check=False, timeout=60)
        assert expected in (None, done.returncode), done
        if option == "--http1.1":
            assert b"Kafka listener" in done.stdout


def ask_by_a_four_letter_word(host: str, port: int) -> None:
    with socket.create_connection((host, port), 5) as stream:
        stream.sendall(b"ruok")
        answer = b"".join(iter(lambda: stream.recv(1_000), b""))
    assert b"Kafka listener" in answer


@pytest.mark.sockets
@pytest.mark.parametrize("kind", [TcpEngine, TcpStreams])
@pytest.mark.parametrize(
    "ask, word",
    [
        (ask_by_tls, "TLS"),
        (ask_by_openssl, "TLS"),
        (ask_by_http, "HTTP"),
        (ask_by_curl, "HTTP"),
        (ask_by_a_four_letter_word, "ruok"),
    ],
)
def test_their_own_clients_understand(kind: Any, ask: Any, word: str) -> None:
    async def scenario(served: Any) -> None:
        await trio.to_thread.run_sync(ask, *served.address)
        client = await served.new_client()
        await client.send(framed(b"a Kafka client"))
        assert await client.read(14) == b"a Kafka client"
        await client.close()

    complaints = run(kind, scenario).dispatcher.complaints
    assert complaints
    assert all(word in complaint for complaint in complaints)
