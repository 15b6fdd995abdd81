"""What clients see of the transactions in a log: Fetch, ListOffsets, DescribeProducers.

Markers come from a coordinator: here they are appended as one would.
"""

from typing import Any

import pytest

from headgate.gateway.replication.append import ACKS_ALL
from headgate.gateway.replication.replica import READ_COMMITTED, READ_UNCOMMITTED, Replica
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import HandlerBroker, over_the_wire, parked
from headgate.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.records import control
from headgate.protocol.records.batch import Record, build, split
from headgate.protocol.records.control import Marker
from headgate.storage.files import File
from headgate.storage.log import appending, rolling
from headgate.storage.log.validation import BROKER
from headgate.storage.segment.file_slice import FileSlice
from headgate.storage.segment.transaction_index import TransactionIndex

NOW_MS = 1_700_000_000_000
VERSIONS = range(4, 19)


def partition_of(node: HandlerBroker) -> Replica:
    if "t" not in node.services.metadata.image.topics:
        node.services.metadata.create_topic("t", 1)
    return node.services.partitions.get("t", 0)


def write(node: HandlerBroker, producer_id: int, sequence: int, count: int = 1) -> None:
    """Records of a transaction."""
    data = build(
        [Record(timestamp=NOW_MS + sequence, value=b"x")] * count,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )
    partition_of(node).append(memoryview(data), ACKS_ALL, NOW_MS, BROKER)


def end(node: HandlerBroker, producer_id: int, is_commit: bool) -> None:
    made = control.build(Marker(is_commit, 3), producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS + 100)
    partition_of(node).append(memoryview(made), ACKS_ALL, NOW_MS, BROKER)


def fetch(
    version: int, offset: int, *, level: int = READ_COMMITTED, topic_id: bytes = bytes(16), **options: Any
) -> Any:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="t", topic_id=topic_id, partitions=[wanted])
    limits = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **options}
    return FetchRequest(**limits, isolation_level=level, topics=[topic])


def row_of(node: HandlerBroker, version: int, offset: int, **options: Any) -> Any:
    topic_id = node.services.metadata.image.topics["t"].topic_id if version >= 13 else bytes(16)
    response = node.handle(fetch(version, offset, topic_id=topic_id, **options), version)
    assert not is_task(response)
    (row,) = response.responses[0].partitions  # type: ignore[union-attr]
    if isinstance(row.records, FileSlice):
        row.records = row.records.read()
    again = over_the_wire(response, version).responses[0].partitions[0]  # type: ignore[arg-type]
    assert again.aborted_transactions == row.aborted_transactions
    return row


def aborted(row: Any) -> list[tuple[int, int]]:
    return [(one.producer_id, one.first_offset) for one in row.aborted_transactions]


@pytest.mark.parametrize("version", VERSIONS)
def test_read_committed_stops_at_the_first_open_transaction(node: HandlerBroker, version: int) -> None:
    write(node, 7, 0, 2)
    write(node, 8, 0)
    end(node, 7, is_commit=False)
    row = row_of(node, version, 0)
    assert (row.high_watermark, row.last_stable_offset, aborted(row)) == (4, 2, [(7, 0)])
    batch = build([Record(timestamp=NOW_MS, value=b"x")] * 2)
    assert len(row.records) == len(batch)
    assert aborted(row_of(node, version, 2)) == []
    end(node, 8, is_commit=True)
    row = row_of(node, version, 1)
    assert (row.last_stable_offset, aborted(row)) == (5, [(7, 0)])
    everything = row_of(node, version, 0, level=READ_UNCOMMITTED)
    assert (aborted(everything), everything.last_stable_offset) == ([], 5)


def test_only_what_concerns_the_bytes_that_are_sent_is_told(node: HandlerBroker) -> None:
    """Within what the sparse index tells."""
    replica = partition_of(node)
    for number in range(300):
        write(node, 7, number)
        end(node, 7, is_commit=number % 2 == 0)
    first = row_of(node, 12, 0, max_bytes=1)
    assert split_offsets(first) == [0]
    assert 0 < len(aborted(first)) < 20
    whole = row_of(node, 12, 0)
    assert len(aborted(whole)) == 150
    assert aborted(whole)[:3] == [(7, 2), (7, 6), (7, 10)]
    assert replica.last_stable_offset == 600
    rolling.roll(replica.log, NOW_MS)
    write(node, 7, 300)
    assert aborted(row_of(node, 12, 590)) == [(7, 590), (7, 594), (7, 598)]
    assert aborted(row_of(node, 12, 600)) == []


def split_offsets(row: Any) -> list[int]:
    """The base offsets of the batches of a row."""
    return [header.base_offset for header, _ in split(row.records)]


def test_a_waiting_reader_is_woken_by_the_marker(node: HandlerBroker) -> None:
    write(node, 7, 0)
    replies = parked(node, node.handle(fetch(12, 0, max_wait_ms=500), 12))
    write(node, 7, 1)
    node.time.advance()
    assert replies == []
    end(node, 7, is_commit=True)
    node.time.advance()
    (response,) = replies
    row = response.responses[0].partitions[0]
    piece, row.records = row.records, row.records.read()
    piece.release()
    assert split_offsets(row) == [0, 1, 2]


