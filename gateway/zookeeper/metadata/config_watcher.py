"""Configs, features and the block of producer ids, as every broker reads them in ZooKeeper.

- Configs that this version refuses are skipped, with one log line; they stay in ZooKeeper.
- `/config/changes` has notifications in three formats. They are deleted after 15 minutes, as by Kafka's brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.records import config_records, quota_records
from headgate.gateway.runtime.tasks import Task
from headgate.gateway.zookeeper.layout.cluster import OWN_FEATURES_PATH, PRODUCER_IDS_PATH, ProducerIdBlock
from headgate.gateway.zookeeper.layout.configs import (
    CONFIG_CHANGES_PATH,
    CONFIG_PATH,
    TOPICS,
    USERS,
    ConfigChange,
    ConfigEntity,
)
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.quotas import QUOTA_TYPES, config_entity, quota_entity
from headgate.gateway.zookeeper.layout.tree import ClusterTree, read_cluster
from headgate.gateway.zookeeper.layout.users import USER_RESOURCE, credentials_of
from headgate.gateway.zookeeper.metadata import plans
from headgate.gateway.zookeeper.metadata.differences import Touched, changed_configs, changed_quotas, credential_records
from headgate.gateway.zookeeper.metadata.notifications import Notifications
from headgate.gateway.zookeeper.metadata.reading import (
    NodesByPath,
    StoreParts,
    config_node_paths,
    read_many,
    read_node,
    read_node_or_watch,
)
from headgate.gateway.zookeeper.metadata.served_image import (
    accepted_group_configs,
    accepted_quotas,
    accepted_topic_configs,
)
from headgate.gateway.zookeeper.session import READ_AT_ONCE
from headgate.protocol.internal.metadata import (
    GROUP_RESOURCE,
    FeatureLevelRecord,
    MetadataRecord,
    ProducerIdsRecord,
)

SINGLES: Final = (PRODUCER_IDS_PATH, OWN_FEATURES_PATH)
"""The nodes of producer ids and features, which are read together."""


class ConfigWatcher:
    """Reads configs, features and producer ids. `records`: differences of configs that are not published yet."""

    def __init__(self, parts: StoreParts) -> None:
        self.records: list[MetadataRecord] = []
        self.has_last_block = False
        """Whether the last block of producer ids was this broker's at the last read."""
        self._session = parts.session
        self._watches = parts.watches
        self._nodes = parts.nodes
        self._config = parts.config
        self._store = parts.store
        self.notifications = Notifications(parts)

    def take_records(self) -> list[MetadataRecord]:
        """Take the differences since the last call."""
        records, self.records = self.records, []
        return records

    def changed(self) -> Task[Iterator[str]]:
        """The paths of configs with a notification since the last read."""
        entities = dict.fromkeys((yield from self.notifications.read(CONFIG_CHANGES_PATH, _changed_entity)))
        return (f"{CONFIG_PATH}/{entity.entity_path}" for entity in entities)

    def all_paths(self, parent: str) -> Task[Collection[str]]:
        paths = yield from config_node_paths(self._session, parent)
        entity_type, image = parent.removeprefix(f"{CONFIG_PATH}/"), self._store.written_image
        users = ((USER_RESOURCE, user) for user in image.scram_credentials)
        known = (*(_entity(*key) for key in (*image.configs, *users)), *map(config_entity, image.quotas))
        gone = config_paths(entity for entity in known if entity.entity_type == entity_type)
        return dict.fromkeys((*paths, *gone))

    def read_into(self, image: Image, entity: ConfigEntity) -> Task[Image]:
        """The image with the present configs of an entity; unreadable ones keep their known values."""
        part = yield from self._read_configs(f"{CONFIG_PATH}/{entity.entity_path}")
        self._nodes.put_configs(entity, part)
        if part.invalid:
            return image
        topic = image.topics.get(entity.name or "")
        if entity.entity_type == TOPICS:
            found = part.configs.get(entity)
            configs_there: Mapping[str, str] = {} if found is None else found.configs.configs
            changed = {} if topic is None else {topic.name: topic._replace(configs=configs_there)}
            return image._replace(topics={**image.topics, **changed})
        if entity.entity_type in QUOTA_TYPES:
            return _with_owner(image, entity, part.image)
        configs = {key: value for key, value in image.configs.items() if key != _resource(entity)}
        return image._replace(configs=configs | dict(part.image.configs))

    def read_topics(self, names: Sequence[str]) -> Task[None]:
        """Read the configs of topics that the image does not have yet, for `topic_records`. Raises Failed."""
        for first in range(0, len(names), READ_AT_ONCE):
            piece = names[first : first + READ_AT_ONCE]
            part = self._parse(
                (yield from read_many(self._session, [f"{CONFIG_PATH}/{TOPICS}/{name}" for name in piece]))
            )
            for name in piece:
                self._nodes.put_configs(ConfigEntity(TOPICS, name), part)

    def topic_records(self, name: str) -> list[MetadataRecord]:
        """The configs of a topic that the image does not have yet, as ZooKeeper's last answer had them."""
        node = self._nodes.configs(ConfigEntity(TOPICS, name))
        configs: Mapping[str, str] = {} if node is None else node.configs.configs
        accepted = accepted_topic_configs(name, configs, self._nodes.unreadable)
        return config_records(name, {**accepted})

    def _read_configs(self, path: str) -> Task[ClusterTree]:
        return self._parse((yield from read_node(self._session, path)))

    def _parse(self, tree: NodesByPath) -> ClusterTree:
        """Parse nodes, and log the unreadable ones."""
        part = read_cluster(tree, bytes)
        self._nodes.unreadable.note(tree, part.invalid)
        return part

    def refresh(self, path: str) -> Task[None]:
        try:
            entity = ConfigEntity.of(path.removeprefix(f"{CONFIG_PATH}/"))
        except InvalidNode as error:
            self._nodes.unreadable.name(path, error.reason)
            return
        if entity.entity_type not in (TOPICS, *QUOTA_TYPES, *plans.ENTITY_TYPES.values()):
            return
        part = yield from self._read_configs(path)
        self._nodes.put_configs(entity, part)
        if part.invalid:
            return
        image = self._store.written_image
        found = part.configs.get(entity)
        configs: Mapping[str, str] = {} if found is None else found.configs.configs
        if entity.entity_type == TOPICS:
            topic = image.topics.get(entity.name or "")
            if topic is None:
                return
            changed = changed_configs(
                topic.configs, accepted_topic_configs(topic.name, configs, self._nodes.unreadable)
            )
            self.records += config_records(topic.name, changed)
        elif entity.entity_type in QUOTA_TYPES:
            quotas, owner = accepted_quotas(entity, configs, self._nodes.unreadable), quota_entity(entity)
            self.records += quota_records(owner, changed_quotas(image.quotas.get(owner, {}), quotas))
            if entity.entity_type == USERS:
                self._refresh_credentials(entity, configs, image)
        else:
            key = _resource(entity)
            if key[0] == GROUP_RESOURCE:
                configs = accepted_group_configs(self._config, key[1], configs, self._nodes.unreadable)
            self.records += config_records(key[1], changed_configs(image.configs.get(key, {}), configs), key[0])

    def _refresh_credentials(self, entity: ConfigEntity, configs: Mapping[str, str], image: Image) -> None:
        """Note the differences of a user's SCRAM credentials; invalid ones are logged without their text."""
        if entity.name is None or entity.has_client:
            return
        credentials, invalid = credentials_of(configs)
        for mechanism, reason in invalid.items():
            path = f"{CONFIG_PATH}/{entity.entity_path}"
            self._nodes.unreadable.log_once(
                f"{path} {mechanism}", f"a credential in ZooKeeper's {path} has no effect: {mechanism}: {reason}"
            )
        self.records += credential_records(entity.name, image.scram_credentials.get(entity.name, {}), credentials)

    def read_singles_into(self, image: Image) -> Task[Image]:
        """The image with the present features and producer ids; an unreadable node keeps its known value."""
        part = yield from self._read_singles()
        invalid_paths = {error.path for error in part.invalid}
        if OWN_FEATURES_PATH not in invalid_paths:
            image = image._replace(features=part.image.features)
        if PRODUCER_IDS_PATH not in invalid_paths:
            image = image._replace(next_producer_id=part.image.next_producer_id)
        return image

    def _read_singles(self) -> Task[ClusterTree]:
        """Read the nodes of producer ids and features."""
        tree: NodesByPath = {}
        for path in SINGLES:
            tree |= yield from read_node_or_watch(self._session, path, self._watches.note)
        part = self._parse(tree)
        self._nodes.put_versions(part)
        if all(error.path != PRODUCER_IDS_PATH for error in part.invalid) and PRODUCER_IDS_PATH in tree:
            block = ProducerIdBlock.decode(tree[PRODUCER_IDS_PATH].data)
            self.has_last_block = block is not None and block.broker_id == self._config.node_id
        return part

    def refresh_singles(self) -> Task[None]:
        part = yield from self._read_singles()
        image, found = self._store.written_image, part.image
        levels = {name: level for name, level in found.features.items() if image.features.get(name) != level}
        records: list[MetadataRecord] = [
            FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()
        ]
        if found.next_producer_id > image.next_producer_id:
            records.append(ProducerIdsRecord(broker_id=-1, next_producer_id=found.next_producer_id))
        if records:
            self._store.apply_external(records)


