"""Deletion of groups, or of their offsets of topics, with a sentence for each refusal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.cluster import Cluster, group_by_failure
from headgate.tools.groups.members import GroupDescription, delete_groups
from headgate.tools.groups.offsets import CommittedOffsets, delete_offsets


def is_of_topics(partition: TopicPartition, topics: Mapping[str, list[int] | None]) -> bool:
    """True for a partition of `parse_topics`."""
    numbers = topics.get(partition.topic, [])
    return numbers is None or partition.number in numbers


def select_offsets(
    group: str, offsets: CommittedOffsets, topics: Mapping[str, list[int] | None]
) -> tuple[list[TopicPartition], list[str]]:
    """The partitions of the topics that the group has committed, and a sentence for each topic without any."""
    wanted = sorted(partition for partition in offsets if is_of_topics(partition, topics))
    seen = {partition.topic for partition in wanted}
    return wanted, [
        f"group {group} has committed nothing for {topic}{_numbered(numbers)}"
        for topic, numbers in topics.items()
        if topic not in seen
    ]


def _numbered(numbers: list[int] | None) -> str:
    return "" if numbers is None else ":" + ",".join(map(str, numbers))


def delete_selected(
    cluster: Cluster, group: GroupDescription, partitions: list[TopicPartition]
) -> tuple[list[TopicPartition], list[str]]:
    """Delete the group's offsets of these partitions. Returns the deleted ones, and sentences about the others."""
    refused = delete_offsets(cluster, group.name, partitions) if partitions else {}
    members = f": {group.member_names()}; stop them first" if group.is_active else ""
    failures = [
        f"group {group.name}: not deleted were the offsets of {names}: {why.text}{members}"
        for names, why in group_by_failure(refused)
    ]
    return [partition for partition in partitions if partition not in refused], failures


def active_group_sentence(group: GroupDescription) -> str:
    """Why a group with members is not deleted."""
    return f"group {group.name} was not deleted, it is {group.state}: {group.member_names()}; stop them first"


def delete_whole_groups(cluster: Cluster, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Delete groups with all their offsets. Returns the deleted ones, and sentences about the others.

    The broker refuses a group that a member joins before the delete.
    """
    gone, failed = delete_groups(cluster, names)
    return gone, [f"group {name} was not deleted: {why.text}" for name, why in failed.items()]
