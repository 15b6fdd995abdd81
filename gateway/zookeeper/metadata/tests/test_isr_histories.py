"""Histories of in-sync sets by seed, and the mistakes that they must find: see `isr_history.py`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from headgate.gateway.replication.progress import Progress
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import Ask
from headgate.gateway.zookeeper.combined_writes import CombinedWrites
from headgate.gateway.zookeeper.metadata import isr_manager
from headgate.gateway.zookeeper.metadata.isr_manager import ZooKeeperIsrManager
from headgate.gateway.zookeeper.metadata.tests.isr_history import BrokenRule, IsrHistory
from headgate.gateway.zookeeper.requests import CONNECTION_ENDED
from headgate.gateway.zookeeper.session import ANY_VERSION, KeeperError, Refused, Results, SetData, Stat
from headgate.protocol.tests.examples import first_in_unit

SEEDS = range(10_000) if "HEADGATE_SOAK" in os.environ else range(200)
STEPS = 250
MOST_SEEDS = 300
"""The histories in which a planted mistake must be found."""


def run(seed: int) -> None:
    history = IsrHistory(seed)
    try:
        history.run(STEPS)
    except BaseException as error:
        error.add_note(f"seed {seed}: {' '.join(history.log)}")
        raise


@pytest.mark.slow
@pytest.mark.parametrize("part", list(first_in_unit(range(10), 2)))
def test_histories_by_seed(part: int) -> None:
    for seed in SEEDS[part::10]:
        run(seed)


Plant = Callable[[pytest.MonkeyPatch], None]


def join_unchecked(patch: pytest.MonkeyPatch) -> None:
    """A follower joins with its first fetch."""
    patch.setattr(Progress, "may_join", lambda progress, node_id, _: node_id not in progress.counted)


def count_joining_later(patch: pytest.MonkeyPatch) -> None:
    """A follower on its way into the set does not count until the answer."""
    patch.setattr(Replica, "count_joining", lambda *_: None)


def shrink_first(patch: pytest.MonkeyPatch) -> None:
    """The leader acknowledges without a follower that lags, before the smaller set is stored."""
    alter = ZooKeeperIsrManager.alter

    def shrunk(manager: ZooKeeperIsrManager, replica: Replica, isr: tuple[int, ...], epoch: int) -> Ask:
        progress = replica.progress
        if progress is not None and len(isr) < len(replica.isr):
            followers = set(replica.isr) & progress.counted
            progress.assign(followers, followers.intersection(isr), 0.0)
        return alter(manager, replica, isr, epoch)

    patch.setattr(ZooKeeperIsrManager, "alter", shrunk)


def ignore_the_version(patch: pytest.MonkeyPatch) -> None:
    """A write replaces whatever is there since the read."""
    patch.setattr(isr_manager, "SetData", lambda path, data, _: SetData(path, data, ANY_VERSION))


def take_lost_answers_for(answer_for: Callable[[SetData], Results | Refused]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        write = CombinedWrites.write

        def written(writes: CombinedWrites, operations: Any, resume: Any) -> None:
            def answered(answer: Any) -> None:
                resume(answer_for(operations[0]) if answer in CONNECTION_ENDED else answer)

            write(writes, operations, answered)

        patch.setattr(CombinedWrites, "write", written)

    return plant


def refused(_: SetData) -> Refused:
    return Refused(0, KeeperError.NO_AUTH)


def succeeded(operation: SetData) -> Results:
    return (Stat(operation.version + 1, 0, 0, 0, 0, 0, 0, 0),)


def forget_followers_of_the_old_set(patch: pytest.MonkeyPatch) -> None:
    """An order of the same leader epoch, from before a change, replaces the set that the change has stored."""
    assign = Replica.assign

    def assigned(replica: Replica, *state: Any) -> None:
        replica.partition_epoch = -1
        assign(replica, *state)

    patch.setattr(Replica, "assign", assigned)


MISTAKES: dict[str, tuple[Plant, int]] = {
    "join unchecked": (join_unchecked, 11),
    "count joining followers later": (count_joining_later, 21),
    "acknowledge before the shrink is stored": (shrink_first, 0),
    "ignore the version": (ignore_the_version, 127),
    "lost answers are refusals": (take_lost_answers_for(refused), 40),
    "lost answers are successes": (take_lost_answers_for(succeeded), 34),
    "apply an order of the past": (forget_followers_of_the_old_set, 40),
}
"""Each mistake, and a seed that has found it: the others are tried after that one."""


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, likely_seed = MISTAKES[mistake]
    plant(monkeypatch)
    for seed in (likely_seed, *range(MOST_SEEDS)):
        try:
            IsrHistory(seed).run(STEPS)
        except BrokenRule:
            return
    pytest.fail(f"{MOST_SEEDS} histories do not find: {mistake}")
