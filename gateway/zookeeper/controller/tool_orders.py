"""Orders of Kafka's tools to the controller: deletions of topics, reassignments, elections of preferred leaders."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from headgate.gateway.runtime.tasks import Task
from headgate.gateway.zookeeper.controller.leader_elections import LeaderElections
from headgate.gateway.zookeeper.layout.admin import (
    DELETE_TOPICS_PATH,
    PREFERRED_REPLICA_ELECTION_PATH,
    REASSIGN_PARTITIONS_PATH,
    PartitionReassignments,
    PreferredReplicaElection,
)
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.metadata.reading import StoreParts
from headgate.gateway.zookeeper.requests import children, exists, get, remove
from headgate.gateway.zookeeper.session import NodeData
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from headgate.protocol.messages.elect_leaders import PREFERRED, ElectLeadersResponse
from headgate.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from headgate.gateway.metadata.store import Change

logger = logging.getLogger("headgate.zookeeper")

ORDERS: Final = (DELETE_TOPICS_PATH, REASSIGN_PARTITIONS_PATH, PREFERRED_REPLICA_ELECTION_PATH)


@dataclass(slots=True)
class _OrderedMoves:
    """An order to reassign partitions. `data`: of its node. `has_begun`: each partition is begun or refused."""

    data: bytes | None
    partitions: dict[TopicPartition, tuple[int, ...]]
    refusals: list[object]
    has_begun: bool = False


class ToolOrders:
    """Carries out the orders, by changes of the store and by elections."""

    def __init__(self, parts: StoreParts, elections: LeaderElections) -> None:
        self._session = parts.session
        self._watches = parts.watches
        self._nodes = parts.nodes
        self._config = parts.config
        self._store = parts.store
        self._elections = elections
        self._ordered: dict[Change, str] = {}  # changes that carry out an order -> path of the order
        self._postponed = set[str]()  # paths of orders that wait until all partitions are led
        self._moves: _OrderedMoves | None = None
        self._is_electing = False
        self._elected: object = None  # the outcome of the elections of an order whose node is not deleted yet

    def carry_out(self, path: str) -> Task[None]:
        """Read one of ORDERS, and carry out what is there."""
        yield from self._CARRY_OUT[path](self)

    def _delete_topics(self) -> Task[None]:
        names = yield from children(self._session, DELETE_TOPICS_PATH, self._watches.note)
        self._put_deleting(names)
        for name in names:
            if name in self._store.planned.topics:
                try:
                    self._ordered[self._store.delete_topic(name)] = DELETE_TOPICS_PATH
                    continue
                except KafkaError as error:
                    if error.code is not ErrorCode.TOPIC_DELETION_DISABLED:
                        raise
                    logger.error("topic %s is not deleted, as ordered in ZooKeeper: %s", name, error.message)
            elif name in self._store.written_image.topics:
                continue  # a pending change deletes the topic
            yield from remove(self._session, f"{DELETE_TOPICS_PATH}/{name}")
            self._put_deleting([topic for topic in self._nodes.deleting if topic != name])

    def _put_deleting(self, names: Sequence[str]) -> None:
        """Store the deletion orders. Topics whose order was withdrawn need a leader again."""
        gone = self._nodes.deleting - set(names)
        self._nodes.put_deleting(names)
        self._elections.read(gone)

    def _reassign(self) -> Task[None]:
        """Begin the reassignments of an order, and delete its node once none of them is in progress."""
        path = REASSIGN_PARTITIONS_PATH
        found = yield from self._ready(path)
        if found is None:
            self._moves = self._moves if path in self._postponed else None
            return
        moves = self._moves
        if moves is None or moves.data != found.data:
            moves = self._moves = _OrderedMoves(found.data, {}, [])
            self._begin_moves(moves)
        if moves.has_begun and not self._are_moving(moves):
            self._moves = None
            yield from self._end(path, found, moves.refusals)

    def _begin_moves(self, moves: _OrderedMoves) -> None:
        """Begin the reassignments of an order. A part with brokers that are not alive is refused."""
        view = self._elections.view
        assert view is not None, "the elections are settled"
        try:
            order = PartitionReassignments.decode(moves.data)
        except InvalidNode as error:
            moves.refusals.append(error)
            order = PartitionReassignments({})
        for key, replicas in order.replicas.items():
            dead = [broker for broker in replicas if broker not in view.brokers]
            if dead:
                moves.refusals.append(f"{TopicPartition(*key)} cannot be on brokers {dead}, which are not alive")
            else:
                moves.partitions[TopicPartition(*key)] = replicas
        moves.has_begun = not moves.partitions
        if moves.partitions:
            self._elections.reassign(partial(self._moves_began, moves), moves.partitions)

    def _moves_began(self, moves: _OrderedMoves, outcome: object) -> None:
        moves.has_begun = True
        moves.refusals += _refused_moves(outcome)
        self._watches.note(REASSIGN_PARTITIONS_PATH)

    def _are_moving(self, moves: _OrderedMoves) -> bool:
        """Whether a reassignment of an order is in progress."""
        view = self._elections.view
        states = () if view is None else map(view.state, moves.partitions)
        return any(state is not None and state.is_reassigning for state in states)

    def _elect_preferred(self) -> Task[None]:
        """Begin the elections of an order, or delete its node after their end."""
        path = PREFERRED_REPLICA_ELECTION_PATH
        found = yield from self._ready(path)
        if found is None or self._is_electing:
            return
        outcome, self._elected = self._elected, None
        if outcome is None:
            try:
                partitions = [TopicPartition(*key) for key in PreferredReplicaElection.decode(found.data).partitions]
            except InvalidNode as error:
                outcome = error
            else:
                self._is_electing = True
                self._elections.elect(self._elections_ended, PREFERRED, partitions)
                return
        yield from self._end(path, found, _refused_elections(outcome))

    def _elections_ended(self, outcome: object) -> None:
        self._is_electing, self._elected = False, outcome
        self._watches.note(PREFERRED_REPLICA_ELECTION_PATH)

    def _ready(self, path: str) -> Task[NodeData | None]:
        """The node of an order that may be carried out now; None without it, or if the order has to wait."""
        if (yield from exists(self._session, path, self._watches.note)) is None:
            return None
        found = yield from get(self._session, path)
        if found is None or not self._elections.is_settled or path in self._ordered.values():
            self._postponed.update([path] if found is not None else ())
            return None
        return found

    def _end(self, path: str, found: NodeData, refusals: Iterable[object]) -> Task[None]:
        for refusal in refusals:
            logger.error("an order in ZooKeeper's %s is refused: %s", path, refusal)
        yield from remove(self._session, path, found.stat.version)

    def change_ended(self, change: Change, *, is_final: bool) -> bool:
        """Handle the end of a change. Returns whether an order caused it; the order is read again unless `is_final`."""
        path = self._ordered.pop(change, None)
        if path is not None and not is_final:
            self._watches.note(path)
        return path is not None

    def all_are_led(self) -> None:
        """Every partition has its leader: schedule the orders that waited for the leaders."""
        postponed, self._postponed = self._postponed, set()
        moves = self._moves
        if moves is not None and moves.has_begun and not self._are_moving(moves):
            postponed.add(REASSIGN_PARTITIONS_PATH)
        for path in sorted(postponed):
            self._watches.note(path)

    _CARRY_OUT: Final[Mapping[str, Callable[[ToolOrders], Task[None]]]] = {
        DELETE_TOPICS_PATH: _delete_topics,
        REASSIGN_PARTITIONS_PATH: _reassign,
        PREFERRED_REPLICA_ELECTION_PATH: _elect_preferred,
    }


def _refused_moves(outcome: object) -> Iterator[object]:
    """The refusals in the outcome of an order's reassignments."""
    if not isinstance(outcome, AlterPartitionReassignmentsResponse):
        yield outcome
        return
    for topic in outcome.responses:
        for row in topic.partitions:
            if row.error_code:
                yield f"{topic.name}-{row.partition_index}: {row.error_message}"


def _refused_elections(outcome: object) -> Iterator[object]:
    """The refusals in the outcome of an order's elections. A preferred replica that leads already is no refusal."""
    if not isinstance(outcome, ElectLeadersResponse):
        yield outcome
        return
    for topic in outcome.replica_election_results:
        for row in topic.partition_result:
            if row.error_code not in {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED}:
                yield f"{topic.topic}-{row.partition_id}: {row.error_message}"
