"""`headgate metrics`, against a server of its own."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from headgate.tools import metrics

pytestmark = pytest.mark.sockets


class Handler(http.server.BaseHTTPRequestHandler):
    answer = 200, b"headgate_connections 1.0\n"

    def do_GET(self) -> None:
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


def test_the_metrics_are_printed(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert metrics.main(["--listener", address]) == 0
    assert capsys.readouterr().out == "headgate_connections 1.0\n"


@pytest.mark.parametrize(
    "answer, shown, code",
    [
        ((200, b"a\x1b[2J 1\n"), "a\\x1b[2J 1\n", 0),
        ((404, b""), "answers 404 Not Found; is it the listener of metrics?", 1),
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
    assert "--override headgate.metrics.listener=127.0.0.1:1" in capsys.readouterr().err


def test_a_wrong_address_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert metrics.main(["--listener", "127.0.0.1:x"]) == 2
    assert "127.0.0.1:x" in capsys.readouterr().err
