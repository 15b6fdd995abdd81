"""The steps of a member from what it reads to its target, one at a time."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headgate.gateway.coordinator.groups.consumer.assignors import Assignment
from headgate.gateway.coordinator.groups.consumer.members import (
    ConsumerMember,
    Owned,
    holds,
    is_within,
    owned,
    reconcile,
)
from headgate.protocol.internal.offsets import STABLE, UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS
from headgate.protocol.messages.consumer_group_heartbeat import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, TopicPartitions

A, B = b"a" * 16, b"b" * 16


def parts(*numbers: int, topic: bytes = A) -> Assignment:
    return {topic: frozenset(numbers)} if numbers else {}


def member(
    assigned: Assignment, revoking: Assignment | None = None, state: int = STABLE, epoch: int = 5
) -> ConsumerMember:
    return ConsumerMember(
        "m", epoch=epoch, previous_epoch=epoch - 1, state=state, assigned=assigned, revoking=revoking or {}
    )


def step(
    of: ConsumerMember,
    target: Assignment,
    reported: Owned | None = None,
    epoch: int = 6,
    taken: Mapping[bytes, set[int]] | None = None,
    wanted: frozenset[bytes] = frozenset({A, B}),
    has_resubscribed: bool = False,
) -> tuple[int, int, Assignment, Assignment]:
    """(epoch, state, assigned, revoking) after the step."""
    others = taken or {}

    def is_free(topic: bytes, number: int) -> bool:
        mine = (*of.assigned.get(topic, ()), *of.revoking.get(topic, ()))
        return number not in others.get(topic, set()) and number not in mine

    after = reconcile(of, epoch, target, wanted, is_free, reported, has_resubscribed)
    return after.epoch, after.state, after.assigned, after.revoking


def test_nothing_to_do_is_the_same_object() -> None:
    at_rest = member(parts(1))
    assert reconcile(at_rest, 5, parts(1), {A}, lambda *_: True, None) is at_rest
    waiting = member(parts(1), state=UNRELEASED_PARTITIONS)
    assert reconcile(waiting, 5, parts(1, 2), {A}, lambda *_: False, None) is waiting


def test_new_partitions_that_are_free_are_given_at_once() -> None:
    assert step(member(parts(1)), parts(1, 2)) == (6, STABLE, parts(1, 2), {})
    assert step(member(parts(1)), parts(1)) == (6, STABLE, parts(1), {}), "the epoch is news too"


def test_partitions_of_others_are_waited_for() -> None:
    assert step(member(parts(1)), parts(1, 2, 3), taken={A: {3}}) == (6, UNRELEASED_PARTITIONS, parts(1, 2), {})
    assert step(member(parts(1)), parts(1, 3), taken={A: {3}}) == (6, UNRELEASED_PARTITIONS, parts(1), {})
    waiting = member(parts(1), state=UNRELEASED_PARTITIONS, epoch=6)
    assert step(waiting, parts(1, 3)) == (6, STABLE, parts(1, 3), {})


def test_what_the_target_lacks_is_revoked_before_anything_is_assigned() -> None:
    assert step(member(parts(1, 2)), parts(1, 3), {A: {1, 2}}) == (5, UNREVOKED_PARTITIONS, parts(1), parts(2))
    assert step(member(parts(1, 2)), parts(1, 3), None) == (5, UNREVOKED_PARTITIONS, parts(1), parts(2))
    assert step(member(parts(1, 2)), parts(1, 3), {A: {1}}) == (6, STABLE, parts(1, 3), {}), "it reads it no more"


def test_a_member_goes_on_only_after_its_release() -> None:
    giving_up = member(parts(1), parts(2), UNREVOKED_PARTITIONS)
    assert step(giving_up, parts(1, 3), {A: {1}}) == (6, STABLE, parts(1, 3), {})
    for said in (None, {A: {1, 2}}, {A: {2}}):
        assert step(giving_up, parts(1, 3), said) == (5, UNREVOKED_PARTITIONS, parts(1), parts(2))


def test_the_target_may_change_while_a_member_gives_up() -> None:
    giving_up = member(parts(1), parts(2), UNREVOKED_PARTITIONS)
    assert step(giving_up, parts(2), {A: {1}}, epoch=7) == (5, UNREVOKED_PARTITIONS, {}, parts(1))
    assert step(giving_up, parts(1, 2), {A: {1}}, epoch=7) == (7, STABLE, parts(1, 2), {}), "its own is free to it"


def test_an_unwanted_topic_is_revoked_whatever_the_target_says() -> None:
    both = {**parts(1), **parts(7, topic=B)}
    after = step(member(both), both, {A: {1}, B: {7}}, wanted=frozenset({A}))
    assert after == (5, UNREVOKED_PARTITIONS, parts(1), parts(7, topic=B))


@pytest.mark.parametrize("state", [STABLE, UNREVOKED_PARTITIONS])
def test_who_resubscribes_gives_up_at_once(state: int) -> None:
    both = {**parts(1), **parts(7, topic=B)}
    revoking = parts(2) if state == UNREVOKED_PARTITIONS else {}
    of = member(both, revoking, state)
    after = step(of, both, {A: {1, 2}, B: {7}}, epoch=5, wanted=frozenset({A}), has_resubscribed=True)
    assert after == (5, UNREVOKED_PARTITIONS, parts(1), {**revoking, **parts(7, topic=B)})
    kept = step(of, both, {A: {1, 2}, B: {7}}, epoch=5, has_resubscribed=True)
    assert kept == (5, state, both, revoking)


def test_what_a_member_says_of_its_partitions() -> None:
    assert owned(None) is None
    assert owned([TopicPartitions(A, [1]), TopicPartitions(A, [2]), TopicPartitions(B, [])]) == {A: {1, 2}, B: set()}
    assert is_within({A: {1}}, parts(1, 2))
    assert is_within({}, {})
    assert not is_within({A: {3}}, parts(1, 2))
    assert not is_within({B: {1}}, parts(1, 2))
    assert not is_within(None, parts(1)), "silence is no proof"
    assert holds(None, parts(1)), "and here it is none of the contrary"
    assert not holds({A: {2}, B: {1}}, parts(1))


def test_who_leaves_and_who_is_back() -> None:
    here = member(parts(1), parts(2), UNREVOKED_PARTITIONS)
    away = here.away()
    assert (away.epoch, away.assigned, away.revoking) == (LEAVE_STATIC_EPOCH, parts(1), {})
    back = away.successor("n")
    assert (back.member_id, back.epoch, back.previous_epoch, back.assigned) == ("n", 0, 0, parts(1))
    assert list(here.gone().owns) == []
    assert here.gone().epoch == LEAVE_EPOCH
