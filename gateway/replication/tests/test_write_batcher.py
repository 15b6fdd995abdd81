"""Small appends of one turn: written together, and no answer before that."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from headgate.gateway.api.context import Client
from headgate.gateway.api.dispatch import Dispatcher, Parked
from headgate.gateway.api.tests.test_dispatch import answer, frame, never
from headgate.gateway.network.connection import Connection
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.memory_budget import MemoryBudget
from headgate.gateway.tests.builders import HandlerBroker, records
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from headgate.storage.files import File
from headgate.storage.log import appending
from headgate.storage.segment.segment import Segment

CLIENT = Client("127.0.0.1", 40_000, "127.0.0.1", 9092)
LATEST = -1


@pytest.fixture
def dispatcher(node: HandlerBroker) -> Dispatcher:
    node.services.metadata.create_topic("t", 2)
    return node.parts.dispatcher


def produce(node: HandlerBroker, index: int = 0, acks: int = 1, size: int = 10) -> memoryview:
    topic = TopicProduceData("t", partition_data=rows(node, index, size))
    return frame(ProduceRequest(None, acks, 1_000, [topic]), 9)


def rows(node: HandlerBroker, index: int, size: int = 10) -> list[PartitionProduceData]:
    data = records(bytes(size), timestamp=node.time.clock.now_ms())
    return [PartitionProduceData(index, data)]


def promised(dispatcher: Dispatcher, request: memoryview) -> bytearray:
    """The reply as it stands before the write that it promises."""
    (reply,) = dispatcher.dispatch(request, CLIENT, never)  # type: ignore[misc]
    assert isinstance(reply, bytearray)
    return reply


def told(reply: bytearray) -> tuple[int, int]:
    (topic,) = answer([reply], ProduceResponse, 9).responses
    (row,) = topic.partition_responses
    return row.error_code, row.base_offset


def append(node: HandlerBroker, dispatcher: Dispatcher, index: int = 0, acks: int = 1) -> tuple[int, int]:
    reply = promised(dispatcher, produce(node, index, acks))
    dispatcher.batcher.write_all()
    return told(reply)


def connection_of(dispatcher: Dispatcher) -> Connection:
    return Connection(CLIENT, dispatcher, 1 << 20, MemoryBudget(1 << 20), never_complain)


def never_complain(client: Client, reason: str) -> None:
    raise AssertionError(reason)


def framed(request: memoryview) -> memoryview:
    return memoryview(bytearray(struct.pack(">i", len(request)) + request))


def count_writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    writes: list[int] = []
    write_at = File.write_at

    def counted(file: File, data: bytes, position: int) -> None:
        writes.append(len(data))
        write_at(file, data, position)

    monkeypatch.setattr(File, "write_at", counted)
    return writes


def fail(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_small_appends_of_one_turn_are_one_write_a_partition(
    node: HandlerBroker, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in (0, 1):
        append(node, dispatcher, index)  # a first batch opens its segment
    writes = count_writes(monkeypatch)
    promises = [promised(dispatcher, produce(node, number % 2)) for number in range(10)]
    assert not writes
    dispatcher.batcher.write_all()
    assert len(writes) == 2
    assert [told(promise) for promise in promises] == [(0, 1 + number // 2) for number in range(10)]


def test_an_answer_that_is_taken_before_the_write_makes_it(
    node: HandlerBroker, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = count_writes(monkeypatch)
    connection = connection_of(dispatcher)
    connection.receive(framed(produce(node)), 0.0)
    assert connection.outgoing
    assert not writes
    assert told(connection.take()) == (0, 0)  # type: ignore[arg-type]
    assert len(writes) == 1


def test_an_answer_that_is_queued_says_that_the_write_failed(
    node: HandlerBroker, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(node, dispatcher)  # a first batch opens its segment
    connection = connection_of(dispatcher)
    for _ in range(3):
        connection.receive(framed(produce(node)), 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(Segment, "append", fail)
        connection.settle()
    assert [told(connection.take())[0] for _ in range(3)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3  # type: ignore[arg-type]
    connection.receive(framed(produce(node)), 0.0)
    assert told(connection.take()) == (0, 1)  # type: ignore[arg-type]


def test_a_fault_of_ours_in_a_write_lets_nobody_believe_it(
    node: HandlerBroker, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [promised(dispatcher, produce(node, index)) for index in (0, 1)]
    broken = node.services.partitions.get("t", 0)

    def write_staged(replica: Replica, write: Callable[[Replica], None] = Replica.write_staged) -> None:
        if replica is broken:
            raise ZeroDivisionError
        write(replica)

    monkeypatch.setattr(Replica, "write_staged", write_staged)
    dispatcher.batcher.write_all()
    assert [told(reply) for reply in replies] == [(ErrorCode.UNKNOWN_SERVER_ERROR, -1), (0, 0)]


@pytest.mark.parametrize("acks", [1, -1])
def test_a_failed_write_is_told_to_all_who_waited_for_it(
    node: HandlerBroker,
    dispatcher: Dispatcher,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    acks: int,
) -> None:
    for index in (0, 1):
        append(node, dispatcher, index)
    promises = [promised(dispatcher, produce(node, index, acks)) for index in (0, 1, 0)]
    with monkeypatch.context() as patched:
        patched.setattr(Segment, "append", fail)
        dispatcher.batcher.write_all()
    assert [told(promise) for promise in promises] == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)] * 3
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        f"produce requests are refused: the disk of t-{index} refuses: [Errno 28] No space left on device"
        for index in (0, 1)
    ]
    replica = node.services.partitions.get("t", 0)
    assert (replica.high_watermark, replica.log.end_offset) == (1, 1)
    assert append(node, dispatcher, 0, acks) == (0, 1)


def test_only_the_partition_whose_write_failed_is_refused(
    node: HandlerBroker, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    promises = [promised(dispatcher, produce(node, index)) for index in (0, 1)]
    broken = node.services.partitions.get("t", 0).log.segments[0]
    append = Segment.append
    with monkeypatch.context() as patched:
        patched.setattr(
            Segment, "append", lambda segment, *rest: (fail if segment is broken else append)(segment, *rest)
        )
        dispatcher.batcher.write_all()
    assert [told(promise)[0] for promise in promises] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]


def test_every_other_request_sees_what_was_staged_before_it(
    node: HandlerBroker, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = count_writes(monkeypatch)
    promised(dispatcher, produce(node))
    request = ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=LATEST)])])
    found = answer(dispatcher.dispatch(frame(request, 6), CLIENT, never), ListOffsetsResponse, 6)
    assert found.topics[0].partitions[0].offset == 1
    assert len(writes) == 1


def test_who_waits_for_records_is_woken_when_they_are_written(node: HandlerBroker, dispatcher: Dispatcher) -> None:
    """One request stages for two partitions; a waiter is tried before the write."""
    replies: list[Any] = []
    waited = FetchTopic("t", partitions=[FetchPartition(1, -1, 0, partition_max_bytes=1_000)])
    fetch = FetchRequest(max_wait_ms=30_000, min_bytes=1, max_bytes=1_000, topics=[waited])
    assert isinstance(dispatcher.dispatch(frame(fetch, 11), CLIENT, replies.append), Parked)
    replica = node.services.partitions.get("t", 1)
    both = [TopicProduceData("t", partition_data=[row for index in (0, 1) for row in rows(node, index)])]
    promised(dispatcher, frame(ProduceRequest(None, -1, 1_000, both), 9))
    assert (replica.log.end_offset, replica.high_watermark) == (1, 0)
    node.services.tasks._continue_touched()
    assert replies == []
    dispatcher.batcher.write_all()
    assert replica.high_watermark == 1
    node.time.advance()
    assert len(replies) == 1


def test_a_staged_batch_written_by_a_roll_moves_the_high_watermark(node: HandlerBroker, dispatcher: Dispatcher) -> None:
    """The next append to it is refused, so that nobody else writes to the partition in this turn."""
    append(node, dispatcher)
    promised(dispatcher, produce(node))
    replica = node.services.partitions.get("t", 0)
    appending.write_staged(replica.log)
    assert replica.high_watermark == 1
    dispatcher.batcher.write_all()
    assert replica.high_watermark == 2


@pytest.mark.parametrize("run", ["timer", "soon"])
def test_what_a_timer_stages_is_written_when_its_run_ends(
    node: HandlerBroker, dispatcher: Dispatcher, run: str
) -> None:
    replica = node.services.partitions.get("t", 0)
    scheduler = node.services.scheduler

    def stage() -> None:
        promised(dispatcher, produce(node, acks=-1))
        assert replica.high_watermark == 0

    if run == "timer":
        scheduler.call_after(5.0, stage)
    else:
        scheduler.call_soon(stage)
    node.time.advance(5.0)
    assert not dispatcher.batcher.is_open
    assert replica.high_watermark == 1


def test_acks_all_waits_for_no_more_than_the_write(node: HandlerBroker, dispatcher: Dispatcher) -> None:
    assert isinstance(promised(dispatcher, produce(node, acks=-1)), bytearray)
    assert len(node.services.tasks) == 0


def test_without_a_reply_it_is_written_at_once(
    node: HandlerBroker, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = count_writes(monkeypatch)
    assert dispatcher.dispatch(produce(node, acks=0), CLIENT, never) == []
    assert len(writes) == 1


def test_a_large_batch_is_written_from_the_frame(
    node: HandlerBroker, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = count_writes(monkeypatch)
    reply = promised(dispatcher, produce(node, size=10_000))
    assert len(writes) == 1
    assert told(reply) == (0, 0)
    assert not dispatcher.batcher.is_open
