"""A draft shows the group as it will be, and leaves the group as it is."""

from __future__ import annotations

import pytest

from headgate.gateway.coordinator.groups.consumer import group_records
from headgate.gateway.coordinator.groups.consumer.draft import Draft
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.consumer.members import ConsumerMember
from headgate.gateway.coordinator.groups.tests.groups import Desk, state_of_group
from headgate.protocol.internal.offsets import GroupMetadataKey


@pytest.fixture
def draft() -> Draft:
    return Draft(Desk({"t": 2, "u": 1}).shard, ConsumerGroup("g"))


def test_it_copies_the_group_with_the_first_record_only(draft: Draft) -> None:
    assert draft.group is draft.live
    draft.put(ConsumerMember("a", topics=frozenset("t")))
    copy = draft.group
    assert copy is not draft.live
    draft.check_topics(bump=False)
    draft.compute_target()
    assert draft.group is copy
    assert (draft.live.members, draft.live.epoch, draft.live.targets) == ({}, 0, {})
    assert (copy.epoch, copy.target_epoch, set(copy.members)) == (1, 1, {"a"})
    for record in draft.records:
        draft.live.apply(*record)
    assert state_of_group(draft.live) == state_of_group(copy)


def test_an_epoch_is_made_for_a_reason(draft: Draft) -> None:
    draft.check_topics(bump=False)
    draft.compute_target()
    assert draft.records == []
    draft.check_topics(bump=True)
    assert draft.group.epoch == 1


def test_expressions_are_forgotten_with_their_last_member(draft: Draft) -> None:
    draft.put(ConsumerMember("a", expression="t|x"))
    draft.put(ConsumerMember("b", expression="t|x"))
    assert draft.resolve(["t|x"])
    assert not draft.resolve(["t|x"]), "nothing new"
    draft.remove(draft.group.members["a"])
    assert draft.group.resolved["t|x"].topics == {"t"}
    draft.remove(draft.group.members["b"])
    assert draft.group.resolved == {}


def test_a_step_is_written_if_there_is_one(draft: Draft) -> None:
    draft.put(ConsumerMember("a", topics=frozenset("t")))
    draft.check_topics(bump=True)
    draft.compute_target()
    after = draft.step(draft.group.members["a"], {}, has_resubscribed=False)
    assert draft.records[-1] == group_records.current("g", after)
    written = len(draft.records)
    assert draft.step(after, None, has_resubscribed=False) is after
    assert len(draft.records) == written


def test_records_of_the_former_classic_group_change_nothing(draft: Draft) -> None:
    draft.add((GroupMetadataKey("g"), None))
    assert draft.group is draft.live
    assert draft.records == [(GroupMetadataKey("g"), None)]
