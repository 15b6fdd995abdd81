"""`headgate console` as a process."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headgate.protocol.security.tls.tests.certificates import write_files
from headgate.tools.console import command

pytestmark = [pytest.mark.sockets, pytest.mark.slow]
MODULE = [sys.executable, "-m", "headgate", "console"]


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [*MODULE, "--listen", "http://127.0.0.1:0", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("headgate console ready http://127.0.0.1:"), line
    return line.rpartition("//")[2].strip()


def session(address: str) -> object:
    connection = http.client.HTTPConnection(address, timeout=20)
    connection.request("GET", "/api/session")
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer["bootstrap"]


def test_the_page_is_served_until_sigterm() -> None:
    with started("--bootstrap-server", "127.0.0.1:1") as process:
        assert session(address_of(process)) == "127.0.0.1:1"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_it_ends_with_its_parent() -> None:
    with started("--exit-with-parent") as process:
        address_of(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == 0


def test_wrong_properties_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=WRONG\n")
    assert command.main(["--listen", "http://127.0.0.1:0", "--command-config", str(file)]) == command.MISUSED
    assert "security.protocol=WRONG does not exist" in capsys.readouterr().err


def test_an_address_for_all_needs_tls(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--listen", "http://0.0.0.0:9080"])
    assert "needs TLS" in capsys.readouterr().err


def secure_session(address: str) -> dict[str, object]:
    """The session of a visitor without a login, and the status of a question."""
    host, _, port = address.partition(":")
    connection = http.client.HTTPSConnection(
        "127.0.0.1", int(port), timeout=20, context=ssl._create_unverified_context()
    )
    connection.request("GET", "/api/session")
    answer = connection.getresponse()
    session = json.loads(answer.read())
    cookie = answer.headers["set-cookie"]
    connection.request("GET", "/api/brokers", headers={"Cookie": cookie.partition(";")[0]})
    status = connection.getresponse().status
    connection.close()
    return {"host": host, "needs_login": session["needs_login"], "is_secure": "; Secure" in cookie, "status": status}


def test_beyond_loopback_there_is_tls_and_no_lent_login(tmp_path: Path) -> None:
    write_files(tmp_path, ["broker"])
    config = tmp_path / "listen.properties"
    config.write_text(f"ssl.keystore.type=PEM\nssl.keystore.location={tmp_path}/broker.pem\n")
    found = []
    no_broker = ("--bootstrap-server", "127.0.0.1:1")
    for host in ("0.0.0.0", "127.0.0.1"):
        with started("--listen-config", str(config), "--listen", f"https://{host}:0", *no_broker) as process:
            assert process.stdout is not None
            found.append(secure_session(process.stdout.readline().rpartition("//")[2].strip()))
    assert found == [
        {"host": "0.0.0.0", "needs_login": True, "is_secure": True, "status": 401},
        {"host": "127.0.0.1", "needs_login": False, "is_secure": True, "status": 502},  # no broker answers
    ]


def test_a_socket_beyond_loopback_is_not_served_without_tls(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("0.0.0.0", 0)) as listener:
        assert command.main(["--descriptor", str(os.dup(listener.fileno()))]) == 1
    assert "so the console needs TLS there" in capsys.readouterr().err