def test_a_log_without_transactions_is_not_asked_for_them(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    partition_of(node).append(memoryview(build([Record(value=b"x")])), 1, NOW_MS)
    monkeypatch.setattr(Replica, "aborted", None)
    assert aborted(row_of(node, 12, 0)) == []


def test_a_marker_above_the_high_watermark_decides_nothing_yet(node: HandlerBroker) -> None:
    replica = partition_of(node)
    write(node, 7, 0)
    replica.high_watermark = 1
    end(node, 7, is_commit=True)
    assert (replica.high_watermark, replica.last_stable_offset) == (2, 2), "with one replica it is there at once"
    write(node, 7, 1)
    made = control.build(Marker(True, 3), producer_id=7, producer_epoch=0, timestamp=NOW_MS)
    appending.append(replica.log, made, leader_epoch=0, now_ms=NOW_MS, origin=BROKER)
    assert replica.last_stable_offset == 2
    replica.high_watermark = 3
    assert replica.last_stable_offset == 2, "the marker at offset 3 is not on every replica"
    replica.advance_high_watermark()
    assert replica.last_stable_offset == 4


def test_how_far_a_poll_reaches_is_not_looked_up_twice(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the loop could wait for the page in which a long transaction begins."""
    write(node, 7, 0)
    end(node, 7, is_commit=True)
    write(node, 7, 1)
    poll = fetch(12, 0, max_wait_ms=500, min_bytes=1 << 19)
    assert is_task(node.handle(poll, 12)), "it has all that there is before the open transaction"
    for read in ("read_at", "read_cached"):
        monkeypatch.setattr(File, read, lambda *_: pytest.fail("it was known"))
    assert is_task(node.handle(poll, 12))


def test_an_impatient_reader_waits_for_the_index_with_the_rest(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(node, 7, 0)
    end(node, 7, is_commit=False)
    replica = partition_of(node)
    rolling.roll(replica.log, NOW_MS)
    replica.log.close_files()
    read_cached, brought = File.read_cached, list[int]()

    def without_the_index(file: File, length: int, position: int) -> bytes | bytearray | None:
        return None if length == TransactionIndex.ENTRY.size and not brought else read_cached(file, length, position)

    monkeypatch.setattr(File, "read_cached", without_the_index)
    monkeypatch.setattr(File, "warm", lambda _, length, __: brought.append(length))
    threads = node.time.scheduler.hold()
    replies = parked(node, node.handle(fetch(12, 0), 12))
    assert len(threads.waiting) == 1
    threads.run_one()
    assert brought == [TransactionIndex.ENTRY.size]
    (response,) = replies
    row = response.responses[0].partitions[0]
    assert aborted(row) == [(7, 0)]
    row.records.release()


@pytest.mark.parametrize("version", range(2, 12))
def test_the_latest_offset_of_what_is_committed(node: HandlerBroker, version: int) -> None:
    write(node, 7, 0, 2)
    end(node, 7, is_commit=True)
    write(node, 7, 2)
    assert find(node, version, -1, READ_UNCOMMITTED) == (4, -1)
    assert find(node, version, -1, READ_COMMITTED) == (3, -1)
    assert find(node, version, NOW_MS + 2, READ_UNCOMMITTED) == (2, NOW_MS + 100), "the marker, as in Kafka"
    end(node, 7, is_commit=False)
    assert find(node, version, -1, READ_COMMITTED) == (5, -1)


def test_a_time_behind_the_stable_offset_is_not_found(node: HandlerBroker) -> None:
    write(node, 7, 0)
    write(node, 8, 5)
    end(node, 7, is_commit=True)
    assert find(node, 7, NOW_MS + 5, READ_UNCOMMITTED) == (1, NOW_MS + 5)
    assert find(node, 7, NOW_MS + 5, READ_COMMITTED) == (-1, -1)
    assert find(node, 7, -3, READ_COMMITTED) == (-1, -1)
    assert find(node, 7, NOW_MS, READ_COMMITTED) == (0, NOW_MS)


def find(node: HandlerBroker, version: int, timestamp: int, level: int) -> tuple[int, int]:
    partition_of(node)
    topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    response = node.ask(ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=[topic]), version)
    row = response.topics[0].partitions[0]
    return row.offset, row.timestamp


def test_open_transactions_are_described(node: HandlerBroker) -> None:
    write(node, 7, 0)
    end(node, 7, is_commit=True)
    write(node, 7, 1)
    write(node, 8, 0)
    node.restart()
    (topic,) = node.ask(DescribeProducersRequest([TopicRequest("t", [0])]), 0).topics
    known = {
        row.producer_id: (row.coordinator_epoch, row.last_sequence, row.current_txn_start_offset)
        for row in topic.partitions[0].active_producers
    }
    assert known == {7: (3, 1, 2), 8: (-1, 0, 3)}
    assert partition_of(node).last_stable_offset == 2
