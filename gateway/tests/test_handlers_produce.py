"""Produce."""

from typing import Any

import pytest

from gateway.context import CloseConnection
from gateway.tests.builders import Node
from gateway.waiting import Waiting
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.records.batch import Record, build
from storage.segment import Segment


def batch(*values: bytes, **options: Any) -> bytearray:
    return build([Record(timestamp=1_700_000_000_000, value=value) for value in values], **options)


def request(*topics: tuple[str, int, bytes | bytearray | None], acks: int = -1) -> ProduceRequest:
    data = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=index, records=_view(records))])
        for name, index, records in topics
    ]
    return ProduceRequest(acks=acks, timeout_ms=1_500, topic_data=data)


def _view(records: bytes | bytearray | None) -> memoryview | None:
    return None if records is None else memoryview(bytearray(records))


def rows(response: Any) -> list[tuple[int, int]]:
    return [(row.error_code, row.base_offset) for topic in response.responses for row in topic.partition_responses]


@pytest.mark.parametrize("version", range(3, 12))
def test_offsets_are_given_in_order(node: Node, version: int) -> None:
    node.services.metadata.create_topic("t", 2)
    assert rows(node.ask(request(("t", 0, batch(b"a", b"b"))), version)) == [(0, 0)]
    assert rows(node.ask(request(("t", 0, batch(b"c")), ("t", 1, batch(b"d"))), version)) == [(0, 2), (0, 0)]


@pytest.mark.parametrize(
    "name, records, acks, code",
    [
        ("t", batch(b"a"), 2, ErrorCode.INVALID_REQUIRED_ACKS),
        ("nowhere", batch(b"a"), 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", None, 1, ErrorCode.INVALID_RECORD),
        ("t", b"", 1, ErrorCode.INVALID_RECORD),
        ("t", batch(b"a")[:-1], 1, ErrorCode.CORRUPT_MESSAGE),
        ("t", batch(b"a")[:-1] + b"\xff", 1, ErrorCode.CORRUPT_MESSAGE),
        ("t", batch(b"a", is_control=True), 1, ErrorCode.INVALID_RECORD),
        ("t", batch(bytes(2_000_000)), 1, ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_what_is_wrong_is_told_of_its_partition(
    node: Node, name: str, records: bytes | None, acks: int, code: ErrorCode
) -> None:
    node.services.metadata.create_topic("t", 2)
    response = node.ask(request((name, 0, records), ("t", 1, batch(b"good")), acks=acks), 9)
    bad, good = rows(response)
    assert bad == (code, -1)
    assert good == ((0, 0) if acks != 2 else (code, -1))
    assert response.responses[0].partition_responses[0].error_message


def test_the_topic_of_groups_is_written_by_the_broker_alone(node: Node) -> None:
    node.ask(FindCoordinatorRequest(key="g"), 3)
    before = node.services.partitions.get("__consumer_offsets", 0).log.end_offset
    response = node.ask(request(("__consumer_offsets", 0, batch(b"a"))), 9)
    assert rows(response) == [(ErrorCode.INVALID_TOPIC_EXCEPTION, -1)]
    assert node.services.partitions.get("__consumer_offsets", 0).log.end_offset == before


def test_a_repeated_batch_gets_its_old_offset(node: Node) -> None:
    node.services.metadata.create_topic("t", 1)
    numbered = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    assert rows(node.ask(request(("t", 0, numbered)), 7)) == [(0, 0)]
    assert rows(node.ask(request(("t", 0, numbered)), 7)) == [(0, 0)]
    assert node.services.partitions.get("t", 0).log.end_offset == 1


def test_acks_0_gets_no_reply_and_an_error_ends_the_connection(node: Node) -> None:
    node.services.metadata.create_topic("t", 1)
    assert node.handle(request(("t", 0, batch(b"a")), acks=0), 7) is None
    assert node.services.partitions.get("t", 0).log.end_offset == 1
    with pytest.raises(CloseConnection, match="nowhere-0 failed with error 3"):
        node.handle(request(("nowhere", 0, batch(b"a")), acks=0), 7)


class Follower:
    """Holds the high watermark of a partition back, as a replica that has not fetched yet."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self.partition = node.services.partitions.get("t", 0)
        self._advance = type(self.partition).advance
        monkeypatch.setattr(type(self.partition), "advance", lambda partition: None)

    def catch_up(self) -> None:
        self._advance(self.partition)


def test_acks_all_waits_for_the_high_watermark(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.services.metadata.create_topic("t", 1)
    follower, replies = Follower(node, monkeypatch), list[Any]()
    waiting = node.handle(request(("t", 0, batch(b"a"))), 9)
    assert isinstance(waiting, Waiting)
    node.services.purgatory.park(waiting, replies.append)
    node.time.advance(100)
    assert replies == []
    follower.catch_up()
    node.time.advance()
    assert rows(replies[0]) == [(0, 0)]


def test_acks_all_gives_up_at_the_clients_timeout(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.services.metadata.create_topic("t", 1)
    replies: list[Any] = []
    Follower(node, monkeypatch)
    waiting = node.handle(request(("t", 0, batch(b"a"))), 9)
    assert isinstance(waiting, Waiting)
    node.services.purgatory.park(waiting, replies.append)
    node.time.advance(1_499)
    assert replies == []
    node.time.advance(1)
    assert isinstance(replies[0], ProduceResponse)
    assert rows(replies[0]) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]


def test_acks_1_does_not_wait(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.services.metadata.create_topic("t", 1)
    Follower(node, monkeypatch)
    assert rows(node.ask(request(("t", 0, batch(b"a")), acks=1), 9)) == [(0, 0)]


def test_a_failing_disk_is_a_storage_error(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.services.metadata.create_topic("t", 1)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Segment, "append", fail)
    assert rows(node.ask(request(("t", 0, batch(b"a"))), 9)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
