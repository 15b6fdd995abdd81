"""The controller: which broker leads which partition. A machine without a store, a clock or connections.

    facts change (`set_brokers`, `shut_down`, ...)  ->  `decide`  ->  records to write, replies
    the store confirms or shows records             ->  `replay`  ->  `decide` ...
    the store refuses a write, or its answer is lost -> `write_failed`; read the partitions, and `replay` their state

Each decision is derived from the stored state of a partition and the present facts, not from the event between them. So
events may be lost, doubled or late, and the next controller decides the same. A record is the next state of a
partition: its partition epoch is one above the epoch that the write is conditional on, -1 for a state that does not
exist yet. At most one write of a partition is in flight.

Only `replay` changes what is stored, so brokers get orders about confirmed states alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from headgate.gateway.controller.cluster_view import ClusterView, FailedReplica, LiveBroker
from headgate.gateway.controller.election_requests import ElectionRequest
from headgate.gateway.controller.elections import NO_EPOCH, NO_LEADER, next_state
from headgate.gateway.controller.isr_requests import IsrRequest
from headgate.gateway.controller.reassignments import ReassignmentRequest, completed_state
from headgate.gateway.metadata.image import Image, PartitionState
from headgate.gateway.metadata.records import partition_records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import MetadataRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from headgate.protocol.messages.alter_partition import AlterPartitionRequest
from headgate.protocol.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition
from headgate.protocol.messages.elect_leaders import PREFERRED
from headgate.protocol.schema import Message
from headgate.protocol.topic_partition import TopicPartition

FIRST_REBALANCE_MS = 5_000
"""Kafka's delay of the first check for preferred leaders: followers join their in-sync sets before."""


class ControllerSettings(NamedTuple):
    """`is_unclean`: whether a topic allows unclean elections. Times in ms; the percentage as Kafka's."""

    is_unclean: Callable[[str], bool]
    auto_leader_rebalance: bool = True
    imbalance_check_ms: int = 300_000
    imbalance_percentage: int = 10


@dataclass(slots=True)
class ControllerDecision:
    """`records`: each is one conditional write, see the module. `replies`: by the ticket of the request.

    `has_more`: further partitions wait for the next `decide`.
    """

    records: list[MetadataRecord] = field(default_factory=list)
    replies: list[tuple[object, Message | KafkaError]] = field(default_factory=list)
    has_more: bool = False


