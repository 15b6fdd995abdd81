"""Plans of the controller: from a cluster's nodes and the wanted image to multis. Pure; nothing is written here.

Every multi begins with a check of `/controller_epoch`, so that a controller that was replaced unnoticed writes nothing.
Every write of an existing node is conditional on the version that the plan has read. A multi is atomic, but a sequence
of multis is not: their order is such that an interrupted sequence leaves a state that Kafka leaves too, and that the
next controller completes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headgate.gateway.metadata.image import Image, PartitionState, Topic
from headgate.gateway.zookeeper.layout.admin import TopicDeletion
from headgate.gateway.zookeeper.layout.cluster import (
    CLUSTER_ID_PATH,
    CONTROLLER_EPOCH_PATH,
    OWN_FEATURES_PATH,
    PRODUCER_IDS_PATH,
    Controller,
    ControllerEpoch,
    OwnFeatures,
    ProducerIdBlock,
)
from headgate.gateway.zookeeper.layout.configs import (
    BROKERS,
    GROUPS,
    TOPICS,
    USERS,
    ConfigChange,
    ConfigEntity,
    EntityConfigs,
)
from headgate.gateway.zookeeper.layout.node import MAX_INT32
from headgate.gateway.zookeeper.layout.quotas import config_entity, quota_entity, with_quotas
from headgate.gateway.zookeeper.layout.topics import (
    DELETED_TOPICS_PATH,
    DeletedTopic,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicAssignment,
    partition_path,
    partitions_path,
)
from headgate.gateway.zookeeper.layout.tree import ABSENT, ClusterTree, ConfigNode
from headgate.gateway.zookeeper.layout.users import USER_RESOURCE, configs_of
from headgate.gateway.zookeeper.metadata.acl_plans import change_acls
from headgate.gateway.zookeeper.metadata.token_plans import change_tokens
from headgate.gateway.zookeeper.session import OVERHEAD_BYTES, Check, Create, Delete, Operation, SetData
from headgate.protocol.internal.metadata import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

MULTI_BYTES: Final = 256 * 1024
"""About the largest size of a multi: ZooKeeper serves no other request while it applies one."""
ENTITY_TYPES: Final = {BROKER_RESOURCE: BROKERS, GROUP_RESOURCE: GROUPS, USER_RESOURCE: USERS}

Multi = tuple[Operation, ...]


def become_controller(cluster: ClusterTree, node_id: int, now_ms: int) -> Multi:
    """The multi that makes a broker the controller, with the next epoch. Refused while `/controller` exists.

    The highest epoch, which only a foreign program writes, has no next one: the epoch stays.
    """
    epoch = ControllerEpoch(min(cluster.controller_epoch + 1, MAX_INT32)).encode()
    if cluster.controller_epoch_version == ABSENT:
        counted: Operation = Create(CONTROLLER_EPOCH_PATH, epoch)
    else:
        counted = SetData(CONTROLLER_EPOCH_PATH, epoch, cluster.controller_epoch_version)
    return Create(Controller.path(), Controller(node_id, now_ms).encode(), is_ephemeral=True), counted


def give_topic_ids(cluster: ClusterTree) -> list[Multi]:
    """Multis that write the ids in the image of those topics that have no id in ZooKeeper."""
    return guarded(
        cluster,
        (
            SetData(TopicAssignment.path(name), _with_id(cluster, name).encode(), cluster.topics[name].version)
            for name in sorted(cluster.without_id)
        ),
    )


def change_image(
    cluster: ClusterTree, new: Image, names: Iterable[str], node_id: int = -1, now_ms: int = 0
) -> list[Multi]:
    """Multis that turn the cluster's image into `new`; topics differ in `names` only.

    A changed partition must have the next partition epoch, which is the version of its node. Raises ValueError.
    """
    operations: list[Operation] = []
    for name in sorted(names):
        old, topic = cluster.image.topics.get(name), new.topics.get(name)
        if topic is None:
            operations += () if old is None else _delete_topic(cluster, old, now_ms)
        elif old is None:
            operations += _create_topic(cluster, topic)
        else:
            operations += _change_topic(cluster, old, topic)
    operations += _change_resources(cluster, new, node_id)
    multis = guarded(cluster, operations)
    if len(multis) > 1:  # an interrupted deletion must continue, not leave a topic without data
        orders = [TopicDeletion(name) for name in names if name not in new.topics and name not in cluster.deleting]
        multis = guarded(cluster, [Create(order.path(order.topic)) for order in orders]) + multis if orders else multis
    return multis


def needs_controller(records: Iterable[MetadataRecord]) -> bool:
    """Whether only the controller may write a change. Any broker writes configs, features and producer ids."""
    return any(isinstance(record, TopicRecord | PartitionRecord | RemoveTopicRecord) for record in records)


def change_as_broker(cluster: ClusterTree, new: Image, names: Iterable[str], node_id: int) -> list[Multi]:
    """The multi of a broker that is not the controller. Refused if the cluster, or a topic with new configs, is gone.

    The known nodes need no topics. `new` differs from the image in what `needs_controller` leaves to any broker.
    """
    checks, operations = [Check(CLUSTER_ID_PATH)], list[Operation]()
    for name in sorted(names):
        configs = new.topics[name].configs
        if configs != cluster.image.topics[name].configs:
            checks.append(Check(TopicAssignment.path(name)))
            operations += _write_configs(cluster, ConfigEntity(TOPICS, name), configs)
    operations += _change_resources(cluster, new, node_id)
    return [(*checks, *operations)] if operations else []


def create_on_demand(cluster: ClusterTree, topic: Topic) -> Multi:
    """The multi of any broker that creates a topic without states: the controller finds it, and elects leaders.

    `cluster` has the configs that the topic has left behind, or none. Refused if the cluster is gone.
    """
    partitions = {index: ReplicaAssignment(state.replicas) for index, state in enumerate(topic.partitions)}
    return (
        Check(CLUSTER_ID_PATH),
        Create(TopicAssignment.path(topic.name), TopicAssignment(topic.topic_id, partitions).encode()),
        *_write_configs(cluster, ConfigEntity(TOPICS, topic.name), topic.configs, is_new=True),
    )


def _change_resources(cluster: ClusterTree, new: Image, node_id: int) -> Iterator[Operation]:
    """Write the configs of brokers and groups, quotas, users, ACLs, tokens, features and producer ids that differ."""
    for (resource_type, resource), configs in new.configs.items():
        if configs != cluster.image.configs.get((resource_type, resource)):
            entity = ConfigEntity(ENTITY_TYPES[resource_type], resource or None)
            yield from _write_configs(cluster, entity, configs)
    yield from _change_owners(cluster, new)
    yield from change_acls(cluster, new)
    yield from change_tokens(cluster, new)
    if new.features != cluster.image.features:
        yield _put(OWN_FEATURES_PATH, OwnFeatures(new.features).encode(), cluster.features_version)
    taken = new.next_producer_id - cluster.image.next_producer_id
    if taken:
        yield from take_producer_ids(cluster, node_id, taken)


def _change_owners(cluster: ClusterTree, new: Image) -> Iterator[Operation]:
    """Write the quotas and the SCRAM credentials that differ, each node once. Other configs of a node stay.

    An empty node of clients and addresses is deleted, as by Kafka. That of a user may have a child: it becomes empty,
    and `ChangeWriter` deletes it if it can.
    """
    old, owners = cluster.image, dict[ConfigEntity, None]()
    if new.scram_credentials is not old.scram_credentials:
        users = dict.fromkeys((*old.scram_credentials, *new.scram_credentials))
        changed = [user for user in users if old.scram_credentials.get(user) != new.scram_credentials.get(user)]
        owners |= dict.fromkeys(ConfigEntity(USERS, user) for user in changed)
    if new.quotas is not old.quotas:
        entities = dict.fromkeys((*old.quotas, *new.quotas))
        differing = [entity for entity in entities if old.quotas.get(entity) != new.quotas.get(entity)]
        owners |= dict.fromkeys(map(config_entity, differing))
    for owner in owners:
        path, known = EntityConfigs.path(owner), cluster.configs.get(owner)
        configs = _owned(owner, {} if known is None else known.configs.configs, old, new)
        if known is None:
            yield Create(path, EntityConfigs(configs).encode())
        elif configs or (owner.entity_type == USERS and not owner.has_client):
            yield SetData(path, known.configs._replace(configs=configs).encode(), known.version)
        else:
            yield Delete(path, known.version)
        yield Create(ConfigChange.path(), ConfigChange(owner).encode(), is_sequential=True)


def _owned(owner: ConfigEntity, configs: Mapping[str, str], old: Image, new: Image) -> Mapping[str, str]:
    """The configs of an owner after its quotas and its credentials have changed."""
    entity, nothing = quota_entity(owner), dict[str, float]()
    configs = with_quotas(configs, old.quotas.get(entity, nothing), new.quotas.get(entity, nothing))
    if owner.entity_type != USERS or owner.has_client or owner.name is None:
        return configs
    before = configs_of(old.scram_credentials.get(owner.name, {}))
    credentials = configs_of(new.scram_credentials.get(owner.name, {}))
    return {name: text for name, text in configs.items() if name not in before} | dict(credentials)


def take_producer_ids(cluster: ClusterTree, node_id: int, size: int) -> Multi:
    """The operation that takes the next block of producer ids. Brokers that are not the controller take blocks too."""
    first = cluster.image.next_producer_id
    data = ProducerIdBlock(node_id, first, first + size - 1).encode()
    return (_put(PRODUCER_IDS_PATH, data, cluster.producer_ids_version),)


def _put(path: str, data: bytes, version: int) -> Operation:
    """Write a node that has this version, or create an absent one."""
    return Create(path, data) if version == ABSENT else SetData(path, data, version)


def _create_topic(cluster: ClusterTree, topic: Topic) -> Iterator[Operation]:
    """Kafka's order: first the configs, as brokers read them when the topic appears; last the states."""
    yield from _write_configs(cluster, ConfigEntity(TOPICS, topic.name), topic.configs, is_new=True)
    partitions = {index: _assignment(state) for index, state in enumerate(topic.partitions)}
    yield Create(TopicAssignment.path(topic.name), TopicAssignment(topic.topic_id, partitions).encode())
    for index, state in enumerate(topic.partitions):
        yield from write_state(cluster, topic.name, index, state)


