"""What a leader knows of its followers, from their fetches."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.gateway.replication.progress import Progress
from headgate.gateway.runtime.tasks import NEVER
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.tests.examples import share

LAG_MS = 100.0


def progress(followers: tuple[int, ...] = (1, 2), in_sync: tuple[int, ...] = (1, 2), leader_end: int = 0) -> Progress:
    made = Progress()
    made.begin_epoch(leader_end)
    made.assign(followers, in_sync, 0.0)
    return made


def fetch(made: Progress, node_id: int, offset: int, leader_end: int, now_ms: float = 0.0, start: int = 0) -> None:
    made.check(node_id, -1).note_fetch(offset, start, leader_end, now_ms)


def test_the_committed_end_is_what_all_in_sync_replicas_have() -> None:
    made = progress(in_sync=(1,))
    assert made.committed_end(9) < 0, "no fetch of node 1 has come yet"
    fetch(made, 1, 7, 9)
    fetch(made, 2, 3, 9)
    assert made.committed_end(9) == 7
    assert made.committed_end(5) == 5


def test_a_follower_that_is_about_to_join_counts() -> None:
    made = progress(in_sync=())
    assert made.is_leader_alone
    fetch(made, 2, 3, 9)
    made.join([2])
    assert not made.is_leader_alone
    assert made.committed_end(9) == 3
    made.join(())
    assert made.committed_end(9) == 9


def test_a_follower_lags_from_the_first_write_it_lacks() -> None:
    made = progress(in_sync=(1,))
    fetch(made, 1, 5, 5)
    assert made.note_write(5, 0.0)
    assert made.lagging(5, 10_000.0, LAG_MS) == frozenset(), "it has everything, however long it is idle"
    assert made.note_write(6, 10_000.0)
    assert not made.note_write(6, 10_050.0)
    assert made.lagging(6, 10_000.0 + LAG_MS, LAG_MS) == frozenset()
    assert made.lagging(6, 10_001.0 + LAG_MS, LAG_MS) == {1}


def test_a_follower_that_keeps_up_with_a_busy_log_does_not_lag() -> None:
    made = progress(in_sync=(1,))
    for step in range(20):  # each fetch reaches the end as of the fetch before
        fetch(made, 1, 10 * step, 10 * (step + 1), now_ms=50.0 * step)
        made.note_write(10 * (step + 1), 50.0 * step)
        assert not made.lagging(10 * (step + 1), 50.0 * step, LAG_MS)


def test_a_follower_behind_the_end_of_its_last_fetch_lags() -> None:
    made = progress(in_sync=(1,))
    for step in range(1, 5):
        fetch(made, 1, step, 10 * step, now_ms=50.0 * step)
    assert made.lagging(40, 200.0, LAG_MS) == {1}


@pytest.mark.parametrize("offset, may_join", [(4, False), (5, False), (6, True)])
def test_a_follower_joins_with_all_of_the_past_epochs(offset: int, may_join: bool) -> None:
    made = progress(in_sync=(1,), leader_end=6)
    fetch(made, 2, offset, 9)
    assert made.may_join(2, high_watermark=5) == may_join


def test_the_last_fetch_is_that_of_any_in_sync_follower() -> None:
    made = progress((1, 2, 3), (1, 2))
    fetch(made, 1, 0, 0, now_ms=10)
    fetch(made, 3, 0, 0, now_ms=30)
    assert made.last_fetch_ms == 10
    made.last_fetches_ms = {2: 20.0}
    assert made.last_fetch_ms == 20, "a session names no partition without news"
    assert progress((), ()).last_fetch_ms == NEVER


def test_a_follower_joins_with_all_that_is_committed() -> None:
    made = progress(in_sync=(1,))
    fetch(made, 2, 6, 9)
    assert made.may_join(2, high_watermark=6)
    assert not made.may_join(2, high_watermark=7)
    assert not made.may_join(1, high_watermark=0), "it is in the set"


def test_a_new_epoch_forgets_what_followers_had() -> None:
    made = progress()
    fetch(made, 1, 5, 5)
    fetch(made, 2, 5, 5)
    made.begin_epoch(5)
    made.assign((1, 2), (1, 2), 0.0)
    assert made.committed_end(5) < 0


def test_a_broker_that_is_no_replica_is_refused() -> None:
    with pytest.raises(KafkaError) as refusal:
        progress().check(3, -1)
    assert refusal.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_fetch_of_an_earlier_life_is_refused() -> None:
    made = progress()
    made.check(1, 7)
    made.check(1, -1)  # versions before 15 have no broker epoch
    with pytest.raises(KafkaError) as refusal:
        made.check(1, 6)
    assert refusal.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_low_watermark_is_that_of_the_live() -> None:
    made = progress()
    assert made.low_watermark(8, live=(0, 1, 2)) < 0
    fetch(made, 1, 9, 9, start=5)
    assert made.low_watermark(8, live=(0, 1)) == 5
    assert made.low_watermark(8, live=(0,)) == 8


@pytest.mark.slow
@settings(max_examples=share(60))
@given(st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.integers(0, 9), st.booleans()), max_size=15))
def test_the_committed_end_never_passes_a_counted_follower(steps: list[tuple[int, int, bool]]) -> None:
    made, ends, in_sync = progress((1, 2, 3), (1, 2)), dict.fromkeys((1, 2, 3), -1), {1, 2}
    for node_id, offset, toggles in steps:
        if toggles and (node_id in in_sync or ends[node_id] >= 0):
            in_sync ^= {node_id}
            made.assign((1, 2, 3), in_sync, 0.0)
        fetch(made, node_id, offset, 9)
        ends[node_id] = offset
        assert made.committed_end(9) == min([9, *(ends[counted] for counted in in_sync)])
