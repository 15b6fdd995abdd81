"""The reader over modelled brokers: what is asked, what is handed out, and what is tried again."""

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headgate.protocol.messages.list_offsets import ListOffsetsRequest
from headgate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headgate.protocol.records import batch
from headgate.protocol.schema import Message
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import (
    Bounds,
    FetchedBatches,
    IsolationLevel,
    LogUnavailable,
    OffsetOutOfRange,
    OffsetRange,
)
from headgate.spark.reading.wire_reader import WireReader, whole_batches
from headgate.tools.tests.model_cluster import Clock, Log, ModelCluster

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ModelCluster:
    cluster = ModelCluster(brokers=3)
    monkeypatch.setattr("headgate.tools.client.client.socket.create_connection", cluster.connect)
    cluster.topics = cluster.topics | {"a": [Log(leader=1), Log(leader=2)]}
    return cluster


def opened(**options: Any) -> WireReader:
    clock = Clock()
    return WireReader("127.0.0.1:9092", clock=clock, sleep=clock.sleep, timeout_s=5, **options)


@pytest.fixture
def reader(model: ModelCluster) -> Iterator[WireReader]:
    made = opened()
    yield made
    made.close()


def fill(log: Log, batches: int, records: int = 3) -> None:
    for number in range(batches):
        log.append(*range(number * 100, number * 100 + records), size=40)


def offsets(pieces: list[FetchedBatches]) -> list[int]:
    found = []
    for piece in pieces:
        view = memoryview(piece.batches)
        while view:
            size = batch.read_header(view).size
            found += [record.offset for record in batch.iterate(view[:size])]
            view = view[size:]
    return found


def read(reader: WireReader, start: int, end: int, isolation: IsolationLevel = UNCOMMITTED) -> list[FetchedBatches]:
    return list(reader.read(OffsetRange(A0, start, end), isolation))


def once(change: Callable[[Any], Message | bytes | None], kind: type[Message] = FetchRequest, times: int = 1) -> Any:
    """Disturb the next answers to requests of a kind."""
    left = [times]

    def disturb(node: int, request: Any, version: int) -> Message | bytes | None:
        if not isinstance(request, kind) or not left[0]:
            return None
        left[0] -= 1
        return change(request)

    return disturb


def refuse(code: int) -> Callable[[FetchRequest], Message]:
    return lambda request: answer(PartitionData(0, code, -1, records=b""))


def answer(*rows: PartitionData, **fields: Any) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="a", partitions=list(rows))], **fields)


def test_bounds_and_times_come_from_the_leaders(model: ModelCluster, reader: WireReader) -> None:
    first, second = model.topics["a"]
    fill(first, 3)
    first.start, first.stable = 3, 6
    assert reader.bounds([A0, A1], UNCOMMITTED) == {A0: Bounds(3, 9), A1: Bounds(0, 0)}
    assert reader.bounds([A0], COMMITTED) == {A0: Bounds(3, 6)}
    first.stable = 2  # Kafka, after DeleteRecords inside an open transaction
    assert reader.bounds([A0], COMMITTED) == {A0: Bounds(3, 3)}
    assert reader.offsets_for_times({A0: 102, A1: 102}) == {A0: 5, A1: None}
    assert reader.offsets_for_times({A0: 5000}) == {A0: None}
    assert second.end == 0
    with pytest.raises(LogUnavailable, match="a-7: "):
        reader.bounds([TopicPartition("a", 7)], UNCOMMITTED)


def test_topics_have_their_partitions(reader: WireReader) -> None:
    found = reader.topics()
    assert {name: (topic.topic_id, list(topic.partitions)) for name, topic in found.items()} == {"a": (None, [0, 1])}


