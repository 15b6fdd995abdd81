"""The orders that a broker has received, of all versions, and the metadata records that carry them out. Pure.

A record never steps back: a state with an older leader epoch, or with the same one and an older partition epoch, is
left out. So orders may come late, twice, or not at all; the newest order of a partition counts.

An order may name some partitions of a topic. The partitions before them, which the broker does not know, get a
`PLACEHOLDER`. Versions without topic ids mean the known topic of a name; `orders.py` has the sender's side.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from headgate.gateway.controller.elections import NO_EPOCH
from headgate.gateway.controller.orders import LEADER_DURING_DELETE, Stop
from headgate.gateway.metadata.image import COORDINATOR_TOPICS, FailedReplicas, Image, Node, PartitionState
from headgate.gateway.metadata.new_topics import check_name
from headgate.gateway.metadata.records import partition_records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.internal.metadata import MetadataRecord, RemoveTopicRecord, TopicRecord
from headgate.protocol.messages.leader_and_isr import FULL, LeaderAndIsrPartitionState, LeaderAndIsrRequest
from headgate.protocol.messages.stop_replica import StopReplicaRequest
from headgate.protocol.messages.update_metadata import UpdateMetadataPartitionState, UpdateMetadataRequest
from headgate.protocol.steps import Steps
from headgate.protocol.topic_partition import TopicPartition

NO_ID: Final = bytes(16)
"""The id of a topic in versions without topic ids, and of a topic of an older Kafka."""
PLACEHOLDER: Final = PartitionState(-1, -1, (), (), -1)
"""The state of a partition that no order has named, before others that an order has named."""
MAX_PARTITIONS: Final = 100_000
"""The bound of a partition's index: a broken order must not fill the memory with placeholders."""
ROWS_A_STEP: Final = 256
"""The partitions of one step: about half a millisecond."""
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_Row = tuple[str, bytes, LeaderAndIsrPartitionState | UpdateMetadataPartitionState]


class OrderedTopic(NamedTuple):
    """The partitions of a topic in an order, by index."""

    name: str
    topic_id: bytes
    states: dict[int, PartitionState]

    @property
    def is_deleted(self) -> bool:
        return any(state.leader == LEADER_DURING_DELETE for state in self.states.values())


class TopicPlan(NamedTuple):
    """The records that carry out the order of a topic, and the results of the partitions that have an error."""

    records: list[MetadataRecord]
    errors: dict[int, ErrorCode]


def ordered_topics(request: LeaderAndIsrRequest | UpdateMetadataRequest) -> Steps[list[OrderedTopic]]:
    """The topics of an order, in steps."""
    topics, last = list[OrderedTopic](), dict[str, OrderedTopic]()
    for number, (name, topic_id, row) in enumerate(_rows(request), 1):
        topic = last.get(name)
        if topic is None or topic.topic_id != topic_id:
            topic = last[name] = OrderedTopic(name, topic_id, {})
            topics.append(topic)
        topic.states[row.partition_index] = _state(row)
        if not number % ROWS_A_STEP:
            yield
    return topics


def _rows(request: LeaderAndIsrRequest | UpdateMetadataRequest) -> Iterator[_Row]:
    for row in request.ungrouped_partition_states:
        yield row.topic_name, NO_ID, row
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id, state


def existing_partitions(request: LeaderAndIsrRequest) -> set[tuple[str, int]]:
    """The partitions of an order that are not new: this broker may have a log of each. Version 0 names no new ones."""
    return {(name, row.partition_index) for name, _, row in _rows(request) if not getattr(row, "is_new", False)}


def _state(row: LeaderAndIsrPartitionState | UpdateMetadataPartitionState) -> PartitionState:
    stored = row.leader, row.leader_epoch, tuple(row.replicas), tuple(row.isr)
    if isinstance(row, UpdateMetadataPartitionState):
        return PartitionState(*stored, row.zk_version)
    return PartitionState(*stored, row.partition_epoch, tuple(row.adding_replicas), tuple(row.removing_replicas))


def without_id(image: Image, topics: Iterable[OrderedTopic]) -> set[str]:
    """The topics whose id neither the order nor the image has."""
    unknown = {topic.name for topic in topics if topic.topic_id == NO_ID and topic.name not in image.topics}
    return set(filter(_is_legal, unknown))


