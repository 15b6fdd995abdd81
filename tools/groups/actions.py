"""What the commands do: each takes its options and has rows, failures, notes and an exit code to say."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from headgate.protocol.errors import ErrorCode
from headgate.tools.groups import reset as resetting
from headgate.tools.groups import target, transfer
from headgate.tools.groups.cluster import Cluster, TopicPartition, together
from headgate.tools.groups.lag import Place, places
from headgate.tools.groups.members import CLASSIC, CONSUMER, Group, delete_groups, describe, list_groups, with_states
from headgate.tools.groups.offsets import Offsets, by_topic, committed, delete
from headgate.tools.groups.reset import Change, Plan, Wish, Wishes
from headgate.tools.groups.target import Badly, Shift
from headgate.tools.output import Row

DONE, FAILED, BEHIND = 0, 1, 3
_DRY_RUN = "this was a dry run, nothing is changed; --execute does it"
_NOTHING_CHANGED = "nothing is changed"
_WITH_OFFSETS = (CLASSIC, CONSUMER, "")
_NO_GROUPS = "there are no groups yet"


class Said(NamedTuple):
    """Rows go to standard output, the rest to standard error. `document`: instead of rows, as it is."""

    rows: Sequence[Row] = ()
    failures: Sequence[str] = ()
    notes: Sequence[str] = ()
    is_behind: bool = False
    document: str | None = None

    @property
    def code(self) -> int:
        if self.is_behind:
            return BEHIND
        return FAILED if self.failures else DONE


def now_ms() -> int:
    """The time of this machine's clock, which ages are measured by."""
    return time.time_ns() // 1_000_000


# ---------------------------------------------------------------------------------------------------------- to look at


def listing(cluster: Cluster, options: argparse.Namespace) -> Said:
    """`list`: filtered here too, as old brokers do not filter."""
    listed, failures = list_groups(cluster)
    listed, more = with_states(cluster, listed)
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
    return Said(rows, failures + more, [] if listed else [_NO_GROUPS])


def _passes(value: str, allowed: Sequence[str]) -> bool:
    return not allowed or value.lower() in allowed


def describing(cluster: Cluster, options: argparse.Namespace) -> Said:
    """`describe`: members, and all that `lag` says."""
    groups, failures, notes = _chosen(cluster, options.groups)
    found, more = places(cluster, groups, now_ms)
    rows_of: defaultdict[str, list[Place]] = defaultdict(list)
    for row in found:
        rows_of[row.group].append(row)
    rows = [_description(group, rows_of[name]) for name, group in sorted(groups.items())]
    return Said(rows, failures + more, notes)


