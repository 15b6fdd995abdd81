"""A broker without free descriptors: its clients are served, others wait, and the log says it in few lines."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.broker import TARGET, Broker, running
from compat_tests.waiting import until
from compat_tests.wire import API_VERSIONS, ask, connect, frame, receive_frame, request_header

pytestmark = pytest.mark.skipif(TARGET != "headgate", reason="Kafka opens files when it likes, and ends without them")

SPARE = 10
CLIENTS = 40
ASKED_S = 2.0


@contextlib.contextmanager
def exhausted(broker: Broker) -> Iterator[list[socket.socket]]:
    """More clients than there are descriptors: the sockets of all of them."""
    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    limit = broker.open_files() + SPARE
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (limit, hard))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(broker.bootstrap)) for _ in range(CLIENTS)]
        until(lambda: broker.open_files() == limit, "the broker to have no descriptor left")
        yield clients


def cannot_accept(broker: Broker) -> list[str]:
    return [line for line in broker.error_lines() if "cannot accept connections" in line]


def test_without_descriptors_clients_are_served_and_others_wait_for_theirs(tmp_path: Path) -> None:
    with running(tmp_path) as broker, connect(broker.bootstrap) as early:
        assert ask(early, API_VERSIONS, 0, b"")[:2] == b"\0\0"
        with exhausted(broker) as clients:
            asked, slowest, began = 0, 0.0, time.monotonic()
            while time.monotonic() - began < ASKED_S:
                before = time.monotonic()
                assert ask(early, API_VERSIONS, 0, b"")[:2] == b"\0\0"
                slowest = max(slowest, time.monotonic() - before)
                asked += 1
            assert asked > 100, f"only {asked} answers in {ASKED_S} s, the slowest after {slowest:.3f} s"
            assert 1 <= len(cannot_accept(broker)) <= 5, "it is tried twenty times in two seconds"
            late = clients[SPARE + 2]
            late.sendall(frame(request_header(API_VERSIONS, 0, 7)))
            for client in clients[:SPARE]:
                client.close()
            assert struct.unpack_from(">ih", receive_frame(late)) == (7, 0), "whoever waited is served"
        with connect(broker.bootstrap) as new:
            assert ask(new, API_VERSIONS, 0, b"")[:2] == b"\0\0"
