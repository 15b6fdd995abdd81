"""A connection of a client with quotas, for tests."""

from __future__ import annotations

import os
from typing import Any

from headgate.gateway.api.context import Client
from headgate.gateway.api.dispatch import Dispatcher
from headgate.gateway.api.handler_registration import load
from headgate.gateway.network.connection import Connection
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.security.quotas.quota_manager import QuotaManager
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol import registry
from headgate.protocol.compiler import read, write
from headgate.protocol.header import RequestHeader, read_response_header, write_request_header
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from headgate.protocol.messages.heartbeat import HeartbeatRequest
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.schema import Message
from headgate.protocol.security.quotas import CLIENT_KEYS, QuotaEntity
from headgate.storage.segment.file_slice import FileSlice


class ThrottledClient:
    """A connection to the services of a node, whose time the test moves."""

    def __init__(self, node: HandlerBroker, quotas: QuotaManager | None, client_id: str = "me") -> None:
        self.client_id = client_id
        self.node = node
        self.client = Client("192.0.2.9", 50_000, "192.0.2.1", 9092)
        self.dispatcher = Dispatcher(node.services, load(), quotas=quotas)
        self.connection = Connection(self.client, self.dispatcher, 1 << 20, MemoryBudget(1 << 30), self.complain)
        self.client.connection = self.connection
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
            write_request_header(frame, RequestHeader(request.api_key, version, 7, self.client_id))
            write(request, version, frame, [])
            sent += len(frame).to_bytes(4, "big") + frame
        self.connection.receive(memoryview(sent), 0.0)

    def answers(self, *requests: tuple[type[Message], int]) -> list[Any]:
        """What is queued, as the responses to these."""
        self.connection.settle()
        sent = memoryview(b"".join(_bytes_of(self.connection.take()) for _ in list(self.connection.outgoing)))
        found = []
        for request, version in requests:
            size = int.from_bytes(sent[:4], "big")
            _, position = read_response_header(sent[4:], request.api_key, version)
            found.append(read(registry.response_class(request.api_key), version, sent[4 : 4 + size], position)[0])
            sent = sent[4 + size :]
        assert not sent
        return found


def _bytes_of(piece: Any) -> bytes:
    return os.pread(piece.fileno, piece.length, piece.position) if isinstance(piece, FileSlice) else bytes(piece)


HEARTBEAT = HeartbeatRequest("g", 1, "m")


ANYONE = QuotaEntity.of({"client-id": None})
PRODUCER, CONSUMER, PERCENT, MUTATIONS = CLIENT_KEYS


def limit(wire: ThrottledClient, key: str, bound: float, entity: QuotaEntity = ANYONE) -> None:
    """Give clients one quota, and no other."""
    assert wire.dispatcher.quotas is not None
    wire.dispatcher.quotas.change({entity: {key: bound}})
    wire.dispatcher.follow_quotas()


def use_up(wire: ThrottledClient, excess_ms: int) -> None:
    """Limit the time of requests so that the next one is throttled for `excess_ms`, of one second at most."""
    limit(wire, PERCENT, 100.0)
    quotas = wire.dispatcher.quotas
    assert quotas is not None
    now_ms = wire.node.services.clock.monotonic_ms()
    request = quotas.limits(wire.client.principal, "me", now_ms).request
    assert request is not None
    request.record(1_000 + excess_ms / 10, now_ms)


def produced(count: int, acks: int) -> ProduceRequest:
    records = bytes(batch.build([Record(-1, -1, None, b"v" * 100)] * count))
    return ProduceRequest(None, acks, 1_000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])])


def fetched(session_id: int, epoch: int, *, offset: int = 0, max_wait_ms: int = 0) -> FetchRequest:
    topics = [FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)])]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=topics if epoch <= 0 else [],
    )


def with_records(wire: ThrottledClient) -> None:
    wire.node.ask(CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)]), 5)
    for _ in range(4):
        wire.node.ask(produced(3, 1), 9)


def fetch_now(wire: ThrottledClient, request: FetchRequest) -> FetchResponse:
    wire.send((request, 11))
    (response,) = wire.answers((FetchRequest, 11))
    assert isinstance(response, FetchResponse)
    return response


def rows_of(response: FetchResponse) -> list[PartitionData]:
    return [row for topic in response.responses for row in topic.partitions]
