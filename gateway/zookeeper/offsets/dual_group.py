"""A group whose offsets are in both stores: ZooKeeper has every acknowledged commit, the coordinator's log follows.

    commit:  lock ──> the group checks ──> ZooKeeper ──> the log ──> the reply
    fetch:   lock ──> sync, read ZooKeeper ──> what others wrote there goes into the log ──> then as in any group
    marker:  lock ──> read ──> ZooKeeper has the offsets of the transaction ──> the marker goes into the log
    event:   a node was changed ──> a little later, read ──> what others wrote goes into the log

The log never has an offset before ZooKeeper has it. So another client has written any difference between them, or a
crash has left it: ZooKeeper is right. A mark says that the offsets were carried over (`marks`). Operations hold locks
of their partitions, so the log has commits in ZooKeeper's order.

    ENTERING ──> DUAL ──> LEAVING ──> LEFT         requests wait while ENTERING, and are sent again after LEAVING
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from headgate.gateway.config.offset_store import KAFKA
from headgate.gateway.coordinator.decision import Decision, Records, Ticket
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.runtime.scheduler import Scheduler
from headgate.gateway.runtime.tasks import Caller, Outcome, Task, Tasks, shielded, value_of
from headgate.gateway.zookeeper.combined_writes import CombinedWrites
from headgate.gateway.zookeeper.offsets.background import Background
from headgate.gateway.zookeeper.offsets.client_errors import ask_again, for_client, late, leaving, zookeeper_error
from headgate.gateway.zookeeper.offsets.deleted_topics import read_offsets
from headgate.gateway.zookeeper.offsets.marks import Loss, find_loss, mark, mark_path, unmark
from headgate.gateway.zookeeper.offsets.offset_nodes import (
    ABSENT,
    NO_OFFSET,
    Failures,
    Found,
    NodeOffset,
    OffsetNodes,
    Targets,
)
from headgate.gateway.zookeeper.offsets.partition_locks import Partition, PartitionLock, PartitionLocks, Partitions
from headgate.gateway.zookeeper.session import KeeperError, Session
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue, decode_offset

logger = logging.getLogger("headgate.groups")

T = TypeVar("T")

REFRESH_AFTER_MS: Final = 500.0
"""The pause between a change of a node and its read: a group that commits is read twice a second at most."""
RETRY_MS: Final = 1_000.0
MAX_WAITING: Final = 1_000
"""Requests of one group that may wait."""
MOST_READINGS: Final = 5
"""How often the nodes are read to carry offsets over, while others write them; then there is a pause."""

Decide = Callable[[GroupShard, Ticket], Decision]


class State(Enum):
    """Where a group is on its way into both stores and out of them."""

    ENTERING = auto()
    DUAL = auto()
    LEAVING = auto()
    LEFT = auto()


class Groups(Protocol):
    """The part of `GroupCoordinator` that a dual group uses."""

    def submit(self, key: str, decide: Decide) -> Outcome[Any]: ...


class DualGroupServices(NamedTuple):
    """What all dual groups share. `timestamp_ms` is the wall clock."""

    session: Session
    writes: CombinedWrites
    groups: Groups
    scheduler: Scheduler
    tasks: Tasks
    timestamp_ms: Callable[[], int]
    timeout_ms: Callable[[], float]
    may_ask: Callable[[], bool]
    """Whether ZooKeeper is connected, and has this broker's cluster, as far as is known."""
    enter_in_background: Callable[[DualGroup], None]
    """Carry the offsets of a group over, in the background."""


