"""Random histories of three brokers: followers end equal to their leader, and nothing committed is lost or changed.

Beside the rules stand planted mistakes; each must break a rule within a few histories.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from headgate.gateway.replication.fetching import fetcher as machine
from headgate.gateway.replication.fetching.fetcher import (
    AppendRecords,
    FetchState,
    FollowedPartition,
    FollowerLog,
    FollowerWork,
    ReplicaFetcher,
    Truncate,
)
from headgate.gateway.replication.fetching.tests import replicated_partitions as model
from headgate.gateway.replication.fetching.tests.replicated_partitions import BrokenRule, Cluster
from headgate.protocol.client.fetch_session import FetchKey
from headgate.protocol.messages.fetch import FetchPartition
from headgate.protocol.tests.examples import first_in_unit

Plant = Callable[[pytest.MonkeyPatch], None]
AT_MOST = 50
"""Histories in which a planted mistake has to show."""


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "headgate.replication")


def run_history(seed: int) -> None:
    cluster = Cluster(seed)
    cluster.steps(500)
    cluster.settle()


@pytest.mark.slow
@pytest.mark.parametrize("beginning", [*first_in_unit(range(0, 10_000, 250), some=4)])
def test_followers_end_equal_to_their_leader(beginning: int) -> None:
    for seed in range(beginning, beginning + 250):
        run_history(seed)


def cut_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Before each first fetch, as before KIP-101."""

    def begin(self: ReplicaFetcher, partition: FollowedPartition) -> FollowerWork:
        partition.has_new_order = False
        self._move(partition, FetchState.WORKING)
        return Truncate(partition, partition.log.high_watermark)

    patch.setattr(ReplicaFetcher, "begin", begin)


def cut_at_the_end_of_the_leaders_epoch(patch: pytest.MonkeyPatch) -> None:
    """Without a look at the epochs of the follower, as before KIP-279."""
    patch.setattr(machine, "common_end", lambda log, _epoch, end_offset: min(end_offset, log.end_offset))


def cut_at_the_end_of_the_own_epoch(patch: pytest.MonkeyPatch) -> None:
    def own_end(log: FollowerLog, epoch: int, _end_offset: int) -> int:
        return log.end_offset_for(epoch)[1]

    patch.setattr(machine, "common_end", own_end)


def fetch_without_the_last_epoch(patch: pytest.MonkeyPatch) -> None:
    row = ReplicaFetcher.position

    def without_epoch(self: ReplicaFetcher, key: FetchKey, partition: FollowedPartition) -> FetchPartition:
        named = row(self, key, partition)
        named.last_fetched_epoch = -1
        return named

    def is_at_row(partition: FollowedPartition) -> bool:
        return partition.row is not None and partition.row.fetch_offset == partition.log.end_offset

    patch.setattr(ReplicaFetcher, "position", without_epoch)
    patch.setattr(FollowedPartition, "is_at_row", property(is_at_row))


def fetch_during_the_work_of_an_older_order(patch: pytest.MonkeyPatch) -> None:
    follow = ReplicaFetcher.follow

    def at_once(self: ReplicaFetcher, partition: FollowedPartition, leader_epoch: int) -> FollowerWork | None:
        work = follow(self, partition, leader_epoch)
        return self.begin(partition) if partition.has_new_order else work

    patch.setattr(ReplicaFetcher, "follow", at_once)


def fetch_before_the_first_sync(patch: pytest.MonkeyPatch) -> None:
    def begin(self: ReplicaFetcher, partition: FollowedPartition) -> None:
        partition.has_new_order = False
        self._fetch(partition)

    patch.setattr(ReplicaFetcher, "begin", begin)


def take_the_leaders_high_watermark(patch: pytest.MonkeyPatch) -> None:
    def progress(log: FollowerLog, append: AppendRecords) -> tuple[int, int]:
        return min(append.high_watermark, log.end_offset), max(log.start_offset, append.start_offset)

    patch.setattr(model, "progress", progress)


def pass_the_end_with_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    def progress(log: FollowerLog, append: AppendRecords) -> tuple[int, int]:
        return max(log.high_watermark, append.high_watermark), max(log.start_offset, append.start_offset)

    patch.setattr(model, "progress", progress)


def name_no_changes(patch: pytest.MonkeyPatch) -> None:
    def name(self: ReplicaFetcher, partition: FollowedPartition) -> None:
        if partition.key not in self._session.members:
            self._added[partition.key] = partition

    patch.setattr(ReplicaFetcher, "name", name)


def leave_fenced_partitions_fenced(patch: pytest.MonkeyPatch) -> None:
    follow = ReplicaFetcher.follow

    def unless_fenced(self: ReplicaFetcher, partition: FollowedPartition, leader_epoch: int) -> FollowerWork | None:
        return None if partition.state is FetchState.FENCED else follow(self, partition, leader_epoch)

    patch.setattr(ReplicaFetcher, "follow", unless_fenced)


# The first of the histories, as a rare one shows the mistake.
MISTAKES: dict[Plant, int] = {
    cut_to_the_high_watermark: 0,
    cut_at_the_end_of_the_leaders_epoch: 0,
    cut_at_the_end_of_the_own_epoch: 0,
    fetch_without_the_last_epoch: 0,
    fetch_during_the_work_of_an_older_order: 100,
    fetch_before_the_first_sync: 0,
    take_the_leaders_high_watermark: 0,
    pass_the_end_with_the_high_watermark: 0,
    name_no_changes: 0,
    leave_fenced_partitions_fenced: 0,
}


@pytest.mark.slow
@pytest.mark.parametrize("plant", [*MISTAKES], ids=lambda plant: plant.__name__)
def test_a_planted_mistake_breaks_a_rule(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((BrokenRule, AssertionError)):  # noqa: PT012  any of the histories
        for seed in range(MISTAKES[plant], MISTAKES[plant] + AT_MOST):
            run_history(seed)
