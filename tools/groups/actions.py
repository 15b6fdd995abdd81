"""One function for each command: each takes the options and returns rows, failures, notes and an exit code."""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from headgate.protocol.topic_partition import TopicPartition, by_topic
from headgate.tools.arguments import now_ms
from headgate.tools.client.cluster import Cluster, select_partitions
from headgate.tools.groups import arguments, export_format, zookeeper_text
from headgate.tools.groups.arguments import Shift
from headgate.tools.groups.deletion import (
    active_group_sentence,
    delete_selected,
    delete_whole_groups,
    is_of_topics,
    select_offsets,
)
from headgate.tools.groups.lag import PartitionLag, measure_lag
from headgate.tools.groups.members import (
    GroupDescription,
    complete_states,
    describe_groups,
    list_groups,
)
from headgate.tools.groups.offsets import CommittedOffsets, fetch_committed
from headgate.tools.groups.reset import OffsetChange, ResetTarget, ResetTargets, apply_changes, plan_reset
from headgate.tools.groups.selection import NO_GROUPS, group_failures, select_groups
from headgate.tools.groups.stores import fetch_stored_offsets
from headgate.tools.output import DRY_RUN, CommandResult, Row, UsageError

_NOTHING_CHANGED = "nothing is changed"


# -------------------------------------------------------------------------------------------------------- read commands


