"""A group whose offsets are in both stores: ZooKeeper has every acknowledged commit, the coordinator's log follows.

    commit:  lock ──> the group checks ──> ZooKeeper ──> the log ──> the reply
    fetch:   lock ──> sync, read ZooKeeper ──> what others wrote there goes into the log ──> then as in any group
    marker:  lock ──> read ──> ZooKeeper has the offsets of the transaction ──> the marker goes into the log
    event:   a node was changed ──> a little later, read ──> what others wrote goes into the log

As the log never has an offset before ZooKeeper has it, any difference between them was written by another client, or
is what a crash left: ZooKeeper is right. So nothing but one node has to tell that the offsets were carried over
(`OffsetStores`). Operations hold the partitions that they are about, so the log has commits in ZooKeeper's order.

    ENTERING ──> DUAL ──> LEAVING ──> LEFT         requests wait while ENTERING, and are sent again after LEAVING
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from headgate.gateway.config.offset_store import KAFKA
from headgate.gateway.coordinator.decision import Decision, Records, Ticket
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.runtime.purgatory import Waiting
from headgate.gateway.zookeeper.offsets.background import Background
from headgate.gateway.zookeeper.offsets.combined_writes import CombinedWrites
from headgate.gateway.zookeeper.offsets.deleted_topics import OffsetsOfDeletedTopic, read_offsets
from headgate.gateway.zookeeper.offsets.entry import GroupEntry
from headgate.gateway.zookeeper.offsets.marks import Loss, find_loss, mark_path
from headgate.gateway.zookeeper.offsets.offset_nodes import ABSENT, NO_OFFSET, Found, NodeOffset, OffsetNodes, Targets
from headgate.gateway.zookeeper.offsets.partition_locks import Hold, Partition, PartitionLocks, Partitions
from headgate.gateway.zookeeper.offsets.waiting_request import Parking, Request, ask_again, leaving, refusal
from headgate.gateway.zookeeper.session import KeeperError, Session
from headgate.gateway.zookeeper.steps import run
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue, decode_offset

logger = logging.getLogger("headgate.groups")

LOOK_AFTER_MS: Final = 500.0
"""The pause between a change of a node and the look at it: a group that commits is read twice a second at most."""
RETRY_MS: Final = 1_000.0
MAX_WAITING: Final = 1_000
"""Requests of one group that may wait."""

Decide = Callable[[GroupShard, Ticket], Decision]
Ended = Callable[[KafkaError | None], None]


class State(Enum):
    """Where a group is on its way into both stores and out of them."""

    ENTERING = auto()
    DUAL = auto()
    LEAVING = auto()
    LEFT = auto()


class Groups(Protocol):
    """What is used of the `GroupCoordinator`."""

    def submit(self, key: str, decide: Decide) -> Any: ...


class Scheduling(Protocol):
    """What is used of a `Scheduler`."""

    def call_after(self, delay_ms: float, callback: Callable[[], None]) -> Any: ...


class World(NamedTuple):
    """What all dual groups share. `monotonic_ms` is the clock of deadlines."""

    session: Session
    writes: CombinedWrites
    groups: Groups
    scheduler: Scheduling
    purgatory: Parking
    monotonic_ms: Callable[[], float]
    timestamp_ms: Callable[[], int]
    timeout_ms: Callable[[], float]
    may_ask: Callable[[], bool]
    """Whether ZooKeeper is connected, and has this broker's cluster, as far as is known."""
    begin_entry: Callable[[DualGroup], None]
    """Carry the offsets of a group over, in the background."""


