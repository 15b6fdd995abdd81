"""The follower's fetcher: the requests, and the work that each kind of answer brings."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest

from headgate.gateway.replication.fetching import fetcher as machine
from headgate.gateway.replication.fetching.fetcher import (
    FIRST_DELAY_MS,
    GRACE_MS,
    AppendRecords,
    FetchState,
    FollowedPartition,
    FollowerWork,
    ReplicaFetcher,
    RestartAt,
    SyncRecords,
    Truncate,
    common_end,
    progress,
)
from headgate.gateway.replication.fetching.tests.replicated_partitions import Batch, ModelLog, Settings
from headgate.protocol.client.fetch_session import FetchKey
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headgate.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

TOPIC_ID = b"i" * 16
KEYS = [FetchKey("t", TOPIC_ID, index) for index in range(3)]


def log_of(*epochs: int, high_watermark: int = 0, fsyncs: bool = False) -> ModelLog:
    """A log with a record for each epoch."""
    log = ModelLog(fsyncs=fsyncs)
    for offset, epoch in enumerate(epochs):
        log.add(Batch(offset, offset, epoch, ((offset, 0),)))
    log.high_watermark = high_watermark
    return log


class Bench:
    """A fetcher, and the answers of a leader."""

    def __init__(self, *logs: ModelLog, epoch: int = 5) -> None:
        self.now_ms = 1000.0
        self.settings = Settings()
        self.fetcher = ReplicaFetcher(2, self.settings, lambda: 77)
        self.partitions = [FollowedPartition(key, log) for key, log in zip(KEYS, logs, strict=False)]
        self.first_works = [self.fetcher.follow(partition, epoch) for partition in self.partitions]
        self.resumed: list[FollowerWork] = []
        """The work that came before the last question."""

    def question(self) -> FetchRequest | ListOffsetsRequest | None:
        self.resumed = list(self.fetcher.resume(self.now_ms))
        question = self.fetcher.next_question(self.now_ms)
        return None if question is None else question.message

    def fetch(self) -> FetchRequest:
        message = self.question()
        assert isinstance(message, FetchRequest)
        return message

    def rows(self) -> list[FetchPartition]:
        return [row for topic in self.fetch().topics for row in topic.partitions]

    def take(self, *rows: PartitionData, session_id: int = 9, error: ErrorCode = ErrorCode.NONE) -> list[FollowerWork]:
        topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(rows))]
        answer = FetchResponse(session_id=session_id, responses=topics, error_code=error)
        return list(self.fetcher.take(answer, self.now_ms))

    def take_offset(self, offset: int, error: ErrorCode = ErrorCode.NONE) -> list[FollowerWork]:
        row = ListOffsetsPartitionResponse(partition_index=0, offset=offset, error_code=error)
        topics = [ListOffsetsTopicResponse(name="t", partitions=[row])]
        return list(self.fetcher.take(ListOffsetsResponse(topics=topics), self.now_ms))


def row_of(index: int = 0, error: ErrorCode = ErrorCode.NONE, **fields: object) -> PartitionData:
    return PartitionData(partition_index=index, error_code=error, **fields)  # type: ignore[arg-type]


def kinds(works: Iterable[FollowerWork | None]) -> list[tuple[object, ...]]:
    """The type of each work, which the equality of tuples leaves out, and its offset."""
    return [(type(work), *work[1:]) for work in works if work is not None]


RECORDS = Batch(2, 2, 3, ((2, 0),)).encode()


def test_a_fetch_has_the_position_and_the_epochs() -> None:
    bench = Bench(log_of(1, 3, high_watermark=1), epoch=4)
    request = bench.fetch()
    (row,) = request.topics[0].partitions
    assert (row.fetch_offset, row.last_fetched_epoch, row.current_leader_epoch, row.log_start_offset) == (2, 3, 4, 0)
    assert (request.replica_id, request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 2, 77)
    assert (row.partition_max_bytes, request.max_bytes, request.max_wait_ms, request.min_bytes) == (60, 100, 500, 1)


def test_topics_without_an_id_are_fetched_by_name() -> None:
    fetcher = ReplicaFetcher(2, Settings(), lambda: -1)
    fetcher.follow(FollowedPartition(KEYS[0], ModelLog()), 1)
    unnamed = FollowedPartition(FetchKey("old", bytes(16), 0), ModelLog())
    fetcher.follow(unnamed, 1)
    question = fetcher.next_question(0.0)
    assert question is not None
    assert question.version == 12
    fetcher.unfollow(unnamed)
    fetcher.lost(0.0)
    again = fetcher.next_question(1000.0)
    assert again is not None
    assert again.version is None


def test_one_request_is_in_flight() -> None:
    bench = Bench(ModelLog())
    bench.fetch()
    assert bench.question() is None


def test_records_are_appended_then_the_next_ones_asked_for() -> None:
    bench = Bench(log_of(1, 3), ModelLog())
    bench.fetch()
    works = bench.take(row_of(0, records=RECORDS, high_watermark=3, log_start_offset=0), row_of(1, high_watermark=0))
    assert [type(work) for work in works] == [AppendRecords, AppendRecords]
    assert bench.partitions[0].state is FetchState.WORKING
    bench.partitions[0].log.append_as_follower(RECORDS)  # type: ignore[attr-defined]
    bench.partitions[0].end_work(bench.now_ms)
    assert [row.fetch_offset for row in bench.rows()] == [3], "the other one has not changed"


def test_a_partition_that_works_is_waited_for_in_the_grace() -> None:
    bench = Bench(log_of(1, 3), ModelLog())
    bench.fetch()
    bench.take(row_of(records=RECORDS))
    assert bench.question() is None
    assert bench.fetcher.wake_ms(bench.now_ms) == bench.now_ms + GRACE_MS
    bench.now_ms += GRACE_MS
    request = bench.fetch()
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]
    assert (request.max_wait_ms, request.max_bytes) == (GRACE_MS, 100 - len(RECORDS))


def test_an_error_delays_only_its_partition() -> None:
    bench = Bench(ModelLog(), ModelLog())
    bench.fetch()
    assert not bench.take(row_of(0, ErrorCode.UNKNOWN_LEADER_EPOCH))
    request = bench.fetch()
    assert request.forgotten_topics_data[0].partitions == [0]
    assert request.max_wait_ms == FIRST_DELAY_MS, "the fetch ends when the partition is due"
    bench.take()
    bench.now_ms += FIRST_DELAY_MS
    assert [row.partition for row in bench.rows()] == [0]


def test_delays_double_up_to_the_setting() -> None:
    bench = Bench(ModelLog())
    waits = []
    for _ in range(4):
        bench.fetch()
        bench.take(row_of(0, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert bench.question() is None
        waits.append(bench.fetcher.wake_ms(bench.now_ms) - bench.now_ms)
        bench.now_ms += waits[-1]
    assert waits == [50, 100, 200, 200]


def test_a_late_leader_gets_one_line_for_all_partitions(caplog: pytest.LogCaptureFixture) -> None:
    """None in the first moments, in which the leader has no order yet."""
    bench = Bench(ModelLog(), ModelLog())
    lines = []
    for _ in range(5):
        bench.fetch()
        bench.take(*(row_of(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in range(2)))
        lines.append(len(caplog.records))
        bench.now_ms += bench.fetcher.wake_ms(bench.now_ms) - bench.now_ms
    assert lines == [0, 0, 1, 1, 1]
    assert caplog.messages == ["a leader still refuses fetches of 2 partitions, such as t-0: UNKNOWN_TOPIC_ID"]


def test_a_failed_append_is_logged_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(log_of(1, 3))
    for _ in range(2):
        bench.fetch()
        (work,) = bench.take(row_of(records=RECORDS))
        work.partition.end_work(bench.now_ms, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full"))
        assert work.partition.state is FetchState.DELAYED
        bench.now_ms += 200
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "t-0 cannot be replicated for now" in caplog.text


def test_an_answer_without_a_whole_batch_is_an_error() -> None:
    bench = Bench(log_of(1, 3))
    bench.fetch()
    (work,) = bench.take(row_of(records=RECORDS[:5]))
    work.partition.end_work(bench.now_ms)
    assert work.partition.state is FetchState.DELAYED


def test_a_fenced_partition_waits_for_a_newer_order() -> None:
    bench = Bench(ModelLog())
    bench.fetch()
    bench.take(row_of(0, ErrorCode.FENCED_LEADER_EPOCH))
    bench.now_ms += 100_000
    assert bench.question() is None
    bench.fetcher.follow(bench.partitions[0], 6)
    assert [row.current_leader_epoch for row in bench.rows()] == [6]


def test_an_answer_to_an_older_order_does_not_count() -> None:
    bench = Bench(log_of(1, 3))
    bench.fetch()
    bench.fetcher.follow(bench.partitions[0], 6)
    assert not bench.take(row_of(records=RECORDS))
    assert [row.current_leader_epoch for row in bench.rows()] == [6]


def test_a_new_order_waits_for_the_work_of_the_old_one() -> None:
    bench, other = Bench(log_of(1, 3)), ReplicaFetcher(2, Settings(), lambda: -1)
    bench.fetch()
    (work,) = bench.take(row_of(diverging_epoch=EpochEndOffset(epoch=1, end_offset=1)))
    assert kinds([work]) == [(Truncate, 1)]
    bench.fetcher.unfollow(work.partition)
    assert other.follow(work.partition, 6) is None
    assert other.next_question(0.0) is None
    work.partition.log.truncate(1)  # type: ignore[attr-defined]
    assert work.partition.end_work(0.0) is None
    question = other.next_question(0.0)
    assert question is not None
    assert isinstance(question.message, FetchRequest)
    assert question.message.topics[0].partitions[0].fetch_offset == 1


def test_a_partition_that_is_left_works_to_its_end() -> None:
    bench = Bench(log_of(1, 3))
    bench.fetch()
    (work,) = bench.take(row_of(records=RECORDS))
    bench.fetcher.unfollow(work.partition)
    states = [work.partition.state]
    assert work.partition.end_work(0.0) is None
    assert [*states, work.partition.state] == [FetchState.WORKING, FetchState.STOPPED]
    assert not len(bench.fetcher)


@pytest.mark.parametrize(
    "epochs, epoch, end_offset, cut",
    [
        ((1, 1, 3), 1, 1, 1),  # the leader has less of a common epoch
        ((1, 1, 3), 1, 9, 2),  # the follower has less of it
        ((1, 1, 4, 4), 3, 9, 2),  # the leader has an epoch between: ask about the one before
        ((4, 4), 3, 1, 0),  # no common epoch
    ],
)
def test_the_log_is_cut_where_histories_part(epochs: tuple[int, ...], epoch: int, end_offset: int, cut: int) -> None:
    assert common_end(log_of(*epochs), epoch, end_offset) == cut


def test_a_cut_below_the_start_restarts_the_log() -> None:
    log = log_of(1, 1, 3)
    log.start_offset = 2
    bench = Bench(log)
    bench.fetch()
    works = bench.take(row_of(diverging_epoch=EpochEndOffset(epoch=1, end_offset=1)))
    assert kinds(works) == [(RestartAt, 1)]


def test_a_divergence_without_a_record_is_an_error() -> None:
    bench = Bench(log_of(1, 1))
    bench.fetch()
    assert not bench.take(row_of(diverging_epoch=EpochEndOffset(epoch=1, end_offset=9)))
    assert bench.partitions[0].state is FetchState.DELAYED


def test_a_log_without_epochs_is_cut_to_its_watermark() -> None:
    log = log_of(-1, -1, high_watermark=1)
    bench = Bench(log)
    assert kinds(bench.first_works) == [(Truncate, 1)]
    assert bench.question() is None
    log.truncate(1)
    assert bench.partitions[0].end_work(bench.now_ms) is None
    assert [row.fetch_offset for row in bench.rows()] == [1]


def test_a_new_order_cuts_a_log_without_epochs_again() -> None:
    log = ModelLog()
    bench = Bench(log)
    bench.fetch()
    (work,) = bench.take(row_of(records=Batch(0, 0, -1, ((0, 0),)).encode()))
    bench.fetcher.follow(work.partition, 6)
    log.add(Batch(0, 0, -1, ((0, 0),)))
    assert kinds([work.partition.end_work(bench.now_ms)]) == [(Truncate, 0)]


def test_unsynced_records_are_not_claimed() -> None:
    log = log_of(1, 1, fsyncs=True)
    bench = Bench(log)
    assert kinds(bench.first_works) == [(SyncRecords,)]
    assert bench.question() is None
    log.synced_end = 2
    bench.partitions[0].end_work(bench.now_ms)
    assert [row.fetch_offset for row in bench.rows()] == [2]


def test_a_failed_sync_comes_before_the_next_fetch() -> None:
    log = log_of(1, 1, fsyncs=True)
    bench = Bench(log)
    for _ in range(2):
        bench.partitions[0].end_work(bench.now_ms, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the sync failed"))
        bench.now_ms += 200
        assert bench.question() is None, "the leader would take the position for acknowledged"
        assert kinds(bench.resumed) == [(SyncRecords,)]
    log.synced_end = 2
    bench.partitions[0].end_work(bench.now_ms)
    assert [row.fetch_offset for row in bench.rows()] == [2]


def out_of_range(log: ModelLog) -> Bench:
    bench = Bench(log)
    bench.fetch()
    assert not bench.take(row_of(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    return bench


def asked_timestamp(bench: Bench) -> int:
    message = bench.question()
    assert isinstance(message, ListOffsetsRequest)
    (row,) = message.topics[0].partitions
    assert (message.replica_id, row.current_leader_epoch) == (2, 5)
    return row.timestamp


def test_a_log_behind_the_leaders_start_begins_there() -> None:
    bench = out_of_range(log_of(1, 1))
    assert asked_timestamp(bench) == -2
    assert kinds(bench.take_offset(3)) == [(RestartAt, 3)]


def test_a_log_ahead_of_the_leaders_end_is_cut_there() -> None:
    bench = out_of_range(log_of(1, 1, 1))
    assert asked_timestamp(bench) == -2
    assert not bench.take_offset(0)
    assert asked_timestamp(bench) == -1
    assert kinds(bench.take_offset(2)) == [(Truncate, 2)]


def test_a_log_that_is_in_range_by_now_is_fetched_later() -> None:
    bench = out_of_range(log_of(1, 1))
    asked_timestamp(bench)
    bench.take_offset(0)
    asked_timestamp(bench)
    assert not bench.take_offset(7)
    assert bench.partitions[0].state is FetchState.DELAYED


def test_a_lookup_is_refused_as_a_fetch() -> None:
    bench = out_of_range(log_of(1, 1))
    asked_timestamp(bench)
    bench.take_offset(-1, ErrorCode.FENCED_LEADER_EPOCH)
    assert bench.partitions[0].state is FetchState.FENCED


def test_a_lookup_without_an_answer_is_an_error() -> None:
    bench = out_of_range(log_of(1, 1))
    asked_timestamp(bench)
    assert not list(bench.fetcher.take(ListOffsetsResponse(), bench.now_ms))
    assert bench.partitions[0].state is FetchState.DELAYED


def test_a_lookup_of_an_older_order_does_not_count() -> None:
    bench = out_of_range(log_of(1, 1))
    asked_timestamp(bench)
    bench.fetcher.follow(bench.partitions[0], 6)
    assert not bench.take_offset(3)
    assert bench.partitions[0].state is FetchState.FETCHING


def test_the_watermark_and_the_start_never_go_back() -> None:
    log = log_of(1, 1, 1, 1, high_watermark=2)
    partition = FollowedPartition(KEYS[0], log)
    assert progress(log, AppendRecords(partition, None, 1, 0)) == (2, 0)
    assert progress(log, AppendRecords(partition, None, 9, 3)) == (4, 3)
    assert progress(log, AppendRecords(partition, None, 3, 9)) == (3, 3), "the start is not above the high watermark"


def test_a_moved_start_is_told_to_the_leader() -> None:
    log = log_of(1, 1, 1)
    bench = Bench(log)
    bench.fetch()
    bench.take(row_of(high_watermark=3))
    log.start_offset = 2
    bench.fetcher.renew(bench.partitions[0])
    assert [row.log_start_offset for row in bench.rows()] == [2]


def test_a_log_that_refuses_records_leaves_the_fetches() -> None:
    log = log_of(1, 1, fsyncs=True)
    log.synced_end = 2
    bench = Bench(log, ModelLog())
    bench.fetch()
    log.synced_end = 1  # a sync has failed, and the disk may have less
    works = [bench.fetcher.renew(bench.partitions[0]) for _ in range(2)]
    assert kinds(works) == [(SyncRecords,)], "the second time, the sync is under way"
    bench.take(row_of(1))
    bench.now_ms += 60  # a fetch waits so long for partitions that work
    (forgotten,) = bench.fetch().forgotten_topics_data
    assert forgotten.partitions == [0], "the leader would take the broker back into the set"


def test_the_lag_is_the_leaders_watermark_beyond_the_log() -> None:
    bench = Bench(log_of(1, 1))
    bench.fetch()
    bench.take(row_of(high_watermark=7))
    assert bench.partitions[0].lag == 5


def test_many_partitions_join_a_session_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_ADDED", 2)
    bench = Bench(ModelLog(), ModelLog(), ModelLog())
    first = bench.fetch()
    assert (len(first.topics[0].partitions), first.max_wait_ms) == (2, 0)
    bench.take()
    assert [row.partition for row in bench.rows()] == [2]


def test_without_a_session_all_partitions_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_ADDED", 2)
    bench = Bench(ModelLog(), ModelLog(), ModelLog())
    bench.fetch()
    bench.take(session_id=0)
    assert len(bench.rows()) == 3


def test_an_evicted_session_begins_again_at_once() -> None:
    bench = Bench(ModelLog())
    bench.fetch()
    bench.take()
    bench.fetch()
    bench.take(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert len(bench.rows()) == 1
    bench.take(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert bench.question() is None, "a second refusal waits"


def test_lost_answers_are_asked_for_again_after_a_wait() -> None:
    bench = Bench(ModelLog())
    waits = []
    for _ in range(4):
        assert len(bench.rows()) == 1
        bench.fetcher.lost(bench.now_ms)
        assert bench.question() is None
        waits.append(bench.fetcher.wake_ms(bench.now_ms) - bench.now_ms)
        bench.now_ms += waits[-1]
    assert waits == [50, 100, 200, 200]


def test_no_fetch_without_partitions() -> None:
    bench = Bench()
    assert bench.question() is None
    assert bench.fetcher.wake_ms(0.0) == float("inf")
