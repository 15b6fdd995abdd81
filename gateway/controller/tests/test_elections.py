"""Elections of one partition. A state is written as leader, in-sync set, replicas."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.controller.elections import (
    NO_EPOCH,
    NO_LEADER,
    is_unclean,
    next_state,
    preferred_state,
    unclean_state,
)
from headgate.gateway.metadata.image import PartitionState
from headgate.protocol.errors import ErrorCode, KafkaError

IDS = st.sets(st.integers(1, 4))


def state(leader: int, isr: Collection[int], replicas: Collection[int] = (1, 2, 3)) -> PartitionState:
    return PartitionState(leader, 5, tuple(replicas), tuple(isr), 7)


@st.composite
def states(draw: st.DrawFn) -> PartitionState:
    replicas = draw(st.permutations((1, 2, 3)))
    isr = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    return state(draw(st.sampled_from([*isr, -1])), isr, replicas)


@pytest.mark.parametrize(
    "before, online, stopping, leader, isr",
    [
        (state(1, (1, 2, 3)), {2, 3}, (), 2, (2, 3)),  # the leader is lost: it leaves the set in the same write
        (state(1, (3, 1, 2)), {2, 3}, (), 2, (3, 2)),  # the order is that of the assignment
        (state(1, (1, 3)), {2, 3}, (), 3, (3,)),  # 2 is not in sync
        (state(1, (1, 2, 3)), {1, 3}, (), 1, (1, 3)),  # a follower is lost
        (state(1, (1,)), {2, 3}, (), -1, (1,)),  # the last one stays in the set
        (state(1, (1, 2)), {3}, (), -1, (1, 2)),  # each lost member has all that was acknowledged
        (state(-1, (1,)), {1, 2}, (), 1, (1,)),  # the last one is back
        (state(1, (1, 2, 3)), {1, 2, 3}, {1}, 2, (2, 3)),  # a controlled shutdown of the leader
        (state(1, (1, 2, 3)), {1, 2, 3}, {2}, 1, (1, 3)),  # and of a follower
        (state(1, (1, 2)), {1, 2, 3}, {1, 2}, 1, (1,)),  # both stop: the leader leads as long as it lives
    ],
)
def test_the_first_online_in_sync_replica_leads(
    before: PartitionState, online: Collection[int], stopping: Collection[int], leader: int, isr: tuple[int, ...]
) -> None:
    after = next_state(before, online, stopping, is_unclean=False)
    assert after == PartitionState(leader, 6, before.replicas, isr, 8)


@pytest.mark.parametrize(
    "before, online, stopping",
    [
        (state(1, (1, 2, 3)), {1, 2, 3}, ()),
        (state(1, (1,)), {1, 2, 3}, {1}),  # nobody else is in sync
        (state(-1, (1,)), {2, 3}, ()),
        (state(-1, (1,)), {1}, {1}),
    ],
)
def test_a_state_stays_if_no_other_would_be_better(
    before: PartitionState, online: Collection[int], stopping: Collection[int]
) -> None:
    assert next_state(before, online, stopping, is_unclean=False) is None


def test_a_leader_is_unclean_if_it_was_not_in_sync() -> None:
    assert is_unclean(state(1, (1,)), 2)
    assert is_unclean(state(-1, (1,)), 2)
    assert not is_unclean(state(1, (1, 2)), 2)
    assert not is_unclean(state(1, (1,)), NO_LEADER)
    assert not is_unclean(state(-1, ())._replace(leader_epoch=NO_EPOCH), 2)  # the first leader of a new partition


def test_an_unclean_election_takes_any_online_replica() -> None:
    assert next_state(state(1, (1,)), {2, 3}, {2}, is_unclean=True) == PartitionState(3, 6, (1, 2, 3), (3,), 8)
    assert next_state(state(1, (1, 3)), {2, 3}, (), is_unclean=True) == PartitionState(3, 6, (1, 2, 3), (3,), 8)


def test_a_new_partition_starts_with_its_online_replicas() -> None:
    new = PartitionState(-1, -1, (1, 2, 3), (), -1)
    assert next_state(new, {2, 3, 4}, (), is_unclean=False) == PartitionState(2, 0, (1, 2, 3), (2, 3), 0)
    assert next_state(new, {4}, (), is_unclean=True) is None


@pytest.mark.slow
@given(states(), IDS, IDS)
def test_a_clean_election_never_leaves_the_in_sync_set(
    before: PartitionState, online: set[int], stopping: set[int]
) -> None:
    after = next_state(before, online, stopping, is_unclean=False)
    if after is not None:
        assert set(after.isr) <= set(before.isr)
        assert after.isr
        assert after.leader == -1 or after.leader in after.isr
        assert next_state(after, online, stopping, is_unclean=False) is None  # one write is enough


def test_the_preferred_replica_leads_if_it_is_in_sync() -> None:
    assert preferred_state(state(2, (2, 1)), {1, 2}, ()) == PartitionState(1, 6, (1, 2, 3), (2, 1), 8)
    for before, online, stopping, code in (
        (state(1, (1,)), {1}, (), ErrorCode.ELECTION_NOT_NEEDED),
        (state(2, (2, 1)), {2}, (), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (state(2, (2, 1)), {1, 2}, {1}, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (state(2, (2,)), {1, 2}, (), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ):
        with pytest.raises(KafkaError) as refused:
            preferred_state(before, online, stopping)
        assert refused.value.code is code


def test_an_ordered_unclean_election_needs_a_lost_leader() -> None:
    assert unclean_state(state(-1, (1,)), {2, 3}, ()).leader == 2
    for before, online, code in (
        (state(1, (1,)), {1, 2}, ErrorCode.ELECTION_NOT_NEEDED),
        (state(-1, (1,)), {4}, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ):
        with pytest.raises(KafkaError) as refused:
            unclean_state(before, online, ())
        assert refused.value.code is code
