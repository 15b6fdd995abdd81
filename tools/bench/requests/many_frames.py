"""Requests about very many topics, written by hand as in `frames.py`, for the loads beside a bystander."""

from collections.abc import Sequence

from headgate.tools.bench.requests.frames import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    RequestWriter,
)

CREATE_TOPICS_VERSION, DELETE_TOPICS_VERSION, DESCRIBE_CONFIGS_VERSION = 7, 5, 4
OFFSET_COMMIT_VERSION, OFFSET_FETCH_VERSION = 8, 8
_TIMEOUT_MS = 60_000
_TOPIC_RESOURCE = 2


def create_topics(names: Sequence[str]) -> RequestWriter:
    """CreateTopics v7 of topics with one partition and one replica."""
    writer = RequestWriter(CREATE_TOPICS, CREATE_TOPICS_VERSION)

    def write_topic(name: str) -> None:
        writer.string(name)
        writer.int32(1)
        writer.int16(1)
        writer.length(0, "i")  # no manual assignments
        writer.length(0, "i")  # the broker's default configuration
        writer.tags()

    writer.array(names, write_topic)
    writer.int32(_TIMEOUT_MS)
    writer.int8(0)
    writer.tags()
    return writer


def delete_topics(names: Sequence[str]) -> RequestWriter:
    """DeleteTopics v5."""
    writer = RequestWriter(DELETE_TOPICS, DELETE_TOPICS_VERSION)
    writer.array(names, writer.string)
    writer.int32(_TIMEOUT_MS)
    writer.tags()
    return writer


def describe_configs(names: Sequence[str]) -> RequestWriter:
    """DescribeConfigs v4 of every setting of these topics, the default of an admin client."""
    writer = RequestWriter(DESCRIBE_CONFIGS, DESCRIBE_CONFIGS_VERSION)

    def write_resource(name: str) -> None:
        writer.int8(_TOPIC_RESOURCE)
        writer.string(name)
        writer.length(-1, "i")  # every key
        writer.tags()

    writer.array(names, write_resource)
    writer.int8(0)  # no synonyms
    writer.int8(0)  # no documentation
    writer.tags()
    return writer


def offset_commit(group_id: str, names: Sequence[str], partitions: Sequence[int] = (0,)) -> RequestWriter:
    """OffsetCommit v8 of offset 0 in these partitions of each topic, without a group membership."""
    writer = RequestWriter(OFFSET_COMMIT, OFFSET_COMMIT_VERSION)
    writer.string(group_id)
    writer.int32(-1)
    writer.string("")  # member
    writer.string(None)  # instance

    def write_partition(partition: int) -> None:
        writer.int32(partition)
        writer.int64(0)
        writer.int32(-1)  # leader epoch
        writer.string("")
        writer.tags()

    def write_topic(name: str) -> None:
        writer.string(name)
        writer.array(partitions, write_partition)
        writer.tags()

    writer.array(names, write_topic)
    writer.tags()
    return writer


def offset_fetch(group_id: str, names: Sequence[str], rows_a_topic: int) -> RequestWriter:
    """OffsetFetch v8 of one group, which names partition 0 of each topic `rows_a_topic` times."""
    writer = RequestWriter(OFFSET_FETCH, OFFSET_FETCH_VERSION)

    def write_topic(name: str) -> None:
        writer.string(name)
        writer.array([0] * rows_a_topic, writer.int32)
        writer.tags()

    def write_group(group: str) -> None:
        writer.string(group)
        writer.array(names, write_topic)
        writer.tags()

    writer.array([group_id], write_group)
    writer.int8(0)  # need not be stable
    writer.tags()
    return writer
