"""The in-sync sets of the partitions that this broker leads, in the states of the partitions in ZooKeeper.

The epoch of a partition is the version of its state's node. A change of the set reads the node first, as the node has
fields that a leader does not know, and then writes on condition of the version. Changes that arrive meanwhile share the
next read and the next multi; a refused change refuses no other. A change whose leader has resigned is refused.

A change may have no outcome: the connection ended before the answer. Then this broker does not know the stored set, and
the leader goes on to count the followers of both sets. Once the session is back, the node has the outcome: either the
wanted set, or the old version, and the write is repeated, or the state of another writer. Disconnected, a broker serves
on and changes no sets.

The controller does not watch the states: `/isr_change_notification` names the changed partitions. The first ones are
reported at once, later ones together. Source: Apache Kafka's `ZkIsrManager`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from headgate.gateway.runtime.tasks import Ask, SingleTask, Task, gather, next_turn, sleep
from headgate.gateway.zookeeper.combined_writes import CombinedWrites
from headgate.gateway.zookeeper.layout.isr_changes import ISR_CHANGES_PATH, IsrChange
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.topics import LeaderAndIsr
from headgate.gateway.zookeeper.requests import CONNECTION_ENDED
from headgate.gateway.zookeeper.session import (
    READ_AT_ONCE,
    Create,
    KeeperError,
    NodeData,
    Refused,
    Session,
    SessionEvent,
    SetData,
)
from headgate.protocol.errors import ErrorCode, KafkaError, without_frames

if TYPE_CHECKING:
    from headgate.gateway.replication.replica import Replica
    from headgate.gateway.runtime.scheduler import Scheduler

logger = logging.getLogger("headgate.zookeeper")

REPORT_EVERY_MS: Final = 200.0
"""The least time between two notifications."""
MOST_REPORTED: Final = 2_000
"""The partitions of one notification, which is far below the size of a node then."""
RETRY_MS: Final = 1_000.0
"""The pause after an error that says nothing about the stored set."""


class _PendingChange:
    """A wanted in-sync set. `is_in_doubt`: it was written, and no read since has shown the stored set.

    `outcome`: the new partition epoch or the refusal; None while that is unknown.
    """

    __slots__ = (
        "is_in_doubt",
        "isr",
        "leader_epoch",
        "outcome",
        "partition",
        "partition_epoch",
        "path",
        "replica",
        "resume",
    )

    def __init__(
        self, replica: Replica, isr: tuple[int, ...], partition_epoch: int, resume: Callable[[Any], None]
    ) -> None:
        self.replica = replica
        self.partition = replica.topic, replica.index
        self.path = LeaderAndIsr.path(*self.partition)
        self.leader_epoch = replica.leader_epoch
        self.isr = isr
        self.partition_epoch = partition_epoch
        self.resume = resume
        self.is_in_doubt = False
        self.outcome: int | KafkaError | None = None


class ZooKeeperIsrManager:
    """Stores in-sync sets, as `gateway.replication.in_sync_replicas.IsrChanges`, and reports them to the controller."""

    def __init__(self, session: Session, node_id: int, scheduler: Scheduler) -> None:
        self._session = session
        self._writes = CombinedWrites(session)
        self._node_id = node_id
        self._scheduler = scheduler
        self._waiting: deque[_PendingChange] = deque()
        self._unreported: dict[tuple[str, int], None] = {}
        self._is_whole = True  # the session is connected, and the cluster is the same
        self._write = SingleTask()
        self._report = SingleTask()

    def alter(self, replica: Replica, isr: tuple[int, ...], partition_epoch: int) -> Ask:
        """See `IsrChanges`. Raises KafkaError: NOT_LEADER_OR_FOLLOWER, INVALID_UPDATE_VERSION."""
        return lambda resume: self._add(_PendingChange(replica, isr, partition_epoch, resume))

    def follow_session(self, _: SessionEvent) -> None:
        """Write nothing until `resume`: after the next connection another cluster may be there."""
        self._is_whole = False

    def resume(self) -> None:
        """The session is back, and the cluster is the same."""
        self._is_whole = True
        self._go_on()

    def _add(self, change: _PendingChange) -> None:
        self._waiting.append(change)
        self._go_on()

    def _go_on(self) -> None:
        self._write.start(self._write_all)
        self._report.start(self._report_all)

    @property
    def _may_ask(self) -> bool:
        return self._is_whole and self._session.is_connected

    # Changes

    def _write_all(self) -> Task[None]:
        yield next_turn(self._scheduler)  # with all changes of this turn
        while self._waiting and self._may_ask:
            changes = [self._waiting.popleft() for _ in range(min(READ_AT_ONCE, len(self._waiting)))]
            self._session.sync(changes[0].path, lambda _: None)
            found = yield partial(self._session.get_many, [change.path for change in changes])
            nodes = [found] * len(changes) if isinstance(found, KeeperError) else found
            attempts = [self._attempt(change, node) for change, node in zip(changes, nodes, strict=True)]
            yield from gather(attempts, READ_AT_ONCE)
            stored = [change.partition for change in changes if isinstance(change.outcome, int)]
            self._unreported.update(dict.fromkeys(stored))
            self._report.start(self._report_all)
            for change in changes:
                if change.outcome is not None:
                    change.resume(change.outcome)

    def _attempt(self, change: _PendingChange, node: NodeData | KeeperError) -> Task[None]:
        """Write a change, if the node is as the leader knows it. A change without an outcome waits again."""
        try:
            if isinstance(node, KeeperError):
                self._unread(change, node)
            else:
                change.is_in_doubt = False
                wanted = self._plan(change, node)
                change.outcome = wanted if isinstance(wanted, int) else (yield from self._write_one(change, wanted))
        except KafkaError as error:
            change.outcome = without_frames(error)

    def _write_one(self, change: _PendingChange, wanted: SetData) -> Task[int | None]:
        """The new version of a node; None if the next read decides. Raises KafkaError."""
        change.is_in_doubt = True
        answer = yield partial(self._writes.write, [wanted])
        error = answer.error if isinstance(answer, Refused) else answer
        if error is KeeperError.BAD_VERSION or error in CONNECTION_ENDED:
            self._waiting.append(change)
            return None
        if isinstance(error, KeeperError):
            raise _failed(f"ZooKeeper refused to write {change.path}: {error.name}")
        version: int = answer[0].version
        return version

    def _unread(self, change: _PendingChange, error: KeeperError) -> None:
        """Refuse a change whose node cannot be read, unless a write is in doubt. Raises KafkaError."""
        if error is KeeperError.NO_NODE:
            message = f"ZooKeeper has no {change.path}: the topic was deleted"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        if error in CONNECTION_ENDED:
            self._waiting.append(change)
        elif change.is_in_doubt:
            message = "the stored in-sync set of %s-%d is unknown, as %s cannot be read: %s; the next attempt follows"
            logger.warning(message, *change.partition, change.path, error.name)
            self._scheduler.call_after(RETRY_MS, partial(self._add, change))
        else:
            raise _failed(f"ZooKeeper's {change.path} cannot be read: {error.name}")

    def _plan(self, change: _PendingChange, node: NodeData) -> int | SetData:
        """The write of a change, or the version of a node that has the wanted set. Raises KafkaError."""
        try:
            state, version = LeaderAndIsr.decode(*change.partition, node.data), node.stat.version
        except InvalidNode as error:
            raise _failed(f"{error}; correct that node") from None
        if (state.leader, state.leader_epoch) != (self._node_id, change.leader_epoch):
            message = f"node {state.leader} leads it, in leader epoch {state.leader_epoch}"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
        if change.replica.has_resigned:
            # With the last session. A write now would show the controller that this broker leads in the present one.
            message = "this broker leads it no more: its session with ZooKeeper has ended"
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
        if version == change.partition_epoch:
            altered = state._replace(isr=change.isr, leader_recovery_state=0)  # a leader has recovered (KIP-704)
            return SetData(change.path, altered.encode(), version)
        if version > change.partition_epoch and set(state.isr) == set(change.isr):
            return version
        message = f"the stored state has partition epoch {version}, and in sync are {state.isr}"
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)

    # Notifications

    def _report_all(self) -> Task[None]:
        while self._unreported and self._may_ask:
            partitions = tuple(islice(self._unreported, MOST_REPORTED))
            for partition in partitions:
                del self._unreported[partition]
            node = Create(IsrChange.path(), IsrChange(partitions).encode(), is_sequential=True)
            answer = yield partial(self._session.create, node)
            pause_ms = REPORT_EVERY_MS
            if isinstance(answer, KeeperError):
                self._unreported.update(dict.fromkeys(partitions))
                if answer in CONNECTION_ENDED:
                    continue
                if answer is KeeperError.NO_NODE:
                    yield partial(self._session.create, Create(ISR_CHANGES_PATH))
                else:
                    logger.warning("changed in-sync sets cannot be reported: %s: %s", ISR_CHANGES_PATH, answer.name)
                    pause_ms = RETRY_MS
            yield sleep(self._scheduler, pause_ms)


def _failed(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
