"""`headgate metrics`, against a server of its own."""

from __future__ import annotations

import base64
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.protocol.security.tls.tests.certificates import Authority
from headgate.protocol.security.tls.tests.handshakes import server as tls_server
from headgate.tools import metrics

pytestmark = pytest.mark.sockets


LINE = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="hush";'
ROOT = Authority()
given: list[str | None] = []
"""The users of requests."""


class Handler(http.server.BaseHTTPRequestHandler):
    answer = 200, b"headgate_connections 1.0\n"

    def do_GET(self) -> None:
        given.append(self.headers.get("Authorization"))
        status, body = self.answer if self.path == "/metrics" else (404, b"")
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def secure_address() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = tls_server(ROOT.issue("metrics")).wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def config_of(directory: Path, protocol: str = "SASL_SSL", authority: Authority = ROOT) -> str:
    ca, file = directory / "ca.pem", directory / "client.properties"
    ca.write_text(authority.pem())
    login = f"sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={LINE}\n"
    trust = f"ssl.truststore.type=PEM\nssl.truststore.location={ca}\n"
    file.write_text(f"security.protocol={protocol}\n{login}{trust}")
    return str(file)


def test_a_user_is_named_over_tls(secure_address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del given[:]
    assert metrics.main(["--listener", secure_address, "--command-config", config_of(tmp_path)]) == 0
    assert capsys.readouterr().out == "headgate_connections 1.0\n"
    assert given == ["Basic " + base64.b64encode(b"ann:hush").decode()]


@pytest.mark.parametrize(
    "protocol, authority, status, sentence",
    [
        ("SASL_SSL", ROOT, 401, "it does not know this user"),
        ("SASL_SSL", ROOT, 403, "the user needs Describe"),
        ("SASL_SSL", Authority("Other"), 200, "is not trusted"),
        ("SASL_PLAINTEXT", ROOT, 200, "over SASL_SSL alone"),
    ],
)
def test_a_refused_user_reads_why(
    protocol: str,
    authority: Authority,
    status: int,
    sentence: str,
    secure_address: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Handler, "answer", (status, b""))
    config = config_of(tmp_path, protocol, authority)
    assert metrics.main(["--listener", secure_address, "--command-config", config]) == 1
    errors = capsys.readouterr().err
    assert sentence in errors
    assert "hush" not in errors


def test_the_metrics_are_printed(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    for listener in (address, f"http://{address}", f"http://{address}/metrics"):
        assert metrics.main(["--listener", listener]) == 0
        assert capsys.readouterr().out == "headgate_connections 1.0\n"


@pytest.mark.parametrize(
    "answer, shown, code",
    [
        ((200, b"a\x1b[2J 1\n"), "a\\x1b[2J 1\n", 0),
        ((404, b""), "answers 404 Not Found; is it an HTTP listener of Headgate?", 1),
    ],
)
def test_what_another_server_says_does_no_harm(
    answer: tuple[int, bytes],
    shown: str,
    code: int,
    address: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Handler, "answer", answer)
    assert metrics.main(["--listener", address]) == code
    captured = capsys.readouterr()
    assert shown in captured.out + captured.err


def test_a_place_without_metrics_is_told_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert metrics.main(["--listener", "127.0.0.1:1"]) == 1
    assert "--override headgate.http.listeners=http://127.0.0.1:1" in capsys.readouterr().err


def test_a_wrong_address_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert metrics.main(["--listener", "127.0.0.1:x"]) == 2
    assert "127.0.0.1:x" in capsys.readouterr().err
