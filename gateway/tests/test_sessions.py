"""Fetch sessions: epochs, what is told again, fairness, eviction, limits."""

from random import Random

import pytest

from gateway import sessions
from gateway.sessions import EVICTION_MS, FetchSessions, FetchTurn
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

ID = bytes(range(16))


def request(
    session_id: int,
    epoch: int,
    wanted: dict[str, list[int]] | None = None,
    forgotten: dict[str, list[int]] | None = None,
    offset: int = 0,
) -> FetchRequest:
    topics = [
        FetchTopic(topic=name, partitions=[FetchPartition(partition=index, fetch_offset=offset) for index in indexes])
        for name, indexes in (wanted or {}).items()
    ]
    gone = [ForgottenTopic(topic=name, partitions=indexes) for name, indexes in (forgotten or {}).items()]
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics, forgotten_topics_data=gone)


def opened(cache: FetchSessions, wanted: dict[str, list[int]], now_ms: float = 0) -> FetchTurn:
    return cache.begin(request(0, 0, wanted), 12, now_ms)


def row(index: int, high_watermark: int = 0, error: ErrorCode = ErrorCode.NONE, records: bytes = b"") -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=0,
        records=records,
    )


def tell(turn: FetchTurn, *rows: PartitionData) -> list[int]:
    return [data.partition_index for data in rows if turn.keep("t", data)]


def indexes(turn: FetchTurn) -> list[int]:
    return [wanted.partition for _, wanted in turn.partitions]


@pytest.fixture
def cache() -> FetchSessions:
    return FetchSessions(2, Random(1))


def code_of(cache: FetchSessions, wanted: FetchRequest, version: int = 12) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        cache.begin(wanted, version, 0)
    return caught.value.code


def test_a_fetch_without_a_session_keeps_all(cache: FetchSessions) -> None:
    turn = cache.begin(request(0, -1, {"t": [0, 1], "u": [0]}), 12, 0)
    assert (turn.session_id, len(cache)) == (0, 0)
    assert [(key, wanted.partition) for key, wanted in turn.partitions] == [("t", 0), ("t", 1), ("u", 0)]
    assert tell(turn, row(0), row(1)) == [0, 1]


def test_a_full_fetch_opens_a_session_and_keeps_all(cache: FetchSessions) -> None:
    turn = opened(cache, {"t": [0, 1]})
    assert turn.session_id > 0
    assert tell(turn, row(0), row(1)) == [0, 1]
    assert (len(cache), cache.total_partitions) == (1, 2)


def test_a_full_fetch_for_nothing_opens_none(cache: FetchSessions) -> None:
    assert opened(cache, {}).session_id == 0


def test_an_incremental_fetch_names_only_what_changed(cache: FetchSessions) -> None:
    session_id = opened(cache, {"t": [0, 1]}).session_id
    turn = cache.begin(request(session_id, 1, {"t": [2, 0]}, {"t": [1]}, offset=7), 12, 0)
    assert turn.session_id == session_id
    assert indexes(turn) == [0, 2]
    assert [wanted.fetch_offset for _, wanted in turn.partitions] == [7, 7]
    assert cache.total_partitions == 2


def test_only_news_is_told(cache: FetchSessions) -> None:
    turn = opened(cache, {"t": [0, 1, 2]})
    tell(turn, row(0), row(1), row(2))
    turn = cache.begin(request(turn.session_id, 1), 12, 0)
    assert tell(turn, row(0), row(1, high_watermark=5), row(2, records=b"batch")) == [1, 2]
    turn = cache.begin(request(turn.session_id, 2), 12, 0)
    assert tell(turn, row(0), row(1, high_watermark=5), row(2)) == []


def test_every_offset_counts_as_news(cache: FetchSessions) -> None:
    def offsets(last_stable: int, start: int, diverging: int = -1) -> PartitionData:
        return PartitionData(
            high_watermark=9,
            last_stable_offset=last_stable,
            log_start_offset=start,
            diverging_epoch=EpochEndOffset(epoch=diverging, end_offset=5),
        )

    turn = opened(cache, {"t": [0]})
    assert turn.keep("t", offsets(9, 0))
    turn = cache.begin(request(turn.session_id, 1), 12, 0)
    told = [offsets(9, 0), offsets(8, 0), offsets(8, 3), offsets(8, 3), offsets(8, 3, diverging=2)]
    assert [turn.keep("t", data) for data in told] == [False, True, True, False, True]


