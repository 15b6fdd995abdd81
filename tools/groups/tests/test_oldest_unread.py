"""The oldest unread record: exact in every kind of batch, and fetched cheaply."""

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headgate.protocol.records import batch
from headgate.protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.groups.lag_measurement import UNKNOWN_TIMESTAMP
from headgate.tools.groups.oldest_unread import FetchPosition, find_oldest_unread, first_record
from headgate.tools.tests.model_cluster import Log, ModelCluster, opened

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
END = 100


def batch_of(*offsets_and_times: tuple[int, int], base_offset: int, last_offset: int = -1, **options: bool) -> bytes:
    """A batch as compaction leaves it: some records, and the range that it had."""
    records = [batch.Record(offset, timestamp, b"k", b"v") for offset, timestamp in offsets_and_times]
    data = batch.build(records, base_offset=base_offset, **options)
    if last_offset >= 0:
        header = batch.read_header(data)
        batch.HEADER.pack_into(data, 0, *header._replace(last_offset_delta=last_offset - base_offset))
        batch.set_crc(data)
    return bytes(data)


TEN_TO_TWELVE = batch_of((10, 1000), (11, 1100), (12, 900), base_offset=10)


@pytest.mark.parametrize("offset, timestamp", [(10, 1000), (11, 1100), (12, 900), (3, 1000)])
def test_a_record_in_the_middle_of_a_batch_is_found(offset: int, timestamp: int) -> None:
    """The record's own time, whatever the order of times; before the batch there is a gap."""
    assert first_record(TEN_TO_TWELVE, offset, END) == (timestamp, -1, False)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_record_in_a_compressed_batch_is_found(codec: int) -> None:
    data = batch.build([batch.Record(-1, 1000), batch.Record(-1, 2000)], base_offset=5, compression=codec)
    assert first_record(data, 6, END) == (2000, -1, False)


def test_log_append_time_counts() -> None:
    data = batch.build([batch.Record(-1, 1000)], base_offset=5, log_append_time_ms=7777)
    assert first_record(data, 5, END) == (7777, -1, False)


def test_records_removed_by_compaction_are_skipped() -> None:
    """Of the batch 20 to 29 the record 22 is left; the next is 30."""
    data = batch_of((22, 2200), base_offset=20, last_offset=29) + batch_of((30, 3000), base_offset=30)
    assert first_record(data, 20, END) == (2200, -1, False)
    assert first_record(data, 23, END) == (3000, -1, False)


def test_markers_and_empty_batches_are_no_records() -> None:
    marker = batch_of((20, 1), base_offset=20, is_control=True, is_transactional=True)
    empty = batch_of(base_offset=21, last_offset=25)
    assert first_record(marker + empty + batch_of((26, 2600), base_offset=26), 20, END) == (2600, -1, False)
    assert first_record(marker + empty, 20, END) == (None, 26, False), "go on behind them"
    assert first_record(marker + empty, 20, 26) == (None, -1, False), "that is all there is"


def test_records_behind_the_end_are_not_unread() -> None:
    """The end was asked for before the fetch."""
    assert first_record(batch_of((30, 3000), base_offset=30), 20, 30) == (None, -1, False)


def test_an_incomplete_batch_is_not_read() -> None:
    assert first_record(TEN_TO_TWELVE[:-1], 10, END) is None
    assert first_record(TEN_TO_TWELVE[:40], 10, END) is None
    assert first_record(b"", 10, END) is None
    assert first_record(TEN_TO_TWELVE + TEN_TO_TWELVE[:-1], 13, END) == (UNKNOWN_TIMESTAMP, -1, False), (
        "older than asked"
    )


@pytest.mark.parametrize("spoilt", [bytes(16) + b"\1", TEN_TO_TWELVE[:60] + b"\xff"], ids=["magic", "count"])
def test_an_unreadable_batch_has_no_known_time(spoilt: bytes) -> None:
    """Magic 1, or a count of records that are not there."""
    data = spoilt + TEN_TO_TWELVE[len(spoilt) :]
    assert first_record(data, 13, END) == (UNKNOWN_TIMESTAMP, -1, False)


def test_each_leader_gets_one_fetch_of_many_partitions(model: ModelCluster) -> None:
    model.topics["a"] = [Log(), Log(1)]
    model.topics["b"] = [Log()]
    for time_ms, log in enumerate((*model.topics["a"], *model.topics["b"]), 1):
        log.append(time_ms, time_ms * 10)
    with opened() as cluster:
        wanted = {FetchPosition(A0, 0): 2, FetchPosition(A1, 1): 2, FetchPosition(B0, 1): 2}
        assert find_oldest_unread(cluster, wanted) == (
            {FetchPosition(A0, 0): 1, FetchPosition(A1, 1): 20, FetchPosition(B0, 1): 30},
            {},
        )
    assert len(model.of(FetchRequest)) == 2, "one for each leader"
    assert all((one.max_wait_ms, one.session_id, one.session_epoch) == (0, 0, -1) for one in model.of(FetchRequest))


