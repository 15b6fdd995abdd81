"""Offsets from one location to another: planned first, then applied; backwards only with `--backwards`.

Into a group or ZooKeeper the plan is made as by `headgate groups reset`: a group with members is refused, and one
problem stops all changes. Into Spark the result is a text for `startingOffsets`: a checkpoint is never forged, as
Spark alone knows the state that belongs to its offsets.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from headgate.protocol.client.failure import Failure
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions.locations import ZOOKEEPER, LocationOffsets, OffsetLocation
from headgate.spark.positions.topic_ids import NO_ID
from headgate.tools.arguments import now_ms
from headgate.tools.client.cluster import Cluster, group_by_failure
from headgate.tools.groups import export_format
from headgate.tools.groups.members import GroupDescription
from headgate.tools.groups.offsets import CommittedOffsets, PartitionEnds, commit_offsets, fetch_committed, list_ends
from headgate.tools.groups.reset import OffsetChange, ResetPlan, apply_changes, plan_reset
from headgate.tools.groups.stores import commit_zookeeper, fetch_zookeeper
from headgate.tools.output import UsageError

EARLIEST: Final = -2
"""The start of a partition in `startingOffsets`."""


def refuse_target(kind: str) -> UsageError | None:
    """The reason why offsets cannot be written to a kind of location."""
    if kind == "checkpoint":
        return UsageError(
            "a checkpoint is never forged, as its state belongs to its offsets; write `spark:` for startingOffsets, and"
            " start the query with a new checkpoint"
        )
    if kind in ("table", "time"):
        return UsageError(f"offsets cannot be written to {kind}:; write group:, zookeeper:, file: or spark:")
    return None


def plan(
    cluster: Cluster, source: LocationOffsets, target: OffsetLocation, *, allows_backwards: bool = False
) -> ResetPlan:
    """The changes of a group in the coordinator or in ZooKeeper. Nothing is changed."""
    offsets = export_format.drop_foreign_epochs(cluster, {target.name: source.offsets}, source.cluster_id)
    fetch = _fetch_zookeeper if target.kind == ZOOKEEPER else fetch_committed
    found = plan_reset(cluster, offsets, fetch)
    problems = [*found.problems, *made_anew(cluster, source)]
    problems += _problems(found.changes, source.offsets, allows_backwards=allows_backwards)
    return ResetPlan(found.changes, problems)


def made_anew(cluster: Cluster, source: LocationOffsets) -> list[str]:
    """Sentences about topics that were deleted and created again: the offsets belong to the deleted topic.

    A noted id shows that, or a leader epoch that the partition has not reached: a new topic begins at epoch 0.
    """
    topics = cluster.topics({partition.topic for partition in source.offsets})
    present = {name: topic.topic_id for name, topic in topics.items() if topic.topic_id != NO_ID}
    anew = {name for name, topic_id in source.topic_ids.items() if present.get(name, topic_id) != topic_id}
    if source.cluster_id is not None and source.cluster_id == cluster.routing.cluster_id:
        epochs = {
            TopicPartition(name, row.partition_index): row.leader_epoch
            for name, topic in topics.items()
            for row in topic.partitions
            if row.leader_epoch >= 0
        }
        anew |= {
            partition.topic
            for partition, at in source.offsets.items()
            if at.leader_epoch > epochs.get(partition, at.leader_epoch)
        }
    return [
        f"{name}: the topic was made anew: its offsets belong to the topic that was deleted; leave the topic out with "
        "--topic, or begin with time:earliest"
        for name in sorted(anew & topics.keys())
    ]


def _fetch_zookeeper(cluster: Cluster, groups: Iterable[str]) -> tuple[dict[str, CommittedOffsets], dict[str, Failure]]:
    found, failed = fetch_zookeeper(cluster, groups)
    return {name: group.offsets for name, group in found.items()}, failed


def _problems(changes: Iterable[OffsetChange], wanted: CommittedOffsets, *, allows_backwards: bool) -> list[str]:
    """Sentences about changes that would read again what was read, or that belong to another log."""
    problems = []
    for change in changes:
        offset = wanted[change.partition].offset
        if offset > change.end:
            problems.append(
                f"{change.partition}: offset {offset} is beyond the end, {change.end}: it belongs to another cluster,"
                " or to a topic that was deleted"
            )
        elif change.before is not None and change.after.offset < change.before.offset and not allows_backwards:
            problems.append(
                f"{change.partition}: from {change.before.offset} back to {change.after.offset}: "
                f"{change.before.offset - change.after.offset} offsets would be read again; --backwards allows it"
            )
    return problems


def apply(
    cluster: Cluster, changes: list[OffsetChange], target: OffsetLocation
) -> tuple[list[OffsetChange], list[str]]:
    """Commit the changes. Returns the applied ones and sentences about the others."""
    return apply_changes(cluster, changes, commit_zookeeper if target.kind == ZOOKEEPER else commit_offsets)


# --------------------------------------------------------------------------------------------------------------- Spark


def starting_offsets(cluster: Cluster, source: LocationOffsets) -> tuple[str, list[str], list[str]]:
    """The text for `startingOffsets` with every partition of the topics, problems, and notes.

    Spark refuses a text that leaves a partition out. A partition without an offset begins at its start, as in a query
    that meets a new partition.
    """
    offsets = source.offsets
    topics = cluster.topics({partition.topic for partition in offsets})
    known = {
        TopicPartition(name, row.partition_index)
        for name, topic in topics.items()
        if not topic.error_code
        for row in topic.partitions
    }
    ends = list_ends(cluster, {*known, *offsets})
    problems = [f"{names}: {why.text}" for names, why in group_by_failure(ends.failed)]
    found, more, notes = _every_partition(offsets, known, ends)
    return format_offsets(found), [*problems, *made_anew(cluster, source), *more], notes


def _every_partition(
    offsets: CommittedOffsets, known: Iterable[TopicPartition], ends: PartitionEnds
) -> tuple[dict[TopicPartition, int], list[str], list[str]]:
    found, problems, notes = {}, [], []
    for partition in sorted({*known, *offsets}):
        if partition not in ends.starts:
            continue
        start, end = ends.starts[partition], ends.ends[partition]
        offset = offsets[partition].offset if partition in offsets else EARLIEST
        if offset > end:
            problems.append(f"{partition}: offset {offset} is beyond the end, {end}: the query would fail")
        elif offset == EARLIEST:
            notes.append(f"{partition}: nothing was read; it begins at its start, {start}")
        elif offset < start:
            notes.append(f"{partition}: {start - offset} unread offsets are gone; it begins at its start, {start}")
            offset = start
        found[partition] = offset
    return found, problems, notes


def format_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Spark's JSON of offsets."""
    topics: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for partition, offset in sorted(offsets.items()):
        topics[partition.topic][str(partition.number)] = offset
    return json.dumps(topics)


# ---------------------------------------------------------------------------------------------------------------- file


def build_file(group: str, source: LocationOffsets) -> str:
    """The document of `headgate groups export` with the offsets as a group's."""
    groups = {group: GroupDescription(group, "", "", "", "", "", [])}
    document = export_format.build_document(groups, {group: source.offsets}, source.cluster_id, now_ms())
    return json.dumps(document, indent=2)


def write_file(path: str, text: str) -> None:
    """Write a new file as a whole. Raises UsageError, also if the file exists."""
    file, draft = Path(path), Path(f"{path}.new")
    if file.exists():
        raise UsageError(f"{path} exists; name another file, or remove it")
    try:
        draft.write_text(text + "\n", encoding="utf-8")
        draft.replace(file)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error}") from None
