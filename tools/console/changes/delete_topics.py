"""Delete topics with all their records, on any broker that serves DeleteTopics."""

from __future__ import annotations

import shlex
from typing import Final

from headgate.protocol.client.failure import Failure
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import Client
from headgate.tools.client.cluster import Cluster, group_by_failure, shorten_list, sole_answer
from headgate.tools.console.changes.plan import (
    ChangeLine,
    ChangePlan,
    ChangeResult,
    confirmation_of,
    counted,
    named_or_counted,
)
from headgate.tools.console.changes.readers import committed_offsets, readers_of
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.console.resources.topics.topic import find_topic
from headgate.tools.groups.offsets import list_ends
from headgate.tools.topics import request_deletion

_TIMEOUT_S: Final = 10.0
_READ: Final = "groups have offsets in {}, which are deleted too: {}"
_UNCOUNTED: Final = "the records of {} are not counted: {}"
_INTERNAL: Final = "{} belongs to the brokers: what it holds (offsets, transactions, metadata) is lost"


def delete_topics(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Delete the topics `topic`; a single one is confirmed by its name. Raises BadParameter, ClientError."""
    names = parameters.texts("topic")
    if not names:
        raise BadParameter("the parameter topic is missing: name the topics to delete")
    topics = [find_topic(cluster, name) for name in names]
    partitions = [TopicPartition(topic.name or "", row.partition_index) for topic in topics for row in topic.partitions]
    ends = list_ends(cluster, partitions)
    records = dict.fromkeys(names, 0)
    for partition, end in ends.ends.items():
        records[partition.topic] += end - ends.starts[partition]
    uncounted = {partition.topic for partition in ends.failed}
    lines = [
        ChangeLine(
            topic.name or "",
            counted(len(topic.partitions), "partition"),
            None,
            counted(records[topic.name or ""], "record") + (", others not counted" if topic.name in uncounted else ""),
        )
        for topic in topics
    ]
    return ChangePlan(
        f"Delete {named_or_counted(names, 'topic')} with"
        f" {'at least ' if uncounted else ''}{counted(sum(records.values()), 'record')}",
        lines,
        lambda cluster: _delete(cluster, names),
        warnings=[
            *(_INTERNAL.format(topic.name) for topic in topics if topic.is_internal),
            *(_UNCOUNTED.format(lost, why.text) for lost, why in group_by_failure(ends.failed)),
            *_read_by(cluster, names),
        ],
        command=shlex.join(["headgate", "topics", "delete", *names]),
        confirmation=confirmation_of(names, "topic"),
    )


def _read_by(cluster: Cluster, names: list[str]) -> list[str]:
    readers = readers_of(names, committed_offsets(cluster))
    return [_READ.format(topic, shorten_list(groups)) for topic, groups in readers.items()]


def _delete(cluster: Cluster, names: list[str]) -> ChangeResult:
    def ask(client: Client) -> dict[str, Failure]:
        rows = request_deletion(client, names, _TIMEOUT_S)
        return {row.name or "": Failure.of(row.error_code, row.error_message) for row in rows if row.error_code}

    failed = sole_answer(cluster.ask_controller("topics", ask))
    done = [f"The topic {name} is deleted" for name in names if name not in failed]
    return ChangeResult(done, [f"{name}: {why.text}" for name, why in failed.items()])
