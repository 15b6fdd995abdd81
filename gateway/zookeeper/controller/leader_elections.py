"""The leaders of partitions: the decisions of the controller's machine, written to ZooKeeper in small changes.

`gateway/controller/controller.py` decides. It sees the image of this store, which has what ZooKeeper has confirmed.
A partition whose state cannot be written is given up until its node changes.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from headgate.gateway.controller.cluster_view import ClusterView, FailedReplica, LiveBroker
from headgate.gateway.controller.controller import ControllerMachine, ControllerSettings
from headgate.gateway.controller.elections import is_unclean
from headgate.gateway.metadata.image import PartitionState
from headgate.gateway.zookeeper.metadata.reading import StoreParts
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import ConfigRecord, MetadataRecord, PartitionRecord
from headgate.protocol.messages.alter_partition import AlterPartitionRequest
from headgate.protocol.schema import Message
from headgate.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from headgate.gateway.metadata.store import Change
    from headgate.gateway.runtime.scheduler import Timer

logger = logging.getLogger("headgate.zookeeper")

WRITTEN_AT_ONCE: Final = 64
"""The most partitions in one change: the loop needs about three milliseconds for them."""
IN_FLIGHT: Final = 4
"""The most changes that wait for ZooKeeper: one takes about as long to plan as ZooKeeper takes to answer the last."""
DECIDED_AT_ONCE: Final = 512
"""About the most partitions that are decided without a pause."""

_UNCLEAN: Final = "unclean.leader.election.enable"

Reply = Callable[[Message | KafkaError], None]


class LeaderElections:
    """The machine of one term, and the change that writes some of its decisions."""

    def __init__(self, parts: StoreParts) -> None:
        self.machine: ControllerMachine | None = None
        """None until every topic and every registration was read."""
        self.view_changed: Callable[[], None] = lambda: None
        """Called after each change of the view."""
        self._nodes = parts.nodes
        self._config = parts.config
        self._watches = parts.watches
        self._scheduler = parts.tasks.scheduler
        self._clock = parts.clock
        self._store = parts.store
        self._given_up: dict[TopicPartition, int] = {}  # -> partition epoch
        self._changes: dict[Change, bool] = {}  # -> whether other decisions may be written at the same time
        self._timer: Timer | None = None
        self._written_at_once = WRITTEN_AT_ONCE

    @property
    def view(self) -> ClusterView | None:
        """The cluster as the machine sees it."""
        return None if self.machine is None else self.machine.view

    # Facts

    def begin(self, brokers: Mapping[int, LiveBroker]) -> None:
        """Begin to decide. `brokers`: those whose leads the image has."""
        config, image = self._config, self._store.written_image
        settings = ControllerSettings(
            self._is_unclean,
            config.auto_leader_rebalance_enable,
            config.leader_imbalance_check_interval_seconds * 1000,
            config.leader_imbalance_per_broker_percentage,
        )
        view = ClusterView(image, self._with_own(brokers), self._own_failed())
        self.machine = ControllerMachine(view, settings, self._clock.monotonic_ms())
        self._show_failed(view)
        self._timer = self._scheduler.call_at(self.machine.rebalance_at_ms, self._check_balance)
        for name in image.topics:
            self._note_departed(name)
        self._log_foreign(self.machine)
        self.view_changed()

    def end(self) -> None:
        """Decide nothing more: the term has ended. Requests that wait get NOT_CONTROLLER: the next one decides."""
        if self._timer is not None:
            self._timer.cancel()
        error = KafkaError(ErrorCode.NOT_CONTROLLER, "this broker is no longer the controller; ask the next one")
        for reply in self.machine.end() if self.machine is not None else ():
            cast("Reply", reply)(error)

    def _check_balance(self) -> None:
        """Find the partitions that their preferred leaders have to lead again."""
        assert self.machine is not None
        self._watches.notify()
        interval_ms = self._config.leader_imbalance_check_interval_seconds * 1000
        self._timer = self._scheduler.call_after(interval_ms, self._check_balance)

    def elect(self, reply: Reply, election_type: int, partitions: Sequence[TopicPartition] | None) -> None:
        """Elect leaders as ElectLeaders asks for. Raises KafkaError while the topics are read."""
        self.ready_machine().elect(reply, election_type, partitions)
        self._watches.notify()

    def reassign(
        self,
        reply: Reply,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        *,
        may_change_factor: bool = True,
    ) -> None:
        """Begin reassignments of partitions. Raises KafkaError, NOT_CONTROLLER while the topics are read."""
        self.ready_machine().reassign(reply, wanted, may_change_factor=may_change_factor)
        self._watches.notify()

    def shut_down(self, reply: Reply, broker_id: int, broker_epoch: int) -> None:
        """Move the leads of a broker that will stop. Raises KafkaError, NOT_CONTROLLER while the topics are read."""
        self.ready_machine().shut_down(reply, broker_id, broker_epoch)
        self._watches.notify()
        self.view_changed()

    def alter_partition(self, reply: Reply, request: AlterPartitionRequest, version: int) -> None:
        """Change in-sync sets for their leader. Raises KafkaError, NOT_CONTROLLER while the topics are read."""
        self.ready_machine().alter_partition(reply, request, version)
        self._watches.notify()

    def ready_machine(self) -> ControllerMachine:
        """The machine. Raises KafkaError(NOT_CONTROLLER) while the topics are read."""
        if self.machine is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this broker is the controller soon: it reads the topics; retry")
        return self.machine

    def set_brokers(self, brokers: Mapping[int, LiveBroker]) -> None:
        """Take over the registered brokers."""
        if self.machine is not None:
            self.machine.set_brokers(self._with_own(brokers))
            self._show_failed(self.machine.view)
            self.view_changed()

    def set_failed(self, broker_id: int, failed: Iterable[TopicPartition], works: Iterable[TopicPartition]) -> None:
        """Take over which replicas of a broker have failed log directories, and which work."""
        if self.machine is not None:
            before = self.machine.view.failed
            self.machine.set_failed(broker_id, failed, works)
            new = [replica.partition for replica in self.machine.view.failed - before]
            if new:
                message = "broker %d has %d more offline replicas, such as %s: others lead if they are in sync"
                logger.warning(message, broker_id, len(new), min(new))
            self._show_failed(self.machine.view)
            self._watches.notify()
            self.view_changed()

    def _show_failed(self, view: ClusterView) -> None:
        """Show the failed replicas to clients of this broker."""
        found = defaultdict[TopicPartition, tuple[int, ...]](tuple)
        for broker_id, key in sorted(view.failed):
            found[key] += (broker_id,)
        self._store.set_failed_replicas(found)

    def own_failed(self, before: Iterable[TopicPartition], lost: Mapping[TopicPartition, int]) -> None:
        """Take over the failed replicas of this broker, as `MetadataStore.report_failed`. `before`: the last ones."""
        if self.machine is None:
            return
        failed = {replica.partition for replica in self._own_failed()}
        for key, epoch in lost.items():
            self.machine.note_departed(key, self._config.node_id, epoch)
        self.set_failed(self._config.node_id, failed, set(before) - failed)

    def _own_failed(self) -> frozenset[FailedReplica]:
        """The failed replicas of this broker, without the last ones of in-sync sets: no other can lead these."""
        node_id, topics = self._config.node_id, self._store.written_image.topics
        known = [key for key in self._store.failed_here if key.topic in topics]
        in_sync = {key: {*topics[key.topic].partitions[key.number].isr} for key in known}
        return frozenset(FailedReplica(node_id, key) for key in known if in_sync[key] - {node_id})

    def _with_own(self, brokers: Mapping[int, LiveBroker]) -> Mapping[int, LiveBroker]:
        """The brokers with this one, which lives from the begin of its term on, and needs no epoch for itself."""
        node_id = self._config.node_id
        own = brokers.get(node_id, LiveBroker(0, rack=self._config.broker_rack))
        return {**brokers, node_id: own._replace(epoch=0)}

    def replay(self, records: Iterable[MetadataRecord]) -> None:
        """Take over records that the store's image has now."""
        if self.machine is not None:
            records = list(records)
            self.machine.replay(records, self._store.written_image)
            settings = [record for record in records if isinstance(record, ConfigRecord) and record.name == _UNCLEAN]
            self.read(record.resource_name for record in settings)
            self.view_changed()

    def read(self, names: Iterable[str]) -> None:
        """Take over that the store's image has what ZooKeeper has of these topics."""
        machine, topics = self.machine, self._store.written_image.topics
        if machine is None:
            return
        for name in topics.keys() & names:
            for index, state in enumerate(topics[name].partitions):
                key = TopicPartition(name, index)
                if self._given_up.get(key) != state.partition_epoch:
                    machine.was_read(key)
            self._note_departed(name)

    def _note_departed(self, name: str) -> None:
        """Find the leaders in ZooKeeper that live, but not since they lead: the image shows no leader."""
        machine = self.machine
        assert machine is not None
        for index, state in enumerate(self._store.written_image.topics[name].partitions):
            nodes = self._nodes.topic(name) if state.leader < 0 and len(state.isr) > 1 else None
            found = None if nodes is None else nodes.states.get(index)
            if found is not None and found.leader in machine.view.brokers:
                machine.note_departed(TopicPartition(name, index), found.leader)

    def _is_unclean(self, topic: str) -> bool:
        text = self._store.written_image.topic_configs(topic).get(_UNCLEAN)
        return self._config.unclean_leader_election_enable if text is None else text.strip().lower() == "true"

    def _log_foreign(self, machine: ControllerMachine) -> None:
        """Log the partitions that no live broker can lead."""
        live = machine.view.brokers.keys()
        names = [
            f"{topic.name}-{index}"
            for topic in machine.view.image.topics.values()
            for index, state in enumerate(topic.partitions)
            if state.leader < 0 and live.isdisjoint(state.isr or state.replicas)
        ]
        if names:
            logger.warning(
                "%d partitions have no copy in sync on this broker, and have no leader (%s): their brokers are gone",
                len(names), _shown(names),
            )  # fmt: skip

    # Writes

    @property
    def is_settled(self) -> bool:
        """Whether every partition has the leader that it can have."""
        return self.machine is not None and not self._changes and self.machine.is_settled

    def write_some(self) -> bool:
        """Submit the next states of some partitions, in one change. Returns whether more wait for a decision."""
        machine = self.machine
        if machine is None or len(self._changes) >= IN_FLIGHT:
            return False
        for _ in range(0, DECIDED_AT_ONCE, WRITTEN_AT_ONCE):
            decision = machine.decide(self._clock.monotonic_ms(), self._written_at_once)
            for reply, answer in decision.replies:
                cast("Reply", reply)(answer)
            records = self._writable(machine, decision.records)
            if records:
                moves = any(map(self._moves, records))
                self._changes[self._store.submit(records)] = not moves
            elif decision.has_more:
                continue
            else:
                self._written_at_once = WRITTEN_AT_ONCE
            return False
        return True

    def _writable(self, machine: ControllerMachine, records: Sequence[MetadataRecord]) -> list[MetadataRecord]:
        """The records that fit the planned image. The others wait for the pending change, or for a topic's node."""
        fitting = [record for record in records if self._fits(record)]
        if len(fitting) < len(records):
            machine.write_failed(record for record in records if record not in fitting)
        return fitting

    def _fits(self, record: MetadataRecord) -> bool:
        assert isinstance(record, PartitionRecord)
        planned = self._store.planned
        name = planned.topic_names.get(record.topic_id)
        if name is None or self._nodes.topic(name) is None or name in self._nodes.deleting:
            return False
        state: PartitionState = planned.topics[name].partitions[record.partition_id]
        return state.partition_epoch == record.partition_epoch - 1

    def _moves(self, record: MetadataRecord) -> bool:
        """Whether a record changes the replicas of a partition."""
        assert isinstance(record, PartitionRecord)
        planned = self._store.planned
        state = planned.topics[planned.topic_names[record.topic_id]].partitions[record.partition_id]
        before = state.replicas, state.adding_replicas, state.removing_replicas
        return before != (tuple(record.replicas), tuple(record.adding_replicas), tuple(record.removing_replicas))

    def may_overlap(self, change: Change) -> bool:
        """Whether a change writes states of partitions alone: moves write the topic's node, as other moves may."""
        return self._changes.get(change, False)

    def change_ended(self, change: Change, error: KafkaError | None, *, is_final: bool) -> bool:
        """Handle the end of a change of this store. Returns whether the change wrote decisions.

        After a final failure each partition is tried alone. A partition that fails alone is given up.
        """
        is_own = self._changes.pop(change, None) is not None
        if error is None:
            known = list(self._with_state_before(change.records))
            _log_moves(known)
            if is_own:
                self._note_unclean(known)
            self.replay(change.records)
        elif is_own and self.machine is not None:
            self.machine.write_failed(change.records)
            if is_final:
                self._written_at_once = 1
                if len(change.records) == 1:
                    self._give_up(self.machine, change.records[0], error)
        return is_own

    def _with_state_before(self, records: Iterable[MetadataRecord]) -> Iterator[_StateChange]:
        """The partitions of records, with their states in the view, which does not have the records yet."""
        machine = self.machine
        names = {} if machine is None else machine.view.image.topic_names
        for record in records:
            if machine is not None and isinstance(record, PartitionRecord) and record.topic_id in names:
                key = TopicPartition(names[record.topic_id], record.partition_id)
                before = machine.view.state(key)
                if before is not None:
                    yield _StateChange(key, before, record)

    def _note_unclean(self, changes: Iterable[_StateChange]) -> None:
        """Count and log the new leaders that were not in sync."""
        found = [change for change in changes if is_unclean(change.before, change.record.leader)]
        if found:
            self._store.unclean_elections += len(found)
            logger.warning(
                "%d partitions have leaders that were not in sync, and may have lost records: %s",
                len(found), _shown([f"{change.partition} by broker {change.record.leader}" for change in found]),
            )  # fmt: skip

    def _give_up(self, machine: ControllerMachine, record: MetadataRecord, error: KafkaError) -> None:
        """Leave a partition without a leader until its node changes: its next state cannot be written.

        If a reassignment was to begin, only the reassignment is given up.
        """
        image = self._store.written_image
        if isinstance(record, PartitionRecord) and record.topic_id in image.topic_names:
            key = TopicPartition(image.topic_names[record.topic_id], record.partition_id)
            if machine.refuse_reassignment(key, error):
                return
            self._given_up[key] = image.topics[key.topic].partitions[key.number].partition_epoch
            logger.error("partition %s-%d has no leader: its leader epoch cannot be written: %s", *key, error.message)


class _StateChange(NamedTuple):
    """A written state of a partition, and the one before."""

    partition: TopicPartition
    before: PartitionState
    record: PartitionRecord


def _log_moves(changes: Iterable[_StateChange]) -> None:
    """Log the reassignments that begin or end."""
    begun, ended = list[str](), list[str]()
    for key, before, record in changes:
        adding, removing = tuple(record.adding_replicas), tuple(record.removing_replicas)
        if (before.adding_replicas, before.removing_replicas) != (adding, removing):
            target = [broker for broker in record.replicas if broker not in removing]
            (begun if adding or removing else ended).append(f"{key} to {target}")
    for line, moves in ("%d reassignments begin: %s", begun), ("%d reassignments have ended: %s", ended):
        if moves:
            logger.info(line, len(moves), _shown(moves))


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
