"""Groups that change their kind, rule by rule, and with members of both protocols in any order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headgate.gateway.coordinator.groups.classic.group import ClassicGroup, GroupState
from headgate.gateway.coordinator.groups.consumer.group import ConsumerGroup
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.groups.tests.consumers import (
    GROUP,
    LEAVE_STATIC_EPOCH,
    Client,
    classic_members,
    group_of,
)
from headgate.gateway.coordinator.groups.tests.groups import Desk, persistent_state
from headgate.gateway.coordinator.groups.tests.mixed_consumers import SESSION_MS, ClassicConsumer, settle_all
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import GroupMetadataKey
from headgate.protocol.tests.examples import share


def desk_with(*, policy: str = "bidirectional", partitions: int = 6, **fields: Any) -> Desk:
    return Desk(
        {"orders": partitions},
        GroupSettings(initial_rebalance_delay_ms=0, consumer_migration_policy=policy, **fields),
    )


def classic_pair(desk: Desk, *, cooperative: bool = True, **fields: Any) -> tuple[ClassicConsumer, ClassicConsumer]:
    pair = (
        ClassicConsumer(desk, "orders", cooperative=cooperative, **fields),
        ClassicConsumer(desk, "orders", cooperative=cooperative, **fields),
    )
    settle_all(desk, pair)
    return pair


def classic_group(desk: Desk) -> ClassicGroup:
    group = desk.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    return group


@pytest.mark.parametrize("cooperative", [False, True])
def test_a_consumer_member_converts_the_group_and_others_keep_theirs(
    cooperative: bool,
) -> None:
    desk = desk_with()
    first, second = classic_pair(desk, cooperative=cooperative)
    before = {first.member_id: set(first.reads), second.member_id: set(second.reads)}
    generation = classic_group(desk).generation

    new = Client(desk, "new", "orders")
    new.beat()
    group = group_of(desk)
    assert (group.kind, group.epoch, classic_members(desk)) == ("consumer", generation + 1, 2)
    batch = desk.batches[-1]
    assert isinstance(batch[0][0], GroupMetadataKey)
    assert batch[0][1] is None, "the classic group ends in the batch that begins the other one"
    for member_id, reads in before.items():
        assert {number for numbers in group.members[member_id].assigned.values() for number in numbers} == reads
        assert group.members[member_id].epoch == generation
    assert new.reads == {}
    settle_all(desk, (first, second, new))
    assert group_of(desk).state == "Stable"
    assert sorted(len(reads) for reads in (first.reads, second.reads, new.reads.get("orders", set()))) == [2, 2, 2]
    if cooperative:
        assert first.reads < before[first.member_id], "nobody got what another one had, but the new member"
    desk.check_rebuilt()


def test_members_without_the_later_fields_of_their_version_are_converted() -> None:
    """And back. Kafka refuses: see `test_subscriptions_like_kafka`."""
    desk = desk_with()
    first, second = classic_pair(desk, cooperative=False, is_short=True)
    new = Client(desk, "new", "orders")
    settle_all(desk, (first, second, new))
    assert sorted(len(reads) for reads in (first.reads, second.reads, new.reads.get("orders", set()))) == [2, 2, 2]
    new.quit()
    settle_all(desk, (first, second))
    assert classic_group(desk).subscribes_to("orders")
    assert not classic_group(desk).subscribes_to("other")
    assert (first.reads | second.reads, len(first.reads)) == (set(range(6)), 3)
    desk.check_rebuilt()


def test_members_that_wait_for_a_rebalance_are_sent_to_the_new_group() -> None:
    desk = desk_with()
    first, second = classic_pair(desk)
    first.join()  # and waits for the other one
    assert first.is_parked
    Client(desk, "new", "orders").beat()
    assert first.taken() is ErrorCode.REBALANCE_IN_PROGRESS
    settle_all(desk, (first, second))
    assert classic_members(desk) == 2


def test_members_keep_what_they_read_without_an_assigned_generation() -> None:
    """Cooperative members go on reading while they rebalance; Kafka forgets what, if one joins at the wrong time."""
    desk = desk_with(partitions=20)
    first, second = classic_pair(desk)
    third = ClassicConsumer(desk, "orders")
    third.join()
    first.join()
    second.sync = lambda _: None  # type: ignore[method-assign,assignment]
    second.join()
    assert classic_group(desk).state is GroupState.COMPLETING
    ClassicConsumer(desk, "orders").join()
    assert classic_group(desk).state is GroupState.PREPARING
    new = Client(desk, "new", "orders")
    new.beat()
    assert first.reads | second.reads == set(range(20))
    assert new.reads == {}


def test_when_the_write_fails_the_group_stays_classic() -> None:
    from headgate.gateway.coordinator.groups.consumer import heartbeats
    from headgate.gateway.coordinator.groups.tests.consumers import CALLER

    desk = desk_with()
    first, second = classic_pair(desk)
    new = Client(desk, "new", "orders")
    desk.fail(heartbeats.heartbeat(desk.shard, new.request(), CALLER, desk.ticket(), desk.now_ms))
    assert classic_group(desk).state is GroupState.STABLE
    settle_all(desk, (first, second))
    desk.check_rebuilt()


def test_when_the_write_fails_who_waited_is_watched_again() -> None:
    from headgate.gateway.coordinator.groups.consumer import heartbeats
    from headgate.gateway.coordinator.groups.tests.consumers import CALLER

    desk = desk_with()
    first, second = classic_pair(desk)
    follower, leader = sorted((first, second), key=lambda member: member.member_id == classic_group(desk).leader)
    follower.join()
    given: list[Any] = []
    assign, leader.sync = leader.sync, given.extend  # type: ignore[method-assign,assignment]
    leader.join()
    follower.step()
    assert follower.is_parked
    for _ in range(4):  # while its SyncGroup waits, the follower's session does not end
        desk.advance(SESSION_MS / 3)
        leader.heartbeat()
    new = Client(desk, "new", "orders")
    desk.fail(heartbeats.heartbeat(desk.shard, new.request(), CALLER, desk.ticket(), desk.now_ms))
    assign(given)
    assert classic_group(desk).state is GroupState.STABLE
    for _ in range(4):  # the follower is not heard of any more
        desk.advance(SESSION_MS / 3)
        leader.step()
    assert follower.member_id not in classic_group(desk).members.by_id


@pytest.mark.parametrize(
    "policy,upgrades", [("disabled", False), ("downgrade", False), ("upgrade", True), ("BIDIRECTIONAL", True)]
)
def test_the_policy_says_who_may_upgrade(policy: str, upgrades: bool) -> None:
    desk = desk_with(policy=policy)
    classic_pair(desk)
    new = Client(desk, "new", "orders")
    if upgrades:
        new.beat()
        assert group_of(desk).members.keys() > {"new"}
    else:
        assert new.refused() is ErrorCode.GROUP_ID_NOT_FOUND
        assert classic_group(desk).state is GroupState.STABLE


def test_a_group_too_large_or_not_of_consumers_is_not_converted() -> None:
    desk = desk_with(consumer_max_size=1)
    classic_pair(desk)
    assert Client(desk, "new", "orders").refused() is ErrorCode.GROUP_ID_NOT_FOUND
    desk = desk_with()
    other = ClassicConsumer(desk, "orders", protocol_type="connect")
    settle_all(desk, (other,))
    assert Client(desk, "new", "orders").refused() is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_assignor_that_has_data_of_its_own_prevents_an_upgrade() -> None:
    desk = desk_with()
    classic_pair(desk, user_data=b"sticky")
    with pytest.raises(KafkaError, match="custom assignor") as caught:
        Client(desk, "new", "orders").beat()
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_group_changes_its_kind_whatever_the_policy() -> None:
    desk = desk_with(policy="disabled")
    first, second = classic_pair(desk)
    first.leave()
    second.leave()
    new = Client(desk, "new", "orders")
    new.beat()
    assert new.reads == {"orders": set(range(6))}
    new.leave()
    assert group_of(desk).state == "Empty"
    again = ClassicConsumer(desk, "orders")
    settle_all(desk, (again,))
    assert classic_group(desk).state is GroupState.STABLE
    assert again.reads == set(range(6))
    desk.check_rebuilt()


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_the_last_consumer_member_leaves_a_classic_group_behind(crashes: bool, restarts: bool) -> None:
    desk = desk_with()
    first, second = classic_pair(desk)
    new = Client(desk, "new", "orders")
    new.beat()
    settle_all(desk, (first, second, new))
    epoch = group_of(desk).epoch
    if crashes:
        for _ in range(10):
            desk.advance(5_000)
            first.step()
            second.step()
    else:
        new.leave()
    assert classic_group(desk).generation >= epoch
    if restarts:
        desk.shard = desk.rebuilt()
        list(desk.shard.start_clocks(desk.now_ms))
    settle_all(desk, (first, second))
    assert classic_group(desk).state is GroupState.STABLE
    assert first.reads | second.reads == set(range(6)), "what the last one had read belongs to somebody again"
    assert not first.reads & second.reads
    desk.check_rebuilt()


def test_where_no_downgrade_is_allowed_classic_members_are_served_on() -> None:
    desk = desk_with(policy="upgrade")
    first, second = classic_pair(desk)
    new = Client(desk, "new", "orders")
    new.beat()
    settle_all(desk, (first, second, new))
    new.leave()
    third = ClassicConsumer(desk, "orders")
    settle_all(desk, (first, second, third))
    assert classic_members(desk) == 3
    assert first.reads | second.reads | third.reads == set(range(6))


def test_the_last_consumer_member_comes_back_as_a_classic_one() -> None:
    desk = desk_with()
    first, _ = classic_pair(desk)
    static = Client(desk, "static", "orders", instance_id="i")
    static.beat()
    static.leave(LEAVE_STATIC_EPOCH)
    back = ClassicConsumer(desk, "orders", instance_id="i")
    back.join()
    assert classic_group(desk).members.by_instance.keys() == {"i"}
    assert first.member_id in classic_group(desk).members.by_id
    desk.check_rebuilt()


class Mixed(RuleBasedStateMachine):
    """Members of both protocols come, go and crash; the group is of the kind that its members ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = desk_with(partitions=5)
        self.members: list[Client | ClassicConsumer] = []
        self.names = 0

    @precondition(lambda self: len(self.members) < 5)
    @rule(cooperative=st.booleans(), version=st.sampled_from((3, 5, 9)))
    def classic_joins(self, cooperative: bool, version: int) -> None:
        self.members.append(ClassicConsumer(self.desk, "orders", cooperative=cooperative, version=version))
        self.members[-1].step()

    @precondition(lambda self: len(self.members) < 5)
    @rule()
    def consumer_joins(self) -> None:
        self.names += 1
        client = Client(self.desk, f"c{self.names}", "orders")
        client.step()
        self.members.append(client)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def goes_on(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.members)).step()

    @precondition(lambda self: self.members)
    @rule(data=st.data(), crashes=st.booleans())
    def goes(self, data: st.DataObject, crashes: bool) -> None:
        member = data.draw(st.sampled_from(self.members))
        self.members.remove(member)
        if not crashes:
            member.quit()

    @rule(milliseconds=st.sampled_from((500, 5_000, 20_000)))
    def time_passes(self, milliseconds: int) -> None:
        self.desk.advance(milliseconds)

    @rule()
    def broker_restarts(self) -> None:
        self.desk.shard = self.desk.rebuilt()
        self.desk.shard.random.seed(len(self.desk.replies))  # not the member ids of before once more
        list(self.desk.shard.start_clocks(self.desk.now_ms))
        for member in self.members:
            member.lose_connection()

    @invariant()
    def rebuilt_is_live(self) -> None:
        if any(member.is_parked for member in self.members):
            return  # a classic group that rebalances is ahead of its records
        assert persistent_state(self.desk.replica) == persistent_state(self.desk.shard)

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.desk.shard.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            owned = [(topic, n) for member in group.members.values() for topic, of in member.owns for n in of]
            assert len(owned) == len(set(owned))

    def teardown(self) -> None:
        settle_all(self.desk, self.members, rounds=60)
        group = self.desk.shard.groups.get(GROUP)
        if not self.members:
            assert group is None or group.state == "Empty"
            return
        assert group is not None
        assert group.state == "Stable"
        assert group.kind == ("consumer" if any(isinstance(each, Client) for each in self.members) else "classic")
        reads = [number for member in self.members for number in member.partitions("orders")]
        assert sorted(reads) == list(range(5))
        self.desk.check_rebuilt()


TestMixed = pytest.mark.slow(Mixed.TestCase)
TestMixed.settings = settings(max_examples=share(25, soak=40), stateful_step_count=25, deadline=None)
