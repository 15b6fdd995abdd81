"""One request through dispatch: which errors are answered, and which end the connection."""

import logging
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api.context import Client, CloseConnection, HandlerContext
from headgate.gateway.api.dispatch import Dispatcher, Parked, Route
from headgate.gateway.api.handler_registration import Range, Registration, load
from headgate.gateway.api.handlers.each import each_row
from headgate.gateway.runtime.tasks import Changes, Silent, Task
from headgate.gateway.tests.builders import HandlerBroker, records
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.compiler import read, write
from headgate.protocol.errors import ErrorCode, KafkaError, MalformedRequest
from headgate.protocol.header import RequestHeader, read_response_header, write_request_header
from headgate.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headgate.protocol.messages.produce import ProduceResponse
from headgate.protocol.schema import Message

CLIENT = Client("127.0.0.1", 40_000, "127.0.0.1", 9092)
FIND = FindCoordinatorRequest(key="g")
FIND_KEY, FIND_VERSION = FindCoordinatorRequest.api_key, 1


def frame(request: Message, version: int, client_id: str | None = "me") -> memoryview:
    out = bytearray()
    write_request_header(out, RequestHeader(request.api_key, version, 77, client_id))
    write(request, version, out, [])
    return memoryview(out)


def answer(reply: Any, response: type[Message], version: int) -> Any:
    data = memoryview(b"".join(reply))
    (size,) = struct.unpack_from(">i", data)
    assert size == len(data) - 4
    correlation_id, position = read_response_header(data[4:], response.api_key, version)
    assert correlation_id == 77
    found, end = read(response, version, data[4:], position)
    assert end == size
    return found


def never(reply: Any) -> None:
    raise AssertionError(f"nothing was parked, but {reply!r} came")


def dispatcher(node: HandlerBroker, handler: Callable[..., Any] | None = None) -> Dispatcher:
    """The real table, or one in which FindCoordinator is handled by `handler`."""
    table = dict(load())
    if handler is not None:
        table[FIND_KEY] = Registration(FindCoordinatorRequest, (Range(0, 6, handler),))
    return Dispatcher(node.services, table)


@pytest.mark.parametrize("is_first", [True, False], ids=["of a new route", "of a known route"])
def test_requests_wait_while_a_lead_is_in_doubt(node: HandlerBroker, is_first: bool) -> None:
    watch, replies = node.services.stall_watch, list[Any]()
    table = dispatcher(node)
    request = frame(FindCoordinatorRequest(key="g"), 3)
    if not is_first:
        table.dispatch(request, node.client, never)
    ended: list[Callable[[], None]] = []
    watch.begin(1_000, ended.append)
    watch.note_stall()
    assert isinstance(table.dispatch(request, node.client, replies.append), Parked)
    node.time.advance()
    assert replies == []
    ended[0]()
    node.time.advance()
    assert answer(replies[0], FindCoordinatorResponse, 3).node_id == 0
    watch.end()
    assert isinstance(table.dispatch(request, node.client, never), list)


