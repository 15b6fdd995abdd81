"""Brokers with one planted mistake each: simulated clusters have to find every one of them.

A replacement takes what the method takes for which it stands.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from headgate.gateway.controller import controller, elections
from headgate.gateway.controller.controller import ControllerMachine
from headgate.gateway.replication.fetching import fetcher
from headgate.gateway.replication.fetching.fetcher import FollowedPartition, ReplicaFetcher, Truncate
from headgate.gateway.replication.progress import Progress
from headgate.gateway.replication.replica import Replica
from headgate.storage.log.producers import Producers

MOST_SEEDS: Final = 60
"""The seeds, from the first one on, in which a mistake must be found."""


class Mistake(NamedTuple):
    """`first_seed`: a seed that has found it, to begin with. `replaced`: (owner, name, replacement)."""

    first_seed: int
    replaced: tuple[tuple[Any, str, Any], ...]


def _cuts_to_watermark(self: ReplicaFetcher, partition: FollowedPartition) -> Any:
    log = partition.log
    if log.high_watermark < log.end_offset:
        partition.has_new_order = False
        self._move(partition, fetcher.FetchState.WORKING)
        return Truncate(partition, log.high_watermark)
    return _begin(self, partition)


def _cuts_nothing(self: ReplicaFetcher, partition: FollowedPartition, _: int, _end: int, now_ms: float) -> None:
    self._delay(partition, "its history is another one", now_ms)


def _commits_at_write(self: Replica) -> None:
    self.commits_at_write = self._resigned is None


def _acknowledges_ahead(self: Progress, leader_end: int) -> int:
    ends = sorted(each.log_end for each in self._counted)
    return min(leader_end, ends[-1]) if ends else leader_end


def _any_replica(state: Any, online: Any, stopping: Any, *, is_unclean: bool) -> Any:
    return _next_state(state._replace(isr=state.replicas), online, stopping, is_unclean=is_unclean)


def _without_new_epoch(state: Any, leader: int, isr: Any) -> Any:
    return state._replace(leader=leader, isr=tuple(isr), partition_epoch=state.partition_epoch + 1)


def _reads_to_end(self: Replica, _isolation_level: int) -> int:
    return self.log.written_end


def _checks_nothing(*_: Any, **_named: Any) -> None:
    """Nothing is checked, and nothing is known."""


def _forgets_departed(self: ControllerMachine, brokers: Any) -> None:
    self.view = self.view._replace(brokers=dict(brokers))


_begin = ReplicaFetcher.begin
_next_state = elections.next_state

MISTAKES: Final[dict[str, Mistake]] = {
    "cuts to the watermark": Mistake(11, ((ReplicaFetcher, "begin", _cuts_to_watermark),)),
    "cuts nothing": Mistake(1, ((ReplicaFetcher, "_diverged", _cuts_nothing),)),
    "acknowledges at the write": Mistake(0, ((Replica, "_update_commits", _commits_at_write),)),
    "acknowledges with the first follower": Mistake(10, ((Progress, "committed_end", _acknowledges_ahead),)),
    "elects any replica": Mistake(0, ((controller, "next_state", _any_replica),)),
    "elects in the same epoch": Mistake(0, ((elections, "_next", _without_new_epoch),)),
    "consumers read to the end": Mistake(1, ((Replica, "readable_end", _reads_to_end),)),
    "takes any batch of a producer": Mistake(0, ((Producers, "check", _checks_nothing),)),
    "forgets that a broker was away": Mistake(1, ((ControllerMachine, "set_brokers", _forgets_departed),)),
}