def _change_topic(cluster: ClusterTree, old: Topic, topic: Topic) -> Iterator[Operation]:
    if topic.name not in cluster.topics:
        raise ValueError(f"the topic {topic.name} is not in ZooKeeper any more")
    if topic.configs != old.configs:
        yield from _write_configs(cluster, ConfigEntity(TOPICS, topic.name), topic.configs)
    before = dict(enumerate(old.partitions))
    changed = {index: state for index, state in enumerate(topic.partitions) if state != before.get(index)}
    moved = {
        index: _assignment(state)
        for index, state in changed.items()
        if index not in before or _assignment(state) != _assignment(before[index])
    }
    # Replicas leave after the state that has the others in sync. If only the states are written, the move is repeated.
    for index in sorted(changed.keys() & before.keys()):
        if _without_assignment(changed[index]) != _without_assignment(before[index]):
            yield from write_state(cluster, topic.name, index, changed[index])
    if moved:
        nodes = cluster.topics[topic.name]
        partitions = {**nodes.assignment.partitions, **moved}
        assignment = nodes.assignment._replace(topic_id=topic.topic_id, partitions=partitions)
        yield SetData(TopicAssignment.path(topic.name), assignment.encode(), nodes.version)
    for index in sorted(changed.keys() - before.keys()):
        yield from write_state(cluster, topic.name, index, changed[index])


