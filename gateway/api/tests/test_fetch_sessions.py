"""Fetch sessions: epochs, what is told again, fairness, eviction, limits."""

from random import Random
from typing import Any

import pytest

from headgate.gateway.api import fetch_sessions
from headgate.gateway.api.fetch_sessions import EVICTION_MS, FEW, FetchSessions, FetchTurn, SessionTurn
from headgate.gateway.runtime.tasks import Changes, Task, Tasks, WaitList
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from headgate.protocol.steps import finish

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


class Looks:
    """Partitions of topic t, each a wait list, and fetches of one session that look at them."""

    def __init__(self, cache: FetchSessions, count: int, tasks: Tasks | None = None) -> None:
        self.cache = cache
        self.lists = [WaitList() for _ in range(count)]
        self.tasks = Tasks(ManualTime().clock, ManualTime().scheduler) if tasks is None else tasks
        self.epoch = 0
        self.session_id = 0
        self.fetch({"t": list(range(count))})

    def begin(self, wanted: dict[str, list[int]] | None = None, **options: Any) -> SessionTurn:
        """The turn of the next fetch."""
        turn = self.cache.begin(request(self.session_id, self.epoch, wanted, **options), 12, 0)
        assert isinstance(turn, SessionTurn)
        self.session_id, self.epoch = turn.session_id, self.epoch + 1
        return turn

    def look(self, turn: SessionTurn) -> list[int]:
        """Find nothing to read in all partitions of a turn."""
        for item in turn.items:
            item.is_clean = True
            item.watch(self.lists[item.wanted[1].partition])
        return indexes(turn)

    def fetch(self, wanted: dict[str, list[int]] | None = None, **options: Any) -> list[int]:
        """The partitions that the next fetch looks at, and finds nothing in."""
        turn = self.begin(wanted, **options)
        turn.finish_update()
        looked_at = self.look(turn)
        select(turn, *map(row, looked_at))
        return looked_at

    def change(self, *indexes: int) -> None:
        for index in indexes:
            self.tasks.touch(self.lists[index])

    @property
    def watches(self) -> list[int]:
        """How many watch each partition."""
        return [len(one.watches) for one in self.lists]


def row(index: int, high_watermark: int = 0, error: ErrorCode = ErrorCode.NONE, records: bytes = b"") -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=0,
        records=records,
    )


def select(turn: FetchTurn, *rows: PartitionData) -> list[int]:
    """The partitions of topic t that are told, of these rows."""
    told = [data.partition_index for data in rows if turn.select(indexes(turn).index(data.partition_index), data)]
    turn.end()
    return told


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
    assert select(turn, row(0), row(1)) == [0, 1]


def test_a_full_fetch_opens_a_session_and_keeps_all(cache: FetchSessions) -> None:
    turn = opened(cache, {"t": [0, 1]})
    assert turn.session_id > 0
    assert select(turn, row(0), row(1)) == [0, 1]
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
    select(turn, row(0), row(1), row(2))
    turn = cache.begin(request(turn.session_id, 1), 12, 0)
    assert select(turn, row(0), row(1, high_watermark=5), row(2, records=b"batch")) == [1, 2]
    turn = cache.begin(request(turn.session_id, 2), 12, 0)
    assert select(turn, row(0), row(1, high_watermark=5), row(2)) == []


def test_every_offset_counts_as_news(cache: FetchSessions) -> None:
    def offsets(last_stable: int, start: int, diverging: int = -1) -> PartitionData:
        return PartitionData(
            high_watermark=9,
            last_stable_offset=last_stable,
            log_start_offset=start,
            diverging_epoch=EpochEndOffset(epoch=diverging, end_offset=5),
        )

    turn = opened(cache, {"t": [0]})
    assert turn.select(0, offsets(9, 0))
    turn = cache.begin(request(turn.session_id, 1), 12, 0)
    told = [offsets(9, 0), offsets(8, 0), offsets(8, 3), offsets(8, 3), offsets(8, 3, diverging=2)]
    assert [turn.select(0, data) for data in told] == [False, True, True, False, True]


