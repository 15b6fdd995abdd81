"""Consumers of a partition that lost records which they had read: who notices, and where each reads on.

A group of each client reads and commits 0 to 99. The machine loses what was not synced: the log ends at 80. 60 new
records follow, at 80 to 139. A consumer that goes on at 100 never reads 80 to 99 of the new history, without an error.
Whether it can notice depends on the leader epoch, which rises with the start (KIP-320), and on the client.

    late       the consumer is running, and asks again when the new records are there
    early      the consumer is running, and asks again when the log ends at 80
    restarted  another consumer goes on with what the group has committed

All are in one scenario, of about 20 processes: each test looks at what one of them was given. The expectations are what
each client does on Apache Kafka 4.1; `docs/durability.md` has them as a table.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.groups.committed import Answer
from compat_tests.groups.member import SERVER, Kind, Member
from compat_tests.harness import epochs, wire
from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.leaders import until_all_led
from compat_tests.harness.topics import new_topic
from compat_tests.harness.waiting import until
from compat_tests.storage.power_cut import cut, produce_one_by_one

READ, KEPT, NEW = 100, 80, 60
END = KEPT + NEW
SESSION_MS = 45_000
LIMIT_S = 60.0
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
SYNCED = {"headgate.flush": "commit"} if TARGET == "headgate" else {"flush.messages": "1"}
FIND_COORDINATOR, OFFSET_COMMIT = 10, 8
FENCED_LEADER_EPOCH = 74
NOT_READY = {14, 15, 16}  # the coordinator is loading, not there, or elsewhere
# Clients come back within their backoffs, of which the longest is a second
COME_BACK_S = 2.0

JAVA, JAVA_SERVER = Kind("java-4.4", "range"), Kind("java-4.4", SERVER)
LIBRDKAFKA, FRANZ_GO, SARAMA = Kind("confluent-kafka", "range"), Kind("franz-go", "range"), Kind("sarama", "range")

FROM_CUT = tuple(range(KEPT, END))
SKIPPED = tuple(range(READ, END))
ALL_AGAIN = tuple(range(END))
LOST = f"lost records; the client consumed to offset {READ} epoch 0 but was reset to offset {KEPT}"


class Case(NamedTuple):
    """A consumer, `offsets`, what it is given below END after the cut, and a part of what its application is told."""

    kind: Kind
    when: str
    reset: str
    offsets: tuple[int, ...]
    told: str = ""
    commits_epoch: bool = True

    @property
    def group(self) -> str:
        """A consumer that is restarted has had the group of one that was running."""
        name = f"{self.kind.name}-{self.reset}"
        return f"{name}-early" if self.when == "early" else name if self.commits_epoch else f"{name}-without-epoch"

    def __str__(self) -> str:
        return f"{self.kind.name}-{self.when}-{self.reset}{'' if self.commits_epoch else '-without-epoch'}"


CASES = (
    Case(JAVA, "late", "earliest", FROM_CUT),
    Case(JAVA, "late", "none", (), "LogTruncationException"),
    Case(JAVA, "early", "earliest", FROM_CUT),
    Case(JAVA, "restarted", "earliest", FROM_CUT),
    Case(JAVA, "restarted", "none", (), "LogTruncationException"),
    Case(JAVA, "restarted", "earliest", SKIPPED, commits_epoch=False),
    Case(JAVA_SERVER, "late", "latest", FROM_CUT),
    Case(JAVA_SERVER, "restarted", "latest", FROM_CUT),
    Case(LIBRDKAFKA, "late", "earliest", FROM_CUT),
    Case(LIBRDKAFKA, "late", "latest", FROM_CUT),
    Case(LIBRDKAFKA, "late", "none", (), "_AUTO_OFFSET_RESET"),
    Case(LIBRDKAFKA, "early", "earliest", FROM_CUT),
    # It does not validate the epoch of a committed offset
    Case(LIBRDKAFKA, "restarted", "earliest", SKIPPED),
    Case(FRANZ_GO, "late", "earliest", FROM_CUT, LOST),
    Case(FRANZ_GO, "late", "none", FROM_CUT, LOST),
    Case(FRANZ_GO, "early", "earliest", FROM_CUT, LOST),
    Case(FRANZ_GO, "restarted", "earliest", FROM_CUT, LOST),
    # It knows no epochs: it can only find that its offset is behind the end
    Case(SARAMA, "late", "earliest", SKIPPED),
    Case(SARAMA, "early", "earliest", ALL_AGAIN),
    Case(SARAMA, "early", "latest", FROM_CUT),
    Case(SARAMA, "restarted", "earliest", SKIPPED),
)
WITHOUT_LOSS = (JAVA, LIBRDKAFKA, FRANZ_GO, SARAMA)


class Seen(NamedTuple):
    """What a consumer was given after the power cut, and what its application was told."""

    offsets: tuple[int, ...]
    failures: tuple[str, ...]


class Scenario:
    """The broker, a topic that lost records and one that lost none, and a consumer of each case."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.lossy = new_topic(broker.bootstrap, 1)
        self.synced = new_topic(broker.bootstrap, 1, SYNCED)
        self.members: dict[str, Member] = {}
        self.before: dict[str, int] = {}
        self.seen: dict[Case, Seen] = {}
        self.without_loss: dict[Kind, Seen] = {}

    def play(self) -> None:
        for topic in (self.lossy, self.synced):
            produce_one_by_one(self.broker.bootstrap, topic, [b"old"] * READ)
        self.read_and_commit()
        self.lose()
        self.observe()
        self.restart()

    def read_and_commit(self) -> None:
        started = [case for case in CASES if case.when != "restarted"]
        for case in started:
            if case.reset != "earliest":
                commit(self.broker.bootstrap, case.group, self.lossy, 0)
            self.start(case.kind, self.lossy, case.group, case.reset)
        for kind in WITHOUT_LOSS:
            self.start(kind, self.synced, without_loss(kind), "earliest")
        self.wait_for(READ, self.members)
        for name, member in self.members.items():
            member.commit()
            self.before[name] = len(member.records)

    def start(self, kind: Kind, topic: str, group: str, reset: str) -> None:
        self.members[group] = Member(kind, self.broker.bootstrap, topic, group, SESSION_MS, None, reset)
        self.before[group] = 0

    def lose(self) -> None:
        """The power cut. Consumers of the late cases sleep until the new records are there."""
        late = [self.members[case.group] for case in CASES if case.when == "late"]
        early = [self.members[case.group] for case in CASES if case.when == "early"]
        for member in late:
            os.kill(member.process.pid, signal.SIGSTOP)
        self.broker.kill()
        cut(self.broker, self.lossy, KEPT)
        self.broker.start()
        until_all_led(self.broker.bootstrap)
        visible = self.members[Case(SARAMA, "early", "earliest", ()).group]
        until(lambda: len(visible.records) >= READ + KEPT, f"{visible.name} to come back", LIMIT_S)
        time.sleep(COME_BACK_S)
        for member in early:
            member.assert_running()
        for topic in (self.lossy, self.synced):
            produce_one_by_one(self.broker.bootstrap, topic, [b"new"] * NEW)
        for member in late:
            os.kill(member.process.pid, signal.SIGCONT)

    def observe(self) -> None:
        self.follow(self.members)
        for case in CASES:
            if case.when != "restarted":
                self.seen[case] = self.seen_by(case.group, END)
        for kind in WITHOUT_LOSS:
            self.without_loss[kind] = self.seen_by(without_loss(kind), READ + NEW)

    def restart(self) -> None:
        """Those that are running leave; others come in their place, which know what is committed and nothing else."""
        restarted = [case for case in CASES if case.when == "restarted"]
        for case in restarted:
            if case.commits_epoch:
                stop(self.members.pop(case.group))
            else:
                commit(self.broker.bootstrap, case.group, self.lossy, READ)
            self.start(case.kind, self.lossy, case.group, case.reset)
        self.follow({case.group for case in restarted})
        for case in restarted:
            self.seen[case] = self.seen_by(case.group, END)

    def seen_by(self, name: str, end: int) -> Seen:
        """What a member was given of the offsets below `end`: behind it are markers."""
        member = self.members[name]
        offsets = tuple(offset for _, offset in member.records[self.before[name] :] if offset < end)
        return Seen(offsets, tuple(member.failures))

    def follow(self, names: Iterable[str]) -> None:
        """Until each reads what is written now, or has said that it cannot.

        A consumer that goes to the end of the log reads only what comes after it: markers are written all the time.
        """
        ends = {self.lossy: END, self.synced: READ + NEW}

        def is_settled(name: str) -> bool:
            member = self.members[name]
            news = [offset for _, offset in member.records[self.before[name] :]]
            return any(offset >= ends[member.topic] for offset in news) or is_stuck(member)

        deadline_s = time.monotonic() + LIMIT_S
        while waiting := [name for name in names if not is_settled(name)]:
            assert time.monotonic() < deadline_s, f"{waiting} neither read on nor say why"
            for topic in ends:
                produce_one_by_one(self.broker.bootstrap, topic, [b"marker"])
            time.sleep(0.2)

    def wait_for(self, count: int, names: Iterable[str]) -> None:
        for name in names:
            member = self.members[name]
            until(lambda: len(member.records) >= count, f"{name} to read {count} records", LIMIT_S)  # noqa: B023

    def end(self) -> None:
        for member in self.members.values():
            member.end()