def test_an_error_is_told_every_time_and_its_end_too(cache: FetchSessions) -> None:
    turn = opened(cache, {"t": [0]})
    tell(turn, row(0, 4))
    turn = cache.begin(request(turn.session_id, 1), 12, 0)
    failed = row(0, 4, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert tell(turn, failed, failed) == [0, 0]
    assert tell(turn, row(0, 4), row(0, 4)) == [0]


def test_partitions_that_returned_records_go_to_the_end(cache: FetchSessions) -> None:
    turn = opened(cache, {"t": [0, 1, 2]})
    tell(turn, row(0, records=b"x"), row(1), row(2))
    turn = cache.begin(request(turn.session_id, 1), 12, 0)
    assert indexes(turn) == [0, 1, 2]
    tell(turn, row(0, records=b"x"), row(1), row(2))
    turn = cache.begin(request(turn.session_id, 2, {"t": [0]}), 12, 0)
    assert indexes(turn) == [1, 2, 0]


def test_topics_are_named_by_id_from_version_13(cache: FetchSessions) -> None:
    topics = [FetchTopic(topic_id=ID, partitions=[FetchPartition(partition=3)])]
    turn = cache.begin(FetchRequest(session_epoch=0, topics=topics), 13, 0)
    assert [(key, wanted.partition) for key, wanted in turn.partitions] == [(ID, 3)]
    assert code_of(cache, request(turn.session_id, 1), version=12) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    gone = FetchRequest(
        session_id=turn.session_id, session_epoch=1, forgotten_topics_data=[ForgottenTopic(topic_id=ID, partitions=[3])]
    )
    assert cache.begin(gone, 13, 0).session_id == 0


def test_an_unknown_session_and_a_wrong_epoch_are_refused(cache: FetchSessions) -> None:
    session_id = opened(cache, {"t": [0]}).session_id
    assert code_of(cache, request(session_id + 1, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert code_of(cache, request(session_id, 2)) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    cache.begin(request(session_id, 1), 12, 0)
    assert code_of(cache, request(session_id, 1)) == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_epochs_begin_anew_at_one(cache: FetchSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "LAST_EPOCH", 2)
    session_id = opened(cache, {"t": [0]}).session_id
    for epoch in (1, 2, 1):
        cache.begin(request(session_id, epoch), 12, 0)


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_the_session_that_it_names(cache: FetchSessions, epoch: int) -> None:
    session_id = opened(cache, {"t": [0]}).session_id
    cache.begin(request(session_id, epoch, {"t": [0]}), 12, 0)
    assert code_of(cache, request(session_id, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_that_forgot_all_ends(cache: FetchSessions) -> None:
    session_id = opened(cache, {"t": [0]}).session_id
    turn = cache.begin(request(session_id, 1, forgotten={"t": [0]}), 12, 0)
    assert (turn.session_id, turn.partitions, len(cache), cache.total_partitions) == (0, [], 0, 0)


def test_a_partition_that_was_forgotten_while_its_fetch_waited_is_told(cache: FetchSessions) -> None:
    waiting = cache.begin(request(opened(cache, {"t": [0, 1]}).session_id, 1), 12, 0)
    cache.begin(request(waiting.session_id, 2, forgotten={"t": [0]}), 12, 0)
    assert waiting.keep("t", row(0))


def test_without_a_free_slot_there_is_no_session(cache: FetchSessions) -> None:
    opened(cache, {"t": [0]})
    opened(cache, {"t": [0]})
    assert opened(cache, {"t": [0, 1, 2]}).session_id == 0


def test_an_idle_session_gives_way(cache: FetchSessions) -> None:
    idle = opened(cache, {"t": [0, 1]}).session_id
    busy = opened(cache, {"t": [0]}).session_id
    cache.begin(request(busy, 1), 12, EVICTION_MS / 2)
    assert opened(cache, {"t": [0]}, EVICTION_MS).session_id == 0
    assert opened(cache, {"t": [0]}, EVICTION_MS + 1).session_id > 0
    assert code_of(cache, request(idle, 1)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    cache.begin(request(busy, 2), 12, EVICTION_MS + 1)


def test_an_old_smaller_session_gives_way_to_a_larger(cache: FetchSessions) -> None:
    small, large = opened(cache, {"t": [0]}).session_id, opened(cache, {"t": [0, 1, 2]}).session_id
    for session_id in (small, large):
        cache.begin(request(session_id, 1), 12, EVICTION_MS)
    assert opened(cache, {"t": [0, 1]}, EVICTION_MS + 1).session_id == 0  # nobody has been used since it grew old
    for session_id in (small, large):
        cache.begin(request(session_id, 2), 12, EVICTION_MS + 2)
    assert opened(cache, {"t": [0]}, EVICTION_MS + 3).session_id == 0
    assert opened(cache, {"t": [0, 1]}, EVICTION_MS + 3).session_id > 0
    assert code_of(cache, request(small, 3)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    cache.begin(request(large, 3), 12, EVICTION_MS + 3)


def test_the_rank_of_an_old_session_follows_its_size(cache: FetchSessions) -> None:
    first, second = opened(cache, {"t": [0]}).session_id, opened(cache, {"t": [0, 1]}).session_id
    for session_id in (first, second):
        cache.begin(request(session_id, 1), 12, EVICTION_MS + 1)
    cache.begin(request(first, 2, {"t": [1, 2, 3]}), 12, EVICTION_MS + 2)
    assert opened(cache, {"t": [0, 1, 2]}, EVICTION_MS + 3).session_id > 0
    assert code_of(cache, request(second, 2)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_memory_of_all_sessions_is_limited() -> None:
    cache = FetchSessions(100, Random(1), max_total_partitions=5)
    first = opened(cache, {"t": [0, 1, 2]}).session_id
    assert opened(cache, {"t": [0, 1, 2]}).session_id == 0
    assert cache.total_partitions == 3
    assert code_of(cache, request(first, 1, {"t": [3, 4, 5]})) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(cache), cache.total_partitions) == (0, 0)


def test_a_session_of_too_many_partitions_is_not_opened(cache: FetchSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSION_PARTITIONS", 2)
    turn = opened(cache, {"t": [0, 1, 2]})
    assert (turn.session_id, indexes(turn)) == (0, [0, 1, 2])


def test_no_slots_mean_no_sessions() -> None:
    assert opened(FetchSessions(0, Random(1)), {"t": [0]}).session_id == 0
