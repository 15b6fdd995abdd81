"""How long a stop takes, whatever clients do: wait for records, have a transaction open, shake hands, read nothing."""

from __future__ import annotations

import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.harness import wire
from compat_tests.harness.topics import create_topics
from compat_tests.security.secure_broker import PLAIN, TLS, SecureBroker

LIMIT_S = 2.0
END_S = 60.0
EACH = 50
UNREAD_REQUESTS = 10_000
# The beginning of a record of TLS, whose rest never comes
HALF_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecureBroker]:
    broker = SecureBroker(tmp_path / "broker")
    broker.start()
    yield broker
    broker.kill()


def long_polls(bootstrap: str, stack: ExitStack) -> None:
    """Fetches of version 4 at the end of a partition, each for a minute."""
    partition = struct.pack(">iqi", 0, 0, 1 << 20)
    topics = struct.pack(">i", 1) + wire.string("empty") + struct.pack(">i", 1) + partition
    fetch = wire.request_header(wire.FETCH, 4) + struct.pack(">iiiib", -1, 60_000, 1, 1 << 20, 0) + topics
    for _ in range(EACH):
        stack.enter_context(closing(wire.connect(bootstrap, END_S))).sendall(wire.frame(fetch))


def transactions(bootstrap: str, stack: ExitStack) -> None:
    for number in range(5):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"open-{number}", "log_level": 0})
        producer.init_transactions(END_S)
        producer.begin_transaction()
        producer.produce("empty", b"open", partition=1)
        producer.flush(END_S)
        stack.callback(producer.purge)


def half_handshakes(address: str, stack: ExitStack) -> None:
    host, _, port = address.rpartition(":")
    for number in range(EACH):
        stream = stack.enter_context(closing(socket.create_connection((host, int(port)), END_S)))
        stream.sendall(HALF_HELLO[: number % len(HALF_HELLO)])


def unread_replies(bootstrap: str, stack: ExitStack) -> None:
    stream = stack.enter_context(closing(wire.connect(bootstrap, END_S)))
    stream.sendall(wire.frame(wire.request_header(wire.API_VERSIONS, 0)) * UNREAD_REQUESTS)


@pytest.mark.alone
def test_a_stop_takes_less_than_two_seconds(broker: SecureBroker, figure: Callable[[str], None]) -> None:
    bootstrap = broker.address(PLAIN)
    create_topics(bootstrap, {"empty": {}}, 2)
    with ExitStack() as stack:
        long_polls(bootstrap, stack)
        transactions(bootstrap, stack)
        half_handshakes(broker.address(TLS), stack)
        unread_replies(bootstrap, stack)
        process = broker.process
        assert process is not None
        began_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == 0
        took_s = time.monotonic() - began_s
    assert took_s < LIMIT_S
    figure(
        f"a stop with {EACH} long polls, {EACH} handshakes, 5 transactions, a client that reads nothing: {took_s:.2f} s"
    )