def test_large_batches_are_asked_for_alone(model: ModelCluster) -> None:
    """Of three partitions with a batch of 50 KB each the first comes at once, the others one by one."""
    model.topics["a"] = [Log(), Log(), Log(), Log()]
    for number, log in enumerate(model.topics["a"]):
        log.append(1000 + number, size=50_000 if number < 3 else 10)
    positions = {FetchPosition(TopicPartition("a", number), 0): 1 for number in range(4)}
    with opened() as cluster:
        found, failed = find_oldest_unread(cluster, positions)
    assert [found[position] for position in positions] == [1000, 1001, 1002, 1003]
    assert not failed
    assert [len(one.topics[0].partitions) for one in model.of(FetchRequest)] == [4, 1, 1]


def test_hundreds_of_partitions_are_asked_in_parts(model: ModelCluster) -> None:
    model.topics["a"] = [Log() for _ in range(250)]
    for log in model.topics["a"]:
        log.append(5)
    positions = {FetchPosition(TopicPartition("a", number), 0): 1 for number in range(250)}
    with opened() as cluster:
        assert find_oldest_unread(cluster, positions) == (dict.fromkeys(positions, 5), {})
    assert [len(one.topics[0].partitions) for one in model.of(FetchRequest)] == [100, 100, 50]


def test_several_offsets_of_a_partition_are_searched(model: ModelCluster) -> None:
    model.topics["a"] = [Log()]
    model.topics["a"][0].append(1, 2, 3)
    wanted = {FetchPosition(A0, offset): 3 for offset in (2, 0, 1)}
    with opened() as cluster:
        assert find_oldest_unread(cluster, wanted)[0] == {
            FetchPosition(A0, 0): 1,
            FetchPosition(A0, 1): 2,
            FetchPosition(A0, 2): 3,
        }
    assert all(len(one.topics[0].partitions) == 1 for one in model.of(FetchRequest))


def test_a_long_run_of_markers_is_passed_in_steps(model: ModelCluster) -> None:
    log = Log()
    for _ in range(500):
        log.append(1, is_control=True)
    log.append(77)
    model.topics["a"] = [log]
    with opened() as cluster:
        assert find_oldest_unread(cluster, {FetchPosition(A0, 0): log.end})[0] == {FetchPosition(A0, 0): 77}
        assert find_oldest_unread(cluster, {FetchPosition(A0, 0): 500})[0] == {FetchPosition(A0, 0): None}
    offsets = [one.topics[0].partitions[0].fetch_offset for one in model.of(FetchRequest)]
    assert offsets[0] == 0
    assert 2 < len(offsets) < 20, "a step takes many"


def test_a_gap_at_the_end_has_no_record(model: ModelCluster) -> None:
    """The end is beyond the last record: a gap at the end."""
    model.topics["a"] = [Log(end=5)]
    with opened() as cluster:
        assert find_oldest_unread(cluster, {FetchPosition(A0, 2): 5}) == ({FetchPosition(A0, 2): None}, {})


def test_a_record_deleted_meanwhile_has_no_known_time(model: ModelCluster) -> None:
    model.topics["a"] = [Log(start=3, end=5)]
    with opened() as cluster:
        assert find_oldest_unread(cluster, {FetchPosition(A0, 2): 5})[0] == {FetchPosition(A0, 2): UNKNOWN_TIMESTAMP}


@pytest.mark.parametrize("newest, expected", [(3, UNKNOWN_TIMESTAMP), (4, 7), (12, 7), (18, 7)])
def test_brokers_without_record_batches_have_no_times(model: ModelCluster, newest: int, expected: int) -> None:
    model.served[FetchRequest] = (0, newest)
    model.topics["a"] = [Log()]
    model.topics["a"][0].append(7)
    with opened() as cluster:
        assert find_oldest_unread(cluster, {FetchPosition(A0, 0): 1}) == ({FetchPosition(A0, 0): expected}, {})


def test_an_error_of_a_partition_is_a_failure(model: ModelCluster) -> None:
    model.topics["a"] = [Log(end=1)]
    rows = [PartitionData(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, records=b"")]
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="a", partitions=rows)])
    model.disturb = lambda node, request, version: answer if isinstance(request, FetchRequest) else None
    with opened() as cluster:
        found, failed = find_oldest_unread(cluster, {FetchPosition(A0, 0): 1})
    assert not found
    assert failed[FetchPosition(A0, 0)].text == "Topic authorization failed (TOPIC_AUTHORIZATION_FAILED)"
