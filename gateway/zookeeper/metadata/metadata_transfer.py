"""Plans that transfer a broker's metadata between its own log and ZooKeeper. Pure.

A transfer guesses nothing and overwrites nothing: the metadata at the target must be a part of the metadata of the
source, as an interrupted transfer leaves them. So a transfer can be stopped at any point, and run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headgate.gateway.metadata.image import Image, PartitionState, Topic
from headgate.gateway.metadata.planning.producer_ids import BLOCK_SIZE
from headgate.gateway.security.acls.acls_image import AclsDraft, AclsImage, acl_id_of
from headgate.gateway.zookeeper.layout.configs import USERS, ConfigEntity
from headgate.gateway.zookeeper.layout.quotas import QUOTA_TYPES, quotas_in
from headgate.gateway.zookeeper.layout.tree import ClusterTree
from headgate.gateway.zookeeper.layout.users import configs_of, credentials_of
from headgate.gateway.zookeeper.metadata.plans import ENTITY_TYPES, Multi, change_image
from headgate.protocol.internal.metadata import GROUP_RESOURCE
from headgate.storage.disk.layout import format_id
from headgate.storage.errors import StorageError

STORE_CONFIG, DUAL = "headgate.offsets.store", "dual"
_SHOWN: Final = 5


class TransferRefused(StorageError):
    """The metadata cannot be transferred as they are; the text says why, and what to do. Nothing has changed."""


def check(cluster: ClusterTree, cluster_id: str) -> None:
    """Check that no broker uses the cluster in ZooKeeper, and that its id fits. Raises TransferRefused."""
    if cluster.invalid:
        raise TransferRefused(f"{cluster.invalid[0]}; repair or delete that node")
    if cluster.image.brokers:
        raise TransferRefused(
            f"{_named('broker', [*map(str, cluster.image.brokers)])} is registered in ZooKeeper; stop it, or"
            " wait until its session has ended"
        )
    if cluster.controller is not None:
        raise TransferRefused(f"broker {cluster.controller.broker_id} is the controller in ZooKeeper; stop it")
    found = cluster.image.cluster_id
    if found and found != cluster_id:
        raise TransferRefused(
            f"the cluster id {found} in ZooKeeper is not {cluster_id}, that of log.dirs; zookeeper.connect may have the"
            " wrong address or the wrong chroot"
        )


def check_groups(image: Image, marked: Sequence[str]) -> None:
    """Check that no group keeps its offsets in both stores: one of them would become outdated. Raises TransferRefused.

    `marked`: the groups whose nodes say that both stores have their offsets.
    """
    dual = {
        name
        for (resource_type, name), configs in image.configs.items()
        if resource_type == GROUP_RESOURCE and configs.get(STORE_CONFIG) == DUAL
    }
    if dual.union(marked):
        names = _named("group", sorted(dual.union(marked)))
        raise TransferRefused(
            f"{names} has its offsets in both stores; start the broker, and end that with"
            " `headgate groups migrate finish`"
        )


def into_zookeeper(image: Image, cluster: ClusterTree, node_id: int) -> list[Multi]:
    """The multis that turn the cluster in ZooKeeper into an image; none if they are equal. Raises TransferRefused.

    Leader epochs are kept; the next start raises them. A partition's epoch restarts with the version of its node.
    """
    ids = {name: topic.topic_id for name, topic in cluster.image.topics.items()}
    others = [name for name, topic_id in ids.items() if image.topic_id_of(name) != topic_id] + sorted(cluster.deleting)
    if others:
        raise TransferRefused(
            f"ZooKeeper has {_named('topic', others)} of its own, which log.dirs do not have; delete what is below"
            " zookeeper.connect, or name another chroot"
        )
    for name, topic in cluster.image.topics.items():
        _check_not_newer(topic, image.topics[name])
    topics = {name: _as_nodes(topic, cluster.image.topics.get(name)) for name, topic in image.topics.items()}
    configs = {key: value for key, value in image.configs.items() if key[0] in ENTITY_TYPES and value}
    first = cluster.image.next_producer_id
    next_id = first if image.next_producer_id <= first else max(image.next_producer_id, first + BLOCK_SIZE)
    target = cluster.image._replace(
        topics=topics,
        features=image.features,
        configs={**cluster.image.configs, **configs},
        next_producer_id=next_id,
        scram_credentials={**cluster.image.scram_credentials, **image.scram_credentials},
        quotas={**cluster.image.quotas, **image.quotas},
        acls=_with_acls(cluster.image.acls, image.acls),
        tokens={**cluster.image.tokens, **image.tokens},
    )
    return change_image(cluster, target, topics, node_id)


def _with_acls(there: AclsImage, here: AclsImage) -> AclsImage:
    draft = AclsDraft(there)
    for binding in here.ids:
        draft.add(acl_id_of(binding), binding)
    return draft.finish()


def _check_not_newer(there: Topic, here: Topic) -> None:
    """Check that no leader epoch would fall: consumers would not see that records were lost. Raises TransferRefused."""
    if len(there.partitions) > len(here.partitions):
        raise TransferRefused(
            f"ZooKeeper has {len(there.partitions)} partitions of {here.name}, and the own log {len(here.partitions)}:"
            " the log is older than ZooKeeper; `to-embedded` takes what ZooKeeper has"
        )
    for index, (theirs, ours) in enumerate(zip(there.partitions, here.partitions, strict=False)):
        if theirs.leader_epoch > ours.leader_epoch:
            raise TransferRefused(
                f"{here.name}-{index} has leader epoch {theirs.leader_epoch} in ZooKeeper, and {ours.leader_epoch} in"
                " log.dirs: the log is older than ZooKeeper; `to-embedded` takes what ZooKeeper has"
            )


def _as_nodes(topic: Topic, there: Topic | None) -> Topic:
    """The topic with the partition epochs that its nodes will have."""
    states = []
    for index, state in enumerate(topic.partitions):
        known = None if there is None or index >= len(there.partitions) else there.partitions[index]
        if known is None:
            states.append(state._replace(partition_epoch=0))
        elif known == state._replace(partition_epoch=known.partition_epoch):
            states.append(known)
        else:
            states.append(state._replace(partition_epoch=known.partition_epoch + 1))
    return topic._replace(partitions=tuple(states))


def out_of_zookeeper(cluster: ClusterTree, node_id: int) -> Image:
    """The image of the embedded log of a broker that leads every partition. Raises TransferRefused."""
    if cluster.deleting:
        names = _named("topic", sorted(cluster.deleting))
        raise TransferRefused(f"{names} waits in ZooKeeper for its deletion; start the broker once, so that it deletes")
    if cluster.without_id:
        names = _named("topic", sorted(cluster.without_id))
        raise TransferRefused(f"{names} has no id yet, as an older Kafka made it; start the broker once with ZooKeeper")
    elsewhere = [
        f"{name}-{index}"
        for name, topic in cluster.image.topics.items()
        for index, state in enumerate(topic.partitions)
        if set(state.replicas) != {node_id}
    ]
    if elsewhere:
        raise TransferRefused(
            f"{_named('partition', elsewhere)} has replicas elsewhere than on broker {node_id}; move them to it first"
        )
    topics = {name: _led_here(topic, node_id) for name, topic in cluster.image.topics.items()}
    return cluster.image._replace(controller_id=node_id, topics=topics)


def _led_here(topic: Topic, node_id: int) -> Topic:
    """The topic with this broker as the only replica and leader. The next start raises the leader epochs."""
    states = [
        PartitionState(node_id, max(state.leader_epoch, 0), (node_id,), (node_id,), max(state.partition_epoch, 0))
        for state in topic.partitions
    ]
    return topic._replace(partitions=tuple(states))


def with_other_configs(cluster: ClusterTree) -> list[str]:
    """The users, clients and addresses that have other configs than quotas and credentials."""
    return [
        entity.entity_path
        for entity, node in cluster.configs.items()
        if entity.entity_type in QUOTA_TYPES and _other_configs(entity, node.configs.configs)
    ]


def _other_configs(entity: ConfigEntity, configs: Mapping[str, str]) -> set[str]:
    credentials = {} if entity.has_client or entity.entity_type != USERS else configs_of(credentials_of(configs)[0])
    return set(configs) - set(quotas_in(entity, configs)) - set(credentials)


def left_behind(entities: Sequence[str], groups: int) -> Iterator[str]:
    """Sentences about the nodes that are not transferred. `entities`: paths of configs that stay in ZooKeeper."""
    if entities:
        yield f"{_named('the configs of', entities)} stay in ZooKeeper alone"
    if groups:
        yield (
            f"{groups} groups are in ZooKeeper: offsets that clients of the 0.8 age have committed there stay there;"
            " carry them over before, with `headgate groups migrate`"
        )
    yield "nothing is deleted in ZooKeeper"


def describe(image: Image) -> Iterator[str]:
    """A line for each topic, and one with the totals, for a dry run."""
    for name, topic in sorted(image.topics.items()):
        own = " ".join(f"{key}={value}" for key, value in sorted(topic.configs.items())) or "no configs of its own"
        yield f"{name}: {len(topic.partitions)} partitions, id {format_id(topic.topic_id)}, {own}"
    partitions = sum(len(topic.partitions) for topic in image.topics.values())
    entities = sum(bool(configs) for configs in image.configs.values())
    for owner, values in image.quotas.items():
        yield f"quotas of {owner.title}: {' '.join(f'{key}={value:g}' for key, value in values.items())}"
    if image.acls.by_id or image.tokens:
        yield f"{len(image.acls.by_id)} ACLs, {len(image.tokens)} delegation tokens"
    yield (
        f"{len(image.topics)} topics with {partitions} partitions, configs of {entities} brokers and groups,"
        f" producer ids from {image.next_producer_id} on, {len(image.features)} features"
    )


def _named(kind: str, names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return f"{kind} {', '.join(names[:_SHOWN])}" + (f" (and {more} more)" if more > 0 else "")