def test_a_range_comes_in_whole_batches(model: ModelCluster) -> None:
    log = model.topics["a"][0]
    fill(log, 10)
    reader = opened(partition_bytes=2 * len(log.batches[0]) + 20)
    pieces = read(reader, 4, 20)
    assert [piece.next_offset for piece in pieces] == [9, 15, 21]
    assert offsets(pieces) == list(range(3, 21))
    asked = model.of(FetchRequest)
    assert [request.topics[0].partitions[0].fetch_offset for request in asked] == [4, 9, 15]
    assert {node for node, request, _ in model.asked if isinstance(request, FetchRequest)} == {1}
    assert {version for _, request, version in model.asked if isinstance(request, FetchRequest)} == {12}


def test_the_next_request_is_sent_before_a_piece_is_handed_out(model: ModelCluster) -> None:
    log = model.topics["a"][0]
    fill(log, 4)
    pieces: Any = opened(partition_bytes=len(log.batches[0])).read(OffsetRange(A0, 0, 12), UNCOMMITTED)
    next(pieces)
    assert len(model.of(FetchRequest)) == 2
    pieces.close()
    assert len(model.of(FetchRequest)) == 2


def test_an_empty_range_asks_nothing(model: ModelCluster, reader: WireReader) -> None:
    assert read(reader, 5, 5) == []
    assert not model.asked


def test_a_batch_larger_than_the_request_is_fetched_whole(model: ModelCluster) -> None:
    log = model.topics["a"][0]
    fill(log, 2, records=30)
    cut = answer(PartitionData(0, 0, log.end, records=log.batches[0][:100]))
    model.disturb = once(lambda request: cut)
    assert offsets(read(opened(partition_bytes=100), 0, 60)) == list(range(60))


@pytest.mark.parametrize("version", [4, 7, 11, 12])
def test_brokers_since_kafka_0_11_are_read(model: ModelCluster, reader: WireReader, version: int) -> None:
    model.served[FetchRequest] = (0, version)
    model.served[ListOffsetsRequest] = (0, 2)
    model.served[MetadataRequest] = (0, 4)
    fill(model.topics["a"][0], 2)
    assert offsets(read(reader, 0, 6)) == list(range(6))
    assert reader.bounds([A0], COMMITTED)[A0] == (0, 6)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
)
def test_errors_that_pass_are_tried_again(model: ModelCluster, reader: WireReader, code: int) -> None:
    fill(model.topics["a"][0], 2)
    model.disturb = once(refuse(code), times=3)
    assert offsets(read(reader, 0, 6)) == list(range(6))


def test_a_new_leader_is_found(model: ModelCluster) -> None:
    log = model.topics["a"][0]
    fill(log, 4)
    pieces = opened(partition_bytes=len(log.batches[0])).read(OffsetRange(A0, 0, 12), UNCOMMITTED)
    found = [next(pieces)]
    log.leader = 0
    model.disturb = lambda node, request, version: (
        answer(PartitionData(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, records=b""))
        if isinstance(request, FetchRequest) and node != log.leader
        else None
    )
    assert offsets([*found, *pieces]) == list(range(12))


def test_a_broken_connection_is_made_again(model: ModelCluster, reader: WireReader) -> None:
    fill(model.topics["a"][0], 2)
    model.disturb = once(lambda request: b"\x00\x00\x00\x04junk", times=2)
    assert offsets(read(reader, 0, 6)) == list(range(6))


def test_brokers_that_stay_away_are_named(model: ModelCluster, reader: WireReader) -> None:
    fill(model.topics["a"][0], 2)
    reader.topics()
    model.dead = {1}
    with pytest.raises(LogUnavailable, match=r"a-0 cannot be read .* within 5 s: broker 1 is advertised at"):
        read(reader, 0, 6)
    model.dead = {0, 1, 2}
    reader.close()
    with pytest.raises(LogUnavailable, match="no broker answers"):
        reader.topics()


def test_a_topic_that_is_gone_is_refused_soon(model: ModelCluster, reader: WireReader) -> None:
    with pytest.raises(LogUnavailable, match="no such topic"):
        list(reader.read(OffsetRange(TopicPartition("b", 0), 0, 6), UNCOMMITTED))


