"""Produce."""

from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api.context import CloseConnection
from headgate.gateway.api.delayed_produce import MIN_WAIT_MS
from headgate.gateway.api.handlers.produce import render
from headgate.gateway.replication.append import await_offset
from headgate.gateway.runtime.tasks import Silent, is_task
from headgate.gateway.tests.builders import (
    HandlerBroker,
    add_follower,
    drop_followers,
    led_elsewhere,
    parked,
)
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headgate.protocol.records.batch import Record, build, iterate, split
from headgate.protocol.records.legacy import build as build_set
from headgate.protocol.records.message_set import encode
from headgate.storage.files import File
from headgate.storage.segment.segment import Segment

NOW_MS = 1_700_000_000_000


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


@pytest.mark.parametrize("version", range(13))
def test_offsets_are_given_in_order(node: HandlerBroker, version: int) -> None:
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
    node: HandlerBroker, name: str, records: bytes | None, acks: int, code: ErrorCode
) -> None:
    node.services.metadata.create_topic("t", 2)
    response = node.ask(request((name, 0, records), ("t", 1, batch(b"good")), acks=acks), 9)
    bad, good = rows(response)
    assert bad == (code, -1)
    assert good == ((0, 0) if acks != 2 else (code, -1))
    assert response.responses[0].partition_responses[0].error_message


@pytest.mark.parametrize("key_type, topic", [(0, "__consumer_offsets"), (1, "__transaction_state")])
def test_the_topics_of_coordinators_are_written_by_the_broker_alone(
    node: HandlerBroker, key_type: int, topic: str
) -> None:
    node.ask(FindCoordinatorRequest("g", key_type), 3)
    before = node.services.partitions.get(topic, 0).log.end_offset
    response = node.ask(request((topic, 0, batch(b"a"))), 9)
    assert rows(response) == [(ErrorCode.INVALID_TOPIC_EXCEPTION, -1)]
    assert node.services.partitions.get(topic, 0).log.end_offset == before


