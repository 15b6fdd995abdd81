"""One group: its members with their partitions, and its offset and lag in each partition."""

from __future__ import annotations

from typing import Any, Final

from headgate.protocol.topic_partition import by_topic
from headgate.tools.arguments import now_ms
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.groups.groups import group_row
from headgate.tools.console.resources.groups.lag_rows import lag_row, totals
from headgate.tools.console.resources.missing_parts import MissingParts
from headgate.tools.groups.lag import measure_lag
from headgate.tools.groups.members import GroupDescription, MemberDescription, list_groups
from headgate.tools.groups.offsets import READ_COMMITTED, READ_UNCOMMITTED
from headgate.tools.groups.selection import TYPES_WITH_OFFSETS, select_groups

_ISOLATION_LEVELS: Final = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


def group(cluster: Cluster, parameters: Parameters) -> dict[str, Any]:
    """The group `?group=name`. Raises ClientError, BadParameter.

    With `isolation_level=read_committed` a partition ends at its last stable offset.
    """
    name = parameters.text("group")
    isolation_level = parameters.choice("isolation_level", tuple(_ISOLATION_LEVELS))
    found, failures, _ = select_groups(cluster, [name])
    if name not in found:
        return _of_another_type(cluster, name, failures)
    missing = MissingParts()
    rows, failures = measure_lag(cluster, found, now_ms, _ISOLATION_LEVELS[isolation_level])
    missing.note_sentences("lag", failures)
    return {
        **_head(found[name]),
        "measured_ms": now_ms(),
        "isolation_level": isolation_level,
        "members": [member_row(member) for member in sorted(found[name].members)],
        **totals(rows),
        "partitions": [lag_row(row) for row in rows],
        "missing": missing,
    }


def _head(group: GroupDescription) -> dict[str, Any]:
    return {
        "group": group.name,
        "type": group.type,
        "state": group.state,
        "protocol": group.protocol,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator or None,
    }


def member_row(member: MemberDescription) -> dict[str, Any]:
    """A member; `partitions` are the numbers by topic. `epoch` is that of KIP-848, null in a classic group."""
    topics = by_topic(sorted(member.partitions))
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "partitions": {topic: [partition.number for partition in rows] for topic, rows in topics.items()},
    }


def _of_another_type(cluster: Cluster, name: str, failures: list[str]) -> dict[str, Any]:
    """A group that is listed, and has no offsets of a classic or consumer group. Raises ClientError for any other."""
    listed = [row for row in list_groups(cluster)[0] if row.name == name]
    if not listed or listed[0].type.lower() in TYPES_WITH_OFFSETS:
        raise ClientError("; ".join(failures) or f"there is no group {name}")
    _, kind, state, protocol, coordinator, _ = group_row(listed[0])
    reason = f"a {kind} group has no committed offsets; kafka-{kind}-groups.sh of Kafka 4.1 describes it"
    return {
        "group": name,
        "type": kind,
        "state": state,
        "protocol": protocol,
        "assignor": None,
        "coordinator": f"broker {coordinator}",
        "measured_ms": now_ms(),
        "isolation_level": None,
        "members": [],
        **totals([]),
        "partitions": [],
        "missing": MissingParts(members=reason, lag=reason),
    }
