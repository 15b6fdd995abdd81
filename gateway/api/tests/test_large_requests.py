"""Requests of as many partitions as a cluster has: served in steps, admitted by memory, refused above a million."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api.context import CloseConnection, HandlerContext
from headgate.gateway.api.handler_registration import Registration, load
from headgate.gateway.api.handlers.each import KEYS_A_STEP
from headgate.gateway.api.parked import FREE_BYTES, MEMORY_WAIT_MS
from headgate.gateway.api.routes import Route
from headgate.gateway.api.tests.large import Asked, Loop, frame
from headgate.gateway.api.tests.test_authorization import ScriptedAuthorizer
from headgate.gateway.runtime.tasks import Task, is_task
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol import compiler
from headgate.protocol.errors import ErrorCode, MalformedRequest
from headgate.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headgate.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from headgate.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderTopic
from headgate.protocol.reading import BYTES_PER_ELEMENT, MAX_ELEMENTS, MAX_ELEMENTS_AT_ONCE, parsed_bytes
from headgate.protocol.schema import Message
from headgate.protocol.steps import finish
from headgate.protocol.tests.examples import first_in_unit
from headgate.protocol.tests.hostile.subjects import FIXED_BYTES
from headgate.protocol.tests.shapes import filled

MANY = 150_000
LARGE = FREE_BYTES // 12 + 100
"""So many partitions of DeleteRecords need a reservation."""
TIMEOUT_MS = 600_000
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def delete_records(count: int) -> DeleteRecordsRequest:
    rows = [DeleteRecordsPartition(index, 0) for index in range(count)]
    return DeleteRecordsRequest([DeleteRecordsTopic("t", rows)], 1_000)


def list_offsets(count: int) -> ListOffsetsRequest:
    rows = [ListOffsetsPartition(index, -1, -1) for index in range(count)]
    return ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", rows)])


def create_partitions(count: int) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        [CreatePartitionsTopic(f"t{index}", 3, None) for index in range(count)], TIMEOUT_MS, False
    )


def offset_fetch(count: int) -> OffsetFetchRequest:
    return OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic("t", list(range(count)))])


SERVED: dict[str, tuple[Callable[[int], Message], int, Callable[[Any], list[Any]], int]] = {
    "DeleteRecords": (delete_records, 1, lambda response: response.topics[0].partitions, UNKNOWN),
    "ListOffsets": (list_offsets, 7, lambda response: response.topics[0].partitions, UNKNOWN),
    "CreatePartitions": (create_partitions, 3, lambda response: response.results, UNKNOWN),
    "OffsetFetch": (offset_fetch, 5, lambda response: response.topics[0].partitions, ErrorCode.NONE),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(first_in_unit(SERVED)))
def test_a_request_of_150000_partitions_is_served_in_steps(node: HandlerBroker, name: str) -> None:
    make, version, rows, code = SERVED[name]
    node.time.advance()
    loop = Loop(node)
    asked = loop.ask(make(MANY), version)
    turns = 0
    while not asked.replies:
        if not turns % 500:
            loop.ask_a_bystander()
        loop.turn()
        turns += 1
    assert turns > 100
    assert [row.error_code for row in rows(asked.response)] == [code] * MANY
    assert node.services.parsed_memory.used_bytes == 0


@pytest.mark.slow
def test_a_million_elements_are_read_and_one_more_is_refused() -> None:
    def body(count: int) -> bytes:
        return struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", count) + bytes(12 * count) + bytes(4)

    most = MAX_ELEMENTS  # the only topic is not counted
    request, _, elements = finish(compiler.reader_in_steps(DeleteRecordsRequest, 1)(body(most)))
    assert (len(request.topics[0].partitions), elements) == (most, most)
    with pytest.raises(MalformedRequest, match="1000001 partitions, but a request may have only 1000000 more elements"):
        finish(compiler.reader_in_steps(DeleteRecordsRequest, 1)(body(most + 1)))


FEW_THOUSAND = 4_000


class Counted(list[Any]):
    """An array that counts its elements as they are taken."""

    taken = 0

    def __iter__(self) -> Iterator[Any]:
        for element in super().__iter__():
            Counted.taken += 1
            yield element

    def __reversed__(self) -> Iterator[Any]:
        return iter(Counted(super().__reversed__()))


def longest_slice(steps: Any) -> int:
    """The most elements that one step takes."""
    longest = before = Counted.taken = 0
    for _ in _all(steps):
        longest, before = max(longest, Counted.taken - before), Counted.taken
    return max(longest, Counted.taken - before)


def _all(steps: Any) -> Task[None]:
    while is_task(steps):
        steps = yield from steps


def offset_fetch_groups(count: int) -> OffsetFetchRequest:
    groups = [OffsetFetchRequestGroup(f"g{index}", topics=Counted()) for index in range(count)]
    return OffsetFetchRequest(groups=Counted(groups))


MANY_TOPICS: dict[str, tuple[Callable[[int], Any], int]] = {
    "DeleteRecords": (
        lambda count: DeleteRecordsRequest(Counted(DeleteRecordsTopic("t", []) for _ in range(count)), 1_000),
        2,
    ),
    "ListOffsets": (
        lambda count: ListOffsetsRequest(-1, 0, Counted(ListOffsetsTopic("t", []) for _ in range(count))),
        7,
    ),
    "OffsetFetch of topics": (
        lambda count: OffsetFetchRequest("g", Counted(OffsetFetchRequestTopic("t", []) for _ in range(count))),
        7,
    ),
    "OffsetFetch of groups": (offset_fetch_groups, 8),
}


@pytest.mark.parametrize("name", MANY_TOPICS)
def test_topics_without_partitions_are_served_in_steps(node: HandlerBroker, name: str) -> None:
    make, version = MANY_TOPICS[name]
    node.time.advance()
    request = make(FEW_THOUSAND)
    route = Route(load()[request.api_key], version)
    outcome = route.handler(request, HandlerContext(node.services, node.client, version, None))
    assert is_task(outcome)
    assert longest_slice(outcome) <= 2 * KEYS_A_STEP, "the end of one loop, and the start of another"
    assert Counted.taken >= FEW_THOUSAND


REFUSED: list[tuple[Message, int]] = [
    (MANY_TOPICS["DeleteRecords"][0](FEW_THOUSAND), 2),
    (MANY_TOPICS["ListOffsets"][0](FEW_THOUSAND), 7),
    (MANY_TOPICS["OffsetFetch of topics"][0](FEW_THOUSAND), 1),
    (offset_fetch_groups(FEW_THOUSAND), 8),
    (OffsetForLeaderEpochRequest(topics=Counted(OffsetForLeaderTopic("t", []) for _ in range(FEW_THOUSAND))), 3),
    (MetadataRequest(Counted(MetadataRequestTopic(name="t") for _ in range(FEW_THOUSAND))), 10),
    (CreatePartitionsRequest(Counted(CreatePartitionsTopic("t", 3, None) for _ in range(FEW_THOUSAND)), 1, False), 3),
]


@pytest.mark.parametrize("request_, version", REFUSED)
def test_a_refusal_as_a_whole_makes_its_rows_in_steps(request_: Message, version: int) -> None:
    Counted.taken = 0
    response: Message = request_.error_response(version, ErrorCode.REQUEST_TIMED_OUT)
    assert Counted.taken == 0
    out = bytearray()
    assert longest_slice(compiler.writer_in_steps(type(response), version)(response, out, [])) <= KEYS_A_STEP
    assert Counted.taken >= FEW_THOUSAND


def test_with_an_authorizer_a_request_has_fewer_elements() -> None:
    registration = load()[MetadataRequest.api_key]
    assert Route(registration, 9).max_elements == MAX_ELEMENTS
    assert Route(registration, 9, ScriptedAuthorizer(lambda *_: True)).max_elements == MAX_ELEMENTS_AT_ONCE


@pytest.mark.parametrize("registration", load().values(), ids=lambda registration: registration.request.__name__)
def test_no_element_takes_more_than_is_reserved_for_it(registration: Registration) -> None:
    # A row of an order has four lists of its own; only the controller sends orders
    most = BYTES_PER_ELEMENT * (2 if registration.ranges[0].between_brokers else 1)
    for version in {registration.served_min, registration.served_max}:
        data = filled(registration.request, version, 100)
        read = compiler.reader_in_steps(registration.request, version)
        _, end, elements = finish(read(data))
        assert end == len(data)
        tracemalloc.start()
        kept = finish(read(data))
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert kept
        assert taken <= len(data) + elements * most + FIXED_BYTES


def test_a_handler_that_works_at_once_gets_fewer_elements(node: HandlerBroker) -> None:
    row = OffsetCommitRequestPartition(0, 0)
    request = OffsetCommitRequest(
        "g", topics=[OffsetCommitRequestTopic("t", partitions=[row] * (MAX_ELEMENTS_AT_ONCE + 1))]
    )
    with pytest.raises(MalformedRequest, match="may have only 100000 more elements"):
        Loop(node).ask(request, 2)


def used(loop: Loop) -> int:
    return loop.node.services.parsed_memory.used_bytes


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    """A broker whose budget has room for one large request."""
    node = HandlerBroker(tmp_path / "limited", queued_max_request_bytes="1")
    yield Loop(node)
    node.close()


def is_waiting(loop: Loop, asked: Asked) -> bool:
    return not asked.replies and used(loop) > 0


def test_a_large_request_waits_for_the_memory_of_another(loop: Loop) -> None:
    first, second = (loop.ask(delete_records(LARGE), 1) for _ in range(2))
    assert used(loop) == parsed_bytes(len(frame(delete_records(LARGE), 1)), MAX_ELEMENTS)
    first.finish()
    assert is_waiting(loop, second)
    loop.ask_a_bystander()
    second.finish()
    assert len(second.response.topics[0].partitions) == LARGE
    assert used(loop) == 0


def test_a_request_that_gets_no_memory_ends_with_the_reason(loop: Loop) -> None:
    loop.node.services.parsed_memory.used_bytes = 2  # a request that waits for ever has it
    asked = loop.ask(delete_records(LARGE), 1)
    loop.node.time.clock.elapsed_ms += MEMORY_WAIT_MS
    loop.turn()
    (closed,) = asked.replies
    assert isinstance(closed, CloseConnection)
    assert "waited 30 s for" in str(closed)
    loop.node.services.parsed_memory.release(2)
    assert used(loop) == 0


def test_a_read_request_keeps_the_memory_of_its_elements_alone(loop: Loop) -> None:
    asked = loop.ask(list_offsets(LARGE), 7)
    reserved = [used(loop)]
    while not asked.replies:
        loop.turn()
        reserved.append(used(loop))
    assert LARGE * BYTES_PER_ELEMENT < min(reserved[:-1]) < reserved[0]
    assert reserved[-1] == 0


@pytest.mark.parametrize("turns", [0, 1, 100])
def test_a_client_that_disconnects_gives_its_memory_back(loop: Loop, turns: int) -> None:
    first, second = (loop.ask(delete_records(LARGE), 1) for _ in range(2))
    for _ in range(turns):
        loop.turn()
    for asked in (second, first):
        assert asked.parked is not None
        asked.parked.abandon()
    assert used(loop) == 0
    third = loop.ask(delete_records(LARGE), 1)
    third.finish()
    assert not first.replies
    assert not second.replies


def test_a_malformed_large_request_gives_its_memory_back(loop: Loop) -> None:
    header = struct.pack(">hhih", DeleteRecordsRequest.api_key, 1, 7, -1)
    body = struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", LARGE) + bytes(12 * LARGE - 20)
    with pytest.raises(MalformedRequest):
        loop.dispatcher.dispatch(memoryview(bytearray(header + body)), loop.node.client, lambda _: None)
    assert used(loop) == 0
