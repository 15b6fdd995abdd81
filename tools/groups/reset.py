"""A change of committed offsets: planned for all groups and partitions, then applied only if the plan has no problem.

The offsets of an active group belong to the members, so a plan refuses an active group; if a member joins between plan
and change, the broker refuses the change. An offset outside of a partition becomes the nearer end, as in Kafka's own
tool; the note of the change says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.list_offsets import EARLIEST, LATEST
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster, group_by_failure
from headgate.tools.groups.arguments import Offset, Shift, Time
from headgate.tools.groups.members import describe_groups
from headgate.tools.groups.offsets import (
    CommittedOffsets,
    OffsetAndMetadata,
    commit_offsets,
    fetch_committed,
    is_unknown_partition,
    list_ends,
    list_offsets,
)
from headgate.tools.output import Row

ResetTarget: TypeAlias = Offset | Time | Shift | OffsetAndMetadata
ResetTargets: TypeAlias = Mapping[str, Mapping[TopicPartition, ResetTarget]]
FetchOffsets: TypeAlias = Callable[[Cluster, Iterable[str]], tuple[dict[str, CommittedOffsets], dict[str, Failure]]]
CommitOffsets: TypeAlias = Callable[
    [Cluster, str, Mapping[TopicPartition, OffsetAndMetadata]], dict[TopicPartition, Failure]
]
START, END = "start", "end"
_JOINED_MEANWHILE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH)


class OffsetChange(NamedTuple):
    """The change of a group's offset in one partition. `start`, `end`: the partition's range; `note`: for people.

    `bound`: START or END if the new offset is an end of the partition, which moves while others write or delete;
    empty if the target is this very offset.
    """

    group: str
    partition: TopicPartition
    before: OffsetAndMetadata | None
    after: OffsetAndMetadata
    start: int
    end: int
    note: str
    bound: str = ""
    is_of_new_group: bool = False

    @property
    def is_unchanged(self) -> bool:
        return self.before == self.after

    def row(self) -> Row:
        """The change for output, without its group."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.number,
            "before": self.before.offset if self.before else None,
            "after": self.after.offset,
            "start": self.start,
            "end": self.end,
            "note": self.note or ("unchanged" if self.is_unchanged else ""),
        }


class ResetPlan(NamedTuple):
    """The changes of a reset. A plan with problems must not be applied."""

    changes: list[OffsetChange]
    problems: list[str]


