"""`headgate groups migrate`: one function for each command. docs/migration.md is the runbook.

Groups are read and changed some at a time. After a stop each group is changed or unchanged, and the next run continues.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Self

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.cluster import Cluster, shorten_list
from headgate.tools.groups.members import ZOOKEEPER, describe_groups, list_groups
from headgate.tools.groups.migration import (
    Difference,
    GroupStores,
    MigrationStep,
    StepDecision,
    compare,
    decide,
    effects,
    have_moved,
)
from headgate.tools.groups.offsets import CommittedOffsets, fetch_committed
from headgate.tools.groups.stores import (
    DUAL,
    KAFKA,
    NOTHING_IN_ZOOKEEPER,
    StoreSettings,
    await_carried,
    change_settings,
    fetch_settings,
    fetch_zookeeper,
)
from headgate.tools.output import DRY_RUN, CommandResult, Row, add_execution_options
from headgate.tools.progress import Progress

_GROUPS_AT_ONCE: Final = 50
_READS: Final = 3
_REREAD_AFTER_S: Final = 0.2
_WILDCARDS: Final = frozenset("*?[")
_Run = Callable[[Cluster, argparse.Namespace], CommandResult]
_SHOWN_NOTHING: Final = "there are no groups of that name"


class _Found(NamedTuple):
    """Groups by name, and failures by group. `settings`: known settings, also of groups that failed."""

    groups: Mapping[str, GroupStores]
    failed: Mapping[str, Failure]
    settings: Mapping[str, StoreSettings]

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions with an offset of any of the groups."""
        return {
            partition
            for group in self.groups.values()
            for partition in group.partitions | group.zookeeper.unreadable.keys()
        }

    @property
    def failures(self) -> list[str]:
        """A sentence for each group that could not be read."""
        return [f"group {name}: {_reason(why)}" for name, why in self.failed.items()]


def _reason(why: Failure) -> str:
    """The text of a failure. The broker gives this answer also while it has no connection to ZooKeeper."""
    waits = why.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return f"{why.text}; perhaps it waits for ZooKeeper: see the broker's log" if waits else why.text


# ------------------------------------------------------------------------------------------------------------ read only


