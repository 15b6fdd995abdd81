"""A change of committed offsets: planned for all groups and partitions first, made only if all of it can be.

Offsets belong to the members of a group while it has some, so an active group is refused; a member that joins between
the check and the change makes the broker refuse it. What lies outside of a partition is moved to its nearer end, as
Kafka's own tool does; the plan says where.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.list_offsets import EARLIEST, LATEST
from headgate.tools.groups.cluster import Cluster, Failure, TopicPartition, together
from headgate.tools.groups.members import describe
from headgate.tools.groups.offsets import Committed, Offsets, commit, committed, find_offsets, is_gone
from headgate.tools.groups.target import Offset, Shift, Time

Wish: TypeAlias = Offset | Time | Shift | Committed
Wishes: TypeAlias = Mapping[str, Mapping[TopicPartition, Wish]]
_JOINED_MEANWHILE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH)


class Change(NamedTuple):
    """What becomes of a group in a partition; `note` says what had to be decided on the way."""

    group: str
    partition: TopicPartition
    before: Committed | None
    after: Committed
    start: int
    end: int
    note: str

    @property
    def is_none(self) -> bool:
        return self.before == self.after


class Plan(NamedTuple):
    """Nothing may be changed if there is a problem."""

    changes: list[Change]
    problems: list[str]


class _Facts(NamedTuple):
    """What has to be known of partitions: their ends, and the offsets of times."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    at: Mapping[tuple[TopicPartition, int], int]


def plan(cluster: Cluster, wishes: Wishes) -> Plan:
    """What each wish comes to."""
    new_groups, problems = _check_groups(cluster, wishes)
    before, lost = committed(cluster, [name for name in wishes if name not in problems])
    texts = list(problems.values())
    texts += [f"the offsets of group {name} are not known: {why.text}" for name, why in lost.items()]
    facts, failures = _facts(cluster, wishes)
    known = {partition for offsets in before.values() for partition in offsets}
    texts += _told(failures, known)
    changes = []
    for group, rows in wishes.items():
        offsets = before.get(group, {})
        for partition, wish in sorted(rows.items(), key=lambda row: row[0]):
            if partition not in facts.starts or group in problems:
                continue
            change = _change(group, partition, offsets.get(partition), wish, facts)
            if isinstance(change, str):
                texts.append(change)
            elif group in new_groups and not offsets:  # brokers of old do not know a group by its offsets alone
                changes.append(change._replace(note=_join(change.note, "the group is new")))
            else:
                changes.append(change)
    return Plan(changes, texts)


def _check_groups(cluster: Cluster, wishes: Wishes) -> tuple[set[str], dict[str, str]]:
    """Which groups do not exist yet, and why some cannot be changed."""
    groups, failed = describe(cluster, wishes)
    new = {name for name, why in failed.items() if why.code == ErrorCode.GROUP_ID_NOT_FOUND}
    problems = {name: f"group {name}: {why.text}" for name, why in failed.items() if name not in new}
    for name, group in groups.items():
        if group.is_active:
            problems[name] = (
                f"group {name} is {group.state}, its offsets belong to its members: {group.who()}; stop them first"
            )
    return new, problems


def _told(failures: Mapping[TopicPartition, Failure], known: Collection[TopicPartition]) -> list[str]:
    """Why partitions cannot be had; offsets of what is gone can still be forgotten."""
    gone = {one: why for one, why in failures.items() if is_gone(why) and one in known}
    advice = "; `headgate groups delete GROUP --topic TOPIC` forgets the offsets"
    others = {one: why for one, why in failures.items() if one not in gone}
    return [f"{names}: {why.text}" for names, why in together(others)] + [
        f"{names}: {why.text}{advice}" for names, why in together(gone)
    ]


def _facts(cluster: Cluster, wishes: Wishes) -> tuple[_Facts, dict[TopicPartition, Failure]]:
    partitions = {partition for rows in wishes.values() for partition in rows}
    ends, failed = find_offsets(cluster, partitions, LATEST)
    starts, failed_too = find_offsets(cluster, ends, EARLIEST)
    failed |= failed_too
    times: defaultdict[int, set[TopicPartition]] = defaultdict(set)
    for rows in wishes.values():
        for partition, wish in rows.items():
            if isinstance(wish, Time) and wish.timestamp >= 0 and partition in starts:
                times[wish.timestamp].add(partition)
    at: dict[tuple[TopicPartition, int], int] = {}
    for timestamp, wanted in times.items():
        found, lost = find_offsets(cluster, wanted, timestamp)
        at |= {(partition, timestamp): offset for partition, offset in found.items()}
        failed |= lost
    known = {partition: start for partition, start in starts.items() if partition not in failed}
    return _Facts(known, ends, at), failed


def _change(group: str, partition: TopicPartition, before: Committed | None, wish: Wish, facts: _Facts) -> Change | str:
    start, end = facts.starts[partition], facts.ends[partition]
    metadata, epoch, note = "", -1, ""
    match wish:
        case Committed(wanted, epoch, metadata):
            pass
        case Offset(wanted):
            pass
        case Shift(by):
            if before is None:
                return f"group {group} has committed nothing for {partition}, so it cannot be moved by {by}; use --to"
            wanted = before.offset + by
        case Time(timestamp):
            wanted, note = _of_time(partition, timestamp, facts)
    offset = min(max(wanted, start), end)
    if offset != wanted:
        note = f"{wanted} is {'below the start' if wanted < start else 'beyond the end'}"
        epoch = -1
    after = Committed(offset, epoch, metadata)
    if before is not None and before.offset == offset and not isinstance(wish, Committed):
        after = before  # its note and epoch stay
    return Change(group, partition, before, after, start, end, note)


def _of_time(partition: TopicPartition, timestamp: int, facts: _Facts) -> tuple[int, str]:
    if timestamp == EARLIEST:
        return facts.starts[partition], ""
    found = facts.ends[partition] if timestamp == LATEST else facts.at[partition, timestamp]
    return (facts.ends[partition], "nothing is so new: the end") if found < 0 else (found, "")


def _join(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def make(cluster: Cluster, changes: list[Change]) -> tuple[list[Change], list[str]]:
    """Commit, a request for each group; what was done, and what was refused."""
    groups: defaultdict[str, Offsets] = defaultdict(dict)
    for change in changes:
        if not change.is_none:
            groups[change.group][change.partition] = change.after
    refused: set[tuple[str, TopicPartition]] = set()
    failures = []
    for group, offsets in groups.items():
        failed = commit(cluster, group, offsets)
        refused |= {(group, partition) for partition in failed}
        for names, why in together(failed):
            joined = "; a member has joined meanwhile" if why.code in _JOINED_MEANWHILE else ""
            failures.append(f"group {group}: not changed were {names}: {why.text}{joined}")
    return [change for change in changes if (change.group, change.partition) not in refused], failures