def test_a_repeated_batch_gets_its_old_offset(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    numbered = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    assert rows(node.ask(request(("t", 0, numbered)), 7)) == [(0, 0)]
    assert rows(node.ask(request(("t", 0, numbered)), 7)) == [(0, 0)]
    assert node.services.partitions.get("t", 0).log.end_offset == 1


def test_acks_0_gets_no_reply_and_an_error_ends_the_connection(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    assert node.handle(request(("t", 0, batch(b"a")), acks=0), 7) is None
    assert node.services.partitions.get("t", 0).log.end_offset == 1
    with pytest.raises(CloseConnection, match="nowhere-0 failed with error 3"):
        node.handle(request(("nowhere", 0, batch(b"a")), acks=0), 7)


def test_what_a_client_of_zookeeper_says_first_ends_the_connection(node: HandlerBroker) -> None:
    with pytest.raises(CloseConnection, match="a client of ZooKeeper: this is a Kafka listener"):
        node.handle(ProduceRequest(acks=0, timeout_ms=30_000), 0)


class Follower:
    """Holds the high watermark of a partition back: it has not fetched yet."""

    def __init__(self, node: HandlerBroker) -> None:
        self.partition = node.services.partitions.get("t", 0)
        add_follower(self.partition)

    def catch_up(self) -> None:
        drop_followers(self.partition)


def test_acks_all_waits_for_the_high_watermark(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    follower = Follower(node)
    replies = parked(node, node.handle(request(("t", 0, batch(b"a"))), 9))
    node.time.advance(100)
    assert replies == []
    follower.catch_up()
    node.time.advance()
    assert rows(replies[0]) == [(0, 0)]


def test_acks_all_gives_up_at_the_clients_timeout(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    Follower(node)
    replies = parked(node, node.handle(request(("t", 0, batch(b"a"))), 9))
    node.time.advance(1_499)
    assert replies == []
    node.time.advance(1)
    assert isinstance(replies[0], ProduceResponse)
    assert rows(replies[0]) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]


def test_acks_1_does_not_wait(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    Follower(node)
    assert rows(node.ask(request(("t", 0, batch(b"a")), acks=1), 9)) == [(0, 0)]


def test_a_failing_disk_is_a_storage_error(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    node.services.metadata.create_topic("t", 1)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Segment, "append", fail)
    assert rows(node.ask(request(("t", 0, batch(b"a"))), 9)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]


def stored(node: HandlerBroker, index: int = 0) -> list[Record]:
    """All records of a partition, decoded."""
    replica = node.services.partitions.get("t", index)
    piece = replica.read(0, 1 << 30, 0, at_least_one=True)
    return [] if piece is None else [record for _, part in split(piece.read()) for record in iterate(part)]


RECORDS = [Record(0, 1_600_000_000_000, b"key", b"value", []), Record(1, 1_600_000_000_001, None, None, [])]


@pytest.mark.parametrize("version, magic", [(0, 0), (1, 0), (2, 1), (0, 1)])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_message_sets_are_stored_as_batches(node: HandlerBroker, version: int, magic: int, codec: int) -> None:
    node.services.metadata.create_topic("t", 1)
    message_set = build_set(RECORDS, magic, codec=codec)
    assert rows(node.ask(request(("t", 0, message_set)), version)) == [(0, 0)]
    assert rows(node.ask(request(("t", 0, message_set), acks=1), version)) == [(0, 2)]
    expected = [record if magic else record._replace(timestamp=-1) for record in RECORDS]
    assert stored(node) == [*expected, *(record._replace(offset=record.offset + 2) for record in expected)]


@pytest.mark.parametrize("version, time, key", [(2, 1 << 28, b"k"), (2, 1 << 40, b"k"), (0, 0, b"p"), (0, 0, b"k")])
def test_no_message_set_is_taken_for_a_transaction(node: HandlerBroker, version: int, time: int, key: bytes) -> None:
    """A batch has its attributes where a message of magic 1 has its time, and one of magic 0 its key."""
    node.services.metadata.create_topic("t", 1)
    records = [Record(0, time, key, b"value" * 20)]
    assert rows(node.ask(request(("t", 0, build_set(records, version // 2))), version)) == [(0, 0)]


@pytest.mark.parametrize("records", [b"", None])
def test_an_empty_set_is_no_fault(node: HandlerBroker, records: bytes | None) -> None:
    node.services.metadata.create_topic("t", 1)
    assert rows(node.ask(request(("t", 0, records)), 2)) == [(0, -1)]
    assert stored(node) == []


def test_no_batch_at_all_is_a_fault_of_newer_versions(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1, configs={"compression.type": "gzip"})
    assert rows(node.ask(request(("t", 0, None)), 3)) == [(ErrorCode.INVALID_RECORD, -1)]


def test_a_newer_batch_in_an_old_version_is_taken(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    assert rows(node.ask(request(("t", 0, batch(b"a"))), 2)) == [(0, 0)]


@pytest.mark.parametrize("version", range(12))
@pytest.mark.parametrize("second", [0, 4])
@pytest.mark.parametrize("is_slow", [False, True])
def test_a_partition_gets_one_batch_of_a_request(node: HandlerBroker, version: int, second: int, is_slow: bool) -> None:
    """As in Kafka; any number of them would be appended in one go, and the second be in what codec it likes."""
    node.services.metadata.create_topic("t", 1)
    disk = node.services.partitions.get("t", 0).disk
    assert disk is not None
    disk.is_slow = is_slow
    several = batch(b"a") + batch(b"b", compression=second)
    assert rows(node.ask(request(("t", 0, several)), version)) == [(ErrorCode.INVALID_RECORD, -1)]
    assert stored(node) == []


@pytest.mark.parametrize(
    "name, records, acks, code",
    [
        ("t", build_set(RECORDS, 1, codec=0), 2, ErrorCode.INVALID_REQUIRED_ACKS),
        ("nowhere", build_set(RECORDS, 1, codec=0), 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__consumer_offsets", build_set(RECORDS, 1, codec=0), 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("t", build_set(RECORDS, 1, codec=0)[:-1], 1, ErrorCode.CORRUPT_MESSAGE),
        ("t", build_set([Record(0, 0, None, bytes(2_000_000))], 1, codec=0), 1, ErrorCode.MESSAGE_TOO_LARGE),
        ("t", batch(b"a", is_control=True), 1, ErrorCode.INVALID_RECORD),
    ],
)
def test_what_is_wrong_with_a_set_is_told_of_its_partition(
    node: HandlerBroker, name: str, records: bytes | None, acks: int, code: ErrorCode
) -> None:
    node.ask(FindCoordinatorRequest(key="g"), 3)
    node.services.metadata.create_topic("t", 2)
    bad, good = rows(node.ask(request((name, 0, records), ("t", 1, build_set(RECORDS, 0, codec=0)), acks=acks), 1))
    assert bad == (code, -1)
    assert good == ((0, 0) if acks != 2 else (code, -1))


@pytest.mark.parametrize("acks", [1, -1])
def test_a_set_that_takes_long_is_converted_by_a_thread(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    node.services.metadata.create_topic("t", 2)
    thread = node.time.scheduler.hold_slices()
    message_set, small = build_set(RECORDS, 1, codec=1), build_set(RECORDS, 1, codec=0)
    asked = request(("t", 0, message_set), ("t", 1, small), acks=acks)
    replies = parked(node, node.handle(asked, 2))
    asked.topic_data[0].partition_data[0].records[:] = bytes(len(message_set))  # type: ignore[index]
    assert (len(stored(node, 0)), len(stored(node, 1))) == (0, 2), "what is small does not wait"
    node.time.advance()
    assert replies == []
    thread.run_one()
    assert rows(replies[0]) == [(0, 0), (0, 0)]
    assert len(stored(node, 0)) == 2


@pytest.mark.parametrize("is_one_request", [False, True])
@pytest.mark.parametrize("version", [2, 9])
def test_a_small_set_does_not_overtake_one_of_its_partition(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch, version: int, is_one_request: bool
) -> None:
    node.services.metadata.create_topic("t", 2, configs={"compression.type": "uncompressed"})
    thread = node.time.scheduler.hold_slices()
    records = [RECORDS[0]._replace(value=value) for value in (b"1", b"2", b"3")]
    large, *small = (
        build([one], compression=codec) if version > 2 else build_set([one], 1, codec=codec)
        for codec, one in zip((1, 0, 0), records, strict=True)
    )
    assert is_task(node.handle(request(("t", 0, large), acks=1), version))
    if is_one_request:
        outcomes = [node.handle(request(*(("t", 0, one) for one in small), acks=1), version)]
    else:
        outcomes = [node.handle(request(("t", 0, one), acks=1), version) for one in small]
    assert rows(node.ask(request(("t", 1, small[0]), acks=1), version)) == [(0, 0)], "of another partition"
    while len(thread.waiting):
        thread.run_one()
    assert all(is_task(outcome) for outcome in outcomes)
    assert [record.value for record in stored(node)] == [b"1", b"2", b"3"]
    assert rows(node.ask(request(("t", 0, small[0]), acks=1), version)) == [(0, 3)], "nothing waits any more"


def test_nothing_queues_up_behind_what_was_given_up(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    node.services.metadata.create_topic("t", 1)
    thread = node.time.scheduler.hold_slices()
    large, small = build_set(RECORDS, 1, codec=1), build_set(RECORDS, 1, codec=0)
    replies = [parked(node, node.handle(request(("t", 0, one), acks=1), 2)) for one in (large, small, large)]
    node.time.advance(MIN_WAIT_MS)
    assert all(replies)
    assert rows(node.ask(request(("t", 0, small), acks=1), 2)) == [(0, 0)]
    thread.run_one()
    assert len(stored(node)) == 2


def test_what_is_wrong_is_told_of_a_set_that_takes_long(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    node.services.metadata.create_topic("t", 1)
    thread = node.time.scheduler.hold_slices()
    damaged = encode(1, 1, 0, 0, None, b"\x1f\x8b\x08 damaged")
    replies = parked(node, node.handle(request(("t", 0, damaged)), 2))
    thread.run_one()
    assert rows(replies[0]) == [(ErrorCode.CORRUPT_MESSAGE, -1)]
    assert replies[0].responses[0].partition_responses[0].error_message


def test_a_fault_of_a_conversion_is_an_error_of_ours(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node.services.metadata.create_topic("t", 1)
    thread = node.time.scheduler.hold_slices()
    replies = parked(node, node.handle(request(("t", 0, build_set(RECORDS, 1, codec=1))), 2))
    thread.run_one(ZeroDivisionError())
    assert rows(replies[0]) == [(ErrorCode.UNKNOWN_SERVER_ERROR, -1)]
    assert "t-0 cannot be converted" in caplog.text


@pytest.mark.parametrize("is_new", [False, True])
def test_a_topic_that_is_deleted_meanwhile_gets_nothing(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    node.services.metadata.create_topic("t", 1)
    thread = node.time.scheduler.hold_slices()
    replies = parked(node, node.handle(request(("t", 0, build_set(RECORDS, 1, codec=1))), 2))
    node.services.metadata.delete_topic("t")
    if is_new:
        node.services.metadata.create_topic("t", 1)
    thread.run_one()
    assert rows(replies[0]) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    if is_new:
        assert stored(node) == []


@pytest.mark.parametrize("acks", [1, -1])
def test_the_clients_timeout_is_not_for_conversions(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    node.services.metadata.create_topic("t", 1)
    thread = node.time.scheduler.hold_slices()
    replies = parked(node, node.handle(request(("t", 0, build_set(RECORDS, 1, codec=1)), acks=acks), 2))
    node.time.advance(MIN_WAIT_MS - 1)
    assert replies == []
    thread.run_one()
    assert rows(replies[0]) == [(0, 0)]


def test_the_clients_timeout_is_not_for_a_slow_disk(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    node.services.partitions.get("t", 0).disk.is_slow = True
    threads = node.time.scheduler.hold()
    replies = parked(node, node.handle(request(("t", 0, batch(b"a")), acks=1), 9))
    node.time.advance(MIN_WAIT_MS - 1)
    assert replies == []
    threads.run_one()
    assert rows(replies[0]) == [(0, 0)]


@pytest.mark.parametrize("is_stopping", [False, True])
def test_who_was_told_that_it_failed_finds_nothing_appended(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch, is_stopping: bool
) -> None:
    """Else what he sends again would be there twice."""
    node.services.metadata.create_topic("t", 1)
    thread = node.time.scheduler.hold_slices()
    first = parked(node, node.handle(request(("t", 0, build_set(RECORDS, 1, codec=1))), 2))
    second = parked(node, node.handle(request(("t", 0, build_set(RECORDS, 1, codec=1))), 2))
    if is_stopping:
        node.services.tasks.expire_all()
    else:
        node.time.advance(MIN_WAIT_MS)
    assert [rows(reply[0]) for reply in (first, second)] == [[(ErrorCode.REQUEST_TIMED_OUT, -1)]] * 2
    thread.run_one()  # the first had begun
    assert len(thread.waiting) == 0
    assert stored(node) == []


def test_with_acks_0_the_connection_waits_for_the_conversion(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.services.metadata.create_topic("t", 1)
    thread = node.time.scheduler.hold_slices()
    outcome = node.handle(request(("t", 0, build_set(RECORDS, 1, codec=1)), acks=0), 2)
    assert isinstance(outcome, Silent), "a client that hangs up meanwhile loses nothing that it sent"
    replies = parked(node, outcome)
    node.time.advance(60_000)
    assert replies == []
    thread.run_one()
    assert replies == [None]
    assert len(stored(node)) == 2


def test_acks_0_with_a_set_that_cannot_be_converted_disconnects(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.services.metadata.create_topic("t", 1)
    thread = node.time.scheduler.hold_slices()
    damaged = encode(1, 1, 0, 0, None, b"\x1f\x8b\x08 damaged")
    replies = parked(node, node.handle(request(("t", 0, damaged), acks=0), 2))
    thread.run_one()
    assert isinstance(replies[0], CloseConnection)
    assert "t-0 failed with error 2" in str(replies[0])


def test_a_slow_disk_takes_what_was_converted_in_turn(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    node.services.metadata.create_topic("t", 1)
    replica = node.services.partitions.get("t", 0)
    replica.disk.is_slow = True
    assert rows(node.ask(request(("t", 0, build_set(RECORDS, 1, codec=0))), 2)) == [(0, 0)]
    assert len(stored(node)) == 2


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("stored_as, name", [(0, "uncompressed"), (1, "gzip"), (4, "zstd")])
def test_a_topic_may_ask_for_a_codec(node: HandlerBroker, codec: int, stored_as: int, name: str) -> None:
    node.services.metadata.create_topic("t", 1, configs={"compression.type": name})
    assert rows(node.ask(request(("t", 0, batch(b"a", b"b", compression=codec))), 9)) == [(0, 0)]
    piece = node.services.partitions.get("t", 0).read(0, 1 << 20, 0, at_least_one=True)
    assert piece is not None
    assert [header.compression for header, _ in split(piece.read())] == [stored_as]
    assert [record.value for record in stored(node)] == [b"a", b"b"]


def test_the_time_of_an_append_is_that_of_the_append(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"}
    node.services.metadata.create_topic("t", 1, configs=settings)
    thread = node.time.scheduler.hold_slices()
    replies = parked(node, node.handle(request(("t", 0, batch(b"a", compression=4))), 9))
    node.time.advance(1_000)
    thread.run_one()
    (row,) = replies[0].responses[0].partition_responses
    assert row.log_append_time_ms == node.services.clock.now_ms()
    assert stored(node)[0].timestamp == row.log_append_time_ms


@pytest.mark.parametrize("version, code", [(3, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (6, 76), (7, 0), (11, 0)])
def test_zstd_is_known_from_version_7_on(node: HandlerBroker, version: int, code: int) -> None:
    node.services.metadata.create_topic("t", 1)
    ((found, _),) = rows(node.ask(request(("t", 0, batch(b"a", compression=4))), version))
    assert found == code
    assert rows(node.ask(request(("t", 0, batch(b"a", compression=3))), version)) == [(0, 0 if code else 1)]


@pytest.mark.parametrize("version", range(12))
@pytest.mark.parametrize("leader, endpoints", [(5, [(5, "five.example", 9095, "r5")]), (6, []), (-1, [])])
def test_who_leads_a_partition_is_told(node: HandlerBroker, version: int, leader: int, endpoints: list[Any]) -> None:
    led_elsewhere(node, leader, "t", "u")
    node.services.metadata.create_topic("own", assignments={0: [0]})
    data = batch(b"a") if version > 2 else build_set(RECORDS, 1)
    response = node.ask(request(("t", 0, data), ("u", 0, data), ("own", 0, data)), version)
    assert rows(response) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)] * 2 + [(0, 0)]
    hints = [topic.partition_responses[0].current_leader for topic in response.responses]
    knows = version >= 10
    assert [(hint.leader_id, hint.leader_epoch) for hint in hints] == [(leader, 7) if knows else (-1, -1)] * 2 + [
        (-1, -1)
    ]
    found = [(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
    assert found == (endpoints if knows else [])


@pytest.mark.parametrize("version", range(3, 12))
@pytest.mark.parametrize("codec", [0, 1])
def test_the_records_for_which_a_batch_is_refused_are_named(node: HandlerBroker, version: int, codec: int) -> None:
    node.services.metadata.create_topic("t", 1, configs={"cleanup.policy": "compact"})
    keyed, bare = Record(timestamp=NOW_MS, key=b"k"), Record(timestamp=NOW_MS, value=b"no key")
    response = node.ask(request(("t", 0, build([keyed, bare, keyed, bare], compression=codec))), version)
    (row,) = response.responses[0].partition_responses
    assert row.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in row.record_errors] == ([1, 3] if version >= 8 else [])
    assert all("key" in error.batch_index_error_message for error in row.record_errors)
    assert stored(node) == []


def test_refused_records_of_a_set_are_counted_from_its_first(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1, configs={"cleanup.policy": "compact"})
    assert rows(node.ask(request(("t", 0, build_set(RECORDS, 1))), 2)) == [(ErrorCode.INVALID_RECORD, -1)]
    assert rows(node.ask(request(("t", 0, build_set(RECORDS[:1], 1))), 2)) == [(0, 0)]


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("is_slow", [False, True])
def test_the_records_of_a_wrong_time_are_looked_for_by_a_thread(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch, is_slow: bool, acks: int
) -> None:
    """A client that takes microseconds for milliseconds must not stop the loop, each time it tries again."""
    node.services.metadata.create_topic("t", 1)
    thread = node.time.scheduler.hold_slices()
    disk = node.services.partitions.get("t", 0).disk
    assert disk is not None
    disk.is_slow = is_slow
    records = [Record(timestamp=NOW_MS), Record(timestamp=NOW_MS * 1000)]
    replies = parked(node, node.handle(request(("t", 0, build(records, compression=1)), acks=acks), 9))
    node.time.advance()
    assert replies == []
    thread.run_one()
    if acks == 0:
        assert isinstance(replies[0], CloseConnection)
    else:
        (row,) = replies[0].responses[0].partition_responses
        assert row.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in row.record_errors] == [1]
    assert stored(node) == []


@pytest.mark.parametrize("magic, time", [(0, 0), (1, 0), (1, 4 << 24)])  # the last one has zstd's bits in a batch
def test_message_sets_are_for_old_versions_only(node: HandlerBroker, magic: int, time: int) -> None:
    node.services.metadata.create_topic("t", 1)
    records = [record._replace(timestamp=time) for record in RECORDS]
    assert rows(node.ask(request(("t", 0, build_set(records, magic))), 3)) == [(ErrorCode.INVALID_RECORD, -1)]


def test_every_record_is_looked_at_where_that_is_asked_for(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path, headgate_validate_records="full")
    node.services.metadata.create_topic("t", 1, configs={"message.timestamp.before.max.ms": "1000"})
    late, old = Record(timestamp=NOW_MS), Record(timestamp=NOW_MS - 5_000)
    response = node.ask(request(("t", 0, build([late, old]))), 9)
    (row,) = response.responses[0].partition_responses
    assert row.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in row.record_errors] == [1]
    node.close()


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("version, code", [(0, 6), (2, 6), (3, 6), (4, 56), (11, 56)])
def test_a_version_without_the_storage_error_is_told_to_retry(
    node: HandlerBroker, version: int, code: int, is_slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.services.metadata.create_topic("t", 1)
    disk = node.services.partitions.get("t", 0).disk
    assert disk is not None
    disk.is_slow = is_slow  # appends go through a `AppendQueue`

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(File, "write_at", fail)
    data = batch(b"a") if version > 2 else build_set(RECORDS, 1)
    response = node.ask(request(("t", 0, data)), version)
    node.services.batcher.write_all()
    assert rows(response) == [(code, -1)]


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_thread_that_is_done_at_once_is_as_good(node: HandlerBroker, acks: int) -> None:
    node.services.metadata.create_topic("t", 1)
    outcome = node.handle(request(("t", 0, build_set(RECORDS, 1, codec=1)), acks=acks), 2)
    assert outcome is None if acks == 0 else rows(outcome) == [(0, 0)]
    assert len(stored(node)) == 2


@pytest.mark.parametrize("version, magic", [(0, 0), (1, 0), (2, 1)])
def test_the_time_of_an_append_is_told_from_version_2_on(node: HandlerBroker, version: int, magic: int) -> None:
    node.services.metadata.create_topic("t", 1, configs={"message.timestamp.type": "LogAppendTime"})
    response = node.ask(request(("t", 0, build_set(RECORDS, magic))), version)
    (row,) = response.responses[0].partition_responses
    now_ms = node.services.clock.now_ms()
    assert row.log_append_time_ms == (now_ms if version == 2 else -1)
    assert {record.timestamp for record in stored(node)} == {now_ms}


def test_who_waits_for_what_the_disk_has_lost_is_told(node: HandlerBroker, caplog: pytest.LogCaptureFixture) -> None:
    """As with replicas that had not fetched it yet."""
    node.services.metadata.create_topic("t", 1)
    node.ask(request(("t", 0, batch(b"a"))), 9)
    replica = node.services.partitions.get("t", 0)
    there, gone = (PartitionProduceResponse(0), PartitionProduceResponse(0))
    for row, end_offset in ((there, 1), (gone, 2)):
        append = await_offset(replica, end_offset, None)
        replica.fail_lost_appends()
        render(append, row, node.context(9))
    assert (there.error_code, gone.error_code) == (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
    assert "the disk lost the records" in (gone.error_message or "")
    lost = "storage error for a client (t-0): the disk lost the records before they were replicated"
    assert caplog.messages == [lost]


def test_the_log_names_the_partition_that_takes_nothing(node: HandlerBroker, caplog: pytest.LogCaptureFixture) -> None:
    node.services.metadata.create_topic("t", 1)
    full = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk of /data is nearly full")
    node.services.partitions.get("t", 0).read_only = full
    assert rows(node.ask(request(("t", 0, batch(b"a"))), 9)) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert caplog.messages == ["storage error for a client (t-0): the disk of /data is nearly full"]
