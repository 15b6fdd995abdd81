"""Batches whose headers claim another maximum timestamp than their records have: what a producer may rely on.

The right values are those of Apache Kafka 3.9 and 4.1: the records of ten batches of a hundred, one each millisecond,
are found at their offsets (450 and 999) whatever the headers claim.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lz4.frame
import pytest

from headgate.gateway.api.context import CloseConnection
from headgate.gateway.tests.builders import NOW_MS, HandlerBroker, parked
from headgate.gateway.tests.requests import produce_request
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.records.batch import Record, build, read_header, set_max_timestamp, split, with_records
from headgate.protocol.records.compression import LZ4
from headgate.storage.cleanup.compaction.compaction_job import assess
from headgate.storage.log import flushing, rolling

NEWEST = -3
HOUR_MS = 3_600_000
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "recompressed": {"compression.type": "zstd"},
}


def claimed(claim: int, *times: int, **options: Any) -> bytearray:
    """A batch that claims a maximum timestamp."""
    made = build([Record(timestamp=time, key=b"k%d" % time, value=b"v") for time in times], **options)
    set_max_timestamp(made, claim)
    return made


def produce(node: HandlerBroker, data: bytes | bytearray, version: int = 9, acks: int = -1) -> Any:
    """The row of the answer."""
    response = node.ask(produce_request(bytearray(data), acks=acks, timeout_ms=1_500), version)
    return response.responses[0].partition_responses[0]


def find(node: HandlerBroker, timestamp: int) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsTopic(name="t", partitions=[partition])
    offset: int = node.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7).topics[0].partitions[0].offset
    return offset


def maxima(node: HandlerBroker) -> list[int]:
    """The maximum timestamps of the stored batches."""
    piece = node.services.partitions.get("t", 0).read(0, 1 << 20, 0, at_least_one=True)
    assert piece is not None
    return [header.max_timestamp for header, _ in split(piece.read())]


@pytest.mark.parametrize("codec", [0, LZ4])
@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("claim", ["-1", "base", "too late"])
def test_records_are_found_by_time_whatever_the_header_claims(
    node: HandlerBroker, claim: str, topic: str, codec: int
) -> None:
    node.services.metadata.create_topic("t", 1, configs=TOPICS[topic])
    for first in range(NOW_MS, NOW_MS + 1_000, 100):
        header = {"-1": -1, "base": first, "too late": NOW_MS + 2 * HOUR_MS}[claim]
        row = produce(node, claimed(header, *range(first, first + 100), compression=codec))
        assert (row.error_code, row.base_offset) == (ErrorCode.NONE, first - NOW_MS)
    assert find(node, NOW_MS + 450) == 450
    assert find(node, NOW_MS + 950) == 950
    assert find(node, NOW_MS + 1_000) == -1
    assert find(node, NEWEST) == 999
    if claim != "base" or topic != "plain":  # there the default cannot see it
        assert maxima(node) == [NOW_MS + number * 100 + 99 for number in range(10)]


def test_full_validation_stores_the_maximum_of_the_records(tmp_path: Path) -> None:
    node = HandlerBroker(tmp_path, headgate_validate_records="full")
    node.services.metadata.create_topic("t", 1)
    for claim in (-1, NOW_MS, NOW_MS + 5, NOW_MS + 7, NOW_MS + 9, NOW_MS + 2 * HOUR_MS):
        assert produce(node, claimed(claim, NOW_MS, NOW_MS + 7, NOW_MS + 1)).error_code == ErrorCode.NONE
    assert maxima(node) == [NOW_MS + 7] * 6
    node.close()


@pytest.mark.parametrize("version", [7, 12])
@pytest.mark.parametrize("topic", TOPICS)
def test_a_producer_outlives_the_next_sweep_and_is_not_doubled(node: HandlerBroker, topic: str, version: int) -> None:
    node.services.metadata.create_topic("t", 1, configs=TOPICS[topic])
    data = claimed(-1, NOW_MS, NOW_MS + 1, producer_id=5, producer_epoch=0, base_sequence=0)
    assert produce(node, data, version).base_offset == 0
    log = node.services.partitions.get("t", 0).log
    assert log.producers.by_id[5].last_timestamp == NOW_MS + 1
    assert log.producers.expire(NOW_MS + HOUR_MS) == 0
    row = produce(node, data, version)
    assert (row.error_code, row.base_offset, log.end_offset) == (ErrorCode.NONE, 0, 2)


def test_young_values_are_not_compacted_whatever_the_header_claims(node: HandlerBroker) -> None:
    configs = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(HOUR_MS)}
    node.services.metadata.create_topic("t", 1, configs=configs)
    produce(node, claimed(-1, NOW_MS, NOW_MS))
    log = node.services.partitions.get("t", 0).log
    rolling.roll(log, NOW_MS)
    flushing.flush(log)
    assert log.segments[0].max_timestamp == NOW_MS
    assert assess(log, NOW_MS + HOUR_MS - 1, log.end_offset).dirty_bytes == 0
    assert assess(log, NOW_MS + HOUR_MS, log.end_offset).dirty_bytes > 0


@pytest.mark.parametrize("topic", TOPICS)
def test_a_record_ten_days_ahead_is_refused_by_its_number(node: HandlerBroker, topic: str) -> None:
    node.services.metadata.create_topic("t", 1, configs=TOPICS[topic])
    row = produce(node, claimed(-1, NOW_MS, NOW_MS + 240 * HOUR_MS, NOW_MS + 1))
    assert (row.error_code, row.base_offset) == (ErrorCode.INVALID_TIMESTAMP, -1)
    assert [error.batch_index for error in row.record_errors] == [1]
    assert find(node, -1) == 0


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_records_of_a_doubtful_header_are_read_by_a_thread(node: HandlerBroker, acks: int, is_slow: bool) -> None:
    node.services.metadata.create_topic("t", 1)
    node.services.partitions.get("t", 0).disk.is_slow = is_slow
    thread = node.time.scheduler.hold_slices()
    data = claimed(-1, NOW_MS, NOW_MS + 7, compression=LZ4)
    replies = parked(node, node.handle(produce_request(data, acks=acks, timeout_ms=1_500), 9))
    node.time.advance()
    assert not replies, "and later requests of the connection wait, so that none is appended before"
    data[:] = bytes(len(data))  # the connection reuses its buffer
    thread.run_one()
    node.time.advance()
    assert replies
    assert not isinstance(replies[0], CloseConnection)
    assert maxima(node) == [NOW_MS + 7]


@pytest.mark.parametrize("version", [7, 9])
@pytest.mark.parametrize("topic", TOPICS)
def test_linked_blocks_of_lz4_are_refused(node: HandlerBroker, topic: str, version: int) -> None:
    """Apache Kafka 3.9 and 4.1 answer UNKNOWN_SERVER_ERROR: its consumers stop at such a batch."""
    node.services.metadata.create_topic("t", 1, configs=TOPICS[topic])
    sound = build([Record(timestamp=NOW_MS, key=b"k", value=bytes(200_000))])
    header = read_header(sound)._replace(attributes=LZ4)
    for is_linked, code in ((True, ErrorCode.INVALID_RECORD), (False, ErrorCode.NONE)):
        content = lz4.frame.compress(sound[61:], block_linked=is_linked)
        row = produce(node, with_records(header, content), version)
        assert row.error_code == code
        if is_linked and version > 7:
            assert "its blocks depend on each other" in row.error_message