def test_records_that_have_waited_are_appended(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    watch, replies, ended = node.services.stall_watch, list[Any](), list[Callable[[], None]]()
    watch.begin(1_000, ended.append)
    watch.note_stall()
    dispatcher(node).dispatch(frame(produce_request(records(b"a")), 9), node.client, replies.append)
    ended[0]()
    node.time.advance()
    row = answer(replies[0], ProduceResponse, 9).responses[0].partition_responses[0]
    assert (row.error_code, row.base_offset) == (0, 0)
    watch.end()


def test_a_request_of_a_broker_does_not_wait_for_a_doubt(node: HandlerBroker) -> None:
    """An order says what this broker leads; the controller answers after conditional writes to ZooKeeper."""
    between = {api for api, found in load().items() if Route(found, found.served_min).is_order}
    assert between == {4, 5, 6, 7, 56, 67}
    seen: list[int] = []
    table = dict(load())
    table[FIND_KEY] = Registration(
        FindCoordinatorRequest, (Range(0, 6, lambda *_: seen.append(1), between_brokers=True),)
    )
    watch, dispatched = node.services.stall_watch, Dispatcher(node.services, table)
    watch.begin(1_000, lambda _: None)
    watch.note_stall()
    node.client.put_first = lambda _: None
    dispatched.dispatch(frame(FindCoordinatorRequest(key="g"), 3), node.client, lambda _: None)
    assert seen == [1]
    watch.end()


def test_a_request_is_answered_under_its_correlation_id(node: HandlerBroker) -> None:
    reply = dispatcher(node).dispatch(frame(FIND, 1), CLIENT, never)
    found = answer(reply, FindCoordinatorResponse, 1)
    assert (found.error_code, found.host, found.port) == (ErrorCode.NONE, "127.0.0.1", 9092)


def test_the_client_id_is_remembered_for_the_log(node: HandlerBroker) -> None:
    client = Client("127.0.0.1", 1, "127.0.0.1", 9092)
    dispatcher(node).dispatch(frame(FIND, 1, "billing"), client, never)
    assert str(client) == "127.0.0.1:1 client.id='billing'"


@pytest.mark.parametrize("version", [6, 99, 32_767])
def test_an_unknown_version_of_api_versions_is_told_the_list(node: HandlerBroker, version: int) -> None:
    head = bytearray()
    write_request_header(head, RequestHeader(ApiVersionsRequest.api_key, version, 77, "me"))
    found = answer(dispatcher(node).dispatch(memoryview(head), CLIENT, never), ApiVersionsResponse, 0)
    assert found.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert ApiVersionsRequest.api_key in [row.api_key for row in found.api_keys]


@pytest.mark.parametrize(
    "key, version, reason",
    [
        (FIND_KEY, 99, "FindCoordinator version 99 is not supported; versions 0 to 6 are; asked by User:ANONYMOUS"),
        (0, 14, "Produce version 14 is not supported; versions 0 to 13 are"),
        (9_999, 0, "API key 9999 version 0 is not supported; asked by User:ANONYMOUS"),
        (-1, 0, "API key -1 version 0 is not supported"),
        (71, 0, "GetTelemetrySubscriptions, API key 71 version 0 is not supported"),
    ],
)
def test_what_is_not_served_ends_the_connection(node: HandlerBroker, key: int, version: int, reason: str) -> None:
    request = struct.pack(">hhih", key, version, 77, -1) + b"\0"
    with pytest.raises(CloseConnection, match=reason):
        dispatcher(node).dispatch(memoryview(request), CLIENT, never)


@pytest.mark.parametrize("key, version", [(71, 0), (9_999, 0)])
def test_who_is_refused_at_once_is_known_by_name(node: HandlerBroker, key: int, version: int) -> None:
    client = Client("10.0.0.1", 40000, "10.0.0.2", 9092)
    with pytest.raises(CloseConnection):
        dispatcher(node).dispatch(memoryview(struct.pack(">hhih", key, version, 77, 4) + b"sink\0"), client, never)
    assert str(client) == "10.0.0.1:40000 client.id='sink'"


@pytest.mark.parametrize("size", range(12))
def test_a_request_that_ends_early_is_malformed(node: HandlerBroker, size: int) -> None:
    with pytest.raises(MalformedRequest):
        dispatcher(node).dispatch(frame(FIND, 1)[:size], CLIENT, never)


def test_a_refusal_is_the_messages_own_error_response(node: HandlerBroker) -> None:
    def refuse(request: Any, context: HandlerContext) -> None:
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not yours")

    reply = dispatcher(node, refuse).dispatch(frame(FIND, 1), CLIENT, never)
    assert answer(reply, FindCoordinatorResponse, 1).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_fault_of_ours_is_logged_and_answered(node: HandlerBroker, caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: Any, context: HandlerContext) -> None:
        raise ZeroDivisionError("ours")

    with caplog.at_level(logging.ERROR):
        reply = dispatcher(node, fail).dispatch(frame(FIND, 1), CLIENT, never)
    assert answer(reply, FindCoordinatorResponse, 1).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    (record,) = caplog.records
    assert record.getMessage().startswith("FindCoordinatorRequest version 1 from 127.0.0.1:40000")
    assert record.exc_info is not None


def test_no_response_is_no_reply(node: HandlerBroker) -> None:
    assert dispatcher(node, lambda request, context: None).dispatch(frame(FIND, 1), CLIENT, never) == []


def later(make: Callable[[], Any], deadline_ms: float = 100.0) -> Task[Any]:
    """A task that waits, and then makes its result."""
    yield Changes((), deadline_ms)
    return make()


def test_a_parked_reply_comes_later(node: HandlerBroker) -> None:
    waiting = later(lambda: FindCoordinatorResponse(node_id=5))
    replies: list[Any] = []
    parked = dispatcher(node, lambda request, context: waiting).dispatch(frame(FIND, 1), CLIENT, replies.append)
    assert isinstance(parked, Parked)
    assert not parked.is_silent
    node.time.advance(100)
    assert answer(replies[0], FindCoordinatorResponse, 1).node_id == 5


def test_a_parked_request_may_be_owed_no_reply(node: HandlerBroker) -> None:
    waiting = Silent(later(lambda: None))
    replies: list[Any] = []
    parked = dispatcher(node, lambda request, context: waiting).dispatch(frame(FIND, 1), CLIENT, replies.append)
    assert isinstance(parked, Parked)
    assert parked.is_silent
    node.time.advance(100)
    assert replies == [[]]


def test_a_parked_request_may_end_the_connection(node: HandlerBroker) -> None:
    def close() -> None:
        raise CloseConnection("no more")

    waiting = later(close)
    replies: list[Any] = []
    dispatcher(node, lambda request, context: waiting).dispatch(frame(FIND, 1), CLIENT, replies.append)
    node.time.advance(100)
    assert isinstance(replies[0], CloseConnection)


def test_an_abandoned_reply_never_comes(node: HandlerBroker) -> None:
    waiting = later(FindCoordinatorResponse)
    parked = dispatcher(node, lambda request, context: waiting).dispatch(frame(FIND, 1), CLIENT, never)
    assert isinstance(parked, Parked)
    parked.abandon()
    node.time.advance(200)


class Piece:
    """Stands for a piece of a segment file."""

    fileno = -1
    position = 0
    disk = ""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        return self._data[start : None if length is None else start + length]

    def read_cached(self, start: int, length: int) -> bytes | None:
        return self.read(start, length)

    def is_cached(self, start: int, length: int) -> bool:
        return True

    def warm(self, start: int, length: int) -> None:
        pass

    def release(self) -> None:
        pass


@pytest.mark.parametrize("version", [4, 12, 13])
def test_pieces_of_files_stand_where_their_bytes_belong(version: int) -> None:
    pieces = [Piece(b"first"), Piece(b"second piece")]
    data = [PartitionData(partition_index=index, records=piece) for index, piece in enumerate(pieces)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t" if version < 13 else "", partitions=data)])
    reply = Route(load()[1], version).encode(response, 77)
    assert [chunk for chunk in reply if isinstance(chunk, Piece)] == pieces
    whole = [chunk.read() if isinstance(chunk, Piece) else bytes(chunk) for chunk in reply]  # type: ignore[arg-type]
    found = answer(whole, FetchResponse, version)
    assert [bytes(row.records) for row in found.responses[0].partitions] == [b"first", b"second piece"]


def numbers(node: HandlerBroker, name: str) -> dict[tuple[str, ...], Any]:
    return dict(node.services.metrics.read(name)[1])


def test_requests_are_counted_by_api_and_version(node: HandlerBroker) -> None:
    made = dispatcher(node)
    for count, version in ((200, 1), (3, 2)):
        for _ in range(count):
            made.dispatch(frame(FIND, version), CLIENT, never)
    assert numbers(node, "requests") == {("FindCoordinator", "1"): 200, ("FindCoordinator", "2"): 3}


def test_the_first_requests_are_timed_and_then_one_in_64(node: HandlerBroker) -> None:
    def slow(request: Any, context: HandlerContext) -> FindCoordinatorResponse:
        node.time.advance(3)
        return FindCoordinatorResponse()

    made = dispatcher(node, slow)
    for _ in range(256):
        made.dispatch(frame(FIND, 1), CLIENT, never)
    latency = numbers(node, "request.seconds")["FindCoordinator",]
    assert latency.count == len((1, 2, 4, 8, 16, 32, 64, 128, 192, 256))
    assert latency.sum_s == pytest.approx(latency.count * 0.003)


def test_the_time_of_a_parked_request_is_that_until_its_answer(node: HandlerBroker) -> None:
    def park(request: Any, context: HandlerContext) -> Task[Any]:
        deadline_ms = node.services.clock.monotonic_ms() + 700
        return later(FindCoordinatorResponse, deadline_ms)

    replies: list[Any] = []
    assert isinstance(dispatcher(node, park).dispatch(frame(FIND, 1), CLIENT, replies.append), Parked)
    node.time.advance(700)
    assert len(replies) == 1
    assert numbers(node, "request.seconds")["FindCoordinator",].sum_s == pytest.approx(0.7)


def test_refused_requests_are_counted_by_their_error(node: HandlerBroker) -> None:
    def refuse(request: Any, context: HandlerContext) -> None:
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not yours")

    made = dispatcher(node, refuse)
    for version in (1, 1, 2):
        made.dispatch(frame(FIND, version), CLIENT, never)
    assert numbers(node, "request.errors") == {("FindCoordinator", "GROUP_AUTHORIZATION_FAILED"): 3}


def test_refused_rows_are_counted_by_broker_and_error(node: HandlerBroker, tmp_path: Path) -> None:
    made, other = dispatcher(node), HandlerBroker(tmp_path / "other")
    dispatcher(other)
    assert each_row(node.services, [1], lambda _: _fail(), lambda _, code, __: code) == [
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    ]
    assert numbers(node, "row.errors") == {("COORDINATOR_NOT_AVAILABLE",): 1}
    assert numbers(other, "row.errors") == {}
    other.close()
    assert made.batcher is node.services.batcher


def _fail() -> ErrorCode:
    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not here")
