"""Many simulated consumers, anything may happen: whose partitions they are, and that what is live is what is written.

Members join, leave, crash and hang, connections and writes are lost, time jumps, the broker starts anew from records.
After every step: no two members own a partition in one generation, the hard state is that of the records, every waiting
request is one that the group will answer. When nothing more happens, every partition has one owner.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headgate.gateway.coordinator.groups.classic.group import ClassicGroup, GroupState
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.groups.tests.classic_clients import PARTITIONS, Client, FailingDesk
from headgate.gateway.coordinator.groups.tests.classic_desk import REBALANCE_MS, SESSION_MS

MAX_CLIENTS = 6
QUIET_ROUNDS = 60
NUMBERS = st.integers(0, 1_000)


class Consumers(RuleBasedStateMachine):
    """One group, whose members are all eager, or all cooperative."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = FailingDesk()
        self.clients: list[Client] = []
        self.is_cooperative = False
        self.instances = 0

    @initialize(is_cooperative=st.booleans(), delay_ms=st.sampled_from([0, 3_000]))
    def begin(self, is_cooperative: bool, delay_ms: int) -> None:
        self.is_cooperative = is_cooperative
        self.desk = FailingDesk(initial_rebalance_delay_ms=delay_ms)

    # What happens

    @precondition(lambda self: len(self.clients) < MAX_CLIENTS)
    @rule(is_static=st.booleans(), version=st.sampled_from([2, 4, 6, 9]))
    def start(self, is_static: bool, version: int) -> None:
        self.instances += is_static
        instance_id = f"i{self.instances}" if is_static else None
        self.clients.append(Client(self.desk, instance_id, version, is_cooperative=self.is_cooperative))

    @precondition(lambda self: self.clients)
    @rule(number=NUMBERS, steps=st.integers(1, 4))
    def step(self, number: int, steps: int) -> None:
        for _ in range(steps):
            self.pick(number).step()

    @rule(rounds=st.integers(1, 3))
    def step_all(self, rounds: int) -> None:
        for _ in range(rounds):
            for client in self.clients:
                client.step()

    @precondition(lambda self: self.clients)
    @rule(number=NUMBERS)
    def leave(self, number: int) -> None:
        client = self.pick(number)
        self.clients.remove(client)
        client.lose_connection()
        client.leave()

    @precondition(lambda self: self.clients)
    @rule(number=NUMBERS)
    def crash(self, number: int) -> None:
        client = self.pick(number)
        self.clients.remove(client)
        client.lose_connection()

    @precondition(lambda self: any(client.instance_id for client in self.clients))
    @rule(number=NUMBERS, version=st.sampled_from([5, 9]))
    def bounce(self, number: int, version: int) -> None:
        """A static member is restarted: the same instance, another life. The old one may still run."""
        static = [client for client in self.clients if client.instance_id]
        old = static[number % len(static)]
        old.lose_connection()
        if number % 2 or len(self.clients) >= MAX_CLIENTS:
            self.clients.remove(old)
        self.clients.append(Client(self.desk, old.instance_id, version, is_cooperative=self.is_cooperative))

    @precondition(lambda self: self.clients)
    @rule(number=NUMBERS, topics=st.sampled_from(["t", "tu"]))
    def subscribe(self, number: int, topics: str) -> None:
        client = self.pick(number)
        client.needs_join = client.needs_join or client.topics != topics
        client.topics = topics

    @precondition(lambda self: self.clients)
    @rule(number=NUMBERS)
    def lose_connection(self, number: int) -> None:
        self.pick(number).lose_connection()

    @rule()
    def fail_next_write(self) -> None:
        self.desk.is_failing = True

    @rule(milliseconds=st.sampled_from([1, 500, 3_000, SESSION_MS - 1, SESSION_MS, REBALANCE_MS]))
    def pass_time(self, milliseconds: int) -> None:
        self.desk.advance(milliseconds)

    @rule()
    def restart(self) -> None:
        self.desk.restart()
        for client in self.clients:
            client.lose_connection()

    @rule()
    def come_to_rest(self) -> None:
        self.desk.is_failing = False
        self.clients = [client for client in self.clients if not client.is_fenced]
        for _ in range(QUIET_ROUNDS):
            for client in list(self.clients):
                client.step()
            self.desk.advance(2_000)
            self.check()
        group = self.desk.shard.groups.get("group")
        alive = [client for client in self.clients if not client.is_fenced]
        assert all(client.asked is None for client in alive), alive
        owned = [partition for client in alive for partition in client.owned]
        assert sorted(owned) == (sorted(PARTITIONS) if alive else []), alive
        if isinstance(group, ClassicGroup):
            assert group.state is (GroupState.STABLE if alive else GroupState.EMPTY)
            assert group.members.by_id.keys() == {client.member_id for client in alive}
            assert {client.generation for client in alive} <= {group.generation}

    def pick(self, number: int) -> Client:
        return self.clients[number % len(self.clients)]

    # What holds

    @invariant()
    def check(self) -> None:
        owners: dict[tuple[int, int], Client] = {}
        for client in self.clients:
            for partition in client.owned:
                other = owners.setdefault((client.owned_generation, partition), client)
                is_next_life = client.instance_id is not None and client.instance_id == other.instance_id
                assert other is client or is_next_life, (partition, client, other)
        self.desk.check_rebuilt()
        group = self.desk.shard.groups.get("group")
        if isinstance(group, ClassicGroup):
            check_group(group, self.desk.replica)
            waiting = {ticket for member in group.members for ticket in (member.join, member.sync)}
            assert all(ticket in waiting for client in self.clients for ticket in client.tickets())


def check_group(group: ClassicGroup, rebuilt: GroupShard) -> None:
    """What a group must be like at any time."""
    members = list(group.members)
    assert group.due_ms <= group.next_due_ms()
    assert group.leader is None or group.leader in group.members.by_id
    assert (group.leader is None) == (not members)
    assert group.pending_sync <= group.members.by_id.keys()
    assert not group.pending.keys() & group.members.by_id.keys()
    assert group.state is not GroupState.EMPTY or not members
    assert group.state not in {GroupState.STABLE, GroupState.COMPLETING} or members
    if group.state is not GroupState.PREPARING:
        assert not any(member.join for member in members)
    if group.state is not GroupState.COMPLETING:
        assert not any(member.sync for member in members)
    if group.state is GroupState.STABLE:
        again = rebuilt.groups["group"]
        assert isinstance(again, ClassicGroup)
        assert view(again) == view(group)


def view(group: ClassicGroup) -> Any:
    """What clients and tools could see of a stable group."""
    return group.generation, group.leader, group.protocol_type, group.describe()


@pytest.mark.slow
def test_consumers() -> None:
    run_state_machine_as_test(Consumers, settings=settings(stateful_step_count=40))