def _assignment(state: PartitionState) -> ReplicaAssignment:
    return ReplicaAssignment(state.replicas, state.adding_replicas, state.removing_replicas)


def _without_assignment(state: PartitionState) -> PartitionState:
    return state._replace(replicas=(), adding_replicas=(), removing_replicas=())


def _delete_topic(cluster: ClusterTree, topic: Topic, now_ms: int) -> Iterator[Operation]:
    """Delete the children first and the deletion order last, so that the next controller can continue.

    The deletion note is written with the deletion of the topic's node. So a missing topic without a note was not
    deleted by a broker.
    """
    nodes = cluster.topics.get(topic.name)
    if nodes is not None:
        for index in sorted(nodes.states):
            yield Delete(LeaderAndIsr.path(topic.name, index))
        for path in sorted(nodes.parents, reverse=True):
            yield Delete(path)
    yield _note(topic, now_ms)
    if nodes is not None:
        yield Delete(TopicAssignment.path(topic.name))
    entity = ConfigEntity(TOPICS, topic.name)
    if entity in cluster.configs:
        yield Delete(EntityConfigs.path(entity))
    if topic.name in cluster.deleting:
        yield Delete(TopicDeletion.path(topic.name))


def note_deletions(cluster: ClusterTree, topics: Iterable[Topic], now_ms: int) -> list[Multi]:
    """Multis that write deletion notes for topics whose nodes another program has removed."""
    return guarded(cluster, (_note(topic, now_ms) for topic in topics))


