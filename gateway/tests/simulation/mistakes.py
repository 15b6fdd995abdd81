"""Brokers with one planted mistake each: simulated clusters have to find every one of them.

`MISTAKES` has the name of each mistake, and the attributes that it replaces: (owner, name, replacement).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headgate.gateway.controller import controller, elections, received_orders
from headgate.gateway.controller.controller import ControllerMachine
from headgate.gateway.coordinator.groups.group_coordinator import GroupCoordinator
from headgate.gateway.replication import follower
from headgate.gateway.replication.fetching import fetcher, replica_fetchers
from headgate.gateway.replication.fetching.fetcher import NO_EPOCH, FollowedPartition, ReplicaFetcher, Truncate
from headgate.gateway.replication.follower import Follower
from headgate.gateway.replication.in_sync_replicas import InSyncReplicas
from headgate.gateway.replication.progress import Progress
from headgate.gateway.replication.replica import Replica
from headgate.gateway.zookeeper.combined_writes import CombinedWrites
from headgate.gateway.zookeeper.metadata import isr_manager
from headgate.gateway.zookeeper.metadata.isr_manager import ZooKeeperIsrManager
from headgate.gateway.zookeeper.session import ANY_VERSION, SetData
from headgate.gateway.zookeeper.store.controller_orders import ControllerOrders
from headgate.storage.log.following import FollowerAppend
from headgate.storage.log.producers import Producers

Mistake = tuple[tuple[Any, str, Any], ...]


def _cuts_to_watermark(self: ReplicaFetcher, partition: FollowedPartition) -> Any:
    log = partition.log
    if log.high_watermark < log.end_offset:
        partition.has_new_order = False
        self._move(partition, fetcher.FetchState.WORKING)
        return Truncate(partition, log.high_watermark)
    return _begin(self, partition)


def _cuts_nothing(_self: Any, partition: Any, *_: Any) -> None:
    """The follower goes on behind what the leader does not have."""


def _joins_unchecked(self: Progress, node_id: int, _high_watermark: int) -> bool:
    return node_id not in self.counted


def _commits_at_write(self: Replica) -> None:
    self.commits_at_write = self._resigned is None


def _acknowledges_ahead(self: Progress, leader_end: int) -> int:
    ends = sorted(each.log_end for each in self._counted)
    return min(leader_end, ends[-1]) if ends else leader_end


def _any_version(path: str, data: bytes, _version: int) -> SetData:
    return SetData(path, data, ANY_VERSION)


def _any_replica(state: Any, online: Any, stopping: Any, *, is_unclean: bool) -> Any:
    return _next_state(state._replace(isr=state.replicas), online, stopping, is_unclean=is_unclean)


def _without_new_epoch(state: Any, leader: int, isr: Any) -> Any:
    return state._replace(leader=leader, isr=tuple(isr), partition_epoch=state.partition_epoch + 1)


def _does_not_resign(self: Replica, _reason: Any) -> None:
    """Appends wait on, and are taken on."""


def _shrinks_first(self: ZooKeeperIsrManager, replica: Replica, isr: tuple[int, ...], epoch: int) -> Any:
    progress = replica.progress
    if progress is not None and len(isr) < len(replica.isr):
        followers = set(replica.isr) & progress.counted
        progress.assign(followers, followers.intersection(isr), 0.0)
    return _alter(self, replica, isr, epoch)


def _is_always_durable(_self: Follower) -> bool:
    return True


def _follower_watermark_is_end(log: Any, append: Any) -> tuple[int, int]:
    return log.end_offset, max(log.start_offset, append.start_offset)


def _reads_to_end(self: Replica, _isolation_level: int) -> int:
    return self.log.written_end


def _checks_nothing(*_: Any, **_named: Any) -> None:
    """Nothing is checked, and nothing is known."""


def _ignores_epochs(*_: Any) -> bool:
    return False


def _forgets_departed(self: ControllerMachine, brokers: Any) -> None:
    self.view = self.view._replace(brokers=dict(brokers))


def _counts_nobody_joining(*_: Any) -> None:
    """A follower on its way into the set counts once the answer is there."""


def _keeps_its_offsets(*_: Any) -> None:
    """The coordinator does not load what others have committed."""


_begin = ReplicaFetcher.begin
_next_state = elections.next_state
_alter = ZooKeeperIsrManager.alter

MISTAKES: Final[dict[str, Mistake]] = {
    "cuts to the watermark": ((ReplicaFetcher, "begin", _cuts_to_watermark),),
    "cuts nothing": ((ReplicaFetcher, "_diverged", _cuts_nothing),),
    "expands unchecked": ((Progress, "may_join", _joins_unchecked),),
    "acknowledges at the write": ((Replica, "_update_commits", _commits_at_write),),
    "acknowledges with the first follower": ((Progress, "committed_end", _acknowledges_ahead),),
    "writes sets over any version": ((isr_manager, "SetData", _any_version),),
    "elects any replica": ((controller, "next_state", _any_replica),),
    "elects in the same epoch": ((elections, "_next", _without_new_epoch),),
    "does not resign": ((Replica, "resign", _does_not_resign),),
    "shrinks before the write": ((ZooKeeperIsrManager, "alter", _shrinks_first),),
    "followers acknowledge before the sync": ((Follower, "is_durable", property(_is_always_durable)),),
    "a follower commits what it has": ((replica_fetchers, "progress", _follower_watermark_is_end),),
    "consumers read to the end": ((Replica, "readable_end", _reads_to_end),),
    "takes any batch of a producer": ((Producers, "check", _checks_nothing),),
    "obeys older controllers": ((ControllerOrders, "_check_epoch", _checks_nothing),),
    "forgets that a broker was away": ((ControllerMachine, "set_brokers", _forgets_departed),),
    "counts joining followers later": ((Replica, "count_joining", _counts_nobody_joining),),
}
