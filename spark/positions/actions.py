"""One function for each command: each takes a connection and the options, and returns rows, failures and notes."""

from __future__ import annotations

import argparse
import json
from typing import NamedTuple

from headgate.protocol.spark.checkpoint import NextOffsets
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions import checkpoint, topic_ids, transfer
from headgate.spark.positions.check import CheckStatus, PartitionCheck, check, sentence
from headgate.spark.positions.lag import read_lag, summarize, to_row
from headgate.spark.positions.locations import (
    CHECKPOINT,
    FILE,
    SPARK,
    TABLE,
    Connect,
    LocationOffsets,
    OffsetLocation,
    read_location,
)
from headgate.spark.positions.topic_ids import TopicIds
from headgate.storage.disk.layout import format_id
from headgate.tools.client.cluster import Cluster
from headgate.tools.groups.actions import check_lag_limits
from headgate.tools.groups.offsets import list_ends
from headgate.tools.output import DRY_RUN, CommandResult, Row, UsageError

_NOTHING_CHANGED = "nothing is changed"

# ----------------------------------------------------------------------------------------------------------------- lag


def run_lag(connect: Connect, options: argparse.Namespace) -> CommandResult:
    """`lag`: the lag of each location in each partition, compared with the limits."""
    if options.watch is not None:
        from headgate.spark.positions import watch

        return watch.run(connect, options)
    rows, failures, notes = read_lag(connect, options)
    behind, unclear = check_lag_limits([row.lag for row in rows], options.fail_above, options.fail_above_seconds)
    if options.plot:
        from headgate.spark.positions import plot

        notes = [*notes, plot.run(options, rows)]
    return CommandResult(
        [to_row(row) for row in rows],
        [*failures, *unclear],
        [*behind, *notes, *summarize(rows)],
        is_alarm=bool(behind),
    )


# --------------------------------------------------------------------------------------------------------------- check


class _Subject(NamedTuple):
    """A checkpoint, or the output of a load, to check. `folder`: for noted ids."""

    offsets: NextOffsets
    planned: NextOffsets
    noted: TopicIds
    notes: list[str]
    folder: checkpoint.Folder | None


def run_check(connect: Connect, options: argparse.Namespace) -> CommandResult:
    """`check`: each partition of a checkpoint, or of a load, beside the topics as they are."""
    subject = _subject(options.place)
    if options.note and subject.folder is None:
        raise UsageError(f"{options.place} has the ids of its topics already; leave --note out")
    topics = {partition.topic for partition in (*subject.offsets, *subject.planned)}
    cluster = connect()
    present = topic_ids.fetch(cluster, topics)
    partitions = [
        TopicPartition(name, row.partition_index)
        for name, topic in cluster.topics(topics).items()
        for row in topic.partitions
    ]
    ends = list_ends(cluster, {*partitions, *subject.offsets, *subject.planned})
    rows = check(subject.offsets, subject.planned, ends, partitions, subject.noted.ids, present.ids)
    unknown = [row.partition for row in rows if row.status is CheckStatus.UNKNOWN]
    notes = [sentence(row) for row in rows if row.status not in (CheckStatus.OK, CheckStatus.UNKNOWN)]
    notes += [*subject.notes, *_describe(subject.noted, present, topics)]
    if options.note and subject.folder is not None:
        notes.append(_note(subject.folder, subject.noted, present, topics, replaces=options.replace))
    return CommandResult(
        [_check_row(row, subject.noted, present) for row in rows],
        [f"{partition}: {ends.failed[partition].text}" for partition in unknown],
        notes,
        is_alarm=any(row.status.is_alarm for row in rows),
    )


def _subject(location: OffsetLocation) -> _Subject:
    """Raises UsageError."""
    if location.kind == TABLE:
        from headgate.spark.load import positions as loads  # a load has more to import than a checkpoint

        return _Subject(loads.positions(location.name), {}, TopicIds(loads.topic_ids(location.name)), [], None)
    if location.kind != CHECKPOINT:
        raise UsageError(f"{location} is no checkpoint; write checkpoint:FOLDER or table:OUT")
    folder = checkpoint.open_folder(location.name)
    found = checkpoint.read_checkpoint(location.name, folder=folder)
    notes = []
    if found.progress.done is None:
        notes.append("no batch is done yet")
    if found.progress.planned is not None:
        notes.append(f"batch {found.progress.planned} is planned but not done: Spark runs it again, to the same ends")
    if found.foreign:
        notes.append(f"the sources {', '.join(found.foreign)} do not read Kafka, and are not checked")
    return _Subject(found.offsets, found.planned, topic_ids.read(folder), notes, folder)


