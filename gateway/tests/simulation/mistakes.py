"""Brokers with one planted mistake each: simulated clusters have to find every one of them.

A replacement takes what the method takes for which it stands.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from headgate.gateway.controller import controller, elections
from headgate.gateway.controller.controller import ControllerMachine
from headgate.gateway.coordinator.coordinator import Coordinator
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.log_replay import LogReplay
from headgate.gateway.coordinator.runtime import CoordinatorRuntime
from headgate.gateway.coordinator.transactions.transaction import Transaction
from headgate.gateway.replication.fetching import fetcher
from headgate.gateway.replication.fetching.fetcher import FollowedPartition, ReplicaFetcher, Truncate
from headgate.gateway.replication.follower import Follower
from headgate.gateway.replication.in_sync_replicas import InSyncReplicas
from headgate.gateway.replication.leadership import Leadership
from headgate.gateway.replication.progress import FollowerProgress, Progress
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import value_of
from headgate.gateway.zookeeper.controller.leader_elections import LeaderElections
from headgate.gateway.zookeeper.metadata.isr_manager import ZooKeeperIsrManager
from headgate.gateway.zookeeper.offsets.dual_group import DualGroup
from headgate.gateway.zookeeper.store.metadata_store import ZooKeeperMetadataStore
from headgate.storage.log import following
from headgate.storage.log.epochs import Epochs
from headgate.storage.log.log import Log
from headgate.storage.log.producers import Producer, Producers

MOST_SEEDS: Final = 60
"""The seeds, from the first one on, in which a mistake must be found."""


class Mistake(NamedTuple):
    """`first_seed`: a seed that has found it, to begin with. `replaced`: (owner, name, replacement)."""

    first_seed: int
    replaced: tuple[tuple[Any, str, Any], ...]


def _nothing(*_: Any, **_named: Any) -> None:
    """Nothing is checked or done, and nothing is known."""


# Followers


def _cuts_to_watermark(self: ReplicaFetcher, partition: FollowedPartition) -> Any:
    log = partition.log
    if log.high_watermark < log.end_offset:
        partition.has_new_order = False
        self._move(partition, fetcher.FetchState.WORKING)
        return Truncate(partition, log.high_watermark)
    return _begin(self, partition)


def _cuts_nothing(self: ReplicaFetcher, partition: FollowedPartition, _: int, _end: int, now_ms: float) -> None:
    self._delay(partition, "its history is another one", now_ms)


def _claims_after_error(self: ReplicaFetcher, partition: FollowedPartition) -> Any:
    if partition.state is fetcher.FetchState.DELAYED:
        self._fetch(partition)
        return None
    return _begin(self, partition)


def _commits_all(self: Follower, _high_watermark: int, start_offset: int) -> None:
    _take_over(self, self.log.end_offset, start_offset)


def _forgets_producers(log: Log, staged: Any, headers: Any, view: memoryview) -> None:
    staged.add_run(view, [(header.size, header.last_offset, header.max_timestamp) for header in headers])
    log.end_offset = headers[-1].last_offset + 1


# Leaders


def _commits_at_write(self: Replica) -> None:
    self.commits_at_write = self._resigned is None


def _commits_before_sync(self: Replica, written_end: int) -> int:
    end = written_end
    if self.progress is not None:
        if self.progress.note_write(written_end, self.disk.clock.monotonic_ms()):
            self._touch(self.progress.waiters)
        end = self.progress.committed_end(end)
    return self.high_watermark if self._resigned is not None else end


def _acknowledges_ahead(self: Progress, leader_end: int) -> int:
    ends = sorted(each.log_end for each in self._counted)
    return min(leader_end, ends[-1]) if ends else leader_end


def _commits_with_settings(self: Leadership, replica: Replica, topic: Any, log_config: Any) -> None:
    replica.configure(log_config)
    _serve(self, replica, topic, log_config)


def _reads_to_end(self: Replica, _isolation_level: int) -> int:
    return self.log.written_end


def _takes_any(self: Progress, node_id: int, _high_watermark: int) -> bool:
    return node_id not in self.counted


def _shrinks_at_once(self: InSyncReplicas, replica: Replica, progress: Progress, isr: tuple[int, ...]) -> Any:
    followers = [node_id for node_id, _ in progress.lags(0, 0)]
    progress.assign(followers, isr, replica.disk.clock.monotonic_ms())
    replica.advance_high_watermark()
    return _alter(self, replica, progress, isr)


def _claims_fetch(self: FollowerProgress, _offset: int, log_start: int, leader_end: int, now_ms: float) -> None:
    _note_fetch(self, leader_end, log_start, leader_end, now_ms)


def _writes_over_any(self: ZooKeeperIsrManager, change: Any, node: Any) -> Any:
    wanted = _plan(self, change, node)
    return wanted if isinstance(wanted, int) else wanted._replace(version=-1)


# The controller


def _writes_in_next_session(self: ZooKeeperMetadataStore) -> None:
    before = self._lost_connection
    _resign_leads(self)
    self._lost_connection = before


def _any_replica(state: Any, online: Any, stopping: Any, *, is_unclean: bool) -> Any:
    return _next_state(state._replace(isr=state.replicas), online, stopping, is_unclean=is_unclean)


def _leaves_set_as_leader(state: Any, online: Any, stopping: Any, *, is_unclean: bool) -> Any:
    wanted = _next_state(state, online, stopping, is_unclean=is_unclean)
    is_stopping = wanted is not None and state.leader in online and state.leader in stopping
    return wanted._replace(leader=state.leader) if wanted is not None and is_stopping else wanted


def _without_new_epoch(state: Any, leader: int, isr: Any) -> Any:
    return state._replace(leader=leader, isr=tuple(isr), partition_epoch=state.partition_epoch + 1)


def _forgets_departed(self: ControllerMachine, brokers: Any) -> None:
    self.view = self.view._replace(brokers=dict(brokers))


# Coordinators


def _serves_before_load(self: Any) -> None:
    if self.shard is None:
        self._loaded(LogReplay(self._make_shard(), self.replica.log.start_offset), 0.0)


def _keeps_its_shard(self: Any, index: int) -> bool:
    return index in self._coordinators


def _commits_offsets_of_any(self: GroupShard, producer: Any, _is_commit: bool) -> None:
    _replay_marker(self, producer, True)


def _drops_offsets_of_any(self: GroupShard, producer: Any, _is_commit: bool) -> None:
    _replay_marker(self, producer, False)


def _answers_before_keeper(self: DualGroup, _caller: Any, _partitions: Any, decide: Any) -> Any:
    return (yield from value_of(self._submit(decide)))


_begin = ReplicaFetcher.begin
_serve = Leadership.apply
_take_over = Follower.take_over
_alter = vars(InSyncReplicas)["_alter"]
_plan = vars(ZooKeeperIsrManager)["_plan"]
_note_fetch = FollowerProgress.note_fetch
_next_state = elections.next_state
_resign_leads = ZooKeeperMetadataStore.resign_leads
_replay_marker = GroupShard.replay_marker

MISTAKES: Final[dict[str, Mistake]] = {
    "cuts to the watermark": Mistake(8, ((ReplicaFetcher, "begin", _cuts_to_watermark),)),
    "cuts nothing": Mistake(8, ((ReplicaFetcher, "_diverged", _cuts_nothing),)),
    "followers acknowledge before the sync": Mistake(3, ((Follower, "is_durable", True),)),
    "claims after a failed sync": Mistake(2_070_262_638, ((ReplicaFetcher, "begin", _claims_after_error),)),
    "followers commit what they have": Mistake(20, ((Follower, "take_over", _commits_all),)),
    "followers forget producers": Mistake(2, ((following, "_stage", _forgets_producers),)),
    "a cut log keeps its epochs": Mistake(0, ((Epochs, "forget_behind", _nothing),)),
    "acknowledges at the write": Mistake(0, ((Replica, "_update_commits", _commits_at_write),)),
    "acknowledges before the sync": Mistake(3, ((Replica, "_committed_end", _commits_before_sync),)),
    "acknowledges with the first follower": Mistake(0, ((Progress, "committed_end", _acknowledges_ahead),)),
    "takes a fetch for a copy of all": Mistake(0, ((FollowerProgress, "note_fetch", _claims_fetch),)),
    "acknowledges with too few in sync": Mistake(26, ((Replica, "check_in_sync", _nothing),)),
    "a leader commits with its settings": Mistake(20, ((Leadership, "apply", _commits_with_settings),)),
    "tells of an end that it does not know": Mistake(23, ((Replica, "is_catching_up", False),)),
    "consumers read to the end": Mistake(0, ((Replica, "readable_end", _reads_to_end),)),
    "reads open transactions": Mistake(0, ((Log, "stable_offset", property(lambda self: self.end_offset)),)),
    "names no aborted transaction": Mistake(0, ((Replica, "aborted", lambda *_, **_named: []),)),
    "takes any batch of a producer": Mistake(2, ((Producers, "check", _nothing),)),
    "forgets the last batches of a producer": Mistake(2, ((Producer, "find", _nothing),)),
    "commits transactions that were aborted": Mistake(0, ((Transaction, "is_commit", True),)),
    "expands the set unchecked": Mistake(13, ((Progress, "may_join", _takes_any),)),
    "shrinks before the write": Mistake(2, ((InSyncReplicas, "_alter", _shrinks_at_once),)),
    "sets are written over any version": Mistake(48, ((ZooKeeperIsrManager, "_plan", _writes_over_any),)),
    "elects any replica": Mistake(2, ((controller, "next_state", _any_replica),)),
    "elects unclean": Mistake(2, ((LeaderElections, "_is_unclean", lambda *_: True),)),
    "elects in the same epoch": Mistake(0, ((elections, "_next", _without_new_epoch),)),
    "a stop leaves the set without an election": Mistake(0, ((controller, "next_state", _leaves_set_as_leader),)),
    "forgets that a broker was away": Mistake(21, ((ControllerMachine, "set_brokers", _forgets_departed),)),
    "writes after its session": Mistake(
        5_000_807, ((ZooKeeperMetadataStore, "resign_leads", _writes_in_next_session),)
    ),
    "a coordinator serves before it has loaded": Mistake(0, ((Coordinator, "_load", _serves_before_load),)),
    "a coordinator keeps its shard": Mistake(2, ((CoordinatorRuntime, "_is_same", _keeps_its_shard),)),
    "commits offsets of aborted transactions": Mistake(0, ((GroupShard, "replay_marker", _commits_offsets_of_any),)),
    "drops offsets of committed transactions": Mistake(0, ((GroupShard, "replay_marker", _drops_offsets_of_any),)),
    "a dual commit skips ZooKeeper": Mistake(13, ((DualGroup, "_commit", _answers_before_keeper),)),
}
