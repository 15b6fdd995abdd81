"""Groups of every client family: members share a topic, come, go and crash, and go on from what was committed.

Members commit only when they are told to, and are told before each change, in quiet: so whatever happens, each record
is given to one member, once. Each is a process of its own; a crash is SIGKILL.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.broker import TARGET, Broker, running
from compat_tests.conftest import new_topic
from compat_tests.families.confluent import Confluent
from compat_tests.groups.committed import committed_offsets
from compat_tests.groups.member import KINDS, SERVER, Kind, Member
from compat_tests.records import Sent
from compat_tests.waiting import Late, until

PARTITIONS = 6
SESSION_MS = 6000
# A group must not take longer to notice that a member left than that one is dead
LEAVE_LIMIT_S = SESSION_MS / 1000
SETTLE_LIMIT_S = 45.0
# The broker decides for members of the newer protocol how long they live, and how often they say that they do
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "200",
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
NUMBERS = itertools.count()
STATIC_KINDS = [kind for kind in KINDS if kind.has_static_members]


class Group:
    """The members of a group, on a topic of its own, and all that any of them was ever given."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.name = f"group-{next(NUMBERS)}"
        self.topic = new_topic(broker.bootstrap, PARTITIONS)
        self.members: list[Member] = []
        self.gone: list[Member] = []
        self.sent = 0

    def join(self, kind: Kind, instance: str | None = None) -> Member:
        member = Member(kind, self.broker.bootstrap, self.topic, self.name, SESSION_MS, instance)
        self.members.append(member)
        return member

    def settle(self, timeout_s: float = SETTLE_LIMIT_S) -> float:
        """Wait until each partition has one member and each member a partition; the seconds that took."""
        try:
            return until(self.is_settled, f"{self.name} to settle", timeout_s)
        except Late as late:
            raise Late(f"{late}: {self.describe()}") from None

    def is_settled(self) -> bool:
        for member in self.members:
            member.assert_running()
        owned = Counter(partition for member in self.members for partition in member.owned)
        return all(member.owned for member in self.members) and owned == Counter(range(PARTITIONS))

    def describe(self) -> str:
        return ", ".join(f"{member.name} has {sorted(member.owned)}" for member in self.members)

    def share(self) -> None:
        """Send records to each partition, and have the members read them: every record once, whoever was there."""
        count = 20 * PARTITIONS
        records = [Sent(number % PARTITIONS, None, None, b"%d" % number, ()) for number in range(count)]
        Confluent().produce(self.broker.bootstrap, self.topic, records, "none")
        self.sent += count
        until(lambda: len(self.given()) >= self.sent, f"{self.name} to read {self.sent} records", 30)
        self.assert_each_once()

    def given(self) -> list[tuple[int, int]]:
        return [record for member in [*self.gone, *self.members] for record in member.records]

    def assert_each_once(self) -> None:
        """Whatever was sent was given to somebody, and nothing twice."""
        expected = {(partition, offset): 1 for partition in range(PARTITIONS) for offset in range(self.end())}
        assert Counter(self.given()) == expected

    def end(self) -> int:
        """The offset after the last record, of every partition."""
        return self.sent // PARTITIONS

    def commit(self) -> None:
        """Have all commit what they were given, and look at what is stored."""
        for member in self.members:
            member.commit()
        stored = committed_offsets(self.broker.bootstrap, self.name, self.topic)
        assert stored == dict.fromkeys(range(PARTITIONS), self.end())

    def leave(self, member: Member) -> None:
        self.remove(member)
        member.leave()

    def crash(self, member: Member) -> None:
        self.remove(member)
        member.crash()

    def remove(self, member: Member) -> None:
        self.members.remove(member)
        self.gone.append(member)

    def end_all(self) -> None:
        for member in self.members:
            member.end()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One for all groups, with sessions as short as they are allowed to be by default."""
    with running(Path(tmp_path_factory.mktemp("groups")), SETTINGS) as broker:
        yield broker


@pytest.fixture
def group(broker: Broker) -> Iterator[Group]:
    group = Group(broker)
    yield group
    group.end_all()


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    found.command()
    return found


@pytest.fixture(params=STATIC_KINDS, ids=lambda kind: kind.name)
def static_kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    found.command()
    return found


def test_members_join_and_leave(group: Group, kind: Kind) -> None:
    """Two, then three, then two again; the others have the partitions of one that left before its session is over."""
    group.join(kind)
    second = group.join(kind)
    group.settle()
    group.share()
    group.commit()

    group.join(kind)
    group.settle()
    group.share()
    group.commit()

    group.leave(second)
    group.settle(LEAVE_LIMIT_S)
    group.share()
    group.commit()


def test_others_take_over_from_one_that_crashed_and_all_goes_on_after_a_restart(group: Group, kind: Kind) -> None:
    """What was committed is where the others begin, and where everybody begins after the broker was restarted."""
    group.join(kind)
    doomed = group.join(kind)
    group.settle()
    group.share()
    group.commit()

    group.crash(doomed)
    took_s = group.settle()
    assert took_s > SESSION_MS / 2000, "nobody told the group that the member is dead"
    group.share()
    group.commit()

    group.broker.restart()
    group.share()
    group.commit()
    group.leave(group.members[0])

    group.broker.restart()
    group.join(kind)
    group.settle()
    group.share()
    group.commit()


def test_a_static_member_comes_back_to_its_partitions(group: Group, static_kind: Kind) -> None:
    """KIP-345: one that ends and is back within its session is not missed; the other does not notice."""
    other = group.join(static_kind, "other")
    member = group.join(static_kind, "restarted")
    group.settle()
    group.share()
    group.commit()
    had, assignments = member.owned, len(other.assignments)

    group.crash(member)
    back = group.join(static_kind, "restarted")
    group.settle()
    group.share()
    group.commit()
    assert back.owned == had
    assert len(other.assignments) == assignments


@pytest.mark.parametrize("kinds", [[kind for kind in KINDS if kind.assignor == "range"]], ids=["range"])
def test_clients_of_all_families_share_a_group(group: Group, kinds: list[Kind]) -> None:
    """One leads and assigns for all the others: they understand each other's subscriptions through the broker."""
    assert len(kinds) <= PARTITIONS
    for kind in kinds:
        kind.command()
        group.join(kind)
    group.settle()
    group.share()
    group.commit()
    group.crash(group.members[0])
    group.settle()
    group.share()
    group.commit()


@pytest.mark.parametrize("client", ["java-4.4", "confluent-kafka"])
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_group_changes_its_protocol_while_it_reads(group: Group, client: str, assignor: str) -> None:
    """KIP-848's online migration: a classic group takes in members of the newer protocol, one by one; and back."""
    classic, newer = Kind(client, assignor), Kind(client, SERVER)
    classic.command()
    members = [group.join(classic), group.join(classic)]
    group.settle()
    group.share()
    for into in (newer, newer, classic, classic):
        group.commit()
        group.leave(members.pop(0))
        members.append(group.join(into))
        group.settle()
        group.share()
    group.commit()


@pytest.mark.skipif(TARGET != "headgate", reason="says what a start of this broker takes")
def test_committed_offsets_survive_a_kill(group: Group) -> None:
    """SIGKILL of the broker right after a commit was answered: with one replica the log is what there is."""
    kind = Kind("confluent-kafka", "range")
    group.join(kind)
    group.settle()
    group.share()
    group.commit()
    group.broker.kill()
    group.broker.start()
    assert committed_offsets(group.broker.bootstrap, group.name, group.topic) == dict.fromkeys(
        range(PARTITIONS), group.end()
    )
    group.share()
    group.commit()