def _changed_entity(path: str, data: bytes | None) -> ConfigEntity:
    return ConfigChange.decode(path.rpartition("/")[2], data).entity


def config_paths(entities: Iterable[ConfigEntity]) -> Iterator[str]:
    """The config paths of the entities whose names ZooKeeper can have."""
    for entity in entities:
        with suppress(InvalidNode):
            yield f"{CONFIG_PATH}/{entity.entity_path}"


def entities(subjects: Touched) -> list[ConfigEntity]:
    """The subjects of records that have configs, topics aside."""
    owners = [_entity(*key) for key in sorted(subjects.resources)]
    paths = sorted(config_entity(owner).entity_path for owner in subjects.quotas)
    return list(dict.fromkeys([*owners, *map(ConfigEntity.of, paths)]))


def _with_owner(image: Image, entity: ConfigEntity, found: Image) -> Image:
    """The image with the quotas and the credentials of an entity as they were found."""
    quotas = {owner: values for owner, values in image.quotas.items() if owner != quota_entity(entity)}
    image = image._replace(quotas=quotas | dict(found.quotas))
    if entity.entity_type != USERS or entity.has_client:
        return image
    others = {user: kept for user, kept in image.scram_credentials.items() if user != entity.name}
    return image._replace(scram_credentials=others | dict(found.scram_credentials))


def _entity(resource_type: int, name: str) -> ConfigEntity:
    return ConfigEntity(plans.ENTITY_TYPES[resource_type], name or None)


def _resource(entity: ConfigEntity) -> tuple[int, str]:
    resource_types = {kind: resource_type for resource_type, kind in plans.ENTITY_TYPES.items()}
    return resource_types[entity.entity_type], entity.name or ""
