"""The replicas that this broker follows: one link, one fetcher and one task for each leader.

`fetcher.py` decides; this module asks the leader and changes the logs. An answer is taken over partition by partition,
with one write for each; other work has its turn in between. A write, a sync or a truncation that waits for a thread is
a task of its own: the next partition goes on, and the next fetch begins without the slow one.

A replica that shall lead waits until its work has ended (`until_idle`): a truncation that the last leader has asked for
must not follow the first append of the new one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

from headgate.gateway.replication.fetching.fetcher import (
    AppendRecords,
    FetchSettings,
    FetchState,
    FollowedPartition,
    FollowerLog,
    FollowerWork,
    Question,
    ReceivedRecords,
    ReplicaFetcher,
    RestartAt,
    SyncRecords,
    Truncate,
    progress,
)
from headgate.gateway.runtime.broker_links import BrokerLink, BrokerLinks
from headgate.gateway.runtime.tasks import PAUSE, Changes, Outcome, Task, Tasks, WaitList, value_of
from headgate.protocol.client.fetch_session import FetchKey

logger = logging.getLogger("headgate.replication")


class Leader(NamedTuple):
    """A broker that leads partitions, at its address for brokers."""

    node_id: int
    host: str
    port: int


class FollowerReplica(FollowerLog, Protocol):
    """A replica in the follower's role."""

    def append_as_follower(self, records: ReceivedRecords) -> Outcome[object]:
        """AppendRecords whole batches as they are. A task owns the bytes that a thread writes.

        An empty log that begins within the first batch begins again with that batch.
        """

    def sync(self) -> Task[None]:
        """Wait until all records are durable. Raises KafkaError(KAFKA_STORAGE_ERROR)."""

    def truncate(self, offset: int) -> Task[None]:
        """Remove all records from `offset` on; the high watermark is at most `offset` then."""

    def restart_at(self, offset: int) -> Task[None]:
        """Remove all records, and continue at `offset`, with the high watermark there."""

    def take_over(self, high_watermark: int, start_offset: int) -> None:
        """Move the high watermark and the start of the log. Neither goes back."""


class ReplicaFetchers:
    """The followed partitions of this broker, by leader."""

    def __init__(
        self, node_id: int, config: FetchSettings, tasks: Tasks, links: BrokerLinks, broker_epoch: Callable[[], int]
    ) -> None:
        """`broker_epoch`: as for `ReplicaFetcher`."""
        self._node_id = node_id
        self._config = config
        self._tasks = tasks
        self._links = links
        self._broker_epoch = broker_epoch
        self._fetchers: dict[Leader, _LeaderTask] = {}
        self._partitions: dict[FetchKey, FollowedPartition] = {}
        self._replicas: dict[FollowedPartition, FollowerReplica] = {}
        self.changed = WaitList()
        """Touched by orders, and when a partition's work has ended."""

    @property
    def followed(self) -> dict[Leader, int]:
        """The leaders that are followed, each with the number of its partitions."""
        return {leader: len(task.machine) for leader, task in self._fetchers.items()}

    def follow(self, key: FetchKey, replica: FollowerReplica, leader: Leader, leader_epoch: int) -> None:
        """Follow a leader from now on, in a newer leader epoch, or at another address.

        An older epoch changes nothing.
        """
        partition = self._partitions.get(key)
        task = self._fetchers.get(leader)
        if partition is None:
            partition = self._partitions[key] = FollowedPartition(key, replica)
        elif partition.fetcher is not None:
            has_moved = task is None or partition.fetcher is not task.machine
            if leader_epoch < partition.leader_epoch or (leader_epoch == partition.leader_epoch and not has_moved):
                return
            if has_moved:
                self._leave(partition)
        partition.log = self._replicas[partition] = replica
        if task is None:
            task = self._fetchers[leader] = self._open(leader)
        self._perform(task.machine.follow(partition, leader_epoch))
        self._tasks.touch(self.changed)

    def _open(self, leader: Leader) -> _LeaderTask:
        machine = ReplicaFetcher(self._node_id, self._config, self._broker_epoch)
        client_id, timeout_ms = f"broker-{self._node_id}-fetcher-0", self._config.replica_socket_timeout_ms
        link = self._links.open(*leader, client_id, timeout_ms=timeout_ms)
        return _LeaderTask(leader, machine, link, self._tasks, self.changed, self._perform)

    def unfollow(self, key: FetchKey) -> None:
        """Stop the fetches of a partition. `until_idle` waits for its work."""
        partition = self._partitions.get(key)
        if partition is not None:
            self._leave(partition)
            self._drop_if_idle(partition)

    def until_idle(self, key: FetchKey) -> Task[None]:
        """Wait until the work of a partition that is no longer followed has ended."""
        changes = Changes((self.changed,))
        while (partition := self._partitions.get(key)) is not None and partition.fetcher is None:
            yield changes

    def renew(self, key: FetchKey) -> None:
        """The start of a log has moved, or a sync has failed: see `ReplicaFetcher.renew`."""
        partition = self._partitions.get(key)
        if partition is not None and partition.fetcher is not None:
            self._perform(partition.fetcher.renew(partition))

    def lag(self, key: FetchKey) -> int | None:
        """The committed records of the leader that a log lacks; None for a partition that is not followed."""
        partition = self._partitions.get(key)
        return None if partition is None or partition.fetcher is None else partition.lag

    def lags(self) -> Iterator[int]:
        """`lag` of each followed partition."""
        followed = list(self._partitions.values())
        return (partition.lag for partition in followed if partition.fetcher is not None)

    def close(self) -> None:
        """End all tasks and links."""
        for task in self._fetchers.values():
            task.close()
        self._fetchers.clear()

    def _leave(self, partition: FollowedPartition) -> None:
        """Take a partition from its fetcher; the last one ends the link."""
        machine = partition.fetcher
        if machine is None:
            return
        machine.unfollow(partition)
        for leader, task in list(self._fetchers.items()):
            if task.machine is machine and not len(machine):
                del self._fetchers[leader]
                task.close()

    def _drop_if_idle(self, partition: FollowedPartition) -> None:
        if partition.state is FetchState.STOPPED:
            self._partitions.pop(partition.key, None)
            self._replicas.pop(partition, None)

    # Work

    def _perform(self, work: FollowerWork | None) -> None:
        """Begin the work of one partition; a thread may go on with it."""
        if work is not None:
            task = _work(self._replicas[work.partition], work)
            self._tasks.start(task, partial(self._ended, work.partition))

    def _ended(self, partition: FollowedPartition, result: object) -> None:
        error = result if isinstance(result, Exception) else None
        self._perform(partition.end_work(self._tasks.monotonic_ms(), error))
        self._drop_if_idle(partition)
        self._tasks.touch(self.changed)


