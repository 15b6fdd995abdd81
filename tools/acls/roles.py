"""The rules of roles: a producer, a consumer, a reader with Spark. Pure.

Source: the conveniences of `kafka.admin.AclCommand` (`--producer`, `--consumer`, `--idempotent`); for Spark the page on
its Kafka connector, and `KafkaSourceProvider`, which names the groups of the consumers that fetch offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from headgate.protocol.acls import CLUSTER_NAME, WILDCARD, AclOperation, AclResource, PatternType, ResourcePattern

Permission = tuple[ResourcePattern, AclOperation]

SPARK_GROUP_PREFIXES = ("spark-kafka-source", "spark-kafka-relation")
"""The groups of Spark's streams and of its batch reads, for the way of fetching offsets before Spark 3.1."""

CLUSTER = ResourcePattern(AclResource.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)


class Resources(NamedTuple):
    """The resources that a command names."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    delegation_tokens: Sequence[str] = ()
    users: Sequence[str] = ()
    is_cluster: bool = False
    pattern_type: PatternType = PatternType.LITERAL

    def patterns(self) -> list[ResourcePattern]:
        """All of them as patterns, in the order of the types."""
        named = [
            *self.of(AclResource.TOPIC, self.topics),
            *self.of(AclResource.GROUP, self.groups),
            *self.of(AclResource.TRANSACTIONAL_ID, self.transactional_ids),
            *self.of(AclResource.DELEGATION_TOKEN, self.delegation_tokens),
            *self.of(AclResource.USER, self.users),
        ]
        return [*named, CLUSTER] if self.is_cluster else named

    def of(self, resource: AclResource, names: Iterable[str]) -> Iterator[ResourcePattern]:
        """The patterns of some names; `*` is always literal, as Kafka has it."""
        for name in names:
            is_literal = name == WILDCARD
            yield ResourcePattern(resource, name, PatternType.LITERAL if is_literal else self.pattern_type)


def producer(resources: Resources, *, is_idempotent: bool) -> Iterator[Permission]:
    """Writes to the topics, and creates them; transactions with the transactional ids."""
    for pattern in resources.of(AclResource.TOPIC, resources.topics):
        for operation in (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE):
            yield pattern, operation
    for pattern in resources.of(AclResource.TRANSACTIONAL_ID, resources.transactional_ids):
        for operation in (AclOperation.WRITE, AclOperation.DESCRIBE):
            yield pattern, operation
    if is_idempotent:
        yield CLUSTER, AclOperation.IDEMPOTENT_WRITE


def consumer(resources: Resources) -> Iterator[Permission]:
    """Reads the topics as a member of the groups."""
    for pattern in resources.of(AclResource.TOPIC, resources.topics):
        for operation in (AclOperation.READ, AclOperation.DESCRIBE):
            yield pattern, operation
    for pattern in resources.of(AclResource.GROUP, resources.groups):
        yield pattern, AclOperation.READ


def spark(resources: Resources) -> Iterator[Permission]:
    """Reads the topics with Spark, in both ways in which Spark fetches offsets.

    By its admin client (since 3.1) Spark needs READ and DESCRIBE on the topics alone. By a consumer (before, and with
    `spark.sql.streaming.kafka.useDeprecatedOffsetFetching=true`) it also reads as a member of groups of its own, or of
    those that the options `groupIdPrefix` and `kafka.group.id` name.
    """
    yield from consumer(resources._replace(groups=()))
    for pattern in resources.of(AclResource.GROUP, resources.groups):
        yield pattern, AclOperation.READ
    if not resources.groups:
        for prefix in SPARK_GROUP_PREFIXES:
            yield ResourcePattern(AclResource.GROUP, prefix, PatternType.PREFIXED), AclOperation.READ
