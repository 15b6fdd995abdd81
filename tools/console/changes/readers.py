"""The groups that have committed offsets: who reads a topic, by what is stored, also while no member runs."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.tools.client.cluster import Cluster
from headgate.tools.groups.members import list_groups
from headgate.tools.groups.offsets import CommittedOffsets
from headgate.tools.groups.selection import TYPES_WITH_OFFSETS
from headgate.tools.groups.stores import fetch_offsets


def committed_offsets(cluster: Cluster) -> dict[str, CommittedOffsets]:
    """By group; a group or a broker that refuses is left out. Raises ClientError."""
    listed, _ = list_groups(cluster)
    committed, _ = fetch_offsets(cluster, {row.name: row for row in listed if row.type.lower() in TYPES_WITH_OFFSETS})
    return committed


def readers_of(topics: Iterable[str], committed: dict[str, CommittedOffsets]) -> dict[str, list[str]]:
    """The groups with an offset in each topic that has any, by topic; both in the order of names."""
    groups: dict[str, set[str]] = {topic: set() for topic in sorted(topics)}
    for group, offsets in committed.items():
        for partition in offsets:
            if partition.topic in groups:
                groups[partition.topic].add(group)
    return {topic: sorted(names) for topic, names in groups.items() if names}
