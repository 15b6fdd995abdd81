"""Unknown clients of every hostile kind at once: a known one is served all the same, and no log has a secret.

As `test_hostile_together`, against listeners with TLS and logins; see `strangers.py` for the kinds.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from compat_tests.harness.broker import TARGET
from compat_tests.harness.soak import SOAK
from compat_tests.harness.steady import FairClock, Steady, create_topics, p99
from compat_tests.harness.waiting import until
from compat_tests.hostile.hostile_bytes import MemoryWatch
from compat_tests.hostile.strangers import (
    KINDS,
    TRUSTED,
    Target,
    address_of,
    answer,
    authenticate,
    context,
    handshake,
)
from compat_tests.hostile.test_hostile_together import BOUND_BYTES, FLOOR_S, MEGABYTE, paced
from compat_tests.security.login_broker import EVERY, PASSWORD, SIGNED, USER, LoginBroker

ATTACKED_S, HELD_S = 2.5, 1.5
TURNS = 20 if SOAK else 2
TIMEOUT_MS = 2_000
PLACES = 50
LIFETIME_MS = 60_000
"""Of a session, so that a login may be renewed."""

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(TARGET != "headgate", reason="the broker is configured for TLS by its command line"),
]


class GuardedBroker(LoginBroker):
    """Its listener `EVERY` is behind a proxy for one network."""

    def listener_settings(self) -> dict[str, str]:
        return {
            **super().listener_settings(),
            "headgate.authentication.timeout.ms": str(TIMEOUT_MS),
            "listener.name.every.headgate.proxy.trusted": f"{TRUSTED}/24",
            "listener.name.every.connections.max.reauth.ms": str(LIFETIME_MS),
        }


class CrowdedBroker(GuardedBroker):
    """Few connections may be unauthenticated, for a long time."""

    def listener_settings(self) -> dict[str, str]:
        return {
            **super().listener_settings(),
            "headgate.authentication.timeout.ms": "60000",
            "headgate.max.connections.unauthenticated": str(PLACES),
        }


class KeyServer:
    """Counts who asks for keys: nobody should."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.asked = 0
        threading.Thread(target=self.run, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self.socket.getsockname()[1]
        return port

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.socket.accept()[0].close()
                self.asked += 1


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GuardedBroker]:
    broker = GuardedBroker(tmp_path)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


@contextlib.contextmanager
def strangers(broker: GuardedBroker, secrets: Path, key_server: KeyServer) -> Iterator[subprocess.Popen[bytes]]:
    pem = broker.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    ports: Mapping[str, int] = broker.ports()
    token = broker.token()
    target = Target(ports[EVERY], ports[SIGNED], USER, PASSWORD, pem.decode(), token, key_server.port, str(secrets))
    secrets.write_text(f"{PASSWORD}\n{token}\n")
    settings = secrets.with_suffix(".json")
    settings.write_text(json.dumps(target._asdict()))
    command = [sys.executable, "-m", "compat_tests.hostile.strangers", str(settings)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=Path(__file__).parents[2])
    try:
        yield process
        assert process.poll() is None, "the strangers gave up"
    finally:
        process.kill()
        process.wait()


def told(lines: list[str], name: str) -> list[str]:
    return [line for line in lines if re.search(rf"\b{re.escape(address_of(name))}\b", line)]


def untold(lines: list[str]) -> list[str]:
    """The kinds of which the log does not say what it should."""
    return [
        name
        for name, kind in KINDS.items()
        if kind.says is not None and not any(re.search(kind.says, line) for line in told(lines, name))
    ]


def secrets_in(text: str, secrets: list[str]) -> list[str]:
    return [secret for secret in secrets if secret in text]


def test_a_log_with_a_secret_is_found() -> None:
    assert secrets_in("... guess-1 ...", ["guess-0", "guess-1"]) == ["guess-1"]


def test_known_clients_are_served_beside_strangers(
    guarded: GuardedBroker, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    secrets, key_server = tmp_path / "secrets", KeyServer()
    create_topics(guarded.bootstrap, ["work"], 1)
    attacked: list[list[float]] = []
    held: list[list[float]] = []
    with Steady(guarded.bootstrap, "work") as client:
        client.window(200)
        files, watch, clock = guarded.open_files(), MemoryWatch(guarded), FairClock(guarded)
        try:
            with strangers(guarded, secrets, key_server) as process:
                until(lambda: not untold(guarded.error_lines()), "a line about every kind", 60)
                for _ in range(TURNS):
                    attacked.append(paced(client, clock, ATTACKED_S))
                    process.send_signal(signal.SIGSTOP)
                    time.sleep(TIMEOUT_MS / 1000)
                    held.append(paced(client, clock, HELD_S))
                    process.send_signal(signal.SIGCONT)
        finally:
            grown = watch.end()
        until(lambda: guarded.open_files() <= files, "the broker to let go of the strangers' connections")
        client.window(20)
    lines = guarded.error_lines()
    attacked_s, held_s = (statistics.median(map(p99, windows)) for windows in (attacked, held))
    figure(
        f"beside {len(KINDS)} kinds of strangers: p99 {attacked_s * 1000:.1f} ms, {held_s * 1000:.1f} ms while they are"
        f" held; memory grew by {grown / MEGABYTE:.1f} MB at most; {len(secrets.read_text().splitlines())} secrets"
    )
    texts = "\n".join((*lines, guarded.output.read_text()))
    assert not secrets_in(texts, secrets.read_text().splitlines()), "a log has a secret"
    assert not Path(f"{secrets}.broken").exists(), "a forged token was accepted"
    assert not key_server.asked, "a token named the server of its keys"
    assert not [line for line in lines if "Traceback" in line or " ERROR " in line]
    assert attacked_s <= 2 * held_s + FLOOR_S
    assert grown < BOUND_BYTES


def log_in(port: int) -> bool:
    """Whether a login by PLAIN succeeds."""
    with contextlib.suppress(OSError), context().wrap_socket(socket.create_connection(("127.0.0.1", port), 10)) as tls:
        tls.sendall(handshake("PLAIN"))
        answer(tls)
        tls.sendall(authenticate(f"\0{USER}\0{PASSWORD}".encode()))
        return answer(tls)[4:6] == b"\0\0"
    return False


def test_a_flood_of_half_open_connections_keeps_no_client_out(tmp_path: Path) -> None:
    """All places are taken, and the flood goes on: the oldest of its connections end, and no login is refused."""
    broker = CrowdedBroker(tmp_path)
    broker.start()
    port, is_ending, opened = broker.ports()[EVERY], threading.Event(), list[socket.socket]()

    def flood() -> None:
        while not is_ending.wait(0.04 if len(opened) > 2 * PLACES else 0.005):
            opened.append(socket.create_connection(("127.0.0.1", port), 10))

    thread = threading.Thread(target=flood, daemon=True)
    try:
        thread.start()
        until(lambda: len(opened) > 2 * PLACES, "the flood")
        time.sleep(1.5)  # now each of its connections has been waited for long enough
        assert all(log_in(port) for _ in range(10))
        assert broker.open_files() < 2 * PLACES + 100
    finally:
        is_ending.set()
        thread.join(10)
        for stream in opened:
            stream.close()
        broker.stop()
    assert any("it kept this broker waiting for 1 s" in line for line in broker.error_lines())