def run_plan(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`plan`: the changes that `start` would make, by group, topic and partition."""
    return _plan(cluster, MigrationStep.START, options)


def run_verify(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`verify`: every partition in which the stores differ, with the cause. A difference is a failure."""
    names, failures = _names(cluster, options.groups)
    rows: list[Row] = []
    count = equal = 0
    missing = dict[str, None]()
    with _Bar(len(names)) as bar:
        for found in _in_parts(cluster, names, bar):
            failures += found.failures
            problems = _problems(cluster, found.partitions)
            missing |= dict.fromkeys(f"{partition}: {why.text}" for partition, why in problems.items())
            for group in found.groups.values():
                different = _differences(cluster, group)
                rows += [_difference_row(group, difference) for difference in different]
                count += 1
                equal += len(group.partitions) - len(different)
    if rows:
        failures.append(f"the stores differ in {len(rows)} partitions of {len({row['group'] for row in rows})} groups")
    notes = [f"{equal} offsets of {count} groups are the same in both stores"]
    if missing:
        notes.append(f"offsets are kept of partitions that do not exist here: {shorten_list(sorted(missing))}")
    return CommandResult(rows, failures, notes)


def run_status(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`status`: the state of each group, the differences between its stores, and the last error."""
    names, failures = _names(cluster, options.groups)
    rows: list[Row] = []
    with _Bar(len(names)) as bar:
        for found in _in_parts(cluster, names, bar):
            failures += found.failures
            rows += map(_status_row, found.groups.values())
            rows += [
                _unread_row(name, found.settings[name], why)
                for name, why in found.failed.items()
                if name in found.settings
            ]
    return CommandResult(rows, failures, [] if rows or failures else [_SHOWN_NOTHING])


def _status_row(group: GroupStores) -> Row:
    different = list(compare(group))
    settings = group.settings
    return {
        "group": group.name,
        "store": settings.store,
        "source": settings.source or None,
        "zookeeper_members": len(group.zookeeper_members),
        "kafka_members": len(group.kafka_members),
        "zookeeper_offsets": len(group.zookeeper.offsets),
        "kafka_offsets": len(group.kafka),
        "different": len(different),
        "records_apart": sum(difference.records for difference in different),
        "status": settings.status or None,
    }


def _unread_row(name: str, settings: StoreSettings, why: Failure) -> Row:
    """The status of a group whose offsets cannot be read: its last error."""
    row = _status_row(GroupStores(name, settings, NOTHING_IN_ZOOKEEPER, {}))
    known = ("group", "store", "source")
    return {**{key: value if key in known else None for key, value in row.items()}, "status": why.text}


def _difference_row(group: GroupStores, difference: Difference) -> Row:
    return {
        "group": group.name,
        "store": group.settings.store,
        "topic": difference.partition.topic,
        "partition": difference.partition.number,
        "zookeeper": difference.zookeeper,
        "kafka": difference.kafka,
        "cause": difference.cause,
    }


def _differences(cluster: Cluster, group: GroupStores) -> list[Difference]:
    """The lasting differences: a read of both stores takes time, and a live group commits meanwhile.

    In DUAL a partition counts as different if it differs in every read, unless both of its offsets have moved on.
    """
    suspects = {difference.partition for difference in compare(group)}
    for _ in range(_READS if group.settings.store == DUAL else 0):
        if not suspects:
            return []
        time.sleep(_REREAD_AFTER_S)
        again = _read(cluster, [group.name]).groups.get(group.name, group)
        different = {difference.partition for difference in compare(again)} & suspects
        suspects = {partition for partition in different if not have_moved(group, again, partition)}
        group = again
    problems = _problems(cluster, suspects)
    return [difference for difference in compare(group, problems) if difference.partition in suspects]


def _problems(cluster: Cluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Failure]:
    """Partitions that do not exist: their offsets are kept."""
    cluster.topics({partition.topic for partition in partitions})
    leaders = {partition: cluster.routing.leader(partition) for partition in partitions}
    return {
        partition: leader
        for partition, leader in leaders.items()
        if isinstance(leader, Failure) and leader.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }


# ------------------------------------------------------------------------------------------------------------- changes


def run_start(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`start`: carry the offsets over, and keep both stores equal from then on."""
    return _run(cluster, MigrationStep.START, options)


def run_finish(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`finish`: keep one store alone, the coordinator, or with `--in zookeeper` both apart."""
    step = MigrationStep.FINISH_IN_ZOOKEEPER if options.store == ZOOKEEPER else MigrationStep.FINISH
    return _run(cluster, step, options)


def run_back(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`back`: carry the coordinator's offsets to ZooKeeper, and keep both stores equal from then on."""
    return _run(cluster, MigrationStep.BACK, options)


def _run(cluster: Cluster, step: MigrationStep, options: argparse.Namespace) -> CommandResult:
    return _execute(cluster, step, options) if options.execute else _plan(cluster, step, options)


def _plan(cluster: Cluster, step: MigrationStep, options: argparse.Namespace) -> CommandResult:
    names, failures = _names(cluster, options.groups)
    rows: list[Row] = []
    changed = made = equal = 0
    with _Bar(len(names)) as bar:
        for found in _in_parts(cluster, names, bar):
            failures += found.failures
            problems = _problems(cluster, found.partitions)
            for group in found.groups.values():
                is_dual = group.settings.store == DUAL
                decision = _decision(group, step, options, _differences(cluster, group) if is_dual else ())
                failures += [f"group {group.name}: {decision.refusal}"] if decision.refusal else []
                made += decision == StepDecision()
                if decision.settings is not None:
                    new = _effect_rows(group, decision.settings, problems)
                    rows += new
                    changed += 1
                    equal += len(group.partitions) - len(new)
    notes = [f"{changed} groups would go on, {made} are there; {equal} of their offsets are the same in both stores"]
    return CommandResult(rows, failures, [*notes, DRY_RUN])


def _effect_rows(group: GroupStores, settings: StoreSettings, problems: Mapping[TopicPartition, Failure]) -> list[Row]:
    """A row for each partition in which the stores differ; none for a step out of DUAL."""
    if settings.store != DUAL:
        return []
    return [
        {
            "group": group.name,
            "topic": effect.partition.topic,
            "partition": effect.partition.number,
            "zookeeper": effect.zookeeper,
            "kafka": effect.kafka,
            "after": effect.after,
            "change": effect.change,
        }
        for effect in effects(group, settings.source, problems)
    ]


def _execute(cluster: Cluster, step: MigrationStep, options: argparse.Namespace) -> CommandResult:
    """Make the step for all groups that allow it; each part of the groups is complete before the next begins.

    Offsets are not read: the broker copies them on the way into DUAL, and reads ZooKeeper once more on the way out.
    """
    names, failures = _names(cluster, options.groups)
    rows: list[Row] = []
    with _Bar(len(names)) as bar:
        for found in _in_parts(cluster, names, bar, with_offsets=False):
            failures += found.failures
            decisions = {name: _decision(group, step, options) for name, group in found.groups.items()}
            failures += [
                f"group {name}: {decision.refusal}" for name, decision in decisions.items() if decision.refusal
            ]
            changes = {name: decision.settings for name, decision in decisions.items() if decision.settings is not None}
            refused = change_settings(cluster, changes)
            failures += [f"group {name}: not changed: {why.text}" for name, why in refused.items()]
            pending = [name for name, decision in decisions.items() if not decision.refusal and name not in refused]
            ended, late = _wait(cluster, pending, options.timeout)
            failures += late
            rows += [_step_row(found.groups[name], settings) for name, settings in ended.items()]
    return CommandResult(rows, failures, [] if rows or failures else [_SHOWN_NOTHING])


def _step_row(group: GroupStores, settings: StoreSettings) -> Row:
    return {
        "group": group.name,
        "before": group.settings.store,
        "after": settings.store,
        "status": settings.status or None,
    }


def _decision(
    group: GroupStores, step: MigrationStep, options: argparse.Namespace, differences: Sequence[Difference] = ()
) -> StepDecision:
    source = getattr(options, "source", ZOOKEEPER)
    return decide(group, step, source, differences, is_forced=getattr(options, "force", False))


def _wait(cluster: Cluster, names: Sequence[str], timeout_s: float) -> tuple[dict[str, StoreSettings], list[str]]:
    """Wait until the broker has carried the offsets over. Returns the settings, and sentences about the rest."""
    deadline = time.monotonic() + timeout_s
    failed = await_carried(cluster, names)
    ended: dict[str, StoreSettings] = {}
    names = [name for name in names if name not in failed]
    while names:
        settings, more = fetch_settings(cluster, names)
        failed |= more
        ended |= {name: group_settings for name, group_settings in settings.items() if not group_settings.is_carrying}
        names = [name for name in settings if name not in ended]
        if names and time.monotonic() > deadline:
            for name in names:
                failed[name] = Failure(ErrorCode.NONE, f"not carried over yet: {settings[name].status}")
            break
        if names:
            time.sleep(_REREAD_AFTER_S)
    return ended, [f"group {name}: {_reason(why)}" for name, why in failed.items()]


# ------------------------------------------------------------------------------------------------------------- reading


def _names(cluster: Cluster, patterns: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names that the patterns mean, sorted, and failures. A name without a wildcard need not be listed."""
    if patterns and not any(_WILDCARDS & set(pattern) for pattern in patterns):
        return sorted(set(patterns)), []
    listed, failures = list_groups(cluster)
    names = {row.name for row in listed}
    wanted = {name for name in names if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}
    return sorted(wanted.union(pattern for pattern in patterns if not _WILDCARDS & set(pattern))), failures


def _in_parts(cluster: Cluster, names: Sequence[str], bar: _Bar, *, with_offsets: bool = True) -> Iterator[_Found]:
    for start in range(0, len(names), _GROUPS_AT_ONCE):
        part = names[start : start + _GROUPS_AT_ONCE]
        found = _read(cluster, part, with_offsets=with_offsets)
        bar.offsets += sum(len(group.partitions) for group in found.groups.values())
        yield found
        bar.add(len(part), part[-1])


def _read(cluster: Cluster, names: Sequence[str], *, with_offsets: bool = True) -> _Found:
    """Both stores of groups. ZooKeeper is read first: a commit in between makes the coordinator newer.

    Without `with_offsets` only settings and members: a read of ZooKeeper costs the broker a request for each offset.
    """
    settings, failed = fetch_settings(cluster, names)
    zookeeper = dict.fromkeys(settings, NOTHING_IN_ZOOKEEPER)
    kafka: dict[str, CommittedOffsets] = {name: {} for name in settings}
    if with_offsets:
        zookeeper, more = fetch_zookeeper(cluster, settings)
        kafka, unknown = fetch_committed(cluster, zookeeper)
        failed |= more | unknown
    described, _ = describe_groups(cluster, kafka)
    groups = {}
    for name in sorted(kafka):
        members = described[name].members if name in described else []
        ours = [member for member in members if member.is_of_zookeeper]
        theirs = [member for member in members if not member.is_of_zookeeper]
        groups[name] = GroupStores(name, settings[name], zookeeper[name], kafka[name], ours, theirs)
    return _Found(groups, failed, settings)


class _Bar:
    """The progress by groups, with the offsets that were read."""

    def __init__(self, groups: int, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._progress = Progress(groups, sys.stderr, clock_s, "groups")
        self._clock_s = clock_s
        self._began_s = clock_s()
        self.offsets = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.clear()

    def add(self, groups: int, name: str) -> None:
        elapsed_s = self._clock_s() - self._began_s
        rate = f"{self.offsets / elapsed_s:,.0f} offsets/s, " if self.offsets and elapsed_s else ""
        self._progress.add(groups, rate + name)


def add_options(commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser) -> None:
    """Add `migrate` and its own commands."""
    summary = "move groups between ZooKeeper and the coordinator, there and back; docs/migration.md is the runbook"
    migrate = commands.add_parser("migrate", help=summary, description=summary)
    steps = migrate.add_subparsers(required=True, metavar="plan|start|verify|finish|back|status")

    def add(name: str, run: _Run, *, changes: bool) -> argparse.ArgumentParser:
        summary = (run.__doc__ or "").partition(": ")[2].splitlines()[0].rstrip(".")
        step = steps.add_parser(name, parents=[common], help=summary, description=summary)
        step.add_argument("groups", nargs="+" if changes else "*", metavar="group", help="or a pattern: 'app-*'")
        step.set_defaults(run=run, check=lambda options: None)
        if changes:
            add_execution_options(step, "change the groups")
        return step

    for name, run in (("plan", run_plan), ("start", run_start)):
        step = add(name, run, changes=run is run_start)
        step.add_argument("--source", choices=(ZOOKEEPER, KAFKA), default=ZOOKEEPER, help="the side whose offsets win")
        step.add_argument("--force", action="store_true", help="in spite of members that commit to the other side")
    add("verify", run_verify, changes=False)
    add("status", run_status, changes=False)
    finish = add("finish", run_finish, changes=True)
    finish.add_argument("--in", dest="store", choices=(KAFKA, ZOOKEEPER), default=KAFKA, help="default: kafka")
    finish.add_argument("--force", action="store_true", help="in spite of members that may commit to the other side")
    add("back", run_back, changes=True)
