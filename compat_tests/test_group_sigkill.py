"""SIGKILL in the middle of commits: no acknowledged commit is lost, and none is there by half.

10 times, or HEADGATE_KILLS times; `make soak` raises it to 200. The page cache stays: see test_sigkill.py.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.broker import Broker, running
from compat_tests.conftest import new_topic
from compat_tests.groups.committed import committed_rows
from compat_tests.groups.committer import Committer
from compat_tests.groups.group import SETTINGS
from compat_tests.waiting import until

KILLS = int(os.environ.get("HEADGATE_KILLS", "200" if os.environ.get("HEADGATE_SOAK") else "10"))
GROUPS, PARTITIONS = 6, 5
# The smallest segments that Kafka allows a topic, so that kills meet rolls
SMALL = {"offsets.topic.segment.bytes": "1048576"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running(tmp_path / "killed", {**SETTINGS, **SMALL}) as broker:
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