def is_note(operation: Operation) -> bool:
    """Whether an operation is about the note of a deletion."""
    return operation.path.startswith(f"{DELETED_TOPICS_PATH}/")


def _note(topic: Topic, now_ms: int) -> Operation:
    return Create(DeletedTopic.path(topic.topic_id), DeletedTopic(topic.topic_id, topic.name, now_ms).encode())


def write_state(cluster: ClusterTree, name: str, index: int, state: PartitionState) -> Iterator[Operation]:
    nodes = cluster.topics.get(name)
    known = None if nodes is None else nodes.states.get(index)
    node = LeaderAndIsr(state.leader, state.leader_epoch, state.isr, cluster.controller_epoch)
    path = LeaderAndIsr.path(name, index)
    if known is None:
        parents = [partitions_path(name)] if index == 0 else []
        there = frozenset[str]() if nodes is None else nodes.parents
        yield from (Create(parent) for parent in (*parents, partition_path(name, index)) if parent not in there)
        yield Create(path, node.encode())
        return
    old = cluster.image.topics[name].partitions[index].partition_epoch
    if state.partition_epoch != old + 1:
        raise ValueError(f"the partition epoch of {name}-{index} goes from {old} to {state.partition_epoch}")
    yield SetData(path, node._replace(unknown=known.unknown).encode(), old)


def _write_configs(
    cluster: ClusterTree, entity: ConfigEntity, configs: Mapping[str, str], *, is_new: bool = False
) -> Iterator[Operation]:
    """Write an entity's configs. Those of a new topic may exist: an old Kafka leaves the configs of a deleted topic."""
    path = EntityConfigs.path(entity)
    known: ConfigNode | None = cluster.configs.get(entity)
    if known is None:
        yield Create(path, EntityConfigs(configs).encode())
    else:
        refused = {} if is_new else _refused_configs(cluster, entity, known)
        yield SetData(path, known.configs._replace(configs={**refused, **configs}).encode(), known.version)
    if not is_new:
        yield Create(ConfigChange.path(), ConfigChange(entity).encode(), is_sequential=True)


def _refused_configs(cluster: ClusterTree, entity: ConfigEntity, known: ConfigNode) -> Mapping[str, str]:
    """The configs in a node that the image lacks, as this version refuses them. They stay in the node."""
    if entity.entity_type == TOPICS:
        topic = cluster.image.topics.get(entity.name or "")
        image = {} if topic is None else topic.configs
    elif entity.entity_type == USERS:
        image = configs_of(cluster.image.scram_credentials.get(entity.name or "", {}))
    else:
        resource_types = {kind: resource_type for resource_type, kind in ENTITY_TYPES.items()}
        image = cluster.image.configs.get((resource_types[entity.entity_type], entity.name or ""), {})
    return {name: value for name, value in known.configs.configs.items() if name not in image}


def _with_id(cluster: ClusterTree, name: str) -> TopicAssignment:
    return cluster.topics[name].assignment._replace(topic_id=cluster.image.topics[name].topic_id)


def guarded(cluster: ClusterTree, operations: Iterable[Operation]) -> list[Multi]:
    """Multis of about MULTI_BYTES, each with the check of the controller's epoch.

    A deletion note and the next operation, the deletion of the topic's node, stay in one multi.
    """
    guard = Check(CONTROLLER_EPOCH_PATH, cluster.controller_epoch_version)
    multis: list[list[Operation]] = []
    room = 0
    for operation in operations:
        room -= OVERHEAD_BYTES + len(operation.path) + len(getattr(operation, "data", None) or b"")
        if not multis or (room < 0 and not multis[-1][-1].path.startswith(f"{DELETED_TOPICS_PATH}/")):
            multis.append([guard])
            room = MULTI_BYTES
        multis[-1].append(operation)
    return [tuple(multi) for multi in multis]
