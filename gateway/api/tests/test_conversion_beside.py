"""A conversion never stops the loop: while large sets of an old client are converted, others are answered."""

from __future__ import annotations

import socket
import threading
import time
from statistics import median
from typing import Any, Self

import pytest

from headgate import Headgate
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.records import legacy
from headgate.protocol.records.batch import Record
from headgate.protocol.schema import Message

RECORDS = 8_000
"""As a set in gzip they take some 20 ms of CPU either way: on the loop, most requests would wait as long."""
SECONDS = 1.0
MAX_MS = 15.0


class Client:
    """A blocking connection."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._peer = ClientConnection("beside")

    def ask(self, request: Message, version: int) -> Any:
        self._socket.sendall(self._peer.request(request, version))
        while True:
            data = self._socket.recv(1 << 20)
            assert data, "the broker hung up"
            for _, response in self._peer.receive(data):
                return response

    def close(self) -> None:
        self._socket.close()


def fetch(topic: str) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[wanted])])


class OldClient:
    """Produces one large set after another, and reads it again, each time with a conversion."""

    def __init__(self, broker: Headgate) -> None:
        self.rounds = 0
        self._client = Client(broker.bootstrap)
        self._topic = broker.topic(partitions=1)
        now_ms = time.time_ns() // 1_000_000
        records = [Record(number, now_ms, b"%d" % number, b"value %06d" % number * 5) for number in range(RECORDS)]
        self._set = legacy.build(records, 1, codec=1)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._round()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._round()

    def _round(self) -> None:
        (row,) = self._client.ask(produce_request(self._set, self._topic, acks=1), 2).responses[0].partition_responses
        assert row.error_code == 0
        (fetched,) = self._client.ask(fetch(self._topic), 2).responses[0].partitions
        assert fetched.error_code == 0
        assert len(fetched.records) > 50_000
        self.rounds += 1


@pytest.mark.slow
@pytest.mark.sockets
def test_small_requests_are_answered_while_large_sets_are_converted() -> None:
    with Headgate() as broker, OldClient(broker) as old:
        client, waits_ms, rounds = Client(broker.bootstrap), list[float](), old.rounds
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            began = time.perf_counter()
            client.ask(ApiVersionsRequest(), 0)
            waits_ms.append((time.perf_counter() - began) * 1_000)
            time.sleep(0.002)
        client.close()
        converted = old.rounds - rounds
    assert converted > 0
    assert median(waits_ms) < MAX_MS, f"{converted} rounds, waits of {sorted(waits_ms)[-5:]} ms"
