"""Groups of every kind: one compact answer with states and types; members and lag for the groups in sight."""

from __future__ import annotations

from typing import Any, Final

from headgate.tools.arguments import now_ms
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.groups.lag_rows import rows_by_group, totals
from headgate.tools.console.resources.missing_parts import MissingParts
from headgate.tools.groups.lag import measure_lag
from headgate.tools.groups.members import CLASSIC, GroupListing, complete_states, list_groups
from headgate.tools.groups.selection import TYPES_WITH_OFFSETS, select_groups

COLUMNS: Final = ("group", "type", "state", "protocol", "coordinator", "has_offsets")
MOST_GROUPS: Final = 100
"""Of one question about groups in sight."""


def groups(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """All groups, sorted by name: a row of COLUMNS for each. Raises ClientError.

    A broker before Kafka 2.6 lists no states: DescribeGroups adds them. One before 3.7 lists no types, as it has
    classic groups only.
    """
    listed, failures = list_groups(cluster)
    missing = MissingParts()
    missing.note_sentences("groups", failures)
    completed, failures = complete_states(cluster, listed)
    missing.note_sentences("states", failures)
    return {"columns": list(COLUMNS), "rows": [group_row(row) for row in completed], "missing": missing}


def group_row(group: GroupListing) -> list[Any]:
    """The values of COLUMNS. Share and streams groups keep their positions elsewhere than in committed offsets."""
    kind = group.type.lower() or CLASSIC
    return [group.name, kind, group.state or None, group.protocol, group.coordinator, kind in TYPES_WITH_OFFSETS]


def group_figures(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """Members, topics and lag of the groups `?group=a&group=b`. Raises ClientError, BadParameter."""
    wanted = parameters.texts("group", MOST_GROUPS)
    missing = MissingParts()
    found, failures, _ = select_groups(cluster, wanted) if wanted else ({}, [], [])
    missing.note_sentences("members", failures)
    lags, failures = measure_lag(cluster, found, now_ms)
    missing.note_sentences("lag", failures)
    by_group = rows_by_group(lags)
    rows = [
        {
            "group": name,
            "state": found[name].state,
            "type": found[name].type,
            "members": len(found[name].members),
            "topics": sorted({row.partition.topic for row in by_group[name]}),
            **totals(by_group[name]),
        }
        for name in sorted(found)
    ]
    return {"measured_ms": now_ms(), "groups": rows, "missing": missing}
