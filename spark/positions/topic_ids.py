"""Ids of topics, noted while a query was well: the only way to see later that a topic was deleted and created again.

A checkpoint names topics, and a topic of the same name may be another one by now, with more records than the checkpoint
has read. So the ids stand in a file of ours in the checkpoint, `headgate-topics.json`. Spark ignores the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headgate.protocol.spark.checkpoint_files import MalformedCheckpoint, decode
from headgate.spark.positions.checkpoint import Folder
from headgate.storage.disk.layout import format_id, parse_id
from headgate.tools.client.cluster import Cluster
from headgate.tools.output import UsageError

FILE: Final = "headgate-topics.json"
FORMAT: Final = "headgate topic ids"
VERSION: Final = 1
NO_ID: Final = bytes(16)


class TopicIds(NamedTuple):
    """Ids by topic, 16 bytes each, and the cluster that they belong to."""

    ids: Mapping[str, bytes]
    cluster_id: str | None = None


def fetch(cluster: Cluster, topics: Iterable[str]) -> TopicIds:
    """The present ids. A topic is left out if it does not exist, or has no id: before Kafka 2.8. Raises ClientError."""
    rows = cluster.topics(sorted(set(topics)))
    ids = {name: row.topic_id for name, row in rows.items() if not row.error_code and row.topic_id != NO_ID}
    return TopicIds(ids, cluster.routing.cluster_id)


def read(folder: Folder) -> TopicIds:
    """The noted ids; none if nothing is noted. Raises UsageError."""
    try:
        content = folder.read(FILE)
        return TopicIds({}) if content is None else parse(decode(content))
    except (MalformedCheckpoint, UsageError) as error:
        raise UsageError(f"{FILE}: {error}; remove the file, and note the ids again") from None
    except OSError as error:
        raise UsageError(f"cannot read {FILE}: {error.strerror or error}") from None


def write(folder: Folder, noted: TopicIds) -> None:
    """Note the ids. Raises UsageError."""
    try:
        folder.write(FILE, build(noted).encode())
    except OSError as error:
        raise UsageError(f"cannot write {FILE}: {error.strerror or error}") from None


def build(noted: TopicIds) -> str:
    """The content of the file."""
    ids = {name: format_id(topic_id) for name, topic_id in sorted(noted.ids.items())}
    return json.dumps({"format": FORMAT, "version": VERSION, "cluster_id": noted.cluster_id, "topics": ids}, indent=2)


def parse(text: str) -> TopicIds:
    """The ids of a file. Raises UsageError."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is no JSON: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != VERSION:
        raise UsageError(f'"format" and "version" are not "{FORMAT}" and {VERSION}')
    topics, cluster_id = data.get("topics"), data.get("cluster_id")
    if not isinstance(topics, dict):
        raise UsageError("there are no topics")
    ids = {}
    for name, text_of_id in topics.items():
        try:
            ids[name] = parse_id(text_of_id)
        except (ValueError, TypeError):
            raise UsageError(f"topic {name!r} has the id {text_of_id!r}") from None
    return TopicIds(ids, cluster_id if isinstance(cluster_id, str) else None)


def added(noted: TopicIds, present: TopicIds) -> TopicIds | None:
    """The notes with the topics that were not noted yet; None if nothing is new. A noted id is never replaced."""
    new = {name: topic_id for name, topic_id in present.ids.items() if name not in noted.ids}
    return TopicIds({**noted.ids, **new}, noted.cluster_id or present.cluster_id) if new else None
