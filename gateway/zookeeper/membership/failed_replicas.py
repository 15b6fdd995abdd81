"""The replicas of this broker that others have to replace: their directory has failed, or their log has lost records.

The controller's own broker hands them to its machine; any other broker notifies the controller, which asks for them by
LeaderAndIsr (`gateway/zookeeper/controller/log_dir_event_watcher.py`). Another in-sync replica leads then, and the
failed one leaves the set. A log that has lost records is a follower's afterwards, or leads in a higher epoch if no
other replica is in sync. Only the controller raises epochs.

A report is repeated until the metadata have its effect: the controller may be lost with it. The waits before the same
report grow, whatever the metadata do meanwhile. A replica that works again is reported too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from headgate.gateway.replication.leadership import Leadership
from headgate.gateway.runtime.backoff import Backoff
from headgate.gateway.runtime.tasks import Changes, Running, Task, WaitList, next_turn
from headgate.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from headgate.gateway.runtime.tasks import Tasks
    from headgate.gateway.zookeeper.store.metadata_store import ZooKeeperMetadataStore

FIRST_WAIT_MS: Final = 1_000.0
LONGEST_WAIT_MS: Final = 16_000.0


class FailingReplicas(Protocol):
    """The replicas of this broker, see `gateway.replication.replica_manager`."""

    leadership: Leadership

    @property
    def failed(self) -> Collection[tuple[str, int]]:
        """(topic, index) of the replicas that others have to replace."""


class FailedReplicaReports:
    """Reports the failed replicas by one task, which ends when others lead and the sets have lost them."""

    def __init__(self, store: ZooKeeperMetadataStore, replicas: FailingReplicas, node_id: int, tasks: Tasks) -> None:
        self._store = store
        self._replicas = replicas
        self._node_id = node_id
        self._tasks = tasks
        self._changed = WaitList()
        self._reported = frozenset[TopicPartition]()
        self._backoff = Backoff(FIRST_WAIT_MS, LONGEST_WAIT_MS)
        self._running: Running[None] | None = None

    def soon(self) -> None:
        """Report soon: replicas have failed, or work again, or the metadata have changed."""
        if self._replicas.failed or self._reported:
            self._tasks.touch(self._changed)
            if self._running is None or self._running.is_over:
                self._running = self._tasks.start_later(self._report())

    def _report(self) -> Task[None]:
        reported, backoff = self._reported, self._backoff
        while not self._tasks.scheduler.is_over:
            yield next_turn(self._tasks.scheduler)  # all replicas that fail in this turn
            failed, now_ms = self._failed(), self._tasks.monotonic_ms()
            if failed == self._reported and not any(map(self._is_to_be_replaced, failed)):
                return
            if failed != reported:
                backoff.reset()
            if failed == self._reported and now_ms < backoff.due_ms:
                yield Changes((self._changed,), backoff.due_ms)
                continue
            reported = failed
            backoff.postpone(now_ms)
            self._store.renew_image()  # clients must not be sent here meanwhile
            if (yield from self._store.report_failed(failed, self._lost_records())):
                self._reported = failed
            elif self._failed() == failed:
                yield Changes((self._changed,), backoff.due_ms)

    def _failed(self) -> frozenset[TopicPartition]:
        return frozenset(map(TopicPartition._make, self._replicas.failed))

    def _lost_records(self) -> Mapping[TopicPartition, int]:
        """The partitions whose logs have lost records, each with the leader epoch to exceed."""
        awaiting = self._replicas.leadership.awaiting_epoch
        return {TopicPartition(*key): epoch for key, epoch in awaiting.items()}

    def _is_to_be_replaced(self, key: TopicPartition) -> bool:
        """Whether a failed replica leads, or is in sync beside others, by what is known of the metadata."""
        topic = self._store.image.topics.get(key.topic)
        if topic is None or key.number >= len(topic.partitions):
            return False
        state = topic.partitions[key.number]
        return state.leader == self._node_id or (self._node_id in state.isr and len(state.isr) > 1)
