"""SIGKILL in the middle of commits and of rebalances: no acknowledged commit is lost, and no group is stuck.

6 times, or HEADGATE_KILLS times; `make soak` raises it to 100. The page cache stays: see storage/test_sigkill.py.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.families.confluent import Confluent
from compat_tests.groups import restless
from compat_tests.groups.committed import committed_offsets, committed_rows
from compat_tests.groups.committer import Committer
from compat_tests.groups.group import SETTINGS
from compat_tests.groups.lines import SERVER
from compat_tests.groups.restless import RestlessGroup
from compat_tests.harness.broker import Broker, running
from compat_tests.harness.records import Sent
from compat_tests.harness.soak import SOAK
from compat_tests.harness.topics import new_topic
from compat_tests.harness.waiting import until

KILLS = int(os.environ.get("HEADGATE_KILLS", "100" if SOAK else "6"))
GROUPS, PARTITIONS = 6, 5
ASSIGNORS, MEMBERS = ("range", "cooperative-sticky", SERVER), 3
RECORDS_A_KILL = 3_000
STUCK_S = 60.0
# The smallest segments that Kafka allows a topic, so that kills meet rolls
SMALL = {"offsets.topic.segment.bytes": "1048576"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running(tmp_path / "killed", {**SETTINGS, **restless.SETTINGS, **SMALL}) as broker:
        yield broker


def test_no_acknowledged_commit_is_lost_and_none_is_half(broker: Broker, figure: Callable[[str], None]) -> None:
    topic = new_topic(broker.bootstrap, PARTITIONS)
    with contextlib.ExitStack() as stack:
        committers = [Committer(broker.bootstrap, f"killed-{n}", topic, PARTITIONS) for n in range(GROUPS)]
        for committer in committers:
            stack.callback(committer.close)
        for number in range(KILLS):
            wait_for_commits(committers)
            time.sleep(random.Random(number).uniform(0, 0.1))
            broker.kill()
            acknowledged = [committer.acknowledged for committer in committers]
            broker.start()
            for committer, least in zip(committers, acknowledged, strict=True):
                committer.check()
                assert_stored(broker, committer, topic, least)
    figure(f"{KILLS} kills: {sum(committer.acknowledged for committer in committers)} commits of {GROUPS} groups")


def test_no_group_is_stuck_and_no_offset_goes_back(broker: Broker, figure: Callable[[str], None]) -> None:
    """Members of every protocol leave and join all the time: most kills are in the middle of a rebalance."""
    topic = new_topic(broker.bootstrap, PARTITIONS)
    records = [Sent(number % PARTITIONS, None, None, b"", ()) for number in range(RECORDS_A_KILL * KILLS)]
    Confluent().produce(broker.bootstrap, topic, records, "none")
    with contextlib.ExitStack() as stack:
        groups = [RestlessGroup(broker.bootstrap, f"restless-{name}", topic, name, MEMBERS) for name in ASSIGNORS]
        for group in groups:
            stack.callback(group.close)
        wait_for_progress(groups)
        least: dict[str, dict[int, int]] = {}
        for number in range(KILLS):
            time.sleep(random.Random(number).uniform(0, 0.5))
            broker.kill()
            for group in groups:
                least[group.name] = merged(least.get(group.name, {}), group.acknowledged)
            broker.start()
            for group in groups:
                stored = committed_offsets(broker.bootstrap, group.name, topic)
                behind = {
                    one: (offset, stored.get(one))
                    for one, offset in least[group.name].items()
                    if stored.get(one, -1) < offset
                }
                assert not behind, f"{group.name}: acknowledged, and stored now: {behind}"
                least[group.name] = merged(least[group.name], stored)
            wait_for_progress(groups)
        for group in groups:
            group.stay()
        for group in groups:
            until(lambda: group.is_settled(PARTITIONS), f"{group.name} to settle", STUCK_S)  # noqa: B023
    commits, left_behind = sum(group.commits for group in groups), sum(group.left_behind for group in groups)
    figure(f"{KILLS} kills: {commits} commits of members of {len(groups)} groups; {left_behind} hung, and were killed")


def merged(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    """The higher offset of each partition."""
    other = dict(other)  # it may grow meanwhile
    return {key: max(one.get(key, -1), other.get(key, -1)) for key in one.keys() | other.keys()}


def wait_for_progress(groups: list[RestlessGroup]) -> None:
    """Until members of each group have committed a few times more."""
    wanted = {group.name: group.commits + 3 for group in groups}

    def is_there() -> bool:
        for group in groups:
            group.check()
        return all(group.commits >= wanted[group.name] for group in groups)

    until(is_there, f"commits of all of {[group.name for group in groups]}", STUCK_S)


def wait_for_commits(committers: list[Committer]) -> None:
    """Until each has had twenty more acknowledged."""
    wanted = [committer.acknowledged + 20 for committer in committers]

    def are_there() -> bool:
        for committer in committers:
            committer.check()
        return all(one.acknowledged >= least for one, least in zip(committers, wanted, strict=True))

    until(are_there, "commits to be acknowledged")


def assert_stored(broker: Broker, committer: Committer, topic: str, least: int) -> None:
    """Asked while commits go on: what is stored is one commit as a whole, not older than the last acknowledged one."""
    rows = committed_rows(broker.bootstrap, committer.group)[topic]
    offsets = {row.offset for row in rows.values()}
    assert len(rows) == PARTITIONS
    assert len(offsets) == 1, f"{committer.group} has half a commit: {rows}"
    assert least <= offsets.pop() <= committer.tried
