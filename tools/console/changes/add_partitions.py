"""Add partitions to a topic; no broker can remove them again."""

from __future__ import annotations

from typing import Final

from headgate.tools.client.cluster import Cluster
from headgate.tools.configs import describe_topic_configs
from headgate.tools.console.changes.plan import ChangeLine, ChangePlan, ChangeResult, counted
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.topics.topic import find_topic
from headgate.tools.topic_changes import add_partitions as request_partitions

_MOST_PARTITIONS: Final = 100_000
_KEYS: Final = (
    "Keys change their partition: records of a key that are written from now on may be in another partition than its"
    " earlier ones, and readers see no order between them"
)
_FOREVER: Final = "No broker removes partitions: only a new topic has fewer"
_COMPACTED: Final = (
    "The topic is compacted: the last value of a key stays in its former partition beside the newer one in another"
)
_COORDINATORS: Final = (
    "{} finds its entries by the number of partitions: with another number the brokers lose sight of them"
)
_READ_BY_COORDINATORS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")


def add_partitions(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Give the topic `topic` in all `partitions` partitions. Raises BadParameter, ClientError."""
    name = parameters.text("topic")
    count = parameters.number("partitions", least=1, most=_MOST_PARTITIONS)
    present = len(find_topic(cluster, name).partitions)
    problems, added = [], count - present
    if name in _READ_BY_COORDINATORS:
        problems = [_COORDINATORS.format(name)]
    elif added <= 0:
        problems = [f"{name} has {present} partitions already, and no broker removes any; choose more than {present}"]
    elif (failure := request_partitions(cluster, name, count, validate_only=True)) is not None:
        problems = [failure.text]
    return ChangePlan(
        f"Add {counted(added, 'partition')} to the topic {name}"
        if added > 0
        else f"Add partitions to the topic {name}",
        [ChangeLine(f"partitions of {name}", f"{present:,}", f"{count:,}")],
        lambda cluster: _add(cluster, name, count),
        problems,
        [_KEYS, *([_COMPACTED] if _is_compacted(cluster, name) else []), _FOREVER],
    )


def _is_compacted(cluster: Cluster, topic: str) -> bool:
    configs, _ = describe_topic_configs(cluster, [topic])
    return any(row.name == "cleanup.policy" and "compact" in (row.value or "") for row in configs.get(topic, []))


def _add(cluster: Cluster, topic: str, count: int) -> ChangeResult:
    failure = request_partitions(cluster, topic, count)
    if failure is not None:
        return ChangeResult([], [f"{topic} has no further partitions: {failure.text}"])
    return ChangeResult([f"The topic {topic} has {count:,} partitions"])
