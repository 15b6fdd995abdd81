"""The groups that a question is about: the named ones, or all with committed offsets; brokers of any age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.tools.client.cluster import Cluster
from headgate.tools.groups.members import CLASSIC, CONSUMER, ZOOKEEPER, GroupDescription, describe_groups, list_groups
from headgate.tools.groups.offsets import fetch_committed

TYPES_WITH_OFFSETS: Final = (CLASSIC, CONSUMER, ZOOKEEPER, "")
NO_GROUPS: Final = "there are no groups yet"


def select_groups(cluster: Cluster, names: Sequence[str]) -> tuple[dict[str, GroupDescription], list[str], list[str]]:
    """The named groups, by default all groups of a type with committed offsets; failures; notes.

    Without names, a group deleted since the listing is no failure. Old brokers report no type, so no type is classic.
    """
    failures: list[str] = []
    wanted, others = list(names), []
    if not names:
        listed, failures = list_groups(cluster)
        wanted = [row.name for row in listed if row.type.lower() in TYPES_WITH_OFFSETS]
        others = sorted({row.type for row in listed if row.type.lower() not in TYPES_WITH_OFFSETS})
    groups, failed = describe_groups(cluster, wanted)
    missing = [name for name, why in failed.items() if names and why.code == ErrorCode.GROUP_ID_NOT_FOUND]
    for name, offsets in fetch_committed(cluster, missing)[0].items() if missing else ():
        if offsets:  # old brokers do not describe a group that has offsets only
            groups[name] = GroupDescription(name, "Empty", CLASSIC, "", "", "", [])
            del failed[name]
    failures += group_failures(failed, accept_missing=not names)
    notes = [f"groups of the type {kind} are left out" for kind in others]
    return groups, failures, notes if groups or failures or names else [*notes, NO_GROUPS]


def group_failures(failed: Mapping[str, Failure], *, accept_missing: bool = False) -> list[str]:
    """A sentence for each failed group; with `accept_missing`, none for a group that does not exist."""
    return [
        f"group {name}: {why.text}"
        for name, why in failed.items()
        if not (accept_missing and why.code == ErrorCode.GROUP_ID_NOT_FOUND)
    ]