def test_an_error_is_told_every_time_and_its_end_too(cache: FetchSessions) -> None:
    turn = opened(cache, {"t": [0]})
    select(turn, row(0, 4))
    turn = cache.begin(request(turn.session_id, 1), 12, 0)
    failed = row(0, 4, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert select(turn, failed, failed) == [0, 0]
    assert select(turn, row(0, 4), row(0, 4)) == [0]


def test_partitions_that_returned_records_go_to_the_end(cache: FetchSessions) -> None:
    turn = opened(cache, {"t": [0, 1, 2]})
    select(turn, row(0, records=b"x"), row(1), row(2))
    turn = cache.begin(request(turn.session_id, 1), 12, 0)
    assert indexes(turn) == [0, 1, 2]
    select(turn, row(0, records=b"x"), row(1), row(2))
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
    monkeypatch.setattr(fetch_sessions, "LAST_EPOCH", 2)
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


def test_a_partition_forgotten_while_its_fetch_waited_is_told(cache: FetchSessions) -> None:
    waiting = cache.begin(request(opened(cache, {"t": [0, 1]}).session_id, 1), 12, 0)
    cache.begin(request(waiting.session_id, 2, forgotten={"t": [0]}), 12, 0)
    assert waiting.select(0, row(0))


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


def opened_by_follower(cache: FetchSessions, wanted: dict[str, list[int]], now_ms: float = 0) -> int:
    asked = request(0, 0, wanted)
    asked.replica_id = 1
    return cache.begin(asked, 12, now_ms).session_id


def test_no_consumer_evicts_the_session_of_a_follower(cache: FetchSessions) -> None:
    sessions = [opened_by_follower(cache, {"t": [0]}) for _ in range(2)]
    for session_id in sessions:
        cache.begin(request(session_id, 1), 12, EVICTION_MS + 1)
    assert opened(cache, {"t": list(range(9))}, EVICTION_MS + 2).session_id == 0


def test_a_follower_evicts_an_old_session_of_any_consumer(cache: FetchSessions) -> None:
    sessions = [opened(cache, {"t": [0, 1, 2]}).session_id for _ in range(2)]
    assert opened_by_follower(cache, {"t": [0]}) == 0
    for session_id in sessions:
        cache.begin(request(session_id, 1), 12, EVICTION_MS + 1)
    assert opened_by_follower(cache, {"t": [0]}, EVICTION_MS + 2) > 0


def test_the_memory_of_all_sessions_is_limited() -> None:
    cache = FetchSessions(100, Random(1), max_total_partitions=5)
    first = opened(cache, {"t": [0, 1, 2]}).session_id
    assert opened(cache, {"t": [0, 1, 2]}).session_id == 0
    assert cache.total_partitions == 3
    assert code_of(cache, request(first, 1, {"t": [3, 4, 5]})) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(cache), cache.total_partitions) == (0, 0)


