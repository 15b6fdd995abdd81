"""The oldest unread record is fetched cheaply."""

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.lag.measurement import UNKNOWN_TIMESTAMP
from headgate.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.groups.oldest_unread import FetchPosition, find_oldest_unread
from headgate.tools.tests.model_cluster import Log, ModelCluster, opened

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


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