class DualGroup:
    """One group."""

    def __init__(self, group_id: str, services: DualGroupServices, state: State, background: Background) -> None:
        """Raises InvalidNode for a group id that cannot be in ZooKeeper."""
        self.group_id = group_id
        self.state = state
        self.may_be_marked = state is State.DUAL
        """Whether a node may say that the offsets were carried over."""
        self.failure = ""
        """Why the last attempt to enter or to leave has failed, as the log has it."""
        self.source = ""
        """The side that leads when the offsets are carried over, in place of the side that the configs name."""
        self.nodes = OffsetNodes(services.session, services.writes, group_id)
        self._services = services
        self._background = background
        self._locks = PartitionLocks()
        self._until_dual: deque[tuple[PartitionLock, Callable[[None], None]]] = deque()
        self._changed: set[Partition] = set()
        self._needs_refresh = False
        """Whether all offsets have to be read, with watches: not all were since the connection began."""
        self._is_refresh_due = False
        self._unreadable: set[Partition] = set()

    # Requests

    def commit(self, partitions: Partitions, decide: Decide) -> Task[Any]:
        """Have the group decide; offsets and tombstones in its records go to ZooKeeper before they go to the log.

        `partitions`: None for a deletion. The response may have rows of partitions that ZooKeeper refused, with an
        error. Raises KafkaError.
        """
        return self._request(lambda caller: self._commit(caller, partitions, decide))

    def refresh(self, partitions: Partitions) -> Task[None]:
        """Have the log take what others wrote for some partitions. Raises KafkaError."""
        return self._request(lambda caller: self._refresh(partitions, caller))

    def refresh_and_decide(self, partitions: Partitions, decide: Decide) -> Task[Any]:
        """Have the log take what others wrote before, then have the group decide; its records are for the log alone.

        These are the offsets of a transaction. An older offset must not come behind them. Raises KafkaError.
        """
        return self._request(lambda caller: self._refresh_and_decide(caller, partitions, decide))

    def _request(self, make: Callable[[Caller], Task[T]]) -> Task[T]:
        """A request that goes on after its deadline, and without its client. Raises KafkaError."""
        if not self._services.may_ask():
            raise ask_again("the connection to ZooKeeper is lost")
        if len(self._locks) + len(self._until_dual) >= MAX_WAITING:
            raise ask_again(f"{MAX_WAITING} requests of the group wait for ZooKeeper")
        tasks = self._services.tasks
        return shielded(tasks, make, tasks.monotonic_ms() + self._services.timeout_ms(), late)

    def _commit(self, caller: Caller, partitions: Partitions, decide: Decide) -> Task[Any]:
        with self.lock(partitions) as lock:
            yield from self._acquire(lock, caller)
            if partitions is None:  # a deletion: offsets that the log does not have yet would come back after it
                yield from self._log_found((yield from self._read(None)), is_whole=True)
            decision = yield from self._ask_shard(decide)
            targets = {
                (key.topic, key.partition): None if value is None else value.offset
                for key, value in decision.records
                if type(key) is OffsetCommitKey
            }
            failed = (yield from self.nodes.write(targets, caller)) if targets else {}
            response = decision.replies[0][1]
            if failed:
                _remove_failed(decision, failed)
                _note_failures(response, failed)
            reply = self._submit(lambda _, ticket: Decision(decision.records, [(ticket, response)], decision.is_atomic))
        return (yield from value_of(reply))  # the log has the order of the calls

    def _refresh_and_decide(self, caller: Caller, partitions: Partitions, decide: Decide) -> Task[Any]:
        with self.lock(partitions) as lock:
            yield from self._acquire(lock, caller)
            found = yield from self._read(partitions or frozenset())
            yield from self._log_found(found, is_whole=False)
            if caller.is_gone:  # the producer has aborted, and nothing would end these offsets
                raise leaving()
            reply = self._submit(decide)
        return (yield from value_of(reply))

    # Commits of other clients in ZooKeeper

    def _refresh(self, partitions: Partitions, caller: Caller | None = None) -> Task[None]:
        with self.lock(partitions) as lock:
            yield from self._acquire(lock, caller)
            logged = yield from self._read_into_log(partitions)
        yield from value_of(logged)

    def _read_into_log(self, partitions: Partitions) -> Task[Any]:
        """Read offsets, and have the log take them. Returns the reply of the log, or a task that waits for it."""
        found, is_whole = (yield from self._read(partitions)), partitions is None
        self.nodes.knows_all |= is_whole
        return self._submit_found(found, is_whole=is_whole)

    def _read(self, partitions: Partitions) -> Task[Found]:
        """Read offsets, and watch them. Raises KafkaError; also if ZooKeeper has lost the cluster or the group's mark.

        Only beside these a missing offset is a deleted one.
        """
        if partitions is None:
            found = yield from for_client(self.nodes.read_all(self.changed))
        else:
            found = yield from for_client(self.nodes.read(partitions, self.changed))
        if partitions is None or any(node.version == ABSENT for node in found.values()):
            loss = yield from for_client(find_loss(self._services.session, self.group_id))
            if loss is Loss.MARK:
                self._enter_again()
                raise ask_again("ZooKeeper has lost offsets of the group, which are carried over again")
            if loss is Loss.CLUSTER:
                raise ask_again("ZooKeeper has lost this cluster")
        return found

    def changed(self, path: str) -> None:
        """A watch: read the node in a moment."""
        topic, index = self.nodes.partition_of(path)
        if topic is None or index is None:
            self._needs_refresh = True
        else:
            self.nodes.unwatch((topic, index))
            self._changed.add((topic, index))
        self._refresh_later(REFRESH_AFTER_MS)

    def _refresh_later(self, delay_ms: float) -> None:
        if not self._is_refresh_due and self.state is State.DUAL:
            self._is_refresh_due = True
            self._services.scheduler.call_after(delay_ms, self._begin_refresh)

    def _begin_refresh(self) -> None:
        self._is_refresh_due = False
        if self.state is State.DUAL and self._services.may_ask():  # else all is read when there is a connection
            self._background.add_unless_waiting(self.group_id, self._refresh_changed)

    def _refresh_changed(self) -> Task[None]:
        if self._needs_refresh:
            yield from self.refresh_all()
        elif self._changed and self.state is State.DUAL:
            changed, self._changed = frozenset(self._changed), set()
            yield from self._refresh_in_background(changed)

    def refresh_all(self) -> Task[None]:
        """Read all offsets, and watch them from now on: at a start, and when a connection is back."""
        if self.state is State.DUAL:
            self._needs_refresh = False
            self._changed.clear()
            yield from self._refresh_in_background(None)

    def _refresh_in_background(self, partitions: Partitions) -> Task[None]:
        try:
            yield from self._refresh(partitions)
        except KafkaError:
            self._needs_refresh = True
            self._refresh_later(RETRY_MS)

    def refresh_topic(self, topic: str) -> None:
        """Read the offsets of a topic in a moment: the log may have lost some."""
        self._changed.update(partition for partition in self.nodes.versions if partition[0] == topic)
        self._refresh_later(REFRESH_AFTER_MS)

    def forget_watches(self) -> None:
        """The connection is lost, and all watches with it."""
        self.nodes.forget_watches()
        self.nodes.knows_all = False

    # Locks, and decisions of the coordinator

    def lock(self, partitions: Partitions) -> PartitionLock:
        """A lock of some partitions; `with` releases it."""
        return self._locks.lock(partitions)

    def _acquire(self, lock: PartitionLock, caller: Caller | None = None) -> Task[None]:
        """Wait until the group is dual and the partitions are free. Raises KafkaError if the caller is gone by then."""
        yield partial(self._acquire_when_dual, lock)
        if self.state is not State.DUAL or (caller is not None and caller.is_gone):
            raise leaving()

    def _acquire_when_dual(self, lock: PartitionLock, resume: Callable[[None], None]) -> None:
        if self.state is State.DUAL:
            lock.acquire(resume)
        else:
            self._until_dual.append((lock, resume))

    def _submit(self, decide: Decide) -> Outcome[Any]:
        """Have the group decide: the reply, or a task that waits for it. Raises KafkaError."""
        try:
            return self._services.groups.submit(self.group_id, decide)
        except KafkaError:
            raise
        except Exception as error:
            logger.exception("a request or an operation on the offsets of group %s failed", self.group_id)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error

    def _ask_shard(self, decide: Callable[[GroupShard, Ticket], T]) -> Task[T]:
        """The group's decision, without a write. Raises KafkaError."""

        def answer(shard: GroupShard, ticket: Ticket) -> Decision:
            result: Any = _Decided(decide(shard, ticket))
            return Decision(replies=[(ticket, result)])

        decided = yield from value_of(self._submit(answer))
        result: T = decided.result
        return result

    def _submit_found(self, found: Found, *, is_whole: bool) -> Outcome[bool]:
        """Have the log take what was found."""

        def decide(shard: GroupShard, ticket: Ticket) -> Decision:
            return Decision(self.differences(shard, found, is_whole=is_whole), [(ticket, _DONE)], is_atomic=False)

        return self._submit(decide)

    def _log_found(self, found: Found, *, is_whole: bool) -> Task[None]:
        yield from value_of(self._submit_found(found, is_whole=is_whole))

    def differences(self, shard: GroupShard, found: Mapping[Partition, NodeOffset], *, is_whole: bool) -> Records:
        """The records with which the log has what ZooKeeper has. `is_whole`: no other offsets are in ZooKeeper.

        Offsets of topics that this broker does not know are kept as all others are.
        """
        now_ms, records = shard.timestamp_ms(), Records()
        vector = shard.offsets.groups.get(self.group_id, {})
        for (topic, index), (offset, version) in found.items():
            packed = vector.get(topic, {}).get(index)
            key = OffsetCommitKey(self.group_id, topic, index)
            if offset is None and version != ABSENT:
                self._name_unreadable((topic, index))
                continue
            self._unreadable.discard((topic, index))
            if offset is None:
                if packed is not None:
                    records.append((key, None))
            elif packed is None or decode_offset(packed).offset != offset:
                records.append((key, OffsetCommitValue(offset, -1, "", now_ms)))
        if is_whole:
            records += [
                (OffsetCommitKey(self.group_id, topic, index), None)
                for topic, partitions in vector.items()
                for index in partitions
                if (topic, index) not in found
            ]
        return records

    def _name_unreadable(self, partition: Partition) -> None:
        if partition not in self._unreadable:
            self._unreadable.add(partition)
            logger.warning("%s-%d of group %s has no number in ZooKeeper", *partition, self.group_id)

    # Into both stores, and out of them

    def enter(self, leading: str) -> Task[None]:
        """Carry the offsets of the leading side over to the other, then set the mark. Raises KafkaError.

        Where the leading side has no offset, it gets the other side's.
        """
        for _ in range(MOST_READINGS):
            found = yield from for_client(self.nodes.read_all())  # without watches, which cost most of the time
            records, targets = yield from self._ask_shard(partial(self._compare, found, leading))
            # A node that was written meanwhile may be newer than what the log has
            failed = yield from self.nodes.write(targets, as_read=True)
            errors = {error for error in failed.values() if error is not KeeperError.BAD_ARGUMENTS}
            if errors != {KeeperError.BAD_VERSION}:
                break
        if errors:
            raise zookeeper_error(errors.pop())
        yield from value_of(self._submit(lambda _, ticket: Decision(records, [(ticket, _DONE)], is_atomic=False)))
        self.may_be_marked = True
        yield from for_client(mark(self._services.session, self.group_id))

    def _compare(self, found: Found, leading: str, shard: GroupShard, _: Ticket) -> tuple[Records, Targets]:
        """The records for the log, and the offsets for ZooKeeper."""
        in_log = {
            (topic, index): decode_offset(packed).offset
            for topic, partitions in shard.offsets.groups.get(self.group_id, {}).items()
            for index, packed in partitions.items()
        }
        in_zookeeper = {partition: node for partition, node in found.items() if node.offset is not None}
        if leading == KAFKA:
            missing = {partition: node for partition, node in in_zookeeper.items() if partition not in in_log}
            records = self.differences(shard, missing, is_whole=False)
        else:
            records = self.differences(shard, in_zookeeper, is_whole=False)
            in_log = {partition: offset for partition, offset in in_log.items() if partition not in in_zookeeper}
        targets = {
            partition: offset
            for partition, offset in in_log.items()
            if partition not in in_zookeeper or in_zookeeper[partition].offset != offset
        }
        return records, targets

    def entered(self) -> None:
        """The offsets were carried over: begin what waits, and watch the nodes from now on."""
        self.state, self.source, self.failure = State.DUAL, "", ""
        self._needs_refresh = True
        waiting, self._until_dual = self._until_dual, deque()
        for lock, resume in waiting:
            lock.acquire(resume)
        self._refresh_later(REFRESH_AFTER_MS)

    def _enter_again(self) -> None:
        """Carry the offsets over again, once the operations that are under way have ended."""
        self.may_be_marked = False
        if self.state is State.DUAL:
            logger.warning(
                "ZooKeeper has lost %s: it has an older copy of its data, or somebody has deleted that node; "
                "the offsets of group %s are carried over again, as kafka has them", mark_path(self.group_id),
                self.group_id,
            )  # fmt: skip
            self.state, self.source = State.ENTERING, KAFKA
            self._services.tasks.start(self._enter_when_idle())

    def _enter_when_idle(self) -> Task[None]:
        with self.lock(None) as lock:
            yield lock.acquire
        self._services.enter_in_background(self)

    def leave(self) -> Task[None]:
        """Read ZooKeeper for the last time, and delete the mark. Raises KafkaError."""
        self.state = State.LEAVING
        with self.lock(None) as lock:
            yield lock.acquire
            try:
                logged = yield from self._read_into_log(None)
                yield from value_of(logged)
            except KafkaError:
                if self.may_be_marked:  # otherwise an earlier attempt has deleted the mark
                    raise
        yield from for_client(unmark(self._services.session, self.group_id))

    def left(self) -> None:
        """The group's requests have to be sent again."""
        self.state = State.LEFT
        waiting, self._until_dual = self._until_dual, deque()
        for _, resume in waiting:
            resume(None)

    def forget_topic(self, topic: str, topic_id: bytes, reads: Background, *, is_gone: bool) -> Task[None]:
        """Delete the offsets of a topic from both stores, if a note says that the topic was deleted. Raises KafkaError.

        Later operations follow. Offsets that were written after the note stay. `is_gone`: the topic was deleted just
        now, and there is no new one: so a commit that was on its way is of the old one. `reads` bounds the reads of all
        groups together.
        """
        with self.lock(None) as lock:
            yield partial(self._acquire_when_dual, lock)
            known = {partition: version for partition, version in self.nodes.versions.items() if partition[0] == topic}
            own = self.nodes.own.intersection(known)
            if self.state is State.ENTERING:
                raise leaving()
            if self.state is not State.DUAL or (self.nodes.knows_all and not self._needs_refresh and not known):
                return
            reading = for_client(read_offsets(self._services.session, self.group_id, topic, topic_id))
            found = yield partial(reads.run, f"{topic} {self.group_id}", reading)
            if found is None:
                return
            old = {
                partition: stat.version
                for partition, stat in found.nodes.items()
                if stat.mzxid < found.note_zxid or (is_gone and partition in own and known[partition] == stat.version)
            }
            self.nodes.versions.update(old)
            failed = yield from self.nodes.write(dict.fromkeys(old), as_read=True)
            if failed:
                raise zookeeper_error(next(iter(failed.values())))
            if old:
                logger.info("group %s has no offsets of the deleted topic %s any more", self.group_id, topic)
            yield from self._log_found(dict.fromkeys(old, NO_OFFSET), is_whole=False)

    # Transactions

    def push(self, producer_id: int, lock: PartitionLock) -> Task[Targets]:
        """Write the offsets of a transaction that is about to be committed; `lock` has their partitions.

        Returns the offsets that ZooKeeper has now. Offsets that others wrote since go into the log first: such an
        offset supersedes the transaction's. Raises KafkaError.
        """
        if self.state is not State.DUAL or not self._services.may_ask():
            raise leaving()
        found = yield from for_client(self.nodes.read(lock.partitions or ()))
        targets: Targets = {}

        def decide(shard: GroupShard, ticket: Ticket) -> Decision:
            nonlocal targets
            records, targets = self._supersede(shard, producer_id, found)
            return Decision(records, [(ticket, _DONE)])

        yield from value_of(self._submit(decide))
        # A marker that is repeated must not replace what another client has written since
        failed = yield from self.nodes.write(targets, as_read=True)
        # An offset that ZooKeeper cannot have is in the log alone
        errors = [error for error in failed.values() if error is not KeeperError.BAD_ARGUMENTS]
        if errors:
            raise zookeeper_error(errors[0])
        return targets

    def _supersede(self, shard: GroupShard, producer_id: int, found: Found) -> tuple[Records, Targets]:
        """The records of what others wrote, and the offsets of the transaction that nothing has superseded.

        A node that has such an offset already was written before a crash. A missing node is about to be written. A late
        request may have added offsets of other partitions: those nodes were not read, and are not locked.
        """
        pending = shard.offsets.pending_offsets(self.group_id, producer_id)
        pending = {partition: offset for partition, offset in pending.items() if partition in found}
        others = {
            partition: node
            for partition, node in found.items()
            if node.version != ABSENT and (node.offset is None or node.offset != pending.get(partition))
        }
        records = self.differences(shard, others, is_whole=False)
        superseded = {(key.topic, key.partition) for key, _ in records if isinstance(key, OffsetCommitKey)}
        return records, {one: offset for one, offset in pending.items() if one not in superseded}


_DONE: Any = True
"""The reply to an operation without a response."""


class _Decided(NamedTuple):
    """A group's decision without a write; the result may be any value."""

    result: Any


def _remove_failed(decision: Decision, failed: Failures) -> None:
    """Remove the records of offsets that ZooKeeper has refused."""
    decision.records = [
        (key, value)
        for key, value in decision.records
        if type(key) is not OffsetCommitKey or (key.topic, key.partition) not in failed
    ]


def _note_failures(response: Any, failed: Failures) -> None:
    """Give the rows of partitions that were not written an error. Raises KafkaError for a response without rows."""
    if not hasattr(response, "topics"):
        raise zookeeper_error(next(iter(failed.values())))
    for topic in response.topics:
        for row in topic.partitions:
            error = failed.get((topic.name, row.partition_index))
            if error is KeeperError.BAD_ARGUMENTS:
                row.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
            elif error is not None:
                row.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