def _description(group: Group, rows: Sequence[Place]) -> Row:
    members = [
        {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "host": member.host,
            "epoch": member.epoch,
            "partitions": {
                topic: sorted(one.number for one in rows) for topic, rows in by_topic(sorted(member.partitions)).items()
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
        "partitions": [_place_row(row) for row in rows],
    }


def _place_row(row: Place) -> Row:
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


def lagging(cluster: Cluster, options: argparse.Namespace) -> Said:
    """`lag`: every group in every partition, and whether that is too far behind."""
    groups, failures, notes = _chosen(cluster, options.groups)
    found, more = places(cluster, groups, now_ms)
    if options.topic:
        found = [row for row in found if _is_of(row.partition, options.topic)]
    behind, unclear = judge(found, options.fail_above, options.fail_above_seconds)
    rows = [{"group": row.group, **_place_row(row)} for row in found]
    return Said(rows, [*failures, *more, *unclear], [*behind, *notes], is_behind=bool(behind))


def judge(rows: Iterable[Place], most_records: int | None, most_seconds: float | None) -> tuple[list[str], list[str]]:
    """What is too far behind, and what cannot be judged. An offset out of range is behind: records may be lost."""
    behind, unclear = [], []
    is_judged = most_records is not None or most_seconds is not None
    for row in rows if is_judged else ():
        name = f"{row.group} in {row.partition}"
        if row.is_out_of_range and row.committed:
            behind.append(f"{name}: offset {row.committed.offset} is {row.status} ({row.start} to {row.end})")
        elif most_records is not None and row.records is not None and row.records > most_records:
            behind.append(f"{name}: {row.records} records behind")
        elif most_seconds is not None and row.seconds is not None and row.seconds > most_seconds:
            behind.append(f"{name}: {row.seconds:.1f} s behind")
        elif most_seconds is not None and row.records is not None and row.seconds is None:
            unclear.append(f"{name}: the age of what is to be read is not known")
    return behind, unclear


def _is_of(partition: TopicPartition, topics: Mapping[str, list[int] | None]) -> bool:
    numbers = topics.get(partition.topic, [])
    return numbers is None or partition.number in numbers


def _chosen(cluster: Cluster, names: Sequence[str]) -> tuple[dict[str, Group], list[str], list[str]]:
    """The groups that were named, or all that have committed offsets; failures; notes.

    Of all, those that are gone by now are no failure. Old brokers do not say the type: theirs are classic.
    """
    failures: list[str] = []
    wanted, others = list(names), []
    if not names:
        listed, failures = list_groups(cluster)
        wanted = [row.name for row in listed if row.type.lower() in _WITH_OFFSETS]
        others = sorted({row.type for row in listed if row.type.lower() not in _WITH_OFFSETS})
    groups, failed = describe(cluster, wanted)
    missing = [name for name, why in failed.items() if names and why.code == ErrorCode.GROUP_ID_NOT_FOUND]
    for name, offsets in committed(cluster, missing)[0].items() if missing else ():
        if offsets:  # brokers of old do not know a group by its offsets alone
            groups[name] = Group(name, "Empty", CLASSIC, "", "", "", [])
            del failed[name]
    for name, why in failed.items():
        if names or why.code != ErrorCode.GROUP_ID_NOT_FOUND:
            failures.append(f"group {name}: {why.text}")
    notes = [f"groups of the type {kind} are left out" for kind in others]
    return groups, failures, notes if groups or failures or names else [*notes, _NO_GROUPS]


# ----------------------------------------------------------------------------------------------------------- to change


def reset(cluster: Cluster, options: argparse.Namespace) -> Said:
    """`reset`: one group; the partitions of a file, of topics, or all that it has committed to."""
    if options.from_file:
        text = _read(options.from_file)
        wishes: Mapping[TopicPartition, Wish] = _from_csv(options.from_file, text, options.group)
        return _change(cluster, {options.group: wishes}, options)
    wish: Wish = Shift(options.by) if options.by is not None else options.to
    partitions, failures = _partitions(cluster, options)
    if failures:
        return Said(failures=[*failures, _NOTHING_CHANGED])
    return _change(cluster, {options.group: dict.fromkeys(partitions, wish)}, options)


def _from_csv(path: str, text: str, group: str) -> Mapping[TopicPartition, Wish]:
    try:
        return target.parse_csv(text.splitlines(), group)
    except Badly as error:
        raise Badly(f"{path}: {error}") from None


def _partitions(cluster: Cluster, options: argparse.Namespace) -> tuple[list[TopicPartition], list[str]]:
    if options.all_topics:
        found, failed = committed(cluster, [options.group])
        failures = [f"group {name}: {why.text}" for name, why in failed.items()]
        partitions = sorted(found.get(options.group, ()))
        if not partitions and not failures:
            failures = [f"group {options.group} has committed nothing; name its topics: --topic"]
        return partitions, failures
    topics = cluster.topics(options.topic)
    partitions, failures = [], []
    for name, numbers in options.topic.items():
        row = topics.get(name)
        if numbers is not None:
            partitions += [TopicPartition(name, number) for number in numbers]  # leaders know whether they exist
        elif row is None or row.error_code:
            failures.append(f"{name}: there is no such topic; `headgate topics list` shows all")
        else:
            partitions += sorted(TopicPartition(name, one.partition_index) for one in row.partitions)
    return partitions, failures


def importing(cluster: Cluster, options: argparse.Namespace) -> Said:
    """`import`: the groups of an export, or some of them."""
    try:
        found, cluster_id = transfer.parse(_read(options.file), options.group)
    except Badly as error:
        raise Badly(f"{options.file}: {error}") from None
    if not found:
        return Said(notes=[f"there are no offsets in {options.file}"])
    return _change(cluster, transfer.without_foreign_epochs(cluster, found, cluster_id), options)


def _change(cluster: Cluster, wishes: Wishes, options: argparse.Namespace) -> Said:
    """All of it, or nothing."""
    plan = resetting.plan(cluster, wishes)
    if plan.problems:
        return Said(_change_rows(plan.changes), [*plan.problems, _NOTHING_CHANGED])
    if not options.execute:
        return Said(_change_rows(plan.changes), notes=[_DRY_RUN])
    return _make(cluster, plan)


def _make(cluster: Cluster, plan: Plan) -> Said:
    done, failures = resetting.make(cluster, plan.changes)
    return Said(_change_rows(done), failures)


def _change_rows(changes: Iterable[Change]) -> list[Row]:
    return [
        {
            "group": change.group,
            "topic": change.partition.topic,
            "partition": change.partition.number,
            "before": change.before.offset if change.before else None,
            "after": change.after.offset,
            "start": change.start,
            "end": change.end,
            "note": change.note or ("unchanged" if change.is_none else ""),
        }
        for change in changes
    ]


def deleting(cluster: Cluster, options: argparse.Namespace) -> Said:
    """`delete`: groups with all they have, or their offsets of some topics."""
    groups, failed = describe(cluster, options.groups)
    failures = [
        f"group {name}: {why.text}"
        for name, why in failed.items()
        if not (options.if_exists and why.code == ErrorCode.GROUP_ID_NOT_FOUND)
    ]
    found, lost = committed(cluster, groups)
    failures += [f"group {name}: {why.text}" for name, why in lost.items()]
    known = {name: group for name, group in groups.items() if name in found}
    if options.topic:
        said = [_delete_offsets(cluster, group, found[name], options) for name, group in known.items()]
        rows, more = [row for one in said for row in one.rows], [text for one in said for text in one.failures]
    else:
        rows, more = _delete_groups(cluster, known, found, options.dry_run)
    notes = ["this was a dry run, nothing is deleted"] if options.dry_run else []
    return Said(rows, failures + more, notes)


def _delete_groups(
    cluster: Cluster, groups: Mapping[str, Group], offsets: Mapping[str, Offsets], is_dry_run: bool
) -> tuple[list[Row], list[str]]:
    """Groups with members are not even tried; the broker refuses those that get some meanwhile."""
    active = [name for name, group in groups.items() if group.is_active]
    failures = [
        f"group {name} was not deleted, it is {groups[name].state}: {groups[name].who()}; stop them first"
        for name in active
    ]
    gone = [name for name in groups if name not in active]
    if not is_dry_run:
        gone, failed = delete_groups(cluster, gone)
        failures += [f"group {name} was not deleted: {why.text}" for name, why in failed.items()]
    rows: list[Row] = [{"group": name, "offsets": len(offsets[name]), "deleted": not is_dry_run} for name in gone]
    return rows, failures


def _delete_offsets(cluster: Cluster, group: Group, offsets: Offsets, options: argparse.Namespace) -> Said:
    """Also of topics that are gone: it is the offsets that are looked at."""
    wanted = sorted(partition for partition in offsets if _is_of(partition, options.topic))
    seen = {partition.topic for partition in wanted}
    failures = [
        f"group {group.name} has committed nothing for {topic}{_numbered(numbers)}"
        for topic, numbers in options.topic.items()
        if topic not in seen and not options.if_exists
    ]
    refused = delete(cluster, group.name, wanted) if wanted and not options.dry_run else {}
    for names, why in together(refused):
        whose = f": {group.who()}; stop them first" if group.is_active else ""
        failures.append(f"group {group.name}: not deleted were the offsets of {names}: {why.text}{whose}")
    rows = [
        {
            "group": group.name,
            "topic": partition.topic,
            "partition": partition.number,
            "offset": offsets[partition].offset,
            "deleted": not options.dry_run,
        }
        for partition in wanted
        if partition not in refused
    ]
    return Said(rows, failures)


def _numbered(numbers: list[int] | None) -> str:
    return "" if numbers is None else ":" + ",".join(map(str, numbers))


def exporting(cluster: Cluster, options: argparse.Namespace) -> Said:
    """`export`: a document, or, where something is missing in it, none."""
    groups, failures, notes = _chosen(cluster, options.groups)
    offsets, failed = committed(cluster, groups)
    failures += [f"group {name}: {why.text}" for name, why in failed.items()]
    if failures:
        return Said(failures=[*failures, "nothing is exported"])
    cluster.refresh([])
    text = json.dumps(transfer.document(groups, offsets, cluster.cluster_id, now_ms()), indent=2)
    if options.output is None:
        return Said(notes=notes, document=text)
    _write(options.output, text)
    count = sum(map(len, offsets.values()))
    return Said(notes=[*notes, f"{count} offsets of {len(offsets)} groups are in {options.output}"])


def _read(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Badly(f"cannot read {path}: {error}") from None


def _write(path: str, text: str) -> None:
    """Whole or not at all: what was there before stays until the new file is complete."""
    file, draft = Path(path), Path(f"{path}.new")
    try:
        draft.write_text(text + "\n", encoding="utf-8")
        draft.replace(file)
    except OSError as error:
        raise Badly(f"cannot write {path}: {error}") from None
