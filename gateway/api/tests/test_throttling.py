"""A quota: what the client is told, and for how long it is not answered (KIP-219)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api.context import Client
from headgate.gateway.api.dispatch import Dispatcher
from headgate.gateway.api.handler_registration import load
from headgate.gateway.network.connection import Connection
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol import registry
from headgate.protocol.compiler import read, write
from headgate.protocol.errors import ErrorCode
from headgate.protocol.header import RequestHeader, read_response_header, write_request_header
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.metadata import MetadataRequest
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.schema import Message


class ScriptedQuota:
    """Throttles what the test says, and notes what was counted."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.noted: list[int] = []

    def throttle_ms(self, client: Client, api_key: int, used_ms: float) -> int:
        assert used_ms >= 0
        self.noted.append(api_key)
        return self.answers.pop(0) if self.answers else 0


class Wire:
    """A connection to the services of a node, whose time the test moves."""

    def __init__(self, node: HandlerBroker, quota: ScriptedQuota | None) -> None:
        self.node = node
        self.client = Client("192.0.2.9", 50_000, "192.0.2.1", 9092)
        self.dispatcher = Dispatcher(node.services, load(), quota=quota)
        self.connection = Connection(self.client, self.dispatcher, 1 << 20, MemoryBudget(1 << 30), self.complain)
        if self.dispatcher.has_quota:
            self.client.mute = lambda ms: self.connection.mute(node.services.scheduler, ms)
        self.connection.wake = self.woken
        self.wakes = 0

    def complain(self, client: Client, reason: str) -> None:
        raise AssertionError(reason)

    def woken(self) -> None:
        self.wakes += 1

    def send(self, *requests: tuple[Message, int]) -> None:
        sent = bytearray()
        for request, version in requests:
            frame = bytearray()
            write_request_header(frame, RequestHeader(request.api_key, version, 7, "me"))
            write(request, version, frame, [])
            sent += len(frame).to_bytes(4, "big") + frame
        self.connection.receive(memoryview(sent), 0.0)

    def answers(self, *requests: tuple[type[Message], int]) -> list[Any]:
        """What is queued, as the responses to these."""
        self.connection.settle()
        sent = memoryview(b"".join(bytes(self.connection.take()) for _ in list(self.connection.outgoing)))  # type: ignore[arg-type]
        found = []
        for request, version in requests:
            size = int.from_bytes(sent[:4], "big")
            _, position = read_response_header(sent[4:], request.api_key, version)
            found.append(read(registry.response_class(request.api_key), version, sent[4 : 4 + size], position)[0])
            sent = sent[4 + size :]
        assert not sent
        return found


HEARTBEAT = HeartbeatRequest("g", 1, "m")


@pytest.fixture
def quota() -> ScriptedQuota:
    return ScriptedQuota()


@pytest.fixture
def wire(node: HandlerBroker, quota: ScriptedQuota) -> Wire:
    return Wire(node, quota)


def test_a_throttled_client_is_told_at_once_and_answered_later(wire: Wire, quota: ScriptedQuota) -> None:
    quota.answers = [0, 250]
    three = (MetadataRequest(None), 9), (MetadataRequest(None), 9), (MetadataRequest(None), 9)
    wire.send(*three)
    told = wire.answers((MetadataRequest, 9), (MetadataRequest, 9))
    assert [response.throttle_time_ms for response in told] == [0, 250]
    assert not wire.connection.has_more
    wire.node.time.advance(249)
    assert not wire.wakes
    wire.node.time.advance(1)
    assert wire.wakes
    assert wire.connection.has_more
    wire.connection.proceed()
    assert wire.answers((MetadataRequest, 9))[0].throttle_time_ms == 0
    assert quota.noted == [3, 3, 3]


def test_a_new_request_waits_for_the_end_of_the_pause(wire: Wire, quota: ScriptedQuota) -> None:
    quota.answers = [100]
    wire.send((MetadataRequest(None), 9))
    wire.answers((MetadataRequest, 9))
    wire.send((MetadataRequest(None), 9))
    assert not wire.connection.outgoing
    wire.node.time.advance(100)
    wire.connection.proceed()
    assert len(wire.answers((MetadataRequest, 9))) == 1


def test_a_version_without_the_field_is_muted_all_the_same(wire: Wire, quota: ScriptedQuota) -> None:
    quota.answers = [100]
    wire.send((MetadataRequest(None), 1), (MetadataRequest(None), 1))
    assert len(wire.answers((MetadataRequest, 1))) == 1


def test_an_error_is_throttled_too(wire: Wire, quota: ScriptedQuota) -> None:
    quota.answers = [100]
    wire.send((HeartbeatRequest("", 1, "m"), 3), (HEARTBEAT, 3))
    (response,) = wire.answers((HeartbeatRequest, 3))
    assert (response.error_code, response.throttle_time_ms) == (ErrorCode.INVALID_GROUP_ID, 100)


def test_a_parked_request_is_throttled_with_its_answer(wire: Wire, quota: ScriptedQuota) -> None:
    quota.answers = [500]
    join = JoinGroupRequest(
        "g", 10_000, 1_000, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"")]
    )
    wire.send((join, 3), (MetadataRequest(None), 9))
    assert wire.connection.parked
    for _ in range(100):
        wire.node.time.advance(100)
        if wire.connection.outgoing:
            break
    (response,) = wire.answers((JoinGroupRequest, 3))
    assert response.throttle_time_ms == 500
    assert not wire.connection.has_more
    wire.node.time.advance(500)
    assert wire.connection.has_more


def test_without_a_reply_the_client_is_muted(wire: Wire, quota: ScriptedQuota) -> None:
    wire.node.ask(CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)]), 5)
    quota.answers = [100]
    records = bytes(batch.build([Record(-1, -1, None, b"v")]))
    produce = ProduceRequest(None, 0, 1_000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])])
    wire.send((produce, 9), (MetadataRequest(None), 9))
    assert not wire.connection.outgoing
    wire.node.time.advance(100)
    wire.connection.proceed()
    assert len(wire.answers((MetadataRequest, 9))) == 1


def test_a_muted_connection_holds_up_no_stop_and_ends_with_its_client(wire: Wire, quota: ScriptedQuota) -> None:
    quota.answers = [60_000]
    wire.send((MetadataRequest(None), 9))
    wire.answers((MetadataRequest, 9))
    assert not wire.connection.parked
    assert wire.connection.awaits_broker  # so that it is not closed for being idle
    wire.connection.end_of_stream()
    assert wire.connection.is_answered
    wire.connection.finish()
    wire.node.time.advance(60_000)
    assert not wire.wakes


def test_without_a_quota_no_step_is_built(tmp_path: Path, node: HandlerBroker) -> None:
    wire = Wire(node, None)
    route = wire.dispatcher._open_route(3, 9)
    assert route is not None
    served = load()[3].find(9)
    assert served is not None
    assert route.handler is served.handler
    assert route.is_lasting is served.is_lasting
    wire.send((MetadataRequest(None), 9))
    wire.client.mute(5)
    assert len(wire.answers((MetadataRequest, 9))) == 1
