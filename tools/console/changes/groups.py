"""Delete groups with all their offsets, or the offsets that a group has of topics."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.protocol.messages.delete_groups import DeleteGroupsRequest
from headgate.protocol.messages.offset_delete import OffsetDeleteRequest
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.arguments import parse_topics
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.changes.plan import (
    ChangeLine,
    ChangePlan,
    ChangeResult,
    confirmation_of,
    counted,
    named_or_counted,
)
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.groups.deletion import delete_selected, delete_whole_groups, select_offsets
from headgate.tools.groups.members import ZOOKEEPER, GroupDescription, list_groups
from headgate.tools.groups.offsets import CommittedOffsets, fetch_committed
from headgate.tools.groups.selection import TYPES_WITH_OFFSETS, group_failures, select_groups
from headgate.tools.groups.stores import fetch_offsets

MOST_GROUPS: Final = 200
"""Of one change."""
_OFFSET_DELETE, _DELETE_GROUPS = "OffsetDelete, which Kafka has since 2.4", "DeleteGroups, which Kafka has since 1.1"


def group_names(parameters: Parameters) -> list[str]:
    """The groups `?group=a&group=b`. Raises BadParameter."""
    names = parameters.texts("group", MOST_GROUPS)
    if not all(names) or not names:
        raise BadParameter("the parameter group is missing: name the groups to change")
    return names


def other_types(cluster: Cluster, names: Iterable[str]) -> dict[str, str]:
    """The types of the groups that are neither classic nor consumer groups."""
    wanted = set(names)
    usual = tuple(kind for kind in TYPES_WITH_OFFSETS if kind != ZOOKEEPER)
    listed = {row.name: row.type.lower() for row in list_groups(cluster)[0] if row.name in wanted}
    return {name: kind for name, kind in listed.items() if kind not in usual}


def other_store_problems(cluster: Cluster, names: Iterable[str]) -> dict[str, str]:
    """A sentence for each group whose offsets are not with its coordinator."""
    return {name: _other_store(name, kind) for name, kind in other_types(cluster, names).items()}


def _other_store(name: str, kind: str) -> str:
    if kind == ZOOKEEPER:
        return (
            f"group {name} has its offsets in ZooKeeper alone; `headgate groups migrate start {name} --execute` "
            "joins the stores, and the console changes both then"
        )
    return f"group {name} is a {kind} group; Kafka's kafka-{kind}-groups.sh changes its offsets"


def _describe(cluster: Cluster, names: list[str]) -> tuple[dict[str, GroupDescription], list[str]]:
    """The groups, and sentences about those that are not there."""
    groups, problems, _ = select_groups(cluster, names) if names else ({}, [], [])  # no name stands for all groups
    return groups, problems


def delete_offsets(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Delete the offsets that the group has of `?topic=a&topic=b:0,2`. Raises BadParameter, UsageError, ClientError."""
    name, texts = parameters.text("group"), parameters.texts("topic")
    topics = parse_topics(texts)
    if not topics:
        raise BadParameter("the parameter topic is missing: name the topics whose offsets are deleted")
    foreign = other_store_problems(cluster, [name])
    groups, problems = _describe(cluster, [] if foreign else [name])
    problems += foreign.values()
    found, failed = fetch_committed(cluster, groups)
    problems += group_failures(failed)
    offsets = found.get(name, {})
    wanted, missing = select_offsets(name, offsets, topics) if name in found else ([], [])
    problems += missing
    warnings: list[str] = []
    if name in groups:
        problems += _unserved(cluster, [name], OffsetDeleteRequest, _OFFSET_DELETE)
        in_use, warnings = _subscribed(groups[name], topics)
        problems += in_use
    return ChangePlan(
        f"Delete {counted(len(wanted), 'offset')} of the group {name};"
        " auto.offset.reset decides where its consumers begin then",
        [_lost(str(partition), offsets, partition) for partition in wanted],
        lambda cluster: _delete_offsets(cluster, groups[name], wanted),
        problems=problems,
        warnings=warnings,
        command=shlex.join(
            ["headgate", "groups", "delete", name, *(each for text in texts for each in ("--topic", text))]
        ),
    )