def without_loss(kind: Kind) -> str:
    return f"{kind.name}-without-loss"


def is_stuck(member: Member) -> bool:
    """Whether it ended, or has said that it has no position."""
    return member.process.poll() is not None or "_AUTO_OFFSET_RESET" in member.failures


def stop(member: Member) -> None:
    """Have it leave its group; one that has ended has left."""
    if member.process.poll() is None:
        member.leave()
    member.end()


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """OffsetCommit v6 without a leader epoch, as of a client that is not in the group."""
    head = wire.string(group) + struct.pack(">i", -1) + wire.string("")
    row = struct.pack(">iiqi", 1, 0, offset, epochs.NO_EPOCH) + wire.string("")
    errors: list[int] = []

    def is_answered() -> bool:
        with wire.connect(bootstrap, 60) as stream:
            wire.ask(stream, FIND_COORDINATOR, 0, wire.string(group))
            answer = wire.ask(stream, OFFSET_COMMIT, 6, head + struct.pack(">i", 1) + wire.string(topic) + row)
        errors.append(Answer(answer[-2:]).take(">h"))
        return errors[-1] not in NOT_READY

    until(is_answered, f"the coordinator of {group}")
    assert errors[-1] == 0


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    for kind in (JAVA, LIBRDKAFKA, FRANZ_GO, SARAMA):
        kind.command()
    directory: Path = tmp_path_factory.mktemp("power-cut")
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(running(directory, SETTINGS))
        scenario = Scenario(broker)
        stack.callback(scenario.end)
        scenario.play()
        yield scenario


