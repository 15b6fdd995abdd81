"""The two stores of a group's offsets, and the group configs that join them, over the wire alone.

OffsetFetch 0 reads ZooKeeper; a request without topics asks Headgate for every offset that the group has there. Later
versions read the coordinator. The state of a group is its config `headgate.offsets.store`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headgate.protocol.messages.incremental_alter_configs import (
    DELETE,
    SET,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from headgate.protocol.topic_partition import TopicPartition, by_topic
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Answers, Cluster, passes_by_itself
from headgate.tools.groups.members import ZOOKEEPER, GroupDescription, GroupListing
from headgate.tools.groups.offsets import CommittedOffsets, OffsetAndMetadata, commit_offsets, fetch_committed

SEPARATE, DUAL, KAFKA = "separate", "dual", "kafka"
"""The values of `headgate.offsets.store`. `headgate.offsets.source` is ZOOKEEPER or KAFKA."""
STORE_CONFIG: Final = "headgate.offsets.store"
SOURCE_CONFIG: Final = "headgate.offsets.source"
STATUS_CONFIG: Final = "headgate.offsets.status"
CARRIED: Final = "carried"
_GROUP_RESOURCE: Final = 32
_GROUPS_AT_ONCE: Final = 200
_ANY_TOPIC: Final = "__consumer_offsets"
_NEWEST_WITH_NAMES, _MANY_GROUPS = 9, 8  # versions of OffsetFetch


class ZooKeeperOffsets(NamedTuple):
    """The offsets of a group in ZooKeeper; `unreadable`: the nodes that have no offset."""

    offsets: CommittedOffsets
    unreadable: Mapping[TopicPartition, Failure]


NOTHING_IN_ZOOKEEPER: Final = ZooKeeperOffsets({}, {})


class StoreSettings(NamedTuple):
    """The configs of a group. `source` leads; `status` is the broker's report on the copying of offsets, or empty."""

    store: str = SEPARATE
    source: str = ""
    status: str = ""

    @property
    def is_carrying(self) -> bool:
        """True if the broker says that the stores are not equal yet."""
        return self.status not in ("", CARRIED)


def fetch_zookeeper(
    cluster: Cluster, groups: Iterable[str], partitions: Iterable[TopicPartition] = ()
) -> tuple[dict[str, ZooKeeperOffsets], dict[str, Failure]]:
    """The offsets in ZooKeeper by group, and failures by group; a missing group has no offsets.

    Without `partitions` Headgate answers with all offsets; Apache Kafka answers about named partitions only.
    """
    topics = [
        OffsetFetchRequestTopic(name=topic, partition_indexes=[partition.number for partition in rows])
        for topic, rows in by_topic(partitions).items()
    ]

    def ask(client: Client, names: list[str]) -> Answers[str, ZooKeeperOffsets]:
        version = client.version(OffsetFetchRequest, newest=0)
        for name in names:
            yield name, _zookeeper_offsets(client.ask(OffsetFetchRequest(group_id=name, topics=topics), version).topics)

    return cluster.ask_coordinators(groups, ask)


