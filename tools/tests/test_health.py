"""`headgate health`, against a server of its own."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from headgate.tools import health

pytestmark = pytest.mark.sockets

LOGS = {"name": "logs", "is_met": False, "waits_for": "the opening of 807 of 1500 partitions", "seconds_left": 0.9}
DISKS = {"name": "disks", "is_met": False, "waits_for": "/d, whose disk does not respond"}


class Handler(http.server.BaseHTTPRequestHandler):
    answers: dict[str, tuple[int, bytes]]

    def do_GET(self) -> None:
        status, body = self.answers.get(self.path, (404, b""))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def listener() -> Iterator[str]:
    """One that is alive, started, and waits for two things."""
    met = json.dumps({"status": "ready", "conditions": [{"name": "loop", "is_met": True, "waits_for": None}]}).encode()
    unmet = json.dumps({"status": "waiting", "conditions": [LOGS, DISKS]}).encode()
    Handler.answers = {"/livez": (200, met), "/readyz": (503, unmet), "/startupz": (200, b"[]")}
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_broker_that_is_alive(listener: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert health.main(["--probe", "live", "--listener", f"http://{listener}/"]) == 0
    assert capsys.readouterr().out == "live\n"


def test_a_broker_that_waits_says_for_what(listener: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert health.main(["--listener", listener]) == 1
    assert capsys.readouterr().out == (
        "not ready: waits for the opening of 807 of 1500 partitions, 0.9 s left\n"
        "not ready: waits for /d, whose disk does not respond\n"
    )


def test_another_server_has_no_health(listener: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert health.main(["--probe", "started", "--listener", listener]) == 1
    assert "answers with no health; is it an HTTP listener of Headgate?" in capsys.readouterr().err
    Handler.answers = {}
    assert health.main(["--listener", listener]) == 1
    assert "answers 404" in capsys.readouterr().err


def test_a_broker_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert health.main(["--listener", "127.0.0.1:1", "--timeout", "5"]) == 1
    assert "127.0.0.1:1 (Connection refused)" in capsys.readouterr().err
    assert health.main(["--listener", "127.0.0.1:port"]) == 2