class _PartitionOffsets(NamedTuple):
    """Starts and ends of partitions, and the offset of each (partition, timestamp in ms)."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    by_time: Mapping[tuple[TopicPartition, int], int]


def plan_reset(cluster: Cluster, targets: ResetTargets, fetch: FetchOffsets = fetch_committed) -> ResetPlan:
    """Compute the change for each target, without changing anything. `targets`: by group and partition.

    `fetch` reads the present offsets: of the coordinator, or of another store.
    """
    new_groups, problems = _check_groups(cluster, targets)
    before, failed = fetch(cluster, [name for name in targets if name not in problems])
    sentences = list(problems.values())
    sentences += [f"the offsets of group {name} are not known: {why.text}" for name, why in failed.items()]
    known_offsets, failures = _list_partition_offsets(cluster, targets)
    committed = {partition for offsets in before.values() for partition in offsets}
    sentences += _partition_problems(failures, committed)
    changes = []
    for group, rows in targets.items():
        offsets = before.get(group, {})
        for partition, target in sorted(rows.items(), key=lambda row: row[0]):
            if partition not in known_offsets.starts or group in problems:
                continue
            change = _change(group, partition, offsets.get(partition), target, known_offsets)
            if isinstance(change, str):
                sentences.append(change)
            elif group in new_groups and not offsets:  # old brokers do not describe a group that has offsets only
                changes.append(change._replace(note=_join(change.note, "the group is new"), is_of_new_group=True))
            else:
                changes.append(change)
    return ResetPlan(changes, sentences)


def _check_groups(cluster: Cluster, targets: ResetTargets) -> tuple[set[str], dict[str, str]]:
    """Names of groups that do not exist yet, and a sentence for each group that cannot be changed."""
    groups, failed = describe_groups(cluster, targets)
    new = {name for name, why in failed.items() if why.code == ErrorCode.GROUP_ID_NOT_FOUND}
    problems = {name: f"group {name}: {why.text}" for name, why in failed.items() if name not in new}
    for name, group in groups.items():
        if group.is_active:
            problems[name] = (
                f"group {name} is {group.state}, its offsets belong to its members: {group.member_names()}; "
                "stop them first"
            )
    return new, problems


def _partition_problems(failures: Mapping[TopicPartition, Failure], committed: Collection[TopicPartition]) -> list[str]:
    """Sentences about failed partitions, with advice for committed offsets of deleted partitions."""
    deleted = {
        partition: why for partition, why in failures.items() if is_unknown_partition(why) and partition in committed
    }
    advice = "; `headgate groups delete GROUP --topic TOPIC` forgets the offsets"
    others = {partition: why for partition, why in failures.items() if partition not in deleted}
    return [f"{names}: {why.text}" for names, why in group_by_failure(others)] + [
        f"{names}: {why.text}{advice}" for names, why in group_by_failure(deleted)
    ]


def _list_partition_offsets(
    cluster: Cluster, targets: ResetTargets
) -> tuple[_PartitionOffsets, dict[TopicPartition, Failure]]:
    starts, ends, unknown, _ = list_ends(cluster, {partition for rows in targets.values() for partition in rows})
    failed = dict(unknown)
    times: defaultdict[int, set[TopicPartition]] = defaultdict(set)
    for rows in targets.values():
        for partition, target in rows.items():
            if isinstance(target, Time) and target.timestamp >= 0 and partition in starts:
                times[target.timestamp].add(partition)
    by_time: dict[tuple[TopicPartition, int], int] = {}
    for timestamp, wanted in times.items():
        found, failures = list_offsets(cluster, wanted, timestamp)
        by_time |= {(partition, timestamp): offset for partition, offset in found.items()}
        failed |= failures
    known = {partition: start for partition, start in starts.items() if partition not in failed}
    return _PartitionOffsets(known, ends, by_time), failed


def _change(
    group: str,
    partition: TopicPartition,
    before: OffsetAndMetadata | None,
    target: ResetTarget,
    offsets: _PartitionOffsets,
) -> OffsetChange | str:
    """The change of one partition, or a sentence about the reason why there is none."""
    start, end = offsets.starts[partition], offsets.ends[partition]
    metadata, epoch, note, bound = "", -1, "", ""
    match target:
        case OffsetAndMetadata(wanted, epoch, metadata):
            pass
        case Offset(wanted):
            pass
        case Shift(by):
            if before is None:
                return f"group {group} has committed nothing for {partition}, so it cannot be moved by {by}; use --to"
            wanted = before.offset + by
        case Time(timestamp):
            wanted, note, bound = _offset_of_time(partition, timestamp, offsets)
    offset = min(max(wanted, start), end)
    if offset != wanted:
        note = f"{wanted} is {'below the start' if wanted < start else 'beyond the end'}"
        epoch, bound = -1, START if wanted < start else END
    after = OffsetAndMetadata(offset, epoch, metadata)
    if before is not None and before.offset == offset and not isinstance(target, OffsetAndMetadata):
        after = before  # an unchanged offset keeps its metadata and epoch
    return OffsetChange(group, partition, before, after, start, end, note, bound)


def _offset_of_time(partition: TopicPartition, timestamp: int, offsets: _PartitionOffsets) -> tuple[int, str, str]:
    """The offset of a time, a note, and the bound; the end of the partition if all records are older."""
    if timestamp == EARLIEST:
        return offsets.starts[partition], "", START
    if timestamp == LATEST:
        return offsets.ends[partition], "", END
    found = offsets.by_time[partition, timestamp]
    return (offsets.ends[partition], "nothing is so new: the end", END) if found < 0 else (found, "", "")


def _join(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def apply_changes(
    cluster: Cluster, changes: list[OffsetChange], commit: CommitOffsets = commit_offsets
) -> tuple[list[OffsetChange], list[str]]:
    """Commit the changes, one request for each group. Returns the applied changes and sentences about the others.

    Raises ClientError, unless a group is changed already.
    """
    groups: defaultdict[str, CommittedOffsets] = defaultdict(dict)
    for change in changes:
        if not change.is_unchanged:
            groups[change.group][change.partition] = change.after
    refused: set[tuple[str, TopicPartition]] = set()
    failures = []
    for number, (group, offsets) in enumerate(groups.items()):
        try:
            failed = commit(cluster, group, offsets)
        except ClientError as error:
            if number == 0:
                raise
            failed = dict.fromkeys(offsets, Failure(ErrorCode.NONE, str(error)))
        refused |= {(group, partition) for partition in failed}
        for names, why in group_by_failure(failed):
            joined = "; a member has joined meanwhile" if why.code in _JOINED_MEANWHILE else ""
            failures.append(f"group {group}: not changed were {names}: {why.text}{joined}")
    return [change for change in changes if (change.group, change.partition) not in refused], failures
