"""A broker under a service manager: what it tells, the sockets that it takes over, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from compat_tests.harness import wire
from compat_tests.harness.topics import create_topics
from compat_tests.harness.waiting import until
from compat_tests.service.manager import Notifications, ServiceBroker

LIMIT_S = 60.0
# Answers to so many requests fill the buffers of both sides
UNREAD_REQUESTS = 10_000
VERSIONS = wire.frame(wire.request_header(wire.API_VERSIONS, 0))
MANY_PARTITIONS = 300


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "notify") if request.param == "path" else f"@headgate-{os.getpid()}-{os.urandom(4).hex()}"


def new_service(opened: ExitStack, directory: Path, **options: bool | int) -> ServiceBroker:
    """A broker, whose service manager is at a path of its directory."""
    notifications = Notifications(str(directory / "notify"))
    opened.callback(notifications.close)
    broker = ServiceBroker(directory / "broker", notifications, **options)  # type: ignore[arg-type]
    opened.callback(broker.close)
    return broker


def stopped(broker: ServiceBroker, number: signal.Signals = signal.SIGTERM) -> int:
    """The exit code after a signal."""
    process = broker.process
    assert process is not None
    process.send_signal(number)
    return process.wait(LIMIT_S)


def test_a_broker_tells_how_it_does(opened: ExitStack, address: str, tmp_path: Path) -> None:
    notifications = Notifications(address)
    opened.callback(notifications.close)
    broker = ServiceBroker(tmp_path / "broker", notifications, watchdog_ms=900)
    opened.callback(broker.close)
    broker.start()
    notifications.wait_for("READY", "1")
    notifications.wait_for("WATCHDOG", "1", count=5)
    os.kill(broker.pid, signal.SIGHUP)
    notifications.wait_for("READY", "1", count=2)
    assert stopped(broker) == 0
    notifications.wait_for("WATCHDOG_USEC")
    names = [told.name for told in notifications.told if told.name not in ("WATCHDOG", "STATUS", "MONOTONIC_USEC")]
    assert names[0] == "EXTEND_TIMEOUT_USEC", "before anything is opened"
    assert [name for name in names if name != "EXTEND_TIMEOUT_USEC"] == [
        "READY",
        "RELOADING",
        "READY",
        "STOPPING",
        "WATCHDOG_USEC",
    ]
    statuses = [told.value for told in notifications.told if told.name == "STATUS"]
    assert statuses[0] == "starting"
    assert f"serving 0 connections at PLAINTEXT://127.0.0.1:{broker.port}" in statuses
    assert statuses[-2:] == ["stopping: SIGTERM", "closing the logs"]


def test_a_broker_that_stands_still_is_not_alive(opened: ExitStack, tmp_path: Path) -> None:
    """The service manager ends such a broker by SIGABRT, and starts it again."""
    broker = new_service(opened, tmp_path, watchdog_ms=300)
    notifications, process = broker.notifications, broker.process
    assert notifications is not None
    broker.start()
    notifications.wait_for("WATCHDOG", "1", count=3)
    process = broker.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    until(lambda: b"T (stopped)" in Path(f"/proc/{process.pid}/status").read_bytes(), "the process to stop")
    threading.Event().wait(0.1)  # what was sent before is heard
    before = notifications.count("WATCHDOG")
    threading.Event().wait(0.6)
    assert notifications.count("WATCHDOG") == before
    process.send_signal(signal.SIGABRT)
    process.send_signal(signal.SIGCONT)
    assert process.wait(LIMIT_S) == -signal.SIGABRT
    broker.process = None
    broker.start()
    notifications.wait_for("READY", "1", count=2)


def test_the_opening_of_logs_is_told(opened: ExitStack, tmp_path: Path) -> None:
    broker = new_service(opened, tmp_path)
    broker.start()
    create_topics(broker.bootstrap, {"many": {}}, MANY_PARTITIONS)
    broker.kill()
    broker.start()
    assert broker.notifications is not None
    broker.notifications.wait_for("READY", "1", count=2)
    statuses = [told.value for told in broker.notifications.told if told.name == "STATUS"]
    assert any(status.startswith("serving; opening logs: ") for status in statuses), statuses


def test_clients_wait_in_the_queue_of_a_passed_socket(opened: ExitStack, tmp_path: Path) -> None:
    broker = new_service(opened, tmp_path, has_http=True)
    streams = [opened.enter_context(closing(wire.connect(broker.bootstrap, LIMIT_S))) for _ in range(200)]
    for stream in streams:
        stream.sendall(VERSIONS)
    address = broker.settings["headgate.http.listeners"]
    probe = opened.enter_context(closing(socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))))
    probe.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    broker.start()
    assert [wire.receive_frame(stream)[:4] for stream in streams] == [b"\0\0\0\1"] * len(streams)
    probe.settimeout(LIMIT_S)
    assert probe.recv(1 << 16).startswith(b"HTTP/1.1 200")
    with urllib.request.urlopen(f"{address}/v1/broker.json", timeout=LIMIT_S) as answer:  # noqa: S310
        assert json.load(answer)["endpoints"] == [f"PLAINTEXT://{broker.bootstrap}"]
    assert stopped(broker) == 0
    broker.process = None
    with closing(wire.connect(broker.bootstrap, LIMIT_S)) as later:
        broker.start()
        assert wire.ask(later, wire.API_VERSIONS, 0, b"")


def test_a_passed_socket_that_no_listener_has_prevents_a_start(opened: ExitStack, tmp_path: Path) -> None:
    broker = new_service(opened, tmp_path)
    port = broker.listen("other")
    with pytest.raises(AssertionError, match=rf"no listener's: 127.0.0.1:{port} \(other\); add them to listeners"):
        broker.start()
    assert broker.process is not None
    assert broker.process.wait(LIMIT_S) == 2, "a service manager does not try such a start again"


def test_children_inherit_no_passed_socket(opened: ExitStack, tmp_path: Path) -> None:
    broker = new_service(opened, tmp_path)
    broker.start()
    [flags] = [
        int(line.split()[1], 8)
        for line in Path(f"/proc/{broker.pid}/fdinfo/3").read_text().splitlines()
        if line.startswith("flags:")
    ]
    assert flags & os.O_CLOEXEC


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_broker_at_once(number: signal.Signals, tmp_path: Path, opened: ExitStack) -> None:
    """The first one waits for a client that does not read; the process ends by the second one, not with success."""
    broker = new_service(opened, tmp_path)
    broker.start()
    unread = opened.enter_context(closing(wire.connect(broker.bootstrap, LIMIT_S)))
    unread.sendall(VERSIONS * UNREAD_REQUESTS)
    process = broker.process
    assert process is not None
    process.send_signal(signal.SIGTERM)
    until(lambda: any("stopping: SIGTERM" in line for line in broker.error_lines()), "the stop to begin")
    process.send_signal(number)
    assert process.wait(LIMIT_S) == -number
    broker.process = None
    broker.start()
    assert any("the last stop was not clean" in line for line in broker.error_lines())