def _describe(noted: TopicIds, present: TopicIds, topics: set[str]) -> list[str]:
    """Sentences about the ids of topics."""
    notes = []
    if noted.cluster_id and present.cluster_id and noted.cluster_id != present.cluster_id:
        notes.append(f"the ids were noted in the cluster {noted.cluster_id}, this is {present.cluster_id}")
    unnoted = sorted(topics - noted.ids.keys())
    if unnoted:
        notes.append(
            f"no id is noted of {', '.join(unnoted)}: whether it was made anew cannot be seen; --note notes it"
        )
    return notes


def _note(folder: checkpoint.Folder, noted: TopicIds, present: TopicIds, topics: set[str], *, replaces: bool) -> str:
    """Note the ids of these topics. Raises UsageError if another id is noted."""
    other = sorted(
        name for name in topics & noted.ids.keys() & present.ids.keys() if noted.ids[name] != present.ids[name]
    )
    if other and not replaces:
        raise UsageError(
            f"another id is noted of {', '.join(other)}: the topic was made anew; --replace notes the new id"
        )
    without = sorted(topics - present.ids.keys())
    topic_ids.write(folder, TopicIds({**noted.ids, **present.ids}, present.cluster_id))
    more = f"; {', '.join(without)} has no id" if without else ""
    return f"the ids of {len(present.ids)} topics are noted in {topic_ids.FILE}{more}"


def _check_row(row: PartitionCheck, noted: TopicIds, present: TopicIds) -> Row:
    topic = row.partition.topic
    return {
        "topic": topic,
        "partition": row.partition.number,
        "committed": row.offset,
        "planned": row.planned,
        "start": row.start,
        "end": row.end,
        "lost": row.lost,
        "status": row.status.value,
        "noted_id": format_id(noted.ids[topic]) if topic in noted.ids else None,
        "topic_id": format_id(present.ids[topic]) if topic in present.ids else None,
    }


# ------------------------------------------------------------------------------------------------------------- offsets


def run_offsets(connect: Connect, options: argparse.Namespace) -> CommandResult:
    """`offsets`: read the offsets of one location, and write them to another one."""
    source, target = options.source, options.target
    refusal = transfer.refuse_target(target.kind)
    if refusal:
        raise refusal
    found = read_location(source, connect, options.topic, options.group)
    notes = list(found.notes)
    if not found.offsets:
        return CommandResult(failures=[f"{source} has no offsets; {_NOTHING_CHANGED}"], notes=notes)
    if target.kind == SPARK:
        text, problems, more = transfer.starting_offsets(connect(), found)
        if problems:
            return CommandResult(failures=problems, notes=notes)
        return CommandResult(notes=[*notes, *more], document=text)
    if target.kind == FILE:
        return _into_file(source, target, found, options)
    return into_store(connect(), found, options, notes)


def into_store(
    cluster: Cluster, found: LocationOffsets, options: argparse.Namespace, notes: list[str]
) -> CommandResult:
    target: OffsetLocation = options.target
    plan = transfer.plan(cluster, found, target, allows_backwards=options.backwards)
    rows = [{"target": str(target), **change.row()} for change in plan.changes]
    if plan.problems:
        return CommandResult(rows, [*plan.problems, _NOTHING_CHANGED], notes)
    if not options.execute:
        return CommandResult(rows, notes=[*notes, DRY_RUN])
    applied, failures = transfer.apply(cluster, plan.changes, target)
    return CommandResult([{"target": str(target), **change.row()} for change in applied], failures, notes)


def _into_file(
    source: OffsetLocation, target: OffsetLocation, found: LocationOffsets, options: argparse.Namespace
) -> CommandResult:
    name = options.group or source.name
    rows = [
        {
            "target": str(target),
            "topic": partition.topic,
            "partition": partition.number,
            "before": None,
            "after": at.offset,
        }
        for partition, at in sorted(found.offsets.items())
    ]
    if not options.execute:
        return CommandResult(rows, notes=[*found.notes, DRY_RUN])
    transfer.write_file(target.name, transfer.build_file(name, found))
    note = f"{len(rows)} offsets are in {target.name}, as those of group {json.dumps(name)}"
    return CommandResult(rows, notes=[*found.notes, note])