def test_the_leader_epoch_tells_where_the_histories_part(scenario: Scenario) -> None:
    bootstrap, topic = scenario.broker.bootstrap, scenario.lossy
    error, epoch = epochs.leader_epoch(bootstrap, topic)
    assert error == 0
    assert epoch > 0, "the leader epoch did not rise with the start"
    assert epochs.epoch_end(bootstrap, topic, 0) == (0, 0, KEPT)
    assert epochs.end_with_epoch(bootstrap, topic)[:2] == (0, epoch)
    fetched = epochs.fetch(bootstrap, topic, READ, last_fetched_epoch=0)
    assert (fetched.error, fetched.diverging, fetched.records_bytes) == (0, (0, KEPT), 0)
    fenced = epochs.fetch(bootstrap, topic, READ, last_fetched_epoch=0, current_epoch=0)
    assert fenced.error == FENCED_LEADER_EPOCH
    assert epochs.epoch_end(bootstrap, topic, 0, current_epoch=0).error == FENCED_LEADER_EPOCH


def test_where_nothing_was_lost_the_histories_are_one(scenario: Scenario) -> None:
    bootstrap, topic = scenario.broker.bootstrap, scenario.synced
    assert epochs.epoch_end(bootstrap, topic, 0) == (0, 0, READ), "the new epoch begins where the old one ended"
    fetched = epochs.fetch(bootstrap, topic, READ, last_fetched_epoch=0)
    assert (fetched.error, fetched.diverging) == (0, None)
    assert fetched.records_bytes > 0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_a_consumer_sees_after_records_were_lost(scenario: Scenario, case: Case) -> None:
    seen = scenario.seen[case]
    assert runs(seen.offsets) == runs(case.offsets), seen.failures
    assert case.told in "\n".join(seen.failures)


@pytest.mark.parametrize("kind", WITHOUT_LOSS, ids=lambda kind: kind.name)
def test_nobody_notices_where_the_disk_is_waited_for(scenario: Scenario, kind: Kind) -> None:
    """Everything was acknowledged with what is on the disk: consumers read on where they were."""
    seen = scenario.without_loss[kind]
    assert runs(seen.offsets) == [(READ, READ + NEW - 1)]
    assert not [failure for failure in seen.failures if "lost records" in failure]


def runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each row of offsets without a gap: shorter to read than all of them."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and found[-1][1] + 1 == offset:
            found[-1] = (found[-1][0], offset)
        else:
            found.append((offset, offset))
    return found
