"""Fetching key sets: from a file, and by https from a server of the test."""

from __future__ import annotations

import datetime as dt
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headgate.gateway.security.sasl import key_documents
from headgate.gateway.security.sasl.jwks import MAX_DOCUMENT_BYTES, FetchFailed
from headgate.gateway.security.sasl.key_documents import fetcher

DOCUMENT = b'{"keys":[]}'


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "the keys.json"
    file.write_bytes(DOCUMENT)
    fetch = fetcher(file.as_uri())
    assert "%20" in file.as_uri()
    assert fetch() == DOCUMENT
    file.write_bytes(b"{}")
    assert fetch() == b"{}"


@pytest.mark.parametrize("name, reason", [("gone", "No such file or directory"), ("", "Is a directory")])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str, reason: str) -> None:
    file = tmp_path / name
    with pytest.raises(FetchFailed, match=f"^{file} cannot be read: {reason}$"):
        fetcher(file.as_uri())()


@pytest.mark.parametrize("more, is_read", [(0, True), (1, False)])
def test_a_file_has_at_most_so_many_bytes(tmp_path: Path, more: int, is_read: bool) -> None:
    file = tmp_path / "keys"
    file.write_bytes(bytes(MAX_DOCUMENT_BYTES + more))
    fetch = fetcher(file.as_uri())
    if is_read:
        assert len(fetch()) == MAX_DOCUMENT_BYTES
    else:
        with pytest.raises(FetchFailed, match=f"more than {MAX_DOCUMENT_BYTES} bytes"):
            fetch()


class Answers(BaseHTTPRequestHandler):
    """A path names the answer."""

    def do_GET(self) -> None:
        name = self.path.removeprefix("/")
        if name == "keys":
            self._send(200, DOCUMENT)
        elif name == "large":
            self._send(200, bytes(MAX_DOCUMENT_BYTES + 1))
        elif name == "slow":
            self.server.release.wait()  # type: ignore[attr-defined]
            self._send(200, DOCUMENT)
        elif name.startswith("drip"):
            headers = {"Content-Length": "100000"} if name == "drip" else {}
            self._drip(b"HTTP/1.1 200 OK\r\nX-Slow: " + bytes(1_000) if name == "drip-head" else b"", headers)
        elif name.startswith("to-"):
            self._send(302, b"", {"Location": self.server.targets[name]})  # type: ignore[attr-defined]
        elif name == "hang-up":
            self.close_connection = True
        elif name == "garbage":
            self.wfile.write(b"\0\1\2\r\n\r\n")
        else:
            self._send(404, b"")

    def _drip(self, head: bytes, headers: dict[str, str]) -> None:
        """Send a byte now and then, until the client has gone."""
        if not head:
            self.send_response(200)
            for item in headers.items():
                self.send_header(*item)
            self.end_headers()
        with suppress(OSError):
            for byte in head + bytes(100_000):
                self.wfile.write(bytes((byte,)))
                threading.Event().wait(0.01)
        self.close_connection = True

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for item in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(*item)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


class KeyServer(HTTPServer):
    """An https server at `url`, with the certificate `certificate`."""

    def __init__(self, directory: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.release = threading.Event()
        self.url = f"https://127.0.0.1:{self.server_port}/"
        self.targets = {
            "to-keys": f"{self.url}keys",
            "to-http": "http://127.0.0.1:1/keys",
            "to-file": "file:///etc/hostname",
            "to-itself": f"{self.url}to-itself",
        }
        self.certificate = directory / "certificate.pem"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(write_certificate(self.certificate))
        self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client has left."""


def write_certificate(file: Path) -> Path:
    """A key and a certificate that signs itself, for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "keys")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(private + certificate.public_bytes(pem))
    return file


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyServer]:
    server = KeyServer(tmp_path_factory.mktemp("keys"))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.release.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def trusted(server: KeyServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], bytes]:
    """Fetches a path of the server, whose certificate is trusted."""
    monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
    return lambda path: fetcher(server.url + path)()


@pytest.mark.sockets
@pytest.mark.parametrize("path", ["keys", "to-keys"])
def test_a_document_is_fetched_by_https(trusted: Callable[[str], bytes], path: str) -> None:
    assert trusted(path) == DOCUMENT


@pytest.mark.sockets
@pytest.mark.parametrize(
    "path, reason",
    [
        ("gone", "/gone answers 404 Not Found"),
        ("large", f"the document has more than {MAX_DOCUMENT_BYTES} bytes"),
        ("to-http", "/to-http redirects to http, which is not https"),
        ("to-file", "/to-file answers 302 .*'file:///etc/hostname' is not allowed"),
        ("to-itself", "/to-itself answers 302 The HTTP server returned a redirect error"),
        ("garbage", "/garbage cannot be fetched: "),
        ("hang-up", "/hang-up cannot be fetched: Remote end closed connection without response"),
    ],
)
def test_an_answer_without_a_document_is_told(trusted: Callable[[str], bytes], path: str, reason: str) -> None:
    with pytest.raises(FetchFailed, match=reason):
        trusted(path)


@pytest.mark.sockets
def test_a_server_that_is_not_trusted_is_told(server: KeyServer) -> None:
    with pytest.raises(FetchFailed, match=r"/keys cannot be fetched: .*certificate verify failed"):
        fetcher(f"{server.url}keys")()


@pytest.mark.sockets
def test_a_server_that_hangs_is_told(
    server: KeyServer, trusted: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_documents, "TIMEOUT_S", 0.05)
    try:
        with pytest.raises(FetchFailed, match=r"/slow cannot be fetched: (.*timed out|it took longer than 0.05 s)"):
            trusted("slow")
    finally:
        server.release.set()


@pytest.mark.sockets
@pytest.mark.parametrize("path", ["drip", "drip-without-length", "drip-head"])
def test_a_server_that_drips_has_a_deadline(
    trusted: Callable[[str], bytes], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_documents, "TIMEOUT_S", 0.3)
    with pytest.raises(FetchFailed, match=f"/{path} cannot be fetched: it took longer than 0.3 s"):
        trusted(path)


@pytest.mark.sockets
def test_nobody_listens_is_told(server: KeyServer) -> None:
    with pytest.raises(FetchFailed, match=r"cannot be fetched: .*refused"):
        fetcher("https://127.0.0.1:1/keys")()
