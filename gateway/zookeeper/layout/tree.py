"""All nodes of a cluster: as an image, and with the versions and unknown fields that conditional writes need.

The epoch of a partition is the version of its state's node, as in Kafka: ZooKeeper refuses a write from an old image.
An unreadable node is left out and reported; the others are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from headgate.gateway.metadata.image import Image, Node, PartitionState, Topic
from headgate.gateway.security.acls.acls_image import image_of
from headgate.gateway.security.tokens.delegation_token import DelegationToken
from headgate.gateway.zookeeper.layout.acls import AclNode, pattern_of
from headgate.gateway.zookeeper.layout.admin import DELETE_TOPICS_PATH
from headgate.gateway.zookeeper.layout.brokers import BROKER_IDS_PATH, BrokerRegistration, broker_id_of
from headgate.gateway.zookeeper.layout.cluster import (
    CLUSTER_ID_PATH,
    CONTROLLER_EPOCH_PATH,
    CONTROLLER_PATH,
    OWN_FEATURES_PATH,
    PRODUCER_IDS_PATH,
    ClusterId,
    Controller,
    ControllerEpoch,
    OwnFeatures,
    ProducerIdBlock,
)
from headgate.gateway.zookeeper.layout.configs import (
    BROKERS,
    CLIENTS,
    CONFIG_CHANGES_PATH,
    CONFIG_PATH,
    GROUPS,
    TOPICS,
    USERS,
    ConfigEntity,
    EntityConfigs,
)
from headgate.gateway.zookeeper.layout.node import MAX_INT32, InvalidNode
from headgate.gateway.zookeeper.layout.quotas import QUOTA_TYPES, quota_entity, quotas_in
from headgate.gateway.zookeeper.layout.tokens import decode_token, token_id_of, token_path
from headgate.gateway.zookeeper.layout.topics import (
    TOPICS_PATH,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicAssignment,
    partitions_path,
)
from headgate.gateway.zookeeper.layout.users import credentials_of
from headgate.protocol.acls import ResourcePattern
from headgate.protocol.internal.metadata import BROKER_RESOURCE, GROUP_RESOURCE
from headgate.protocol.security.sasl.scram_keys import ScramCredential

ABSENT: Final = -1
"""The version of a node that is not there."""
NO_EPOCH: Final = -1
_RESOURCES: Final = {BROKERS: BROKER_RESOURCE, GROUPS: GROUP_RESOURCE}

T = TypeVar("T")


class ZNode(NamedTuple):
    """The data of a node, their version, and the transactions that created the node and wrote its data last."""

    data: bytes | None
    version: int
    czxid: int = 0
    mzxid: int = 0


Tree = Mapping[str, ZNode]
KeepsId = Callable[[bytes, Sequence[str]], str]
"""(topic id, topics whose nodes have that id, the oldest node first) -> the topic that keeps the id."""


class TopicNodes(NamedTuple):
    """The existing nodes of a topic: `states` by partition, `parents` the paths of their parents.

    `ClusterNodes` changes both in place.
    """

    assignment: TopicAssignment
    version: int
    states: dict[int, LeaderAndIsr]
    parents: set[str]


class ConfigNode(NamedTuple):
    """The configs of an entity, and the version of their node."""

    configs: EntityConfigs
    version: int


class StoredAcls(NamedTuple):
    """The ACLs of a pattern, and the version of their node."""

    node: AclNode
    version: int


class ClusterTree(NamedTuple):
    """A cluster as its nodes describe it.

    `broker_epochs`: the transaction of each broker's registration. `state_zxids`: by topic, the transactions that wrote
    the partitions' states; 0 for an absent state. `without_id`: topics whose id in the image is new, and not in
    ZooKeeper yet. `deleting`: topics with a deletion order. `invalid`: the errors of unreadable nodes, each with the
    node's path. Unreadable configs are empty in `configs`, and missing in the image: the next change replaces them, as
    in Kafka.
    """

    image: Image
    topics: Mapping[str, TopicNodes]
    configs: Mapping[ConfigEntity, ConfigNode]
    broker_epochs: Mapping[int, int]
    state_zxids: Mapping[str, tuple[int, ...]]
    controller: Controller | None
    controller_epoch: int
    controller_epoch_version: int
    producer_ids_version: int
    features_version: int
    without_id: frozenset[str]
    deleting: frozenset[str]
    invalid: tuple[InvalidNode, ...]
    acls: Mapping[ResourcePattern, StoredAcls]
    token_versions: Mapping[str, int]
    """By the id of a delegation token: the version of its node."""


def oldest(_topic_id: bytes, names: Sequence[str]) -> str:
    """The `KeepsId` of a reader without an image: the other nodes are copies of the oldest node."""
    return names[0]


def copied(name: str, keeper: str) -> InvalidNode:
    """The error of a topic with the id of another topic, the keeper of the id."""
    return InvalidNode(TopicAssignment.path(name), f"the topic has the id of topic {keeper}: a copy of that node")


def read_cluster(tree: Tree, new_topic_id: Callable[[], bytes], keeps_id: KeepsId = oldest) -> ClusterTree:
    """The cluster of a tree. `new_topic_id` makes an id for each topic that has none.

    Of several topics with one id only the topic that `keeps_id` names is kept.
    """
    return _Reading(tree, new_topic_id).cluster(keeps_id)


class _Reading:
    """The state of one `read_cluster`."""

    def __init__(self, tree: Tree, new_topic_id: Callable[[], bytes]) -> None:
        self._tree = tree
        self._new_topic_id = new_topic_id
        self._invalid: list[InvalidNode] = []
        self._unreadable: set[ConfigEntity] = set()
        self._children: dict[str, list[str]] = {}
        for path in tree:
            parent, _, name = path.rpartition("/")
            self._children.setdefault(parent, []).append(name)

    def cluster(self, keeps_id: KeepsId) -> ClusterTree:
        controller = self._single(CONTROLLER_PATH, Controller.decode)
        epoch = self._single(CONTROLLER_EPOCH_PATH, ControllerEpoch.decode)
        topics = self._with_unique_ids(dict(self._topics()), keeps_id)
        ids = {name: nodes.assignment.topic_id or self._new_topic_id() for name, nodes in topics.items()}
        configs = dict(self._configs())
        acls, tokens = dict(self._acls()), dict(self._tokens())
        image = self._image(topics, ids, configs, controller)
        if acls:
            bindings = (binding for stored in acls.values() for binding in stored.node.bindings)
            image = image._replace(acls=image_of(bindings))
        if tokens:
            image = image._replace(tokens=tokens)
        return ClusterTree(
            image,
            topics,
            configs,
            {broker: self._tree[BrokerRegistration.path(broker)].czxid for broker in image.brokers},
            {name: self._state_zxids(name, nodes) for name, nodes in topics.items()},
            controller,
            _highest_epoch(topics) if epoch is None else epoch.epoch,
            self._version(CONTROLLER_EPOCH_PATH),
            self._version(PRODUCER_IDS_PATH),
            self._version(OWN_FEATURES_PATH),
            frozenset(name for name, nodes in topics.items() if nodes.assignment.topic_id is None),
            frozenset(self._children.get(DELETE_TOPICS_PATH, ())),
            tuple(self._invalid),
            acls,
            {token_id: self._version(token_path(token_id)) for token_id in tokens},
        )

    def _image(
        self,
        topics: Mapping[str, TopicNodes],
        ids: Mapping[str, bytes],
        configs: Mapping[ConfigEntity, ConfigNode],
        controller: Controller | None,
    ) -> Image:
        cluster_id = self._single(CLUSTER_ID_PATH, ClusterId.decode)
        features = self._single(OWN_FEATURES_PATH, OwnFeatures.decode)
        block = self._single(PRODUCER_IDS_PATH, ProducerIdBlock.decode)
        return Image(
            "" if cluster_id is None else cluster_id.cluster_id,
            -1 if controller is None else controller.broker_id,
            dict(self._brokers()),
            {name: self._topic(name, ids[name], nodes, configs) for name, nodes in topics.items()},
            {topic_id: name for name, topic_id in ids.items()},
            {} if features is None else features.levels,
            {
                (_RESOURCES[entity.entity_type], entity.name or ""): node.configs.configs
                for entity, node in configs.items()
                if entity.entity_type in _RESOURCES and entity not in self._unreadable
            },
            0 if block is None else block.last + 1,
            dict(self._credentials(configs)),
            {quota_entity(entity): quotas for entity, quotas in _quotas(configs) if quotas},
        )

    def _credentials(
        self, configs: Mapping[ConfigEntity, ConfigNode]
    ) -> Iterator[tuple[str, Mapping[int, ScramCredential]]]:
        for entity, node in configs.items():
            if entity.entity_type == USERS and entity.name is not None and not entity.has_client:
                credentials, _ = credentials_of(node.configs.configs)
                if credentials:
                    yield entity.name, credentials

    def _topic(
        self, name: str, topic_id: bytes, nodes: TopicNodes, configs: Mapping[ConfigEntity, ConfigNode]
    ) -> Topic:
        found = configs.get(ConfigEntity(TOPICS, name))
        states = [
            _partition(assignment, nodes.states.get(index), self._version(LeaderAndIsr.path(name, index)))
            for index, assignment in sorted(nodes.assignment.partitions.items())
        ]
        return Topic(name, topic_id, tuple(states), {} if found is None else found.configs.configs)

    def _state_zxids(self, name: str, nodes: TopicNodes) -> tuple[int, ...]:
        paths = (LeaderAndIsr.path(name, index) for index in range(len(nodes.assignment.partitions)))
        return tuple([self._tree[path].mzxid if path in self._tree else 0 for path in paths])

    def _topics(self) -> Iterator[tuple[str, TopicNodes]]:
        for name in self._children.get(TOPICS_PATH, ()):
            nodes = self._tried(f"{TOPICS_PATH}/{name}", self._topic_nodes, name)
            if nodes is not None:
                yield name, nodes

    def _with_unique_ids(self, topics: dict[str, TopicNodes], keeps_id: KeepsId) -> dict[str, TopicNodes]:
        """Remove the copies, which are nodes with the id of another topic."""
        names: dict[bytes, list[str]] = {}
        for name, nodes in topics.items():
            if nodes.assignment.topic_id is not None:
                names.setdefault(nodes.assignment.topic_id, []).append(name)
        for topic_id, several in names.items():
            several.sort(key=lambda name: (self._tree[TopicAssignment.path(name)].czxid, name))
            keeper = keeps_id(topic_id, several)
            for name in several:
                if name != keeper:
                    self._invalid.append(copied(name, keeper))
                    del topics[name]
        return topics

    def _topic_nodes(self, name: str) -> TopicNodes:
        path = TopicAssignment.path(name)
        assignment = TopicAssignment.decode(name, self._tree[path].data)
        count = len(assignment.partitions)
        if count == 0 or max(assignment.partitions) != count - 1:
            raise InvalidNode(path, f"the {count} partitions are not numbered from 0 on")
        states = {}
        for index in assignment.partitions:
            node = self._tree.get(LeaderAndIsr.path(name, index))
            if node is not None:
                states[index] = LeaderAndIsr.decode(name, index, node.data)
                if states[index].leader_epoch == MAX_INT32:
                    raise InvalidNode(LeaderAndIsr.path(name, index), f"no leader epoch follows {MAX_INT32}")
        parent = partitions_path(name)
        parents = [f"{parent}/{child}" for child in self._children.get(parent, ())]
        parents += [parent] if parent in self._tree else []
        return TopicNodes(assignment, self._tree[path].version, states, set(parents))

    def _configs(self) -> Iterator[tuple[ConfigEntity, ConfigNode]]:
        for path, node in self._tree.items():
            entity_path = path.removeprefix(f"{CONFIG_PATH}/")
            if entity_path == path or path.startswith(CONFIG_CHANGES_PATH) or _is_parent(entity_path):
                continue
            entity = self._tried(path, ConfigEntity.of, entity_path)
            if entity is not None:
                configs = self._tried(path, EntityConfigs.decode, entity, node.data)
                if configs is None:
                    self._unreadable.add(entity)
                yield entity, ConfigNode(configs or EntityConfigs({}), node.version)

    def _acls(self) -> Iterator[tuple[ResourcePattern, StoredAcls]]:
        for path, node in self._tree.items():
            pattern = pattern_of(path)
            if pattern is not None:
                stored = self._tried(path, AclNode.decode, pattern, node.data)
                if stored is not None:
                    yield pattern, StoredAcls(stored, node.version)

    def _tokens(self) -> Iterator[tuple[str, DelegationToken]]:
        for path, node in self._tree.items():
            token_id = token_id_of(path)
            if token_id is not None:
                token = self._tried(path, decode_token, path, node.data)
                if token is not None:
                    yield token_id, token

    def _brokers(self) -> Iterator[tuple[int, Node]]:
        for name in self._children.get(BROKER_IDS_PATH, ()):
            node = self._tried(f"{BROKER_IDS_PATH}/{name}", self._broker, name)
            if node is not None:
                yield node.node_id, node

    def _broker(self, name: str) -> Node:
        broker_id = broker_id_of(name)
        found = BrokerRegistration.decode(broker_id, self._tree[BrokerRegistration.path(broker_id)].data)
        return Node(
            broker_id, found.rack, {endpoint.listener: (endpoint.host, endpoint.port) for endpoint in found.endpoints}
        )

    def _single(self, path: str, decode: Callable[[bytes | None], T]) -> T | None:
        node = self._tree.get(path)
        return None if node is None else self._tried(path, decode, node.data)

    def _tried(self, path: str, read: Callable[..., T], *arguments: object) -> T | None:
        """Parse a node by `read`; None if the node is invalid. An error about the name has the path of the parent."""
        try:
            return read(*arguments)
        except InvalidNode as error:
            is_below = error.path.startswith(path)
            self._invalid.append(error if is_below else InvalidNode(path, error.reason))
            return None

    def _version(self, path: str) -> int:
        node = self._tree.get(path)
        return ABSENT if node is None else node.version


def _quotas(configs: Mapping[ConfigEntity, ConfigNode]) -> Iterator[tuple[ConfigEntity, Mapping[str, float]]]:
    for entity, node in configs.items():
        if entity.entity_type in QUOTA_TYPES:
            yield entity, quotas_in(entity, node.configs.configs)


def _is_parent(entity_path: str) -> bool:
    """True for the parent of all entities of a type, and for the parent of a user's clients."""
    names = entity_path.split("/")
    return len(names) == 1 or (len(names) == 3 and names[0] == USERS and names[2] == CLIENTS)


def _highest_epoch(topics: Mapping[str, TopicNodes]) -> int:
    """The highest controller epoch in the partition states, for an absent or unreadable `/controller_epoch`."""
    epochs = (state.controller_epoch for nodes in topics.values() for state in nodes.states.values())
    return max(epochs, default=0)


def _partition(assignment: ReplicaAssignment, state: LeaderAndIsr | None, version: int) -> PartitionState:
    """The state of a partition. Before the controller has written it: no leader, no epoch, an empty ISR."""
    replicas, adding, removing = assignment
    if state is None:
        return PartitionState(-1, NO_EPOCH, replicas, (), ABSENT, adding, removing)
    return PartitionState(state.leader, state.leader_epoch, replicas, state.isr, version, adding, removing)