class DualGroup:
    """One group. `ended` is called when its offsets are in one store only, or will be: LEFT."""

    def __init__(self, group_id: str, world: World, state: State, background: Background) -> None:
        """Raises InvalidNode for a group id that cannot be in ZooKeeper."""
        self.group_id = group_id
        self.state = state
        self.may_be_marked = state is State.DUAL
        """Whether a node may say that the offsets were carried over."""
        self.failure = ""
        """Why the last attempt to enter or to leave has failed, as the log has it."""
        self.source = ""
        """The side that leads when the offsets are carried over, in place of the side that the configs name."""
        self.nodes = OffsetNodes(world.session, world.writes, group_id)
        self._world = world
        self._background = background
        self._locks = PartitionLocks()
        self._until_dual: deque[Hold] = deque()
        self._changed: set[Partition] = set()
        self._has_changed_wholly = False
        """Whether all offsets were read since the connection began, with watches."""
        self._is_looking = False
        self._unreadable: set[Partition] = set()

    # Requests

    def commit(self, partitions: Partitions, decide: Decide) -> Waiting:
        """Have the group decide; offsets and tombstones in its records go to ZooKeeper before they go to the log.

        `partitions`: None for a deletion, which takes up what others wrote before. The response may have rows of
        partitions that ZooKeeper refused, with an error. Raises KafkaError.
        """
        request = self._request()
        _Commit(self, request, partitions, decide).begin()
        return request.park(self._world.monotonic_ms() + self._world.timeout_ms())

    def look(self, partitions: Partitions) -> Waiting:
        """Take up what others wrote for some partitions; the reply is True. Raises KafkaError."""
        request = self._request()

        def begin() -> None:
            if request.is_over:
                self.release(hold)
            else:
                self._look_if_dual(hold, lambda error: request.answer(error or True))

        hold = Hold(partitions, begin)
        self.acquire(hold)
        return request.park(self._world.monotonic_ms() + self._world.timeout_ms())

    def look_and_decide(self, partitions: Partitions, decide: Decide) -> Waiting:
        """Take up what others wrote before, then have the group decide; its records are for the log alone.

        The offsets of a transaction go there, and what is older must not come behind them. Raises KafkaError.
        """
        request = self._request()

        def begin() -> None:
            if request.is_over or self.state is not State.DUAL:
                end(leaving())
            else:
                self.read(partitions or frozenset(), read)

        def read(found: Found | KafkaError) -> None:
            if isinstance(found, KafkaError):
                end(found)
            else:
                self.take_up(found, taken_up, is_whole=False)

        def taken_up(reply: Any) -> None:
            if isinstance(reply, KafkaError):
                end(reply)
            elif request.is_over:  # the producer has aborted, and nothing would end these offsets
                end(leaving())
            else:
                self.decide(decide, request.answer)
                self.release(hold)

        def end(error: KafkaError) -> None:
            request.answer(error)
            self.release(hold)

        hold = Hold(partitions, begin)
        self.acquire(hold)
        return request.park(self._world.monotonic_ms() + self._world.timeout_ms())

    def take_up(self, found: Found, done: Callable[[Any], None], *, is_whole: bool) -> None:
        """Have the log take what was found; `done` gets a KafkaError, or another reply."""
        self.decide(partial(self._take_up, found, is_whole=is_whole), done)

    def _take_up(self, found: Found, shard: GroupShard, ticket: Ticket, *, is_whole: bool) -> Decision:
        reply: Any = True
        return Decision(self.differences(shard, found, is_whole=is_whole), [(ticket, reply)], is_atomic=False)

    def _request(self) -> Request:
        if not self._world.may_ask():
            raise ask_again("the connection to ZooKeeper is lost")
        if len(self._locks) + len(self._until_dual) >= MAX_WAITING:
            raise ask_again(f"{MAX_WAITING} requests of the group wait for ZooKeeper")
        return Request(self._world.purgatory)

    def acquire(self, hold: Hold) -> None:
        """Begin an operation once the group is dual and its partitions are free."""
        if self.state is State.DUAL:
            self._locks.acquire(hold)
        else:
            self._until_dual.append(hold)

    def release(self, hold: Hold) -> None:
        """An operation has ended."""
        self._locks.release(hold)

    def decide(self, decide: Decide, done: Callable[[Any], None]) -> None:
        """Have the group decide; `done` gets the reply, or a KafkaError."""
        try:
            outcome = self._world.groups.submit(self.group_id, decide)
        except KafkaError as error:
            done(error)
            return
        except Exception:
            logger.exception("a request or an operation on the offsets of group %s failed", self.group_id)
            done(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        if isinstance(outcome, Waiting):
            self._world.purgatory.park(outcome, done)
        else:
            done(outcome)

    # What others write

    def changed(self, path: str) -> None:
        """A watch: look at the node in a moment."""
        topic, index = self.nodes.place_of(path)
        if topic is None or index is None:
            self._has_changed_wholly = True
        else:
            self.nodes.unwatch((topic, index))
            self._changed.add((topic, index))
        self._look_later(LOOK_AFTER_MS)

    def _look_later(self, delay_ms: float) -> None:
        if not self._is_looking and self.state is State.DUAL:
            self._is_looking = True
            self._world.scheduler.call_after(delay_ms, self._look_again)

    def _look_again(self) -> None:
        self._is_looking = False
        if self.state is not State.DUAL or not self._world.may_ask():
            return  # it will be looked at when there is a connection
        self._background.add_unless_waiting(self.group_id, self._look_at_changes)

    def _look_at_changes(self, ended: Callable[[], None]) -> None:
        if self._has_changed_wholly:
            self.look_at_all(lambda _: ended())
        elif self._changed and self.state is State.DUAL:
            changed, self._changed = frozenset(self._changed), set()
            self._look_in_background(changed, lambda _: ended())
        else:
            ended()

    def look_at_all(self, done: Ended) -> None:
        """Look at all offsets, and watch them from now on: at a start, and when a connection is back."""
        if self.state is not State.DUAL:
            done(None)
            return
        self._has_changed_wholly = False
        self._changed.clear()
        self._look_in_background(None, done)

    def _look_in_background(self, partitions: Partitions, done: Ended) -> None:
        def ended(error: KafkaError | None) -> None:
            if error is not None:
                self._has_changed_wholly = True
                self._look_later(RETRY_MS)
            done(error)

        hold = Hold(partitions, lambda: self._look_if_dual(hold, ended))
        self.acquire(hold)

    def _look_if_dual(self, hold: Hold, done: Ended) -> None:
        if self.state is State.DUAL:
            self._look(hold, done)
        else:
            self.release(hold)
            done(leaving())

    def _look(self, hold: Hold, done: Ended) -> None:
        def read(found: Found | KafkaError) -> None:
            if isinstance(found, KafkaError):
                self.release(hold)
                done(found)
                return

            def taken_up(reply: Any) -> None:
                done(reply if isinstance(reply, KafkaError) else None)

            self.nodes.knows_all |= is_whole
            self.take_up(found, taken_up, is_whole=is_whole)
            self.release(hold)  # the log has the order of the calls

        is_whole = hold.partitions is None
        self.read(hold.partitions, read)

    def read(self, partitions: Partitions, done: Callable[[Found | KafkaError], None]) -> None:
        """Read offsets, and watch them. Offsets are missing only where ZooKeeper has lost neither cluster nor mark."""

        def read(found: Found | KeeperError) -> None:
            if isinstance(found, KeeperError):
                done(refusal(found))
            elif partitions is None or any(one.version == ABSENT for one in found.values()):
                run(find_loss(self._world.session, self.group_id), partial(looked, found))
            else:
                done(found)

        def looked(found: Found, loss: Loss | Exception | None) -> None:
            if loss is None:
                done(found)
            elif loss is Loss.MARK:
                self._enter_again()
                done(ask_again("ZooKeeper has lost offsets of the group, which are carried over again"))
            else:
                done(ask_again("ZooKeeper has lost this cluster" if loss is Loss.CLUSTER else str(loss)))

        if partitions is None:
            self.nodes.read_all(read, self.changed)
        else:
            self.nodes.read(partitions, read, self.changed)

    def _enter_again(self) -> None:
        """Carry the offsets over again, once the operations that are under way have ended."""

        def begin() -> None:
            self.release(hold)
            self._world.begin_entry(self)

        self.may_be_marked = False
        if self.state is State.DUAL:
            logger.warning(
                "ZooKeeper has lost %s: it has an older copy of its data, or somebody has deleted that node; "
                "the offsets of group %s are carried over again, as kafka has them", mark_path(self.group_id),
                self.group_id,
            )  # fmt: skip
            self.state, self.source = State.ENTERING, KAFKA
            hold = Hold(None, begin)
            self._locks.acquire(hold)

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

    def _name_unreadable(self, place: Partition) -> None:
        if place not in self._unreadable:
            self._unreadable.add(place)
            logger.warning("%s-%d of group %s has no number in ZooKeeper", *place, self.group_id)

    # Into both stores, and out of them

    def enter(self, source: str, note: Callable[[Ended], None], done: Ended) -> None:
        """Carry the offsets of the leading side over to the other; `note` makes it known for good, as the last step.

        Where the leading side has no offset, it gets that of the other.
        """
        GroupEntry(self, source, note, done).begin()

    def entered(self) -> None:
        """The offsets were carried over: begin what waits, and watch the nodes from now on."""
        self.state, self.source, self.failure = State.DUAL, "", ""
        self._has_changed_wholly = True
        waiting, self._until_dual = self._until_dual, deque()
        for hold in waiting:
            self._locks.acquire(hold)
        self._look_later(LOOK_AFTER_MS)

    def leave(self, note: Callable[[Ended], None], done: Ended) -> None:
        """Take a last look at ZooKeeper, and make it known for good."""
        self.state = State.LEAVING

        def looked(error: KafkaError | None) -> None:
            if error is None or not self.may_be_marked:  # an earlier attempt has noted it
                note(done)
            else:
                done(error)

        hold = Hold(None, lambda: self._look(hold, looked))
        self._locks.acquire(hold)

    def left(self) -> None:
        """The group's requests have to be sent again."""
        self.state = State.LEFT
        waiting, self._until_dual = self._until_dual, deque()
        for hold in waiting:
            hold.begin()

    def forget_topic(self, topic: str, topic_id: bytes, reads: Background, done: Ended, *, is_gone: bool) -> None:
        """Delete the offsets of a topic from both stores, if a note says that the topic was deleted.

        Later operations follow. Offsets that were written after the note stay. `is_gone`: the topic was deleted just
        now, and there is no new one: so a commit that was on its way is of the old one. `reads` bounds the reads of all
        groups together.
        """

        def begin() -> None:
            known.update({place: version for place, version in self.nodes.versions.items() if place[0] == topic})
            own.update(place for place in known if place in self.nodes.own)
            is_without = self.nodes.knows_all and not self._has_changed_wholly and not known
            if self.state is State.ENTERING:
                end(leaving())
            elif self.state is not State.DUAL or is_without:
                end(None)
            else:
                steps = read_offsets(self._world.session, self.group_id, topic, topic_id)
                reads.add(f"{topic} {self.group_id}", lambda ended: run(steps, partial(read, ended)))

        def read(ended: Callable[[], None], found: OffsetsOfDeletedTopic | Exception | None) -> None:
            ended()
            if isinstance(found, Exception):
                end(ask_again(str(found)))
            elif found is None:
                end(None)
            else:
                old = {
                    place: stat.version
                    for place, stat in found.nodes.items()
                    if stat.mzxid < found.note_zxid or (is_gone and place in own and known[place] == stat.version)
                }
                self.nodes.versions.update(old)
                self.nodes.write(dict.fromkeys(old), partial(written, old), as_read=True)

        def written(old: Mapping[Partition, int], failed: dict[Partition, KeeperError]) -> None:
            if failed:
                end(refusal(next(iter(failed.values()))))
            else:
                if old:
                    logger.info("group %s has no offsets of the deleted topic %s any more", self.group_id, topic)
                self.take_up(dict.fromkeys(old, NO_OFFSET), taken_up, is_whole=False)

        def taken_up(reply: Any) -> None:
            end(reply if isinstance(reply, KafkaError) else None)

        def end(error: KafkaError | None) -> None:
            self.release(hold)
            done(error)

        known: dict[Partition, int] = {}
        own: set[Partition] = set()
        hold = Hold(None, begin)
        self.acquire(hold)

    def look_at_topic(self, topic: str) -> None:
        """Look at the offsets of a topic in a moment: the log may have lost some."""
        self._changed.update(place for place in self.nodes.versions if place[0] == topic)
        self._look_later(LOOK_AFTER_MS)

    def forget_watches(self) -> None:
        """The connection is lost, and all watches with it."""
        self.nodes.forget_watches()
        self.nodes.knows_all = False

    # Transactions

    def push(self, producer_id: int, hold: Hold, done: Callable[[Targets | KafkaError], None]) -> None:
        """Write the offsets of a transaction that is about to be committed; `hold` has their partitions.

        `done` gets the offsets that ZooKeeper has now. What others wrote since goes into the log first: such an offset
        supersedes that of the transaction.
        """
        if self.state is not State.DUAL or not self._world.may_ask():
            done(leaving())
            return

        def read(found: Found | KeeperError) -> None:
            if isinstance(found, KeeperError):
                done(refusal(found))
            else:
                self.decide(partial(self._take_up_before, producer_id, found), taken_up)

        def taken_up(reply: Any) -> None:
            if isinstance(reply, KafkaError):
                done(reply)
            else:
                # A marker that is repeated must not replace what another client has written since
                self.nodes.write(reply.offsets, partial(written, reply.offsets), as_read=True)

        def written(targets: Targets, failed: dict[Partition, KeeperError]) -> None:
            # What cannot be in ZooKeeper is in the log alone
            errors = [error for error in failed.values() if error is not KeeperError.BAD_ARGUMENTS]
            done(refusal(errors[0]) if errors else targets)

        self.nodes.read(hold.partitions or (), read)

    def _take_up_before(self, producer_id: int, found: Found, shard: GroupShard, ticket: Ticket) -> Decision:
        """Take up what others wrote; the reply has the offsets of the transaction that nothing has superseded.

        A node that has such an offset already was written before a crash. A missing node is about to be written. A late
        request may have added offsets of other partitions: those nodes were not read, and are not held.
        """
        pending = shard.offsets.pending_offsets(self.group_id, producer_id)
        pending = {place: offset for place, offset in pending.items() if place in found}
        others = {
            place: node
            for place, node in found.items()
            if node.version != ABSENT and (node.offset is None or node.offset != pending.get(place))
        }
        records = self.differences(shard, others, is_whole=False)
        superseded = {(key.topic, key.partition) for key, _ in records if isinstance(key, OffsetCommitKey)}
        reply: Any = _Pending({place: offset for place, offset in pending.items() if place not in superseded})
        return Decision(records, [(ticket, reply)])


class _Pending(NamedTuple):
    """The offsets of a transaction, which may be none."""

    offsets: Targets


class _Plan(NamedTuple):
    """A decision that was not written yet."""

    decision: Decision


class _Commit:
    """One request that changes offsets."""

    def __init__(self, group: DualGroup, request: Request, partitions: Partitions, decide: Decide) -> None:
        self._group = group
        self._request = request
        self._decide = decide
        self._hold = Hold(partitions, self._begin)

    def begin(self) -> None:
        self._group.acquire(self._hold)

    def _begin(self) -> None:
        group = self._group
        if self._request.is_over or group.state is not State.DUAL:
            self._end(leaving())
        elif self._hold.partitions is None:  # a deletion: what the log does not have yet would come back after it
            group.read(None, self._read)
        else:
            group.decide(self._plan, self._planned)

    def _read(self, found: Found | KafkaError) -> None:
        if isinstance(found, KafkaError):
            self._end(found)
        else:
            self._group.take_up(found, self._taken_up, is_whole=True)

    def _taken_up(self, reply: Any) -> None:
        if isinstance(reply, KafkaError):
            self._end(reply)
        else:
            self._group.decide(self._plan, self._planned)

    def _plan(self, shard: GroupShard, ticket: Ticket) -> Decision:
        plan: Any = _Plan(self._decide(shard, ticket))
        return Decision(replies=[(ticket, plan)])

    def _planned(self, plan: Any) -> None:
        if not isinstance(plan, _Plan):
            self._end(plan)
            return
        decision = plan.decision
        targets = {
            (key.topic, key.partition): None if value is None else value.offset
            for key, value in decision.records
            if type(key) is OffsetCommitKey
        }
        if targets:
            self._group.nodes.write(targets, partial(self._written, decision), is_over=lambda: self._request.is_over)
        else:
            self._write(decision)

    def _written(self, decision: Decision, failed: dict[Partition, KeeperError]) -> None:
        if failed:
            decision.records = [
                (key, value)
                for key, value in decision.records
                if type(key) is not OffsetCommitKey or (key.topic, key.partition) not in failed
            ]
        if failed and hasattr(decision.replies[0][1], "topics"):
            _mark(decision.replies[0][1], failed)
            self._write(decision)
        elif failed:  # a response without rows
            self._end(refusal(next(iter(failed.values()))))
        else:
            self._write(decision)

    def _write(self, decision: Decision) -> None:
        response = decision.replies[0][1]

        def write(_: GroupShard, ticket: Ticket) -> Decision:
            return Decision(decision.records, [(ticket, response)], is_atomic=decision.is_atomic)

        self._group.decide(write, self._request.answer)
        self._group.release(self._hold)  # the log has the order of the calls

    def _end(self, reply: Any) -> None:
        self._request.answer(reply)
        self._group.release(self._hold)


def _mark(response: Any, failed: Mapping[Partition, KeeperError]) -> None:
    """Give the rows of partitions that were not written an error."""
    for topic in response.topics:
        for row in topic.partitions:
            error = failed.get((topic.name, row.partition_index))
            if error is KeeperError.BAD_ARGUMENTS:
                row.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
            elif error is not None:
                row.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
