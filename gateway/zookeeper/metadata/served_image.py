"""The image that this broker serves, from what it has read in ZooKeeper: only present leaders and valid configs.

The leader of a partition has departed if its broker is not registered, or has registered since the leader was written:
the broker was restarted. Such a partition has no leader in the image until the controller has written the next leader
epoch. Any controller derives the same from ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from headgate.gateway.config import group_config as group_configs
from headgate.gateway.config import topic_config as topic_configs
from headgate.gateway.metadata.image import Image, PartitionState, Topic
from headgate.gateway.zookeeper.layout.configs import CONFIG_PATH, GROUPS, TOPICS, ConfigEntity, EntityConfigs
from headgate.gateway.zookeeper.layout.node import MAX_INT64
from headgate.gateway.zookeeper.layout.quotas import QUOTA_TYPES, invalid_quotas, quotas_in
from headgate.gateway.zookeeper.layout.tree import ClusterTree
from headgate.gateway.zookeeper.unreadable import UnreadableNodes
from headgate.protocol.errors import KafkaError
from headgate.protocol.internal.metadata import GROUP_RESOURCE

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig


def served_image(cluster: ClusterTree, config: BrokerConfig, unreadable: UnreadableNodes) -> Image:
    """The served image of a start: only other live brokers lead partitions yet, and invalid configs are left out."""
    found = cluster.image
    topics = {
        name: served_topic(cluster, name, None, config, unreadable, cluster.broker_epochs) for name in found.topics
    }
    configs = {
        key: accepted_group_configs(config, key[1], configs, unreadable) if key[0] == GROUP_RESOURCE else configs
        for key, configs in found.configs.items()
    }
    for entity, node in cluster.configs.items():
        if entity.entity_type in QUOTA_TYPES:
            accepted_quotas(entity, node.configs.configs, unreadable)
    return found._replace(topics=topics, configs=configs)


def served_topic(
    cluster: ClusterTree,
    name: str,
    before: Topic | None,
    config: BrokerConfig,
    unreadable: UnreadableNodes,
    broker_epochs: Mapping[int, int],
) -> Topic:
    """The served form of a read topic. This broker goes on to lead the partitions that it leads in `before`."""
    topic, known = cluster.image.topics[name], tuple[PartitionState, ...]()
    if before is not None and before.topic_id == topic.topic_id:
        known = before.partitions
    states = [
        served_state(state, zxid, known[index] if index < len(known) else None, config.node_id, broker_epochs)
        for index, (state, zxid) in enumerate(zip(topic.partitions, cluster.state_zxids[name], strict=True))
    ]
    configs = accepted_topic_configs(topic.name, topic.configs, unreadable)
    return topic._replace(partitions=tuple(states), configs=configs)


def served_state(
    state: PartitionState, zxid: int, known: PartitionState | None, node_id: int, broker_epochs: Mapping[int, int]
) -> PartitionState:
    """The served form of a state that the transaction `zxid` has written."""
    if known is not None and state.leader == known.leader == node_id:
        return state
    if known is not None and state.leader_epoch < known.leader_epoch:  # the node was lost; epochs must not fall
        state = state._replace(leader_epoch=known.leader_epoch, isr=state.isr or known.isr)
    elif zxid >= broker_epochs.get(state.leader, MAX_INT64):
        return state
    return state._replace(leader=-1)


def accepted_topic_configs(name: str, configs: Mapping[str, str], unreadable: UnreadableNodes) -> Mapping[str, str]:
    return _accepted(f"{CONFIG_PATH}/{TOPICS}/{name}", configs, topic_configs.check, unreadable)


def accepted_group_configs(
    config: BrokerConfig, group_id: str, configs: Mapping[str, str], unreadable: UnreadableNodes
) -> Mapping[str, str]:
    path = EntityConfigs.path(ConfigEntity(GROUPS, group_id or None))
    return _accepted(path, configs, partial(group_configs.check, config), unreadable)


def accepted_quotas(
    entity: ConfigEntity, configs: Mapping[str, str], unreadable: UnreadableNodes
) -> Mapping[str, float]:
    """The valid quotas of an entity; the others are logged."""
    path = EntityConfigs.path(entity)
    for key in invalid_quotas(entity, configs):
        fault = f"{configs[key][:80]!r} is no positive number"
        unreadable.log_once(f"{path} {key}", f"a quota in ZooKeeper's {path} has no effect: {key}: {fault}")
    return quotas_in(entity, configs)


def _accepted(
    path: str, configs: Mapping[str, str], check: Callable[[dict[str, str]], None], unreadable: UnreadableNodes
) -> Mapping[str, str]:
    """The valid configs. Each is checked together with the valid ones before it; the others are logged."""
    accepted: dict[str, str] = {}
    try:
        check(dict(configs))
    except KafkaError:
        for name, value in configs.items():
            try:
                check({**accepted, name: value})
            except KafkaError as error:
                unreadable.log_once(f"{path} {name}", f"a config in ZooKeeper's {path} has no effect: {error.message}")
            else:
                accepted[name] = value
        return accepted
    return configs