def run_list(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`list`: all groups, filtered here because old brokers do not filter."""
    listed, failures = list_groups(cluster)
    listed, more = complete_states(cluster, listed)
    filters = (options.state, options.type, options.protocol)
    rows = [
        {
            "group": row.name,
            "state": row.state,
            "type": row.type,
            "protocol": row.protocol,
            "coordinator": row.coordinator,
        }
        for row in listed
        if all(map(_passes, (row.state, row.type, row.protocol), filters))
    ]
    return CommandResult(rows, failures + more, [] if listed else [NO_GROUPS])


def _passes(value: str, allowed: Sequence[str]) -> bool:
    return not allowed or value.lower() in allowed


def run_describe(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`describe`: members of groups, and their lag in each partition."""
    groups, failures, notes = select_groups(cluster, options.groups)
    found, more = measure_lag(cluster, groups, now_ms, options.isolation_level)
    rows_of: defaultdict[str, list[PartitionLag]] = defaultdict(list)
    for row in found:
        rows_of[row.group].append(row)
    rows = [_description(group, rows_of[name]) for name, group in sorted(groups.items())]
    return CommandResult(rows, failures + more, notes)


def _description(group: GroupDescription, rows: Sequence[PartitionLag]) -> Row:
    members = [
        {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "host": member.host,
            "epoch": member.epoch,
            "partitions": {
                topic: sorted(partition.number for partition in rows)
                for topic, rows in by_topic(sorted(member.partitions)).items()
            },
        }
        for member in sorted(group.members)
    ]
    return {
        "group": group.name,
        "state": group.state,
        "type": group.type,
        "protocol": group.protocol,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "members": members,
        "partitions": [_lag_row(row) for row in rows],
    }


def _lag_row(row: PartitionLag) -> Row:
    owner = row.owner
    return {
        "topic": row.partition.topic,
        "partition": row.partition.number,
        "committed": row.committed.offset if row.committed else None,
        "start": row.start,
        "end": row.end,
        "lag": row.records,
        "lag_seconds": row.seconds,
        "status": row.status,
        "leader": row.leader,
        "metadata": row.committed.metadata if row.committed else None,
        "member_id": owner.member_id if owner else None,
        "client_id": owner.client_id if owner else None,
        "host": owner.host if owner else None,
    }


def run_lag(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`lag`: the lag of every group in every partition, compared with the limits."""
    groups, failures, notes = select_groups(cluster, options.groups)
    found, more = measure_lag(cluster, groups, now_ms, options.isolation_level)
    if options.topic:
        found = [row for row in found if is_of_topics(row.partition, options.topic)]
    behind, unclear = check_lag_limits(found, options.fail_above, options.fail_above_seconds)
    rows = [{"group": row.group, **_lag_row(row)} for row in found]
    return CommandResult(rows, [*failures, *more, *unclear], [*behind, *notes], is_alarm=bool(behind))


def check_lag_limits(
    rows: Iterable[PartitionLag], most_records: int | None, most_seconds: float | None
) -> tuple[list[str], list[str]]:
    """Sentences about lags above the limits, and sentences about lags of unknown age.

    An offset out of range counts as above every limit, because records may be lost.
    """
    behind, unclear = [], []
    has_limit = most_records is not None or most_seconds is not None
    for row in rows if has_limit else ():
        name = f"{row.group} in {row.partition}"
        if row.is_out_of_range and row.committed:
            behind.append(f"{name}: offset {row.committed.offset} is {row.status} ({row.start} to {row.end})")
        elif most_records is not None and row.records is not None and row.records > most_records:
            behind.append(f"{name}: {row.records} records behind")
        elif most_seconds is not None and row.seconds is not None and row.seconds > most_seconds:
            behind.append(f"{name}: {row.seconds:.1f} s behind")
        elif most_seconds is not None and row.records is not None and row.seconds is None:
            unclear.append(f"{name}: the age of the oldest unread record is not known")
    return behind, unclear


# ------------------------------------------------------------------------------------------------------ change commands


def run_reset(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`reset`: change offsets of one group, in the partitions of a file, of topics, or with a committed offset."""
    if options.from_file:
        text = _read(options.from_file)
        targets: Mapping[TopicPartition, ResetTarget] = _from_csv(options.from_file, text, options.group)
        return _change(cluster, {options.group: targets}, options)
    target: ResetTarget = Shift(options.by) if options.by is not None else options.to
    partitions, failures = _partitions(cluster, options)
    if failures:
        return CommandResult(failures=[*failures, _NOTHING_CHANGED])
    return _change(cluster, {options.group: dict.fromkeys(partitions, target)}, options)


def _from_csv(path: str, text: str, group: str) -> Mapping[TopicPartition, ResetTarget]:
    try:
        return arguments.parse_csv(text.splitlines(), group)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _partitions(cluster: Cluster, options: argparse.Namespace) -> tuple[list[TopicPartition], list[str]]:
    if options.all_topics:
        found, failed = fetch_committed(cluster, [options.group])
        failures = group_failures(failed)
        partitions = sorted(found.get(options.group, ()))
        if not partitions and not failures:
            failures = [f"group {options.group} has committed nothing; name the topics: --topic"]
        return partitions, failures
    return select_partitions(cluster, options.topic)  # `plan_reset` reports unknown partitions


def run_import(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`import`: commit the offsets of an export, of all groups or of the named ones."""
    text = _read(options.file)
    cluster_id = None
    try:
        if zookeeper_text.is_zookeeper_text(text):
            found = zookeeper_text.parse_text(text, options.group)
        else:
            found, cluster_id = export_format.parse_document(text, options.group)
    except UsageError as error:
        raise UsageError(f"{options.file}: {error}") from None
    if not found:
        return CommandResult(notes=[f"there are no offsets in {options.file}"])
    return _change(cluster, export_format.drop_foreign_epochs(cluster, found, cluster_id), options)


def _change(cluster: Cluster, targets: ResetTargets, options: argparse.Namespace) -> CommandResult:
    """Apply all changes with `--execute`, or none if there is a problem."""
    plan = plan_reset(cluster, targets)
    if plan.problems:
        return CommandResult(_change_rows(plan.changes), [*plan.problems, _NOTHING_CHANGED])
    if not options.execute:
        return CommandResult(_change_rows(plan.changes), notes=[DRY_RUN])
    applied, failures = apply_changes(cluster, plan.changes)
    return CommandResult(_change_rows(applied), failures)


def _change_rows(changes: Iterable[OffsetChange]) -> list[Row]:
    return [{"group": change.group, **change.row()} for change in changes]


def run_delete(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`delete`: delete groups with all their offsets, or only the offsets of some topics."""
    groups, failed = describe_groups(cluster, options.groups)
    failures = group_failures(failed, accept_missing=options.if_exists)
    found, failed_offsets = fetch_committed(cluster, groups)
    failures += group_failures(failed_offsets)
    known = {name: group for name, group in groups.items() if name in found}
    if options.topic:
        results = [_delete_offsets(cluster, group, found[name], options) for name, group in known.items()]
        rows, more = (
            [row for result in results for row in result.rows],
            [text for result in results for text in result.failures],
        )
    else:
        rows, more = _delete_groups(cluster, known, found, options.dry_run)
    notes = ["this was a dry run, nothing is deleted"] if options.dry_run else []
    return CommandResult(rows, failures + more, notes)


def _delete_groups(
    cluster: Cluster, groups: Mapping[str, GroupDescription], offsets: Mapping[str, CommittedOffsets], is_dry_run: bool
) -> tuple[list[Row], list[str]]:
    """Delete groups without members."""
    active = [name for name, group in groups.items() if group.is_active]
    failures = [active_group_sentence(groups[name]) for name in active]
    gone = [name for name in groups if name not in active]
    if not is_dry_run:
        gone, refused = delete_whole_groups(cluster, gone)
        failures += refused
    rows: list[Row] = [{"group": name, "offsets": len(offsets[name]), "deleted": not is_dry_run} for name in gone]
    return rows, failures


def _delete_offsets(
    cluster: Cluster, group: GroupDescription, offsets: CommittedOffsets, options: argparse.Namespace
) -> CommandResult:
    """Delete the group's offsets of the topics in `--topic`; the topics themselves may be deleted already."""
    gone, missing = select_offsets(group.name, offsets, options.topic)
    failures = [] if options.if_exists else missing
    if not options.dry_run:
        gone, refused = delete_selected(cluster, group, gone)
        failures += refused
    rows = [
        {
            "group": group.name,
            "topic": partition.topic,
            "partition": partition.number,
            "offset": offsets[partition].offset,
            "deleted": not options.dry_run,
        }
        for partition in gone
    ]
    return CommandResult(rows, failures)


def run_export(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`export`: a complete document, or none if anything failed."""
    groups, failures, notes = select_groups(cluster, options.groups)
    offsets, failed, unreadable = fetch_stored_offsets(cluster, groups)
    failures += group_failures(failed)
    if failures:
        return CommandResult(failures=[*failures, "nothing is exported"])
    notes += unreadable
    if options.format == "zookeeper":
        text = zookeeper_text.build_text(offsets)
    else:
        cluster.refresh([])
        text = json.dumps(export_format.build_document(groups, offsets, cluster.routing.cluster_id, now_ms()), indent=2)
    if options.output is None:
        return CommandResult(notes=notes, document=text)
    _write(options.output, text)
    count = sum(map(len, offsets.values()))
    return CommandResult(notes=[*notes, f"{count} offsets of {len(offsets)} groups are in {options.output}"])


def _read(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None


def _write(path: str, text: str) -> None:
    """Write the whole file or nothing: the old file stays until the new one is complete."""
    file, draft = Path(path), Path(f"{path}.new")
    try:
        draft.write_text(text + "\n", encoding="utf-8")
        draft.replace(file)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error}") from None
