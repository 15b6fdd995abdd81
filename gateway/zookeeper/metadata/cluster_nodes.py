"""The known state of the cluster's nodes: versions, parents, unknown fields. Conditional writes need them.

Reads and own writes are applied in the order of their answers, which is the order of ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from headgate.gateway.metadata.image import Image
from headgate.gateway.zookeeper.layout.acls import AclNode, pattern_of
from headgate.gateway.zookeeper.layout.admin import DELETE_TOPICS_PATH
from headgate.gateway.zookeeper.layout.cluster import (
    CONTROLLER_EPOCH_PATH,
    CONTROLLER_PATH,
    OWN_FEATURES_PATH,
    PRODUCER_IDS_PATH,
    Controller,
    ControllerEpoch,
)
from headgate.gateway.zookeeper.layout.configs import CONFIG_CHANGES_PATH, CONFIG_PATH, ConfigEntity, EntityConfigs
from headgate.gateway.zookeeper.layout.tokens import token_id_of
from headgate.gateway.zookeeper.layout.topics import TOPICS_PATH, LeaderAndIsr, TopicAssignment, partition_of
from headgate.gateway.zookeeper.layout.tree import ABSENT, ClusterTree, ConfigNode, StoredAcls, TopicNodes
from headgate.gateway.zookeeper.metadata.plans import Multi
from headgate.gateway.zookeeper.session import Check, Create, Delete, Results, SetData, Stat
from headgate.gateway.zookeeper.unreadable import UnreadableNodes
from headgate.protocol.acls import ResourcePattern


class ClusterNodes:
    """The nodes of a cluster, without the image."""

    def __init__(self, cluster: ClusterTree, unreadable: UnreadableNodes | None = None) -> None:
        self.unreadable = UnreadableNodes() if unreadable is None else unreadable
        self.unreadable.note((), cluster.invalid)
        self.has_producer_ids = _has_producer_ids(cluster)
        """Whether the last block of producer ids was readable at least once: the next block follows from it."""
        self._cluster = cluster._replace(image=Image.empty(), state_zxids={}, invalid=(), acls={}, token_versions={})
        self._topics = dict(cluster.topics)
        self._configs = dict(cluster.configs)
        self._acls = dict(cluster.acls)
        self._token_versions = dict(cluster.token_versions)
        self._deleting = set(cluster.deleting)

    def tree(self, image: Image) -> ClusterTree:
        """The nodes together with an image, as the input of a plan. Valid until the nodes change."""
        return self._cluster._replace(
            image=image,
            topics=self._topics,
            configs=self._configs,
            deleting=frozenset(self._deleting),
            acls=self._acls,
            token_versions=self._token_versions,
        )

    def topic(self, name: str) -> TopicNodes | None:
        return self._topics.get(name)

    def configs(self, entity: ConfigEntity) -> ConfigNode | None:
        return self._configs.get(entity)

    def has_clients(self, user: ConfigEntity) -> bool:
        """Whether clients of a user have configs."""
        return any(entity.has_client and entity.name == user.name for entity in self._configs)

    @property
    def deleting(self) -> AbstractSet[str]:
        """The topics with a pending deletion order of a tool."""
        return self._deleting

    @property
    def broker_epochs(self) -> Mapping[int, int]:
        """The epochs of the brokers that were registered at the first read."""
        return self._cluster.broker_epochs

    @property
    def controller_epoch_version(self) -> int:
        """The version of `/controller_epoch`; every write of this controller is conditional on it."""
        return self._cluster.controller_epoch_version

    @property
    def controller_epoch(self) -> int:
        """The epoch of the last controller."""
        return self._cluster.controller_epoch

    # Nodes that were read

    def put_topic(self, name: str, part: ClusterTree, entity: ConfigEntity) -> None:
        """Apply a read of a topic. `part` has the topic and its configs, as far as they exist."""
        if name in part.topics:
            self._topics[name] = part.topics[name]
        else:
            self._topics.pop(name, None)
        self.put_configs(entity, part)

    def put_configs(self, entity: ConfigEntity, part: ClusterTree) -> None:
        """Apply a read of an entity's configs."""
        if entity in part.configs:
            self._configs[entity] = part.configs[entity]
        else:
            self._configs.pop(entity, None)

    def put_acls(self, pattern: ResourcePattern, part: ClusterTree) -> None:
        """Apply a read of a pattern's ACLs."""
        if pattern in part.acls:
            self._acls[pattern] = part.acls[pattern]
        else:
            self._acls.pop(pattern, None)

    def put_token(self, token_id: str, part: ClusterTree) -> None:
        """Apply a read of a delegation token."""
        self._put_token(token_id, part.token_versions.get(token_id, ABSENT))

    def _put_token(self, token_id: str, version: int) -> None:
        if version == ABSENT:
            self._token_versions.pop(token_id, None)
        else:
            self._token_versions[token_id] = version

    def put_versions(self, part: ClusterTree) -> None:
        """Apply a read of the nodes of producer ids and features."""
        self.has_producer_ids |= _has_producer_ids(part)
        self._cluster = self._cluster._replace(
            producer_ids_version=part.producer_ids_version, features_version=part.features_version
        )

    def put_controller_epoch(self, part: ClusterTree) -> None:
        """Apply a read of the controller epoch. The known epoch never falls, whatever the node has."""
        self._cluster = self._cluster._replace(
            controller_epoch=max(part.controller_epoch, self._cluster.controller_epoch),
            controller_epoch_version=part.controller_epoch_version,
        )

    def put_deleting(self, names: Sequence[str]) -> None:
        """Apply a read of the deletion orders."""
        self._deleting = set(names)

    def forget_topics(self) -> None:
        """Forget the topics: another controller writes them now."""
        self._topics.clear()
        self._deleting.clear()

    # Nodes that were written

    def apply(self, multi: Multi, results: Results) -> None:
        """Apply a multi that took effect."""
        for operation, result in zip(multi, results, strict=True):
            if not isinstance(operation, Check):
                self._apply(operation, result.version if isinstance(result, Stat) else 0)

    def _apply(self, operation: Create | SetData | Delete, version: int) -> None:
        path = operation.path
        if isinstance(operation, Delete):
            version = ABSENT
        data = None if isinstance(operation, Delete) else operation.data
        if path.startswith(f"{TOPICS_PATH}/"):
            name, _, rest = path.removeprefix(f"{TOPICS_PATH}/").partition("/")
            self._apply_topic(name, rest, data, version)
        elif path == PRODUCER_IDS_PATH:
            self._cluster = self._cluster._replace(producer_ids_version=version)
        elif path == OWN_FEATURES_PATH:
            self._cluster = self._cluster._replace(features_version=version)
        elif path == CONTROLLER_EPOCH_PATH:
            epoch = ControllerEpoch.decode(data).epoch
            self._cluster = self._cluster._replace(controller_epoch=epoch, controller_epoch_version=version)
        elif path == CONTROLLER_PATH:
            self._cluster = self._cluster._replace(controller=Controller.decode(data))
        elif path.startswith(f"{DELETE_TOPICS_PATH}/"):
            change = self._deleting.discard if version == ABSENT else self._deleting.add
            change(path.removeprefix(f"{DELETE_TOPICS_PATH}/"))
        elif path.startswith(f"{CONFIG_PATH}/") and not path.startswith(CONFIG_CHANGES_PATH):
            entity = ConfigEntity.of(path.removeprefix(f"{CONFIG_PATH}/"))
            if version == ABSENT:
                self._configs.pop(entity, None)
            else:
                self._configs[entity] = ConfigNode(EntityConfigs.decode(entity, data), version)
        elif (token_id := token_id_of(path)) is not None:
            self._put_token(token_id, version)
        else:
            self._apply_acls(path, data, version)

    def _apply_acls(self, path: str, data: bytes | None, version: int) -> None:
        pattern = pattern_of(path)
        if pattern is not None and version == ABSENT:
            self._acls.pop(pattern, None)
        elif pattern is not None:
            self._acls[pattern] = StoredAcls(AclNode.decode(pattern, data), version)

    def _apply_topic(self, name: str, rest: str, data: bytes | None, version: int) -> None:
        nodes = self._topics.get(name)
        if not rest:
            if version == ABSENT:
                self._topics.pop(name, None)
            else:
                assignment = TopicAssignment.decode(name, data)
                states, parents = ({}, set[str]()) if nodes is None else (nodes.states, nodes.parents)
                self._topics[name] = TopicNodes(assignment, version, states, parents)
        elif nodes is not None and rest.endswith("/state"):
            index = partition_of(name, rest.split("/")[1])
            if version == ABSENT:
                nodes.states.pop(index, None)
            else:
                nodes.states[index] = LeaderAndIsr.decode(name, index, data)
        elif nodes is not None:
            change = nodes.parents.discard if version == ABSENT else nodes.parents.add
            change(f"{TOPICS_PATH}/{name}/{rest}")


def _has_producer_ids(part: ClusterTree) -> bool:
    return all(error.path != PRODUCER_IDS_PATH for error in part.invalid)