def _subscribed(group: GroupDescription, topics: Mapping[str, list[int] | None]) -> tuple[list[str], list[str]]:
    """Problems and warnings: the broker refuses topics that members of the group subscribe to."""
    if not group.is_active:
        return [], []
    owned = sorted({partition.topic for member in group.members for partition in member.partitions} & set(topics))
    if owned:
        reads = f"group {group.name} is {group.state}, and its members read {', '.join(owned)}"
        return [f"{reads}: {group.member_names()}; stop them first"], []
    return [], [f"the group {group.name} is {group.state}: the broker refuses topics that a member subscribes to"]


def _delete_offsets(cluster: Cluster, group: GroupDescription, partitions: list[TopicPartition]) -> ChangeResult:
    gone, failures = delete_selected(cluster, group, partitions)
    verb = "is" if len(gone) == 1 else "are"
    return ChangeResult(
        [f"{counted(len(gone), 'offset')} of the group {group.name} {verb} deleted"] if gone else [], failures
    )


def delete_groups(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Delete groups without members; a single one is confirmed by its name. Raises BadParameter, ClientError."""
    names = group_names(parameters)
    kinds = {name: kind for name, kind in other_types(cluster, names).items() if kind != ZOOKEEPER}
    groups, problems = _describe(cluster, [name for name in names if name not in kinds])
    in_zookeeper = [name for name, group in groups.items() if group.type == ZOOKEEPER]
    problems += [f"group {name} is in ZooKeeper alone, where no request deletes it" for name in in_zookeeper]
    problems += [
        f"group {group.name} is {group.state}, and has members: {group.member_names()}; stop them first"
        for group in groups.values()
        if group.is_active
    ]
    found, failed = fetch_offsets(cluster, groups)
    problems += [*group_failures(failed), *_unserved(cluster, names, DeleteGroupsRequest, _DELETE_GROUPS)]
    lines = [line for name in names for line in _lost_of_group(name, found.get(name, {}), kinds, len(names) > 1)]
    total = sum(map(len, found.values()))
    return ChangePlan(
        f"Delete {named_or_counted(names, 'group')} with {counted(total, 'offset')}",
        lines,
        lambda cluster: _delete_groups(cluster, names),
        problems=problems,
        command=shlex.join(["headgate", "groups", "delete", *names]) if not (kinds or in_zookeeper) else "",
        confirmation=confirmation_of(names, "group"),
    )


def _lost_of_group(
    name: str, offsets: CommittedOffsets, kinds: Mapping[str, str], has_several: bool
) -> Iterable[ChangeLine]:
    if name in kinds:
        yield ChangeLine(name, f"{kinds[name]} group", None, "its positions are lost")
    elif not offsets:
        yield ChangeLine(name, "no offsets", None)
    for partition in sorted(offsets):
        yield _lost(f"{name} {partition}" if has_several else str(partition), offsets, partition)


def _delete_groups(cluster: Cluster, names: list[str]) -> ChangeResult:
    gone, failures = delete_whole_groups(cluster, names)
    return ChangeResult([f"The group {name} is deleted" for name in gone], failures, {"deleted": gone})


def _lost(subject: str, offsets: CommittedOffsets, partition: TopicPartition) -> ChangeLine:
    return ChangeLine(subject, f"{offsets[partition].offset:,}", None, offsets[partition].metadata)


def _unserved(cluster: Cluster, names: list[str], request: Any, needed: str) -> list[str]:
    """A sentence if a coordinator does not serve the request."""
    answers, _ = cluster.ask_coordinators(
        names, lambda client, keys: [(key, (client.address, client.serves(request))) for key in keys]
    )
    lacking = sorted({address for address, is_served in answers.values() if not is_served})
    return [f"the broker at {address} has no {needed}" for address in lacking]
