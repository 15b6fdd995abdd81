"""One function for each command: each takes the options and returns rows, failures and notes."""

from __future__ import annotations

import argparse

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.topic_partition import TopicPartition, by_topic
from headgate.tools.arguments import now_ms
from headgate.tools.client.cluster import Cluster, select_partitions
from headgate.tools.output import DRY_RUN, CommandResult, Row, wants_table
from headgate.tools.txn.open_transactions import (
    Judgement,
    OpenTransaction,
    abort_transaction,
    find_hanging,
    judge,
    list_open_transactions,
)
from headgate.tools.txn.transactions import (
    OPEN_STATES,
    ListedTransaction,
    TransactionFilters,
    describe_transactions,
    list_transactions,
)

_NO_IDS = "there are no transactional ids yet"
_NO_MATCH = "no transactional id matches"
_NOTHING_ABORTED = "nothing is aborted"
_FORCE = "--force aborts it in this partition alone, whatever becomes of its other partitions"


def run_list(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`list`: transactional ids with their states."""
    states = options.state or (OPEN_STATES if options.older_than >= 0 else ())
    filters = TransactionFilters(states, options.producer_id, options.older_than, options.pattern)
    listed, failures = list_transactions(cluster, filters)
    rows: list[Row] = [row._asdict() for row in listed]
    is_filtered = bool(options.state or options.producer_id or options.pattern) or options.older_than >= 0
    notes = [_NO_MATCH if is_filtered else _NO_IDS]
    return CommandResult(rows, failures, [] if listed or failures else notes)


def run_describe(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`describe`: the named transactional ids, by default all; one that goes since the listing is no failure."""
    names: list[str] = options.transactional_ids
    failures: list[str] = []
    if not names:
        listed, failures = list_transactions(cluster)
        names = [row.transactional_id for row in listed]
    found, failed = describe_transactions(cluster, names)
    failures += [
        f"transactional id {name}: {why.text}"
        for name, why in failed.items()
        if options.transactional_ids or why.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    ]
    at_ms = now_ms()
    return CommandResult([_description(one, at_ms) for _, one in sorted(found.items())], failures, _notes(names))


def _notes(names: list[str]) -> list[str]:
    return [] if names else [_NO_IDS]


def _description(one: ListedTransaction, at_ms: int) -> Row:
    topics = by_topic(sorted(one.partitions))
    start_time_ms = one.start_time_ms if one.state in OPEN_STATES else None
    return {
        "transactional_id": one.transactional_id,
        "state": one.state,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "timeout_ms": one.timeout_ms,
        "start_time_ms": start_time_ms,
        "age_seconds": None if start_time_ms is None else (at_ms - start_time_ms) / 1000,
        "coordinator": one.coordinator,
        "partitions": {topic: [partition.number for partition in rows] for topic, rows in topics.items()},
    }


def run_hanging(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`hanging`: open transactions that no coordinator is going to end."""
    topics = options.topic or dict.fromkeys(sorted(cluster.topics(None)))
    partitions, failures = select_partitions(cluster, topics)
    at_ms = now_ms()
    hanging, more = find_hanging(cluster, partitions, options.max_transaction_timeout, at_ms)
    rows = [{**_open_row(one, judgement, at_ms), "reason": judgement.reason} for one, judgement in hanging.items()]
    notes = [
        f"`headgate txn abort --topic {row['topic']}:{row['partition']} --start-offset {row['start_offset']}` "
        f"shows the abort of {'the first' if rows[1:] else 'it'}, and changes nothing"
        for row in rows[:1]
    ]
    if wants_table(options) and not (rows or failures or more):
        limit_s = options.max_transaction_timeout / 1000
        notes = [f"no transaction hangs; one with a batch of the last {limit_s:g} s is passed over"]
    return CommandResult(rows, failures + more, notes, is_alarm=bool(rows))


def _open_row(one: OpenTransaction, judgement: Judgement | None, at_ms: int) -> Row:
    age_ms = one.age_ms(at_ms)
    return {
        "topic": one.partition.topic,
        "partition": one.partition.number,
        "start_offset": one.start_offset,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator_epoch": one.coordinator_epoch,
        "last_timestamp_ms": one.last_timestamp_ms,
        "age_seconds": None if age_ms is None else age_ms / 1000,
        "transactional_id": judgement.transactional_id if judgement else None,
    }


def run_abort(cluster: Cluster, options: argparse.Namespace) -> CommandResult:
    """`abort`: end one open transaction in one partition, if no coordinator is going to."""
    ((topic, numbers),) = options.topic.items()
    partition = TopicPartition(topic, numbers[0])
    if options.start_offset is None:
        cluster.topics([topic])
        leader = cluster.routing.leader(partition)
        if isinstance(leader, Failure):
            return CommandResult(failures=[f"{partition}: {leader.text}", _NOTHING_ABORTED])
        epochs = options.producer_epoch, options.coordinator_epoch
        return _abort(cluster, OpenTransaction(partition, options.producer_id, *epochs, None, None), options)
    found, failed = list_open_transactions(cluster, [partition])
    if failed:
        return CommandResult(failures=[f"{partition}: {failed[partition].text}", _NOTHING_ABORTED])
    wanted = [one for one in found[partition] if one.start_offset == options.start_offset]
    if not wanted:
        offsets = ", ".join(str(one.start_offset) for one in found[partition])
        reason = f"{partition}: no open transaction starts at offset {options.start_offset}"
        others = f"open ones start at {offsets}" if offsets else "no transaction is open here"
        return CommandResult(failures=[f"{reason}; {others}", _NOTHING_ABORTED])
    return _abort(cluster, wanted[0], options)


def _abort(cluster: Cluster, one: OpenTransaction, options: argparse.Namespace) -> CommandResult:
    """Abort with `--execute`, unless the coordinator knows the transaction, or cannot be asked."""
    judgements, failures = judge(cluster, [one])
    judgement = judgements.get(one)
    row = {**_open_row(one, judgement, now_ms()), "aborted": False}
    if not options.force and judgement is None:
        return CommandResult(
            [row], [*failures, f"{one.partition}: the transaction may be live; {_FORCE}", _NOTHING_ABORTED]
        )
    if not options.force and judgement is not None and not judgement.is_hanging:
        refusal = f"{one.partition}: the transaction does not hang: {judgement.reason}; {_FORCE}"
        return CommandResult([row], [refusal, _NOTHING_ABORTED])
    if not options.execute:
        return CommandResult([row], notes=[DRY_RUN])
    failure = abort_transaction(cluster, one)
    if failure is not None:
        return CommandResult([row], [f"{one.partition}: {failure.text}", _NOTHING_ABORTED])
    return CommandResult([{**row, "aborted": True}])