def commit_zookeeper(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> dict[TopicPartition, Failure]:
    """Commit offsets of a group without members in ZooKeeper: OffsetCommit 0. Returns the failures by partition.

    ZooKeeper keeps the numbers alone, neither leader epochs nor metadata.
    """
    numbers = {partition: OffsetAndMetadata(row.offset) for partition, row in offsets.items()}
    return commit_offsets(cluster, group, numbers, newest=0, oldest=0)


def await_carried(cluster: Cluster, groups: Iterable[str]) -> dict[str, Failure]:
    """Wait until the broker has copied the offsets of groups. Returns the failures by group.

    The coordinator answers no OffsetFetch of a group before that: one partition is fetched, which need not exist.
    """
    partition = [OffsetFetchRequestTopics(name=_ANY_TOPIC, partition_indexes=[0])]

    def ask(client: Client, names: list[str]) -> Answers[str, bool]:
        version = client.version(OffsetFetchRequest, newest=_NEWEST_WITH_NAMES, oldest=_MANY_GROUPS)
        for start in range(0, len(names), _GROUPS_AT_ONCE):
            part = [
                OffsetFetchRequestGroup(group_id=name, topics=partition) for name in names[start:][:_GROUPS_AT_ONCE]
            ]
            for row in client.ask(OffsetFetchRequest(groups=part), version).groups:
                codes = [
                    row.error_code,
                    *(partition.error_code for topic in row.topics for partition in topic.partitions),
                ]
                code = next((code for code in codes if code), ErrorCode.NONE)
                yield row.group_id, Failure.of(code) if code else True

    return cluster.ask_coordinators(groups, ask)[1]


class StoredOffsets(NamedTuple):
    """The offsets of groups by name, and failures by name.

    `unreadable`: a sentence for each node in ZooKeeper that has no offset; other offsets of such a group are known.
    """

    offsets: dict[str, CommittedOffsets]
    failed: dict[str, Failure]
    unreadable: list[str]


def fetch_stored_offsets(cluster: Cluster, groups: Mapping[str, GroupDescription | GroupListing]) -> StoredOffsets:
    """The offsets of groups, each from the store that has the group."""
    only_there = [name for name, group in groups.items() if group.type == ZOOKEEPER]
    found, failed = fetch_committed(cluster, [name for name in groups if name not in only_there])
    unreadable: list[str] = []
    if only_there:
        zookeeper, more = fetch_zookeeper(cluster, only_there)
        found |= {name: group.offsets for name, group in zookeeper.items()}
        failed |= more
        unreadable = [
            f"group {name}: the offset of {partition} in ZooKeeper is not known: {why.text}"
            for name, group in zookeeper.items()
            for partition, why in group.unreadable.items()
        ]
    return StoredOffsets(found, failed, unreadable)


def fetch_offsets(
    cluster: Cluster, groups: Mapping[str, GroupDescription | GroupListing]
) -> tuple[dict[str, CommittedOffsets], dict[str, Failure]]:
    """The offsets of groups by name, each from the store that has the group, and failures by name."""
    return fetch_stored_offsets(cluster, groups)[:2]


def _zookeeper_offsets(topics: Iterable[Any]) -> ZooKeeperOffsets | Failure:
    """The rows. A transient error in any row, or an error without a topic, is a failure of the group."""
    found, unreadable = CommittedOffsets(), dict[TopicPartition, Failure]()
    for topic in topics:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            if row.error_code and (passes_by_itself(Failure.of(row.error_code)) or not topic.name):
                return Failure.of(row.error_code)
            if row.committed_offset >= 0:
                found[partition] = OffsetAndMetadata(row.committed_offset)
            elif row.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                unreadable[partition] = _unreadable(row.error_code)
    return ZooKeeperOffsets(found, unreadable)


def _unreadable(code: int) -> Failure:
    """Kafka's only answer for a node without a number is UNKNOWN_SERVER_ERROR."""
    return Failure(code, "its data are no number") if code == ErrorCode.UNKNOWN_SERVER_ERROR else Failure.of(code)


def fetch_settings(cluster: Cluster, groups: Iterable[str]) -> tuple[dict[str, StoreSettings], dict[str, Failure]]:
    """The settings by group, and failures by group."""

    def ask(client: Client, names: list[str]) -> Answers[str, StoreSettings]:
        keys = [STORE_CONFIG, SOURCE_CONFIG, STATUS_CONFIG]
        for start in range(0, len(names), _GROUPS_AT_ONCE):
            wanted = [DescribeConfigsResource(_GROUP_RESOURCE, name, keys) for name in names[start:][:_GROUPS_AT_ONCE]]
            for row in client.ask(DescribeConfigsRequest(resources=wanted)).results:
                yield row.resource_name, _settings(row, client.address)

    return cluster.ask_coordinators(groups, ask)


def _settings(row: Any, address: str) -> StoreSettings | Failure:
    if row.error_code:
        return Failure.of(row.error_code, row.error_message)
    values = {config.name: config.value or "" for config in row.configs}
    if STORE_CONFIG not in values:
        needed = f"the broker at {address} has no {STORE_CONFIG}; it has to be Headgate with zookeeper.connect"
        return Failure(ErrorCode.NONE, needed)
    return StoreSettings(values[STORE_CONFIG], values.get(SOURCE_CONFIG, ""), values.get(STATUS_CONFIG, ""))


def change_settings(
    cluster: Cluster, changes: Mapping[str, StoreSettings], *, validate_only: bool = False
) -> dict[str, Failure]:
    """Set store and source of groups; an empty source is removed. Returns the failures by group."""

    def ask(client: Client, names: list[str]) -> Answers[str, bool]:
        resources = [AlterConfigsResource(_GROUP_RESOURCE, name, _operations(changes[name])) for name in names]
        answer = client.ask(IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only))
        for row in answer.responses:
            yield row.resource_name, Failure.of(row.error_code, row.error_message) if row.error_code else True

    return cluster.ask_coordinators(changes, ask)[1]


def _operations(settings: StoreSettings) -> list[AlterableConfig]:
    source = (SET, settings.source) if settings.source else (DELETE, None)
    return [AlterableConfig(STORE_CONFIG, SET, settings.store), AlterableConfig(SOURCE_CONFIG, *source)]
