"""The topics that a broker's copy of the metadata log knows: Headgate's own log, or Apache Kafka's of KRaft.

Directories of deleted topics may outlive a crash, and a broker may have only a part of a topic's partitions. Without
such a log (Kafka with ZooKeeper, a `metadata.log.dir` elsewhere) only the directories show the topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headgate.protocol.errors import MalformedRequest
from headgate.protocol.internal.metadata import PartitionRecord, RemoveTopicRecord, TopicRecord, decode_known
from headgate.storage.directory.kafka_directory import CLUSTER_METADATA, OWN_METADATA, metadata_values
from headgate.storage.errors import BadFile
from headgate.storage.files import Files

_LOGS = (OWN_METADATA, f"{CLUSTER_METADATA}-0")


class ClusterTopic(NamedTuple):
    """A topic in the metadata."""

    topic_id: bytes
    partitions: set[int]


def read_topics(disk: Files, paths: Sequence[str]) -> dict[str, ClusterTopic] | None:
    """The topics by name; None without a readable metadata log. The end of a log that a broker writes may be cut."""
    logs = (f"{path}/{name}" for path in paths for name in _LOGS)
    directory = next((log for log in logs if disk.exists(log)), None)
    if directory is None:
        return None
    names, partitions = dict[bytes, str](), dict[bytes, set[int]]()
    try:
        for value in metadata_values(disk, directory):
            record = decode_known(value)
            if isinstance(record, TopicRecord):
                names[record.topic_id] = record.name
                partitions[record.topic_id] = set()
            elif isinstance(record, PartitionRecord):
                partitions.get(record.topic_id, set()).add(record.partition_id)
            elif isinstance(record, RemoveTopicRecord):
                names.pop(record.topic_id, None)
    except BadFile:
        if not names:
            return None
    except (MalformedRequest, OSError):
        return None
    return {name: ClusterTopic(topic_id, partitions[topic_id]) for topic_id, name in names.items()}