def _is_legal(name: str) -> bool:
    """Whether a topic may have the name: it is a part of paths on the disk and in ZooKeeper."""
    try:
        check_name(name)
    except KafkaError:
        return False
    return True


def with_ids(image: Image, topics: Iterable[OrderedTopic], ids: Mapping[str, bytes]) -> list[OrderedTopic]:
    """The topics, each with the id of the order, of the image, or of `ids`; those without any keep NO_ID."""
    return [
        topic
        if topic.topic_id != NO_ID
        else topic._replace(topic_id=image.topic_id_of(topic.name) or ids.get(topic.name, NO_ID))
        for topic in topics
    ]


def new_internal_topics(image: Image, topics: Iterable[OrderedTopic]) -> set[str]:
    """The internal topics that the image does not have yet."""
    return {topic.name for topic in topics if topic.name in COORDINATOR_TOPICS and topic.name not in image.topics}


def with_all_partitions(topics: Iterable[OrderedTopic], counts: Mapping[str, int]) -> list[OrderedTopic]:
    """The topics, with a placeholder for the last one of so many partitions, unless the order has that partition.

    The coordinator of a key depends on the number of partitions, and the first order may have some of them only.
    """
    return [
        topic._replace(states={counts[topic.name] - 1: PLACEHOLDER, **topic.states}) if topic.name in counts else topic
        for topic in topics
    ]


def plan_topic(image: Image, topic: OrderedTopic, deleted: Container[bytes]) -> Steps[TopicPlan]:
    """Plan the order of a topic, in steps. `deleted`: ids of topics that this controller has deleted.

    A topic with another id replaces the known one of its name. After a deletion the name has no topic, whatever the id
    of the known one is. The order of a deleted topic is late.
    """
    known = image.topics.get(topic.name)
    is_known = known is not None and known.topic_id == topic.topic_id
    if topic.is_deleted:
        is_late = topic.topic_id in deleted
        return TopicPlan([] if known is None or is_late else [RemoveTopicRecord(topic_id=known.topic_id)], {})
    if topic.topic_id in deleted or image.topic_names.get(topic.topic_id, topic.name) != topic.name:
        return TopicPlan([], dict.fromkeys(topic.states, ErrorCode.INCONSISTENT_TOPIC_ID))
    if not _is_legal(topic.name):
        return TopicPlan([], dict.fromkeys(topic.states, ErrorCode.INVALID_TOPIC_EXCEPTION))
    if topic.topic_id == NO_ID:
        return TopicPlan([], dict.fromkeys(topic.states, ErrorCode.UNKNOWN_TOPIC_ID))
    plan = TopicPlan([], {})
    if known is not None and not is_known:
        plan.records.append(RemoveTopicRecord(topic_id=known.topic_id))
    if not is_known:
        plan.records.append(TopicRecord(name=topic.name, topic_id=topic.topic_id))
    yield from _plan_partitions(known.partitions if known is not None and is_known else (), topic, plan)
    return plan