class ControllerMachine:
    """One controller, from its election to its end."""

    def __init__(self, view: ClusterView, settings: ControllerSettings, now_ms: float) -> None:
        self.view = view
        self.rebalance_at_ms = now_ms + FIRST_REBALANCE_MS
        """When to call `decide` for preferred leaders, whatever else happens."""
        self._settings = settings
        internal_first = sorted(view.image.topics.values(), key=lambda topic: not topic.is_internal)
        self._dirty: dict[TopicPartition, None] = dict.fromkeys(
            TopicPartition(topic.name, index) for topic in internal_first for index in range(len(topic.partitions))
        )
        self._writing: dict[TopicPartition, PartitionState] = {}
        self._unread: set[TopicPartition] = set()
        """Partitions whose stored state is unknown, since a write failed."""
        self._departed: defaultdict[TopicPartition, dict[int, int]] = defaultdict(dict)
        """Brokers that were lost and are back: each leaves the in-sync set before it may lead again.

        A broker that has lost records has the leader epoch to exceed, the others NO_EPOCH.
        """
        self._requests: list[ElectionRequest | ReassignmentRequest] = []
        self._isr_requests: dict[int, IsrRequest] = {}
        """By broker: a broker repeats a request only after it has given up the last one."""
        self._shutdowns: list[tuple[object, int]] = []

    @property
    def is_settled(self) -> bool:
        """Whether every partition has the state that it has to take, as far as the store can be written."""
        return not self._dirty and not self._writing

    # The store

    def replay(self, records: Iterable[MetadataRecord], image: Image | None = None) -> None:
        """Apply records that the store has, this controller's and others'. Doubled and old ones are skipped.

        A store with an image of its own gives `image`, which has the records: the view shares the topics then.
        """
        names, fitting, led_anew = dict(self.view.image.topic_names), list[MetadataRecord](), set[TopicPartition]()
        latest: dict[tuple[bytes, int], int] = {}
        for record in records:
            if isinstance(record, PartitionRecord):
                place = record.topic_id, record.partition_id
                if record.topic_id not in names or record.partition_epoch < self._known_epoch(place, latest):
                    continue
                latest[place] = record.partition_epoch
                key = TopicPartition(names[record.topic_id], record.partition_id)
                state = self.view.state(key)
                if state is not None and record.leader_epoch > state.leader_epoch:
                    led_anew.add(key)
                self._settle(key, record)
            elif isinstance(record, TopicRecord):
                if names.setdefault(record.topic_id, record.name) and record.topic_id in self.view.image.topic_names:
                    continue
            elif isinstance(record, RemoveTopicRecord):
                if record.topic_id not in names:
                    continue
                self._forget_topic(names.pop(record.topic_id))
            fitting.append(record)
        self.view = self.view._replace(
            image=self.view.image.apply_all(fitting) if image is None else image, deposed=self.view.deposed - led_anew
        )

    def _known_epoch(self, place: tuple[bytes, int], latest: Mapping[tuple[bytes, int], int]) -> int:
        topic_id, index = place
        name = self.view.image.topic_names.get(topic_id)
        state = None if name is None else self.view.state(TopicPartition(name, index))
        return latest.get(place, NO_EPOCH if state is None else state.partition_epoch)

    def _settle(self, key: TopicPartition, record: PartitionRecord) -> None:
        self._unread.discard(key)
        wanted, departed = self._writing.get(key), self._departed.get(key, {})
        if record.leader_epoch > departed.get(record.leader, record.leader_epoch) > NO_EPOCH:
            del departed[record.leader]
        if wanted is not None and record.partition_epoch >= wanted.partition_epoch:
            del self._writing[key]
        self._dirty[key] = None

    def was_read(self, key: TopicPartition) -> None:
        """Note that the view has what the store has of a partition."""
        self._unread.discard(key)
        self._dirty[key] = None

    def write_failed(self, records: Iterable[MetadataRecord]) -> None:
        """Note that writes were refused, or that their answers were lost. `replay` what the store has now."""
        for record in records:
            if isinstance(record, PartitionRecord) and record.topic_id in self.view.image.topic_names:
                key = TopicPartition(self.view.image.topic_names[record.topic_id], record.partition_id)
                wanted = self._writing.get(key)
                if wanted is not None and wanted.partition_epoch == record.partition_epoch:
                    del self._writing[key]
                    self._unread.add(key)

    def _forget_topic(self, name: str) -> None:
        topic = self.view.image.topics.get(name)
        for index in range(len(topic.partitions) if topic is not None else 0):
            key = TopicPartition(name, index)
            self._dirty.pop(key, None)
            self._writing.pop(key, None)
            self._departed.pop(key, None)
            self._unread.discard(key)
            self._fail_requests(key)
        failed = frozenset(replica for replica in self.view.failed if replica.partition.topic != name)
        deposed = frozenset(key for key in self.view.deposed if key.topic != name)
        self.view = self.view._replace(failed=failed, deposed=deposed)

    # Facts

    def set_brokers(self, brokers: Mapping[int, LiveBroker]) -> None:
        """Take over the live brokers. A broker with another epoch was lost, and is back with its disks."""
        old = self.view.brokers
        lost = {broker for broker in old if broker not in brokers or brokers[broker].epoch != old[broker].epoch}
        fresh = {broker for broker in brokers if broker not in old} | (lost & brokers.keys())
        self.view = self.view._replace(
            brokers=dict(brokers),
            stopping=self.view.stopping - lost,
            failed=frozenset(replica for replica in self.view.failed if replica.broker_id not in lost | fresh),
        )
        deposed = set[TopicPartition]()
        for key, state in self._leads_first(lost | fresh):
            self._dirty[key] = None
            back = fresh & lost & {state.leader, *state.isr}
            if back:
                self._departed[key] |= dict.fromkeys(back, NO_EPOCH)
            if state.leader in back:
                deposed.add(key)
        self.view = self.view._replace(deposed=self.view.deposed | deposed)

    def _leads_first(self, brokers: AbstractSet[int]) -> list[tuple[TopicPartition, PartitionState]]:
        """The partitions of brokers, those that they lead first: clients wait for these, and writes take turns."""
        return sorted(self.view.partitions_of(brokers), key=lambda pair: pair[1].leader not in brokers)

    def note_departed(self, key: TopicPartition, broker_id: int, latest_epoch: int = NO_EPOCH) -> None:
        """Note that a live broker has lost a partition unnoticed, by a restart since the partition's last state.

        `latest_epoch`: its log has lost records, and knows this leader epoch. The broker leads in a higher one if no
        other replica is in sync.
        """
        self._departed[key][broker_id] = latest_epoch
        self._dirty[key] = None
        state = self.view.state(key)
        if state is not None and state.leader == broker_id:
            self.view = self.view._replace(deposed=self.view.deposed | {key})

    def set_failed(self, broker_id: int, failed: Iterable[TopicPartition], works: Iterable[TopicPartition]) -> None:
        """Take over which replicas of a broker have failed log directories, and which work (again)."""
        changed = {FailedReplica(broker_id, key) for key in failed} - self.view.failed
        healed = {FailedReplica(broker_id, key) for key in works} & self.view.failed
        self.view = self.view._replace(failed=(self.view.failed | changed) - healed)
        self._dirty.update(dict.fromkeys(replica.partition for replica in changed | healed))

    # Requests

    def shut_down(self, ticket: object, broker_id: int, broker_epoch: int) -> None:
        """Move the leads of a broker that will stop; the reply names those that no other broker can take.

        Raises KafkaError: STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE.
        """
        self.check_registration(broker_id, broker_epoch, ErrorCode.BROKER_NOT_AVAILABLE)
        self.view = self.view._replace(stopping=self.view.stopping | {broker_id})
        self._dirty.update((key, None) for key, _ in self._leads_first({broker_id}))
        self._shutdowns.append((ticket, broker_id))

    def elect(self, ticket: object, election_type: int, partitions: Sequence[TopicPartition] | None) -> None:
        """Elect leaders of partitions, of all if None. `election_type`: a constant of `messages.elect_leaders`."""
        wanted = [key for key, _ in self.view.partitions()] if partitions is None else partitions
        self._submit(ElectionRequest(ticket, election_type, wanted, names_all=partitions is None), wanted)

    def reassign(
        self,
        ticket: object,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        *,
        may_change_factor: bool = True,
    ) -> None:
        """Begin reassignments of partitions to other replicas; None cancels one. The reply is about the beginning."""
        self._submit(ReassignmentRequest(ticket, wanted, may_change_factor=may_change_factor), wanted)

    def refuse_reassignment(self, partition: TopicPartition, error: KafkaError) -> bool:
        """Refuse what waits to begin: the store cannot have it. Returns whether there was such a reassignment."""
        requests = [request for request in self._requests if isinstance(request, ReassignmentRequest)]
        waiting = [request for request in requests if partition in request.waiting]
        for request in waiting:
            request.finish(partition, error)
        return bool(waiting)

    def end(self) -> list[object]:
        """The tickets of the requests that wait: the term has ended, and writes no decision."""
        requests = [*self._requests, *self._isr_requests.values()]
        tickets = [request.ticket for request in requests if request.ticket is not None]
        tickets += [ticket for ticket, _ in self._shutdowns]
        self._requests, self._isr_requests, self._shutdowns = [], {}, []
        return tickets

    def _submit(self, request: ElectionRequest | ReassignmentRequest, partitions: Iterable[TopicPartition]) -> None:
        self._requests.append(request)
        for key in partitions:
            if self.view.state(key) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                request.finish(key, KafkaError(code, "The partition does not exist."))
            else:
                self._dirty[key] = None

    def alter_partition(self, ticket: object, request: AlterPartitionRequest, version: int) -> None:
        """Change in-sync sets for their leader. Raises KafkaError: STALE_BROKER_EPOCH."""
        self.check_registration(request.broker_id, request.broker_epoch, ErrorCode.STALE_BROKER_EPOCH)
        wanted = IsrRequest(ticket, request, version, self.view.image.topic_names)
        for key in list(wanted.waiting):
            if self.view.state(key) is None:
                wanted.finish(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                self._dirty[key] = None
        self._isr_requests[request.broker_id] = wanted

    def check_registration(self, broker_id: int, broker_epoch: int, unregistered: ErrorCode) -> None:
        """Raises KafkaError: `unregistered`, or STALE_BROKER_EPOCH for an earlier registration of a broker.

        `broker_epoch` is -1 in versions without it.
        """
        broker = self.view.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(unregistered, f"Broker id {broker_id} does not exist.")
        if broker_epoch not in (-1, broker.epoch):
            message = f"Broker {broker_id} has the epoch {broker.epoch}, and asks with {broker_epoch}; register again."
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, message)

    # Decisions

    def decide(self, now_ms: float, limit: int = 1000) -> ControllerDecision:
        """Evaluate what has changed, up to `limit` partitions. A partition that waits for the store is not ready."""
        if now_ms >= self.rebalance_at_ms:
            self.rebalance_at_ms = now_ms + self._settings.imbalance_check_ms
            self._elect_preferred()
        decision = ControllerDecision()
        for key in list(islice(self._dirty, limit)):
            del self._dirty[key]
            wanted = None if key in self._writing or key in self._unread else self._evaluate(key)
            if wanted is not None:
                self._writing[key] = wanted
                decision.records += partition_records(self.view.image.topics[key.topic].topic_id, key.number, (wanted,))
        decision.replies += self._replies()
        decision.has_more = bool(self._dirty)
        return decision

    def _evaluate(self, key: TopicPartition) -> PartitionState | None:
        state = self.view.state(key)
        if state is None:
            return None
        stopping, online = self.view.stopping, self.view.online(key, state.replicas)
        departed = self._departed.get(key, {})
        present = [broker for broker in online if broker not in departed]
        is_unclean = self._settings.is_unclean(key.topic)
        wanted = next_state(state, present, stopping, is_unclean=is_unclean and not departed)
        lost_epoch = max(departed.values(), default=NO_EPOCH)
        if wanted is not None and lost_epoch > NO_EPOCH:
            if wanted.leader == NO_LEADER:  # no other replica is in sync: the log leads as it is
                leaderless = state._replace(leader=NO_LEADER)
                wanted = next_state(leaderless, online, stopping, is_unclean=False) or wanted
            wanted = wanted._replace(leader_epoch=max(wanted.leader_epoch, lost_epoch + 1))
        if wanted is None and self._departed.pop(key, {}):  # the set has lost them already, or cannot
            wanted = next_state(state, online, stopping, is_unclean=is_unclean)
        for request in self._requests:
            if wanted is None and key in request.waiting:
                wanted = request.evaluate(key, state, self.view.online(key, self.view.brokers), stopping)
        for isr_request in self._isr_requests.values():
            if wanted is None and key in isr_request.waiting:
                wanted = isr_request.evaluate(key, state, [broker for broker in online if broker not in stopping])
        return completed_state(state, online, stopping) if wanted is None else wanted

    def _fail_requests(self, key: TopicPartition) -> None:
        for request in self._requests:
            if key in request.waiting:
                request.finish(key, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        for isr_request in self._isr_requests.values():
            if key in isr_request.waiting:
                isr_request.finish(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _elect_preferred(self) -> None:
        """Elect the preferred leaders of each broker that leads too few of the partitions placed on it first."""
        if not self._settings.auto_leader_rebalance:
            return
        counts: defaultdict[int, int] = defaultdict(int)
        elsewhere: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for key, state in self.view.partitions():
            if state.replicas:
                counts[state.replicas[0]] += 1
                if state.leader != state.replicas[0] and not state.is_reassigning:
                    elsewhere[state.replicas[0]].append(key)
        for broker, partitions in elsewhere.items():
            if (
                broker in self.view.brokers
                and len(partitions) * 100 > self._settings.imbalance_percentage * counts[broker]
            ):
                self._requests.append(ElectionRequest(None, PREFERRED, partitions))
                self._dirty.update(dict.fromkeys(partitions))

    def _replies(self) -> list[tuple[object, Message | KafkaError]]:
        replies: list[tuple[object, Message | KafkaError]] = []
        done = [request for request in self._requests if not request.waiting]
        if done:
            replies += [(request.ticket, request.response()) for request in done if request.ticket is not None]
            self._requests = [request for request in self._requests if request.waiting]
        for broker, altered in [pair for pair in self._isr_requests.items() if not pair[1].waiting]:
            del self._isr_requests[broker]
            replies.append((altered.ticket, altered.response()))
        waiting = []
        for ticket, broker in self._shutdowns:
            reply = self._shutdown_reply(broker)
            if reply is None:
                waiting.append((ticket, broker))
            else:
                replies.append((ticket, reply))
        self._shutdowns = waiting
        return replies

    def _shutdown_reply(self, broker: int) -> Message | KafkaError | None:
        """None while a partition of the broker waits for a decision or a write."""
        if broker not in self.view.stopping:
            return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {broker} ended during its controlled shutdown.")
        undecided = self._dirty.keys() | self._writing.keys() | self._unread
        remaining = []
        for key, state in self.view.partitions_of((broker,)):
            if key in undecided:
                return None
            if state.leader == broker and len(state.replicas) > 1:
                remaining.append(RemainingPartition(key.topic, key.number))
        return ControlledShutdownResponse(remaining_partitions=remaining)
