"""A group under test: its members, a topic of its own, and what has to hold of them together."""

from __future__ import annotations

import itertools
from collections import Counter

from compat_tests.families.confluent import Confluent
from compat_tests.groups.committed import committed_offsets
from compat_tests.groups.listed import listed_groups
from compat_tests.groups.member import Kind, Member
from compat_tests.harness.broker import Broker
from compat_tests.harness.records import Sent
from compat_tests.harness.waiting import Late, until

PARTITIONS = 6
# The least that a broker allows by default; with less, a busy machine would lose members
SESSION_MS = 6000
# On a busy machine too, a process ends, starts and joins within this time
LONG_SESSION_MS = 20_000
SETTLE_LIMIT_S = 60.0
# The broker sets the session and the heartbeat interval of members of the newer protocol
SERVER_SESSION_MS = 12_000
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "200",
    "group.consumer.min.session.timeout.ms": str(SERVER_SESSION_MS),
    "group.consumer.session.timeout.ms": str(SERVER_SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
NUMBERS = itertools.count()


class Group:
    """The members of a group, on a topic of its own, and all that any of them was ever given."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.broker = broker
        self.name = f"group-{next(NUMBERS)}"
        self.topic = topic
        self.session_ms = SESSION_MS
        self.members: list[Member] = []
        self.gone: list[Member] = []
        self.sent = 0

    def join(self, kind: Kind, instance: str | None = None) -> Member:
        member = Member(kind, self.broker.bootstrap, self.topic, self.name, self.session_ms, instance)
        self.members.append(member)
        return member

    def settle(self, timeout_s: float = SETTLE_LIMIT_S) -> float:
        """Wait until each partition has one member and all have as many; the seconds that took.

        A member that has one too many is about to lose it: what it is given until then another will be given again.
        """
        try:
            return until(self.is_settled, f"{self.name} to settle", timeout_s)
        except Late as late:
            raise Late(f"{late}: {self.describe()}") from None

    def is_settled(self) -> bool:
        for member in self.members:
            member.assert_running()
        owned = Counter(partition for member in self.members for partition in member.owned)
        counts = [len(member.owned) for member in self.members]
        return owned == Counter(range(PARTITIONS)) and max(counts) - min(counts) <= 1

    def describe(self) -> str:
        return ", ".join(f"{member.name} has {sorted(member.owned)}" for member in self.members)

    def type(self) -> str:
        """What the broker says it is: classic or consumer."""
        return listed_groups(self.broker.bootstrap)[self.name].type

    def share(self) -> None:
        """Send records to each partition, and have the members read them: every record once, whoever was there."""
        count = 20 * PARTITIONS
        records = [Sent(number % PARTITIONS, None, None, b"%d" % number, ()) for number in range(count)]
        Confluent().produce(self.broker.bootstrap, self.topic, records, "none")
        self.sent += count
        until(lambda: len(self.given()) >= self.sent, f"{self.name} to read {self.sent} records")
        self.assert_each_once()

    def given(self) -> list[tuple[int, int]]:
        return [record for member in [*self.gone, *self.members] for record in member.records]

    def assert_each_once(self) -> None:
        """Whatever was sent was given to somebody, and nothing twice."""
        expected = {(partition, offset): 1 for partition in range(PARTITIONS) for offset in range(self.end())}
        given = Counter(self.given())
        missing = sorted(expected.keys() - given.keys())
        assert given == expected, f"missing {missing}, not once {given - Counter(expected)}: {self.describe()}"

    def end(self) -> int:
        """The offset after the last record, of every partition."""
        return self.sent // PARTITIONS

    def commit(self) -> None:
        """Have all commit what they were given, and look at what is stored."""
        until(self.has_committed, f"{self.name} to commit {self.end()}")

    def has_committed(self) -> bool:
        for member in self.members:
            member.commit()
        stored = committed_offsets(self.broker.bootstrap, self.name, self.topic)
        is_stored = stored == dict.fromkeys(range(PARTITIONS), self.end())
        assert is_stored or not all(member.kind.tells_failed_commits for member in self.members), stored
        return is_stored

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