def test_an_error_that_stays_is_told(model: ModelCluster, reader: WireReader) -> None:
    model.disturb = once(refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(LogUnavailable, match="TOPIC_AUTHORIZATION_FAILED"):
        read(reader, 0, 6)
    model.disturb = once(refuse(999))
    with pytest.raises(LogUnavailable, match="999"):
        read(reader, 0, 6)


def test_offsets_that_are_gone_are_told_with_the_bounds(model: ModelCluster, reader: WireReader) -> None:
    log = model.topics["a"][0]
    fill(log, 4)
    log.start = 6
    with pytest.raises(OffsetOutOfRange) as caught:
        read(reader, 2, 12)
    assert caught.value.bounds == (6, 12)


def test_aborted_transactions_come_with_their_batches(model: ModelCluster, reader: WireReader) -> None:
    log = model.topics["a"][0]
    fill(log, 1)
    aborted = [AbortedTransaction(7, 1)]
    row = PartitionData(0, 0, 3, last_stable_offset=3, aborted_transactions=aborted, records=log.batches[0])
    model.disturb = once(lambda request: answer(row))
    (piece,) = read(reader, 0, 3, COMMITTED)
    assert piece.aborted == [(7, 1)]
    assert model.of(FetchRequest)[0].isolation_level == 1


def test_a_range_without_its_last_records_ends(model: ModelCluster, reader: WireReader) -> None:
    log = model.topics["a"][0]
    fill(log, 2)
    log.end = 100
    pieces = read(reader, 0, 90)
    assert (offsets(pieces), pieces[-1].next_offset) == (list(range(6)), 90)


def test_committed_records_are_waited_for(model: ModelCluster, reader: WireReader) -> None:
    row = PartitionData(0, 0, 100, last_stable_offset=50, records=b"")
    model.disturb = once(lambda request: answer(row), times=1000)
    with pytest.raises(LogUnavailable, match="no batch came within 5 s"):
        read(reader, 50, 90, COMMITTED)


def test_a_throttled_reader_waits(model: ModelCluster, reader: WireReader) -> None:
    fill(model.topics["a"][0], 1)
    model.disturb = once(lambda request: FetchResponse(throttle_time_ms=1500))
    assert offsets(read(reader, 0, 3)) == [0, 1, 2]


def test_a_topic_made_again_is_refused(model: ModelCluster) -> None:
    def metadata(request: MetadataRequest) -> Message:
        rows = [MetadataResponsePartition(partition_index=0, leader_id=0)]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(0, "127.0.0.1", 9092)],
            topics=[MetadataResponseTopic(name="a", topic_id=b"2" * 16, partitions=rows)],
        )

    model.disturb = once(metadata, MetadataRequest, times=1000)
    with pytest.raises(LogUnavailable, match="made again"):
        read(opened(topic_ids={"a": b"1" * 16}), 0, 6)


def test_batches_before_the_offset_end_the_query(model: ModelCluster, reader: WireReader) -> None:
    fill(model.topics["a"][0], 1)
    row = PartitionData(0, 0, 100, records=model.topics["a"][0].batches[0])
    model.disturb = once(lambda request: answer(row))
    with pytest.raises(LogUnavailable, match="only batches before offset 50"):
        read(reader, 50, 90)


def test_bytes_that_are_no_batch_are_refused() -> None:
    with pytest.raises(LogUnavailable, match="no batch at offset 7"):
        whole_batches(b"\x09" * 100, 7)
    log = Log()
    log.append(1, 2)
    data = log.batches[0]
    assert whole_batches(data + b"\x09" * 100, 0)[:2] == (data, 2)
    assert whole_batches(data + data[:50], 0)[:2] == (data, 2)
    assert whole_batches(data[:-1], 0) == (b"", 0, len(data))


def test_a_reader_is_pickled_before_its_first_use(model: ModelCluster) -> None:
    copy = pickle.loads(pickle.dumps(WireReader("127.0.0.1:9092")))
    assert copy.topics().keys() == {"a"}
    copy.close()
