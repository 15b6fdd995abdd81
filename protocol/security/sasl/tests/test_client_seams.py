"""The system: nonces, the clock, and a server of tokens on loopback."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from headgate.protocol.security.sasl import client_seams
from headgate.protocol.security.sasl.bearer_sources import TokenRequest
from headgate.protocol.security.sasl.client_seams import MAX_ANSWER_BYTES, system
from headgate.protocol.security.sasl.client_tokens import LoginFailed
from headgate.protocol.security.tls.tests.certificates import Authority
from headgate.protocol.security.tls.tests.handshakes import client, server

ROOT = Authority()


class Handler(BaseHTTPRequestHandler):
    """Answers by the path."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        codes = {"/refused": 401, "/elsewhere": 302}
        self.send_response(codes.get(self.path, 200))
        if self.path == "/elsewhere":
            self.send_header("Location", "/token")
        self.end_headers()
        answer = b"x" * (MAX_ANSWER_BYTES + 1) if self.path == "/large" else b""
        self.wfile.write(answer or body + b" " + self.headers["Authorization"].encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def tokens_at() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as served:
        served.socket = server(ROOT.issue("tokens")).wrap_socket(served.socket, server_side=True)
        thread = threading.Thread(target=served.serve_forever, args=(0.02,))
        thread.start()
        yield f"https://127.0.0.1:{served.server_address[1]}"
        served.shutdown()
        thread.join()


def test_nonces_differ_and_have_no_comma() -> None:
    seams = system()
    nonces = {seams.new_nonce() for _ in range(50)}
    assert len(nonces) == 50
    assert not any("," in nonce for nonce in nonces)
    assert abs(seams.now_ms() - time.time() * 1000) < 10_000


@pytest.mark.sockets
@pytest.mark.slow
def test_a_server_of_tokens_is_asked_over_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(path: str) -> bytes:
        return client_seams.post(TokenRequest(f"{url}{path}", b"grant_type=client_credentials", "Basic hush"))

    with tokens_at() as url:
        with pytest.raises(LoginFailed, match=r"gives no token: .*CERTIFICATE_VERIFY_FAILED"):
            ask("/token")
        monkeypatch.setattr(ssl, "create_default_context", lambda: client(None, ROOT))
        assert ask("/token") == b"grant_type=client_credentials Basic hush"
        for path, sentence in (("/refused", "401"), ("/elsewhere", "302"), ("/large", "answers with more than")):
            with pytest.raises(LoginFailed, match=sentence) as refused:
                ask(path)
            assert "hush" not in str(refused.value)
