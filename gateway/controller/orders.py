"""Orders: the LeaderAndIsr, UpdateMetadata and StopReplica requests that bring a broker to a controller's view. Pure.

Each function compares the view that a broker has followed with the present one. Without a former view the request is
full. A broker refuses orders of older controllers, for another registration of its own, and about older leader epochs;
so an order may be repeated when its answer was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from headgate.gateway.controller.cluster_view import ClusterView, ListenerEndpoint, LiveBroker
from headgate.gateway.controller.elections import NO_EPOCH, NO_LEADER
from headgate.gateway.metadata.image import PartitionState
from headgate.protocol.messages.leader_and_isr import (
    FULL,
    INCREMENTAL,
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from headgate.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from headgate.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from headgate.protocol.topic_partition import TopicPartition, by_topic

LEADER_DURING_DELETE: Final = -2
EPOCH_DURING_DELETE: Final = -2
"""Stops a replica whatever its leader epoch is (KIP-570)."""

T = TypeVar("T")


class Sender(NamedTuple):
    """The controller that sends, and the listener by which brokers reach each other."""

    controller_id: int
    controller_epoch: int
    listener: str


class Stop(NamedTuple):
    """How to stop a replica."""

    leader_epoch: int
    is_deleted: bool


def leader_and_isr(
    sender: Sender, broker_id: int, old: ClusterView | None, new: ClusterView, version: int
) -> LeaderAndIsrRequest | None:
    """The partitions of a broker with another leader epoch than before; None if there are none.

    A full request may be empty: a broker then learns that it has no partitions.
    """
    changed = {key: state for key, state in _changed(old, new) if _is_ordered(broker_id, old, new, key, state)}
    if not changed and old is not None:
        return None
    rows = [
        _leader_row(
            sender,
            key,
            _led(new, key, state),
            version,
            is_new=old is not None and not _hosted(broker_id, old, new, key),
        )
        for key, state in changed.items()
    ]
    leaders = {state.leader for state in changed.values()} & new.brokers.keys()
    request = LeaderAndIsrRequest(
        controller_id=sender.controller_id,
        controller_epoch=sender.controller_epoch,
        broker_epoch=new.brokers[broker_id].epoch,
        type=FULL if old is None else INCREMENTAL,
        live_leaders=[
            _live_leader(sender, leader, new.brokers[leader])
            for leader in sorted(leaders)
            if sender.listener in new.brokers[leader].endpoints
        ],
    )
    if version < 2:
        request.ungrouped_partition_states = rows
    else:
        grouped = _grouped(changed, rows)
        request.topic_states = [
            LeaderAndIsrTopicState(topic, new.image.topics[topic].topic_id, states) for topic, states in grouped.items()
        ]
    return request


def _led(view: ClusterView, key: TopicPartition, state: PartitionState) -> PartitionState:
    """The state of a partition in an order: a deposed leader leads nothing."""
    return state._replace(leader=NO_LEADER) if key in view.deposed else state


def _is_ordered(
    broker_id: int, old: ClusterView | None, new: ClusterView, key: TopicPartition, state: PartitionState
) -> bool:
    if broker_id not in state.replicas or state.leader_epoch == NO_EPOCH:
        return False
    before = None if old is None else _before(old, new, key)
    return before is None or before.leader_epoch != state.leader_epoch or broker_id not in before.replicas


def _hosted(broker_id: int, old: ClusterView, new: ClusterView, key: TopicPartition) -> bool:
    before = _before(old, new, key)
    return before is not None and broker_id in before.replicas


def _leader_row(
    sender: Sender, key: TopicPartition, state: PartitionState, version: int, *, is_new: bool
) -> LeaderAndIsrPartitionState:
    """A replica is new if the broker has followed a view without the replica: no disk that failed can have it."""
    return LeaderAndIsrPartitionState(
        topic_name=key.topic if version < 2 else "",
        partition_index=key.number,
        controller_epoch=sender.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
        replicas=list(state.replicas),
        adding_replicas=list(state.adding_replicas),
        removing_replicas=list(state.removing_replicas),
        is_new=is_new,
    )


def _live_leader(sender: Sender, broker_id: int, broker: LiveBroker) -> LeaderAndIsrLiveLeader:
    endpoint = broker.endpoints[sender.listener]
    return LeaderAndIsrLiveLeader(broker_id, endpoint.host, endpoint.port)


def update_metadata(
    sender: Sender, broker_id: int, old: ClusterView | None, new: ClusterView, version: int
) -> UpdateMetadataRequest | None:
    """The partitions whose state has changed, and all live brokers; None if nothing has changed."""
    rows, ids = _metadata_rows(sender, old, new), dict[str, bytes]()
    if not rows and old is not None and old.brokers == new.brokers:
        return None
    for view in (new,) if old is None else (old, new):
        ids |= {
            topic: view.image.topics[topic].topic_id for topic in {key.topic for key in rows} & view.image.topics.keys()
        }
    request = _brokers(sender, broker_id, new, version)
    request.type = FULL if old is None else INCREMENTAL
    if version < 5:
        for key, row in rows.items():
            row.topic_name = key.topic
        request.ungrouped_partition_states = list(rows.values())
    else:
        grouped = _grouped(rows, list(rows.values()))
        request.topic_states = [
            UpdateMetadataTopicState(topic, ids[topic], states) for topic, states in grouped.items()
        ]
    return request


def update_brokers(
    sender: Sender, broker_id: int, old: ClusterView | None, new: ClusterView, version: int
) -> UpdateMetadataRequest | None:
    """The live brokers alone; None if the broker knows them all.

    A broker of Apache Kafka follows no leader that it does not know to live, and does not try again.
    """
    known = {} if old is None else old.brokers
    if all(known.get(id_) == broker for id_, broker in new.brokers.items()):
        return None
    return _brokers(sender, broker_id, new, version)


def _brokers(sender: Sender, broker_id: int, view: ClusterView, version: int) -> UpdateMetadataRequest:
    """An incremental request without partitions. A broker that is about to register has no address so far."""
    found = {id_: broker for id_, broker in sorted(view.brokers.items()) if broker.endpoints}
    return UpdateMetadataRequest(
        controller_id=sender.controller_id,
        type=INCREMENTAL,
        controller_epoch=sender.controller_epoch,
        broker_epoch=view.brokers[broker_id].epoch,
        live_brokers=[_live_broker(sender, id_, broker, version) for id_, broker in found.items()],
    )


def _metadata_rows(
    sender: Sender, old: ClusterView | None, new: ClusterView
) -> dict[TopicPartition, UpdateMetadataPartitionState]:
    rows = {}
    is_same = old is not None and (old.brokers.keys(), old.failed) == (new.brokers.keys(), new.failed)
    for key, state in _changed(old, new) if is_same else new.partitions():
        if state.leader_epoch != NO_EPOCH and (old is None or not _is_known(old, new, key, state)):
            rows[key] = _metadata_row(sender, key, _led(new, key, state), new)
    for key, state in () if old is None else _removed(old, new):
        if key.topic not in new.image.topics:
            rows[key] = _metadata_row(sender, key, state._replace(leader=LEADER_DURING_DELETE), new)
    return rows


def _is_known(old: ClusterView, new: ClusterView, key: TopicPartition, state: PartitionState) -> bool:
    return _before(old, new, key) == state and old.online(key, state.replicas) == new.online(key, state.replicas)


def _metadata_row(
    sender: Sender, key: TopicPartition, state: PartitionState, view: ClusterView
) -> UpdateMetadataPartitionState:
    online = view.online(key, state.replicas)
    return UpdateMetadataPartitionState(
        partition_index=key.number,
        controller_epoch=sender.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        zk_version=state.partition_epoch,
        replicas=list(state.replicas),
        offline_replicas=[broker for broker in state.replicas if broker not in online],
    )


def _live_broker(sender: Sender, broker_id: int, broker: LiveBroker, version: int) -> UpdateMetadataBroker:
    """Versions before 3 have no listeners: one endpoint for each protocol, the listener of the brokers first."""
    endpoints = [
        UpdateMetadataEndpoint(endpoint.port, endpoint.host, listener, endpoint.security_protocol)
        for listener, endpoint in broker.endpoints.items()
    ]
    if version == 0:
        own = broker.endpoints.get(sender.listener, ListenerEndpoint("", -1))
        return UpdateMetadataBroker(broker_id, own.host, own.port)
    if version < 3:
        endpoints.sort(key=lambda endpoint: endpoint.listener != sender.listener)
        endpoints = list({endpoint.security_protocol: endpoint for endpoint in reversed(endpoints)}.values())
        for endpoint in endpoints:
            endpoint.listener = ""
    return UpdateMetadataBroker(broker_id, "", 0, endpoints, broker.rack)


def stop_replica(
    sender: Sender, broker_id: int, stops: Mapping[TopicPartition, Stop], view: ClusterView, version: int
) -> StopReplicaRequest:
    """The request that stops replicas. Before version 3 all of `stops` have the same `is_deleted`."""
    request = StopReplicaRequest(
        controller_id=sender.controller_id,
        controller_epoch=sender.controller_epoch,
        broker_epoch=view.brokers[broker_id].epoch,
    )
    topics = by_topic(stops)
    if version >= 3:
        request.topic_states = [
            StopReplicaTopicState(
                topic,
                [StopReplicaPartitionState(key.number, stops[key].leader_epoch, stops[key].is_deleted) for key in keys],
            )
            for topic, keys in topics.items()
        ]
        return request
    request.delete_partitions = any(stop.is_deleted for stop in stops.values())
    if version == 0:
        request.ungrouped_partitions = [StopReplicaPartitionV0(key.topic, key.number) for key in stops]
    else:
        request.topics = [StopReplicaTopicV1(topic, [key.number for key in keys]) for topic, keys in topics.items()]
    return request


def stops(broker_id: int, old: ClusterView | None, new: ClusterView) -> dict[TopicPartition, Stop]:
    """The replicas that a broker has to stop: of deleted topics, of moved partitions, of a stopping broker.

    A stopping broker keeps the files of followed partitions, and leads the others until it ends.
    """
    wanted = _standing_stops(broker_id, new)
    if old is None:
        return wanted
    before = _standing_stops(broker_id, old)
    found = {key: stop for key, stop in wanted.items() if before.get(key) != stop}
    for key, state in _removed(old, new):
        if broker_id in state.replicas and key not in before and new.state(key) is None:  # not a new topic's replica
            found[key] = Stop(EPOCH_DURING_DELETE, is_deleted=True)
    for key, state in _changed(old, new):
        known = _before(old, new, key)
        if known is not None and has_left(broker_id, known, state):
            found[key] = Stop(state.leader_epoch, is_deleted=True)
    return found


def has_left(broker_id: int, before: PartitionState, after: PartitionState) -> bool:
    """Whether a reassignment has taken a replica from a broker, which deletes its log.

    If another program has taken the replica away, the in-sync set may still have the broker: its log may be the last.
    """
    return broker_id in before.replicas and broker_id not in after.replicas and broker_id not in after.isr


def _standing_stops(broker_id: int, view: ClusterView) -> dict[TopicPartition, Stop]:
    """The stops that follow from one view alone."""
    if broker_id not in view.stopping:
        return {}
    return {
        key: Stop(state.leader_epoch, is_deleted=False)
        for key, state in view.partitions_of((broker_id,))
        if state.leader != broker_id and broker_id not in state.isr
    }


def _changed(old: ClusterView | None, new: ClusterView) -> Iterator[tuple[TopicPartition, PartitionState]]:
    """The partitions of `new` whose states may differ; topics that no record has touched are the same object."""
    for topic in new.image.topics.values():
        known = None if old is None else old.image.topics.get(topic.name)
        if old is not None and topic is known:
            continue
        for index, state in enumerate(topic.partitions):
            yield TopicPartition(topic.name, index), state


def _removed(old: ClusterView, new: ClusterView) -> Iterator[tuple[TopicPartition, PartitionState]]:
    for topic in old.image.topics.values():
        if topic.topic_id not in new.image.topic_names:
            for index, state in enumerate(topic.partitions):
                yield TopicPartition(topic.name, index), state


def _before(old: ClusterView, new: ClusterView, key: TopicPartition) -> PartitionState | None:
    """The former state of a partition of `new`; None if it is new, also for another topic of the name."""
    same = old.image.topic_id_of(key.topic) == new.image.topic_id_of(key.topic)
    return old.state(key) if same else None


def _grouped(keys: Iterable[TopicPartition], rows: list[T]) -> dict[str, list[T]]:
    topics: dict[str, list[T]] = {}
    for key, row in zip(keys, rows, strict=True):
        topics.setdefault(key.topic, []).append(row)
    return topics
