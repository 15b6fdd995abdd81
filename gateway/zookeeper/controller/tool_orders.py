"""Orders of Kafka's tools to the controller: deletions of topics, reassignments, elections of preferred leaders."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from headgate.gateway.metadata.image import Image
from headgate.gateway.runtime.tasks import Task
from headgate.gateway.zookeeper.controller import orders
from headgate.gateway.zookeeper.controller.leader_elections import LeaderElections
from headgate.gateway.zookeeper.controller.orders import OrderDecision
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
from headgate.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from headgate.gateway.metadata.store import Change

logger = logging.getLogger("headgate.zookeeper")

Order = TypeVar("Order")

ORDERS: Final = (DELETE_TOPICS_PATH, REASSIGN_PARTITIONS_PATH, PREFERRED_REPLICA_ELECTION_PATH)


class ToolOrders:
    """Carries out the orders, by changes of the store."""

    def __init__(self, parts: StoreParts, elections: LeaderElections) -> None:
        self._session = parts.session
        self._watches = parts.watches
        self._nodes = parts.nodes
        self._config = parts.config
        self._store = parts.store
        self._elections = elections
        self._ordered: dict[Change, str] = {}  # changes that carry out an order -> path of the order
        self._postponed = set[str]()  # paths of orders that wait until all partitions are led

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
        yield from self._do_order(REASSIGN_PARTITIONS_PATH, PartitionReassignments.decode, orders.reassign)

    def _elect_preferred(self) -> Task[None]:
        path = PREFERRED_REPLICA_ELECTION_PATH
        yield from self._do_order(path, PreferredReplicaElection.decode, orders.elect_preferred)

    def _do_order(
        self, path: str, decode: Callable[[bytes | None], Order], decide: Callable[[Image, int, Order], OrderDecision]
    ) -> Task[None]:
        """Carry out an order, and delete its node once nothing is left to do."""
        if (yield from exists(self._session, path, self._watches.note)) is None:
            return
        found = yield from get(self._session, path)
        if found is None or not self._elections.is_settled or path in self._ordered.values():
            self._postponed.update([path] if found is not None else ())
            return
        try:
            decision = decide(self._store.planned, self._config.node_id, decode(found.data))
        except InvalidNode as error:
            decision = OrderDecision([], [str(error)])
        if decision.records:
            self._ordered[self._store.submit(decision.records)] = path
            return
        for refusal in decision.refusals:
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
        for path in postponed:
            self._watches.note(path)

    _CARRY_OUT: Final[Mapping[str, Callable[[ToolOrders], Task[None]]]] = {
        DELETE_TOPICS_PATH: _delete_topics,
        REASSIGN_PARTITIONS_PATH: _reassign,
        PREFERRED_REPLICA_ELECTION_PATH: _elect_preferred,
    }
