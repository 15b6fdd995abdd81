"""A request that can be read is answered: no value in any field is a fault of ours. See `random_requests.py`."""

from __future__ import annotations

import logging
import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headgate.gateway.api.context import Client, CloseConnection
from headgate.gateway.api.dispatch import Parked
from headgate.gateway.api.handler_registration import load, served
from headgate.gateway.api.tests.random_requests import Anything
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol import registry
from headgate.protocol.compiler import read, write
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.header import RequestHeader, read_response_header, write_request_header
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.tests.examples import first_in_unit

SEEDS = 100 if os.environ.get("HEADGATE_SOAK", "") not in {"", "0"} else 2
REQUESTS = 1_500
CLIENTS = [Client(f"192.0.2.{host}", 50_000, "192.0.2.1", 9092) for host in (1, 2, 3)]


class Run:
    """A broker, and what it was asked."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = Random(seed)
        self.anything = Anything(self.random)
        self.node = HandlerBroker(directory)
        self.make_topics()
        self.dispatcher = self.node.parts.dispatcher
        self.served = [
            (registration.request, version)
            for registration in served(load(), has_zookeeper=False).values()
            for version in range(registration.served_min, registration.served_max + 1)
        ]
        self.outcomes: Counter[str] = Counter()

    def make_topics(self) -> None:
        """Those that requests mostly name; some request will delete them."""
        self.node.ask(CreateTopicsRequest(topics=[CreatableTopic("t", 3, 1), CreatableTopic("u", 1, 1)]), 5)

    def one(self) -> None:
        if self.random.random() < 0.3:
            self.make_topics()
        cls, version = self.random.choice(self.served)
        frame = bytearray()
        client_id = self.random.choice((None, "", "a", "b"))
        write_request_header(frame, RequestHeader(cls.api_key, version, 7, client_id))
        request = self.anything.request(cls, version)
        write(request, version, frame, [])

        def done(reply: Any) -> None:
            if isinstance(reply, CloseConnection):  # of a request without acks
                self.outcomes["closed"] += 1
                return
            if isinstance(reply, Exception):
                raise reply
            self.answered(cls.api_key, version, reply)

        try:
            reply = self.dispatcher.dispatch(memoryview(frame), self.random.choice(CLIENTS), done)
            if not isinstance(reply, Parked):
                self.node.services.batcher.write_all()
                done(reply)
        except CloseConnection:
            self.outcomes["closed"] += 1
        except MalformedRequest as error:
            raise AssertionError(f"{request!r} cannot be read again") from error
        self.node.time.advance(self.random.choice((0, 0, 0, 100, 100_000)))

    def answered(self, key: int, version: int, reply: Any) -> None:
        data = memoryview(
            b"".join(piece if isinstance(piece, bytes | bytearray | memoryview) else piece.read() for piece in reply)
        )
        self.outcomes["answered" if data else "silent"] += 1
        if data:
            _, position = read_response_header(data[4:], key, version)
            response, end = read(registry.response_class(key), version, data[4:], position)
            assert end == len(data) - 4
            self.anything.learn(response)


@pytest.mark.slow
@pytest.mark.parametrize("seed", list(first_in_unit(range(SEEDS))))
def test_any_request_is_answered(seed: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = Run(tmp_path, seed)
    for _ in range(REQUESTS):
        run.one()
        faults = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert not faults
    assert run.outcomes["answered"] > 0.9 * REQUESTS
    run.node.close()