def _plan_partitions(before: Sequence[PartitionState], topic: OrderedTopic, plan: TopicPlan) -> Steps[None]:
    """Add the partitions of a topic to its plan. `before`: the known states."""
    count = len(before)
    for number, (index, ordered) in enumerate(sorted(topic.states.items()), 1):
        known = before[index] if 0 <= index < len(before) else PLACEHOLDER
        state = _with_moves(known, ordered)
        if not 0 <= index < MAX_PARTITIONS:
            plan.errors[index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif state.leader_epoch < known.leader_epoch:
            plan.errors[index] = ErrorCode.STALE_CONTROLLER_EPOCH
        elif index >= count or (state != known and not _steps_back(known, state)):
            states = [PLACEHOLDER] * (index - count) + [state]
            plan.records.extend(partition_records(topic.topic_id, min(count, index), states))
            count = max(count, index + 1)
        if not number % ROWS_A_STEP:
            yield


def _with_moves(known: PartitionState, ordered: PartitionState) -> PartitionState:
    """The ordered state with the adding and removing replicas of LeaderAndIsr: UpdateMetadata has none."""
    if not known.is_reassigning or known.leader_epoch != ordered.leader_epoch:
        return ordered
    return ordered._replace(adding_replicas=known.adding_replicas, removing_replicas=known.removing_replicas)


def _steps_back(before: PartitionState, after: PartitionState) -> bool:
    return (after.leader_epoch, after.partition_epoch) < (before.leader_epoch, before.partition_epoch)


def failed_replicas(request: UpdateMetadataRequest, before: FailedReplicas) -> Steps[FailedReplicas]:
    """The replicas of live brokers that an order shows as offline, in steps. `before`: those known until now."""
    live = {broker.id for broker in request.live_brokers}
    found = {} if request.type == FULL else dict(before)
    for number, (name, _, row) in enumerate(_rows(request), 1):
        assert isinstance(row, UpdateMetadataPartitionState)
        key = TopicPartition(name, row.partition_index)
        found.pop(key, None)
        if not live.isdisjoint(row.offline_replicas):
            found[key] = tuple(broker for broker in row.offline_replicas if broker in live)
        if not number % ROWS_A_STEP:
            yield
    return found


def missing_topics(image: Image, topics: Iterable[OrderedTopic]) -> dict[str, bytes]:
    """The known topics that a full UpdateMetadata does not have, with their ids."""
    names = {topic.name for topic in topics}
    return {name: topic.topic_id for name, topic in image.topics.items() if name not in names}


def ordered_stops(request: StopReplicaRequest) -> dict[TopicPartition, Stop]:
    """The replicas that a StopReplica request stops; versions before 3 have no leader epochs."""
    old = Stop(NO_EPOCH, request.delete_partitions)
    found = {TopicPartition(row.topic_name, row.partition_index): old for row in request.ungrouped_partitions}
    for topic in request.topics:
        found |= {TopicPartition(topic.name, index): old for index in topic.partition_indexes}
    for state in request.topic_states:
        for row in state.partition_states:
            found[TopicPartition(state.topic_name, row.partition_index)] = Stop(row.leader_epoch, row.delete_partition)
    return found


def is_fenced(image: Image, partition: TopicPartition, stop: Stop) -> bool:
    """Whether a stop is older than the state of its partition (KIP-570). Negative epochs are never."""
    topic = image.topics.get(partition.topic)
    if topic is None or not 0 <= partition.number < len(topic.partitions):
        return False
    return 0 <= stop.leader_epoch < topic.partitions[partition.number].leader_epoch


def in_pieces(plans: Iterable[list[MetadataRecord]], size: int) -> Iterator[list[MetadataRecord]]:
    """The records of the topics in pieces of about `size`; those of a topic stay together unless they are many."""
    piece: list[MetadataRecord] = []
    for records in plans:
        if piece and len(piece) + len(records) > size:
            yield piece
            piece = []
        piece = piece + records
        while len(piece) > 2 * size:
            yield piece[:size]
            piece = piece[size:]
    if piece:
        yield piece


def live_brokers(request: UpdateMetadataRequest) -> dict[int, Node]:
    """The live brokers of an order, with their endpoints by listener.

    Versions before 3 have no names of listeners: an endpoint has the name of its protocol, as in Kafka.
    """
    return {
        broker.id: Node(
            broker.id,
            broker.rack or None,
            {
                endpoint.listener or _protocol(endpoint.security_protocol): (endpoint.host, endpoint.port)
                for endpoint in broker.endpoints
            }
            or ({_PROTOCOLS[0]: (broker.v0_host, broker.v0_port)} if broker.v0_host else {}),
        )
        for broker in request.live_brokers
    }


def _protocol(number: int) -> str:
    return _PROTOCOLS[number] if 0 <= number < len(_PROTOCOLS) else str(number)


def with_leaders(brokers: Mapping[int, Node], request: LeaderAndIsrRequest, listener: str) -> dict[int, Node]:
    """The live brokers with the leaders in an order that are not known yet, on the listener between brokers.

    An order has the addresses on the controller's listener. While a cluster changes its listener, this broker may use
    another one: the addresses of UpdateMetadata count more.
    """
    found = dict(brokers)
    for leader in request.live_leaders:
        if not (leader.broker_id in found and found[leader.broker_id].endpoints):
            rack = found[leader.broker_id].rack if leader.broker_id in found else None
            found[leader.broker_id] = Node(leader.broker_id, rack, {listener: (leader.host_name, leader.port)})
    return found