def test_a_session_of_too_many_partitions_is_not_opened(cache: FetchSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_SESSION_PARTITIONS", 2)
    turn = opened(cache, {"t": [0, 1, 2]})
    assert (turn.session_id, indexes(turn)) == (0, [0, 1, 2])


def test_no_slots_mean_no_sessions() -> None:
    assert opened(FetchSessions(0, Random(1)), {"t": [0]}).session_id == 0


# What a fetch looks at


def test_a_fetch_looks_only_at_what_changed(cache: FetchSessions) -> None:
    looks = Looks(cache, 5)
    assert looks.fetch() == []
    looks.change(3, 1, 3)
    assert looks.fetch() == [1, 3]
    assert looks.fetch() == []
    assert looks.fetch({"t": [4]}) == [4], "it is named"


def test_a_change_costs_one_mark_however_long_the_session_sleeps(cache: FetchSessions) -> None:
    looks = Looks(cache, 2)
    assert looks.watches == [1, 1]
    looks.change(0)
    assert looks.watches == [0, 1], "it is dirty, and need not be marked again"
    looks.change(0)
    assert looks.fetch() == [0]
    assert looks.watches == [1, 1]


def test_what_is_not_clean_is_looked_at_again(cache: FetchSessions) -> None:
    looks = Looks(cache, 3)
    looks.change(0, 1)
    turn = looks.begin()
    looks.look(turn)
    turn.items[1].is_clean = False  # it had more than was sent
    select(turn, row(0), row(1))
    assert looks.fetch() == [1]


def test_a_change_between_the_look_and_the_answer_is_not_lost(cache: FetchSessions) -> None:
    looks = Looks(cache, 2)
    looks.change(0)
    turn = looks.begin()
    looks.look(turn)
    looks.change(0)
    select(turn, row(0))
    assert looks.fetch() == [0]


def test_dirty_partitions_come_in_the_order_of_the_session(cache: FetchSessions) -> None:
    looks = Looks(cache, 4)
    looks.change(0)
    turn = looks.begin()
    looks.look(turn)
    select(turn, row(0, records=b"x"))
    looks.change(3, 0, 1)
    assert looks.fetch() == [1, 3, 0], "those that returned records come last"


def test_another_isolation_level_looks_at_all(cache: FetchSessions) -> None:
    looks = Looks(cache, 3)
    committed = request(looks.session_id, looks.epoch)
    committed.isolation_level = 1
    assert indexes(cache.begin(committed, 12, 0)) == [0, 1, 2]


def test_a_turn_that_was_never_answered_gives_back_what_it_had(cache: FetchSessions) -> None:
    looks = Looks(cache, 4)
    looks.change(0, 1, 2)
    lost = looks.begin()
    looks.look(lost)
    assert lost.keep(lost.items[0], row(0, high_watermark=9)), "it has something to tell"
    assert not lost.keep(lost.items[1], row(1)), "it has not"
    lost.park()
    looks.change(3)
    assert looks.fetch() == [0, 3]
    assert lost.is_over


def test_a_parked_turn_takes_up_what_is_marked(cache: FetchSessions) -> None:
    looks = Looks(cache, 3)
    turn = looks.begin()
    turn.park()
    assert turn.take_marked() == []
    looks.change(2, 1)
    assert turn.marked == 2
    marked = turn.take_marked() or []
    assert [item.wanted[1].partition for item in marked] == [2, 1]
    for item, high_watermark in zip(marked, (0, 5), strict=True):
        item.is_clean = True
        turn.keep(item, row(item.wanted[1].partition, high_watermark))
    looks.change(0)
    turn.gather()
    assert indexes(turn) == [0, 1]


def test_a_parked_turn_with_one_partition_is_narrowed_to_it(cache: FetchSessions) -> None:
    looks = Looks(cache, 3)
    turn = looks.begin()
    turn.park()
    assert not turn.narrow()
    looks.change(1)
    (item,) = turn.take_marked() or []
    turn.keep(item, row(1))
    assert turn.narrow()
    assert indexes(turn) == [1]


def test_a_fetch_that_continues_a_session_wakes_one_that_is_parked() -> None:
    time = ManualTime()
    tasks = Tasks(time.clock, time.scheduler)
    looks = Looks(FetchSessions(2, Random(1), touch=tasks.touch), 2, tasks)
    turn, woken = looks.begin(), list[bool]()

    def parked(changed: WaitList) -> Task[None]:
        changes = Changes((changed,))
        while (yield changes) is not None:
            woken.append(turn.is_over)

    assert turn.changed is not None
    tasks.start(parked(turn.changed))
    looks.change(1)
    time.advance()
    assert woken == [False]
    looks.begin()
    time.advance()
    assert woken == [False, True]


@pytest.mark.parametrize("how", ["ended", "evicted", "forgotten", "outgrown"])
def test_a_session_that_is_gone_watches_nothing(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(FetchSessions(1, Random(1)), FEW * 2 + 5)
    looks.fetch()
    assert set(looks.watches) == {1}
    turn = looks.begin({"t": [0]})
    looks.look(turn)
    if how == "ended":
        looks.cache.begin(request(looks.session_id, -1), 12, 0)
    elif how == "evicted":
        assert opened(looks.cache, {"u": [0]}, EVICTION_MS + 1).session_id > 0
    elif how == "forgotten":
        looks.begin(forgotten={"t": list(range(len(looks.lists)))}).finish_update()
    else:
        monkeypatch.setattr(fetch_sessions, "MAX_SESSION_PARTITIONS", 1)
        more = request(looks.session_id, looks.epoch, {"t": [len(looks.lists)]})
        assert code_of(looks.cache, more) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert set(looks.watches) == {0}
    looks.look(turn)
    assert set(looks.watches) == {0}, "nor does a turn that is still under way"


def test_a_forgotten_partition_is_watched_no_more(cache: FetchSessions) -> None:
    looks = Looks(cache, 3)
    looks.change(2)
    assert looks.fetch(forgotten={"t": [1, 2]}) == []
    assert looks.watches == [1, 0, 0]


def test_a_session_watches_the_partition_that_replaced_another(cache: FetchSessions) -> None:
    looks = Looks(cache, 2)
    old, looks.lists[1] = looks.lists[1], WaitList()
    assert looks.fetch({"t": [1]}) == [1]
    assert (old.watches, looks.watches) == ((), [1, 1])


def test_sessions_of_one_partition_are_marked_each() -> None:
    cache = FetchSessions(3, Random(1))
    first = Looks(cache, 2)
    second = Looks(cache, 2)
    second.lists = first.lists
    assert second.fetch({"t": [0, 1]}) == [0, 1]
    assert first.watches == [2, 2]
    first.change(1)
    assert (first.fetch(), second.fetch()) == ([1], [1])


# Many partitions


def test_many_partitions_are_taken_up_in_steps(cache: FetchSessions) -> None:
    many = list(range(3 * FEW))
    turn = cache.begin(request(0, 0, {"t": many}), 12, 0)
    assert isinstance(turn, SessionTurn)
    assert turn.pending_update is not None
    assert cache.total_partitions == len(many), "there is room for them"
    steps = 0
    while turn.pending_update is not None:
        next(turn.pending_update, None)
        steps += 1
    assert steps == 4
    assert indexes(turn) == many
    assert len(turn.items) == len(many)


def test_a_fetch_behind_one_that_takes_up_finds_all(cache: FetchSessions) -> None:
    many = list(range(3 * FEW))
    turn = cache.begin(request(0, 0, {"t": many}), 12, 0)
    assert indexes(cache.begin(request(turn.session_id, 1), 12, 0)) == many
    assert turn.pending_update is None


def test_many_are_forgotten_in_steps(cache: FetchSessions) -> None:
    looks = Looks(cache, 4 * FEW)
    turn = looks.begin(forgotten={"t": list(range(FEW, 4 * FEW))})
    assert turn.pending_update is not None
    turn.finish_update()
    assert cache.total_partitions == FEW
    assert sum(looks.watches) == FEW


def test_many_forgotten_topics_without_partitions_take_steps(cache: FetchSessions) -> None:
    looks = Looks(cache, 1)
    turn = looks.begin(forgotten={f"t{number}": [] for number in range(FEW + 1)})
    assert turn.pending_update is not None


def test_a_session_that_is_closed_while_it_takes_up_leaves_nothing(cache: FetchSessions) -> None:
    turn = cache.begin(request(0, 0, {"t": list(range(2 * FEW))}), 12, 0)
    assert isinstance(turn, SessionTurn)
    cache.begin(request(turn.session_id, -1), 12, 0)
    turn.finish_update()
    assert len(turn.items) == 2 * FEW, "the fetch is answered all the same"
    assert cache.total_partitions == 0
    watched = WaitList()
    turn.items[-1].watch(watched)
    assert watched.watches == ()


def test_a_session_is_closed_in_steps() -> None:
    works: list[Any] = []
    looks = Looks(FetchSessions(2, Random(1), run_in_slices=works.append), 3 * FEW)
    looks.begin({"t": [0]})
    looks.cache.begin(request(looks.session_id, -1), 12, 0)
    assert sum(looks.watches) == 3 * FEW
    next(works[0])
    assert sum(looks.watches) == 2 * FEW
    finish(works[0])
    assert sum(looks.watches) == 0


def test_what_is_noted_waits_for_the_next_look(cache: FetchSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """The high watermark has moved: the parked fetch goes on waiting for records, and is woken by these."""
    looks = Looks(cache, 3)
    turn = looks.begin()
    touched: list[WaitList] = []
    monkeypatch.setattr(looks.tasks, "touch", touched.append)
    for watch in looks.lists[1].watches:
        watch.note()
    assert touched == []
    assert looks.watches == [1, 1, 1]
    turn.gather()
    assert looks.look(turn) == [1]
    assert select(turn, row(1, high_watermark=5)) == [1]
    assert looks.watches == [1, 1, 1]
