"""The last committed marker of a name, whatever other transactions are open, aborted or compacted."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headgate.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from headgate.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headgate.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headgate.protocol.records import batch, control
from headgate.protocol.records.batch import Record
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.sink.batch_log import PARTITION, BatchLog, CommittedMarkers, ensure_topic
from headgate.spark.sink.connection import SinkFailed
from headgate.spark.sink.marker import BATCHES_TOPIC, SinkMarker, SinkRefused, encode_marker


class Log:
    """Batches one after another."""

    def __init__(self) -> None:
        self.records = bytearray()
        self.offset = 0

    def marker(self, batch_id: int, producer: int, key: bytes = b"q", *, is_transactional: bool = True) -> None:
        value = encode_marker(SinkMarker("id", batch_id, {}, 0))
        self._append(
            batch.build([Record(key=key, value=value)], producer_id=producer, producer_epoch=0, base_sequence=0,
                        is_transactional=is_transactional)
        )  # fmt: skip

    def end(self, producer: int, *, is_commit: bool) -> None:
        self._append(control.build(control.Marker(is_commit, 0), producer_id=producer, producer_epoch=0, timestamp=0))

    def skip(self, offsets: int) -> None:
        self.offset += offsets

    def _append(self, made: bytearray) -> None:
        batch.patch(made, self.offset, 0)
        self.records += made
        self.offset += 1


def last(log: Log) -> int | None:
    markers = CommittedMarkers("q")
    markers.take(log.records)
    assert markers.next_offset == log.offset
    found = markers.last()
    return None if found is None else found.batch_id


def test_an_empty_log_has_no_marker() -> None:
    assert last(Log()) is None


def test_aborted_markers_and_those_of_others_do_not_count() -> None:
    log = Log()
    log.marker(3, producer=1)
    log.marker(8, producer=2, key=b"other")
    log.end(1, is_commit=True)
    log.marker(4, producer=1)
    log.end(1, is_commit=False)
    assert last(log) == 3
    log.marker(4, producer=1)
    log.end(1, is_commit=True)
    assert last(log) == 4


def test_an_open_transaction_of_another_hides_nothing_behind_it() -> None:
    log = Log()
    log.marker(8, producer=2, key=b"other")
    log.marker(3, producer=1)
    log.end(1, is_commit=True)
    assert last(log) == 3


def test_an_open_marker_counts_only_once_its_writer_is_fenced() -> None:
    log = Log()
    log.marker(3, producer=1)
    markers = CommittedMarkers("q")
    markers.take(log.records)
    assert markers.last(is_fenced=False) is None
    assert markers.last() is not None


def test_a_marker_whose_control_batch_compaction_removed_was_committed() -> None:
    log = Log()
    log.skip(40)
    log.marker(3, producer=1)
    assert last(log) == 3
    log.marker(4, producer=1)
    log.end(1, is_commit=False)
    assert last(log) == 3
    log.marker(4, producer=7)
    log.end(7, is_commit=True)
    assert last(log) == 4


def test_a_marker_written_by_hand_counts() -> None:
    log = Log()
    log.marker(3, producer=1)
    log.end(1, is_commit=True)
    log.marker(9, producer=-1, is_transactional=False)
    assert last(log) == 9


@pytest.mark.parametrize("seed", range(20))
def test_pieces_of_any_size_give_the_same(seed: int) -> None:
    rng = random.Random(seed)
    log = Log()
    expected = None
    for batch_id in range(30):
        producer, is_commit = rng.randrange(3), rng.random() < 0.5
        log.marker(batch_id, producer)
        log.skip(rng.choice([0, 0, 5]))
        log.end(producer, is_commit=is_commit)
        expected = batch_id if is_commit else expected
    markers, position = CommittedMarkers("q"), 0
    while position < len(log.records):
        markers.take(log.records[position : position + rng.randrange(1, 500)])
        # As a broker answers: from the batch with the next offset on
        position = 0
        while position < len(log.records):
            header = batch.read_header(log.records, position)
            if header.last_offset >= markers.next_offset:
                break
            position += header.size
    found = markers.last()
    assert (None if found is None else found.batch_id) == expected


def test_damage_is_refused() -> None:
    log = Log()
    log.marker(3, producer=1)
    log.records[-1] ^= 1
    with pytest.raises(SinkRefused, match=r"headgate-spark-batches-0 cannot be read at offset 0.*CRC"):
        last(log)


class FakeConnection:
    """A broker with the log, that answers with at most so many bytes from the batch with the wanted offset on."""

    def __init__(self, log: Log, most: int = 1 << 20) -> None:
        self.log, self.most = log, most
        self.start = 0
        self.fetched = 0
        self.policy: str | None = "compact"
        self.created: list[Any] = []
        self.topics: set[str] = set()

    def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        return self.start, self.log.offset

    def ask_leader(self, partition: TopicPartition, ask: Any) -> Any:
        [(found, records)] = ask(self, [partition])
        assert found == partition == PARTITION
        return records

    def ask_any(self, ask: Any) -> Any:
        return ask(self)

    ask_controller = ask_any

    def partition_count(self, topic: str) -> int:
        return int(topic in self.topics)

    def wait_for_topic(self, topic: str) -> None:
        assert topic in self.topics

    def version(self, cls: type, newest: int, oldest: int = 0) -> int:
        return newest

    def ask(self, request: Any, version: int | None = None) -> Any:
        if isinstance(request, FetchRequest):
            return self._fetch(request.topics[0].partitions[0].fetch_offset)
        if isinstance(request, CreateTopicsRequest):
            self.created += request.topics
            self.topics.add(request.topics[0].name)
            return CreateTopicsResponse(topics=[CreatableTopicResult(name=BATCHES_TOPIC, error_code=0)])
        entries = [DescribeConfigsResourceResult(name="cleanup.policy", value=self.policy)]
        return DescribeConfigsResponse(results=[DescribeConfigsResult(configs=entries)])

    def _fetch(self, offset: int) -> FetchResponse:
        self.fetched += 1
        position = 0
        while position < len(self.log.records):
            header = batch.read_header(self.log.records, position)
            if header.last_offset >= offset:
                break
            position += header.size
        row = PartitionData(partition_index=0, records=bytes(self.log.records[position : position + self.most]))
        return FetchResponse(responses=[FetchableTopicResponse(topic=BATCHES_TOPIC, partitions=[row])])


def log_of(batches: int) -> Log:
    log = Log()
    for batch_id in range(batches):
        log.marker(batch_id, producer=1)
        log.end(1, is_commit=True)
    return log


def test_the_log_is_read_to_its_end_and_then_read_on() -> None:
    connection: Any = FakeConnection(log_of(20), most=600)
    found = BatchLog(connection, "q")
    first = found.last(is_fenced=True)
    assert first is not None
    assert first.batch_id == 19
    before = connection.fetched
    connection.log.marker(20, producer=1)
    connection.log.end(1, is_commit=True)
    second = found.last(is_fenced=True)
    assert second is not None
    assert (second.batch_id, connection.fetched) == (20, before + 1)


def test_a_log_without_its_first_or_last_records() -> None:
    connection: Any = FakeConnection(log_of(3))
    connection.start = 2
    connection.log.skip(7)
    found = BatchLog(connection, "q").last(is_fenced=True)
    assert found is not None
    assert found.batch_id == 2


def test_a_log_made_anew_beside_the_driver_is_refused() -> None:
    connection: Any = FakeConnection(log_of(3))
    found = BatchLog(connection, "q")
    found.last(is_fenced=True)
    connection.log = log_of(1)
    with pytest.raises(SinkRefused, match="deleted or made anew"):
        found.last(is_fenced=True)


def test_an_answer_without_a_whole_batch_is_an_error() -> None:
    connection: Any = FakeConnection(log_of(3), most=40)
    with pytest.raises(SinkFailed, match="no whole batch from offset 0 on"):
        BatchLog(connection, "q").last(is_fenced=True)


def test_the_topic_is_created_compacted() -> None:
    connection: Any = FakeConnection(Log())
    ensure_topic(connection)
    [topic] = connection.created
    configs = {one.name: one.value for one in topic.configs}
    assert (topic.name, topic.num_partitions, configs["cleanup.policy"]) == (BATCHES_TOPIC, 1, "compact")
    ensure_topic(connection)
    assert len(connection.created) == 1
    connection.policy = "delete"
    with pytest.raises(SinkRefused, match=r"Set cleanup\.policy=compact"):
        ensure_topic(connection)