def _work(replica: FollowerReplica, work: FollowerWork) -> Task[None]:
    match work:
        case AppendRecords(records=records):
            if records:
                yield from value_of(replica.append_as_follower(records))
                if not replica.is_durable:
                    yield from replica.sync()
            replica.take_over(*progress(replica, work))
        case SyncRecords():
            yield from replica.sync()
        case Truncate(offset=offset):
            if offset < replica.high_watermark:
                message = "%s-%d is cut to offset %d below its high watermark %d: its leader lacks the records"
                logger.warning(
                    message, work.partition.key.topic, work.partition.key.number, offset, replica.high_watermark
                )
            yield from replica.truncate(offset)
        case RestartAt(offset=offset):
            yield from replica.restart_at(offset)


class _LeaderTask:
    """The task that fetches from one leader."""

    def __init__(
        self,
        leader: Leader,
        machine: ReplicaFetcher,
        link: BrokerLink,
        tasks: Tasks,
        changed: WaitList,
        perform: Callable[[FollowerWork | None], None],
    ) -> None:
        self.machine = machine
        self._leader = leader
        self._link = link
        self._tasks = tasks
        self._changed = changed
        self._perform = perform
        self._is_lost = False
        self._running = tasks.start_later(self._run())

    def close(self) -> None:
        self._running.cancel()
        self._link.close()

    def _run(self) -> Task[None]:
        machine = self.machine
        while True:
            now_ms = self._tasks.monotonic_ms()
            for work in machine.resume(now_ms):
                self._perform(work)
            question = machine.next_question(now_ms)
            if question is None:
                yield Changes((self._changed,), machine.wake_ms(now_ms))
            else:
                yield from self._ask(question)

    def _ask(self, question: Question) -> Task[None]:
        """Ask, and take over the answer. The records live as long as this task."""
        now_ms = self._tasks.monotonic_ms
        try:
            answer = yield self._link.ask(question.message, question.version)
        except Exception as error:  # noqa: BLE001  whatever the reason, the next attempt is after a wait
            if not self._is_lost:
                logger.warning("broker %d does not answer a fetch; it is asked again: %s", self._leader.node_id, error)
            self._is_lost = True
            self.machine.lost(now_ms())
            return
        self._is_lost = False
        for work in self.machine.take(answer, now_ms()):
            self._perform(work)
            yield PAUSE
