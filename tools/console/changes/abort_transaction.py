"""Abort an open transaction in one partition, as `headgate txn abort` does (KIP-664)."""

from __future__ import annotations

import shlex
from typing import Final

from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.arguments import now_ms
from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster, FailedAnswer
from headgate.tools.console.changes.plan import ChangeLine, ChangePlan, ChangeResult
from headgate.tools.console.parameters import Parameters
from headgate.tools.console.resources.transactions import MAX_TRANSACTION_TIMEOUT_MS
from headgate.tools.txn.open_transactions import (
    Judgement,
    OpenTransaction,
    judge_confirmed,
    list_open_transactions,
)
from headgate.tools.txn.open_transactions import abort_transaction as write_marker
from headgate.tools.txn.transactions import describe_transactions

_ALIVE: Final = (
    "The transaction does not hang: {}. The abort is of this partition alone: records of the same transaction in"
    " {} may be committed, and the producer is not told"
)
_UNKNOWN: Final = (
    "No coordinator has answered for this producer: the transaction may be alive, and then its records in other"
    " partitions may be committed"
)
_YOUNG: Final = "Its last batch is younger than 15 minutes: its coordinator may be about to end it"


def abort_transaction(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Abort the transaction that begins at `start_offset` of `topic` and `partition`.

    Raises BadParameter, ClientError.
    """
    partition = TopicPartition(parameters.text("topic"), parameters.number("partition", most=(1 << 31) - 1))
    one = _find(cluster, partition, parameters.number("start_offset"))
    judgements, _ = judge_confirmed(cluster, [one])
    judgement = judgements.get(one)
    is_hanging = judgement is not None and judgement.is_hanging
    name = judgement.transactional_id if judgement else None
    at_ms = now_ms()
    words = ["headgate", "txn", "abort", "--topic", f"{partition.topic}:{partition.number}"]
    words += ["--start-offset", str(one.start_offset), "--execute", *([] if is_hanging else ["--force"])]
    return ChangePlan(
        f"Abort the {'hanging' if is_hanging else 'open'} transaction of {name or f'producer {one.producer_id}'}"
        f" in {partition} from offset {one.start_offset:,} on",
        [_line(one, judgement, at_ms)],
        lambda cluster: _abort(cluster, one),
        warnings=_warnings(cluster, one, judgement, at_ms),
        command=shlex.join(words),
        confirmation="" if is_hanging else str(partition),
    )


def _find(cluster: Cluster, partition: TopicPartition, start_offset: int) -> OpenTransaction:
    found, failed = list_open_transactions(cluster, [partition])
    if partition in failed:
        raise FailedAnswer(failed[partition])
    for one in found[partition]:
        if one.start_offset == start_offset:
            return one
    raise ClientError(f"no open transaction of {partition} begins at offset {start_offset}: it has ended by now")


def _line(one: OpenTransaction, judgement: Judgement | None, at_ms: int) -> ChangeLine:
    age_ms = one.age_ms(at_ms)
    age = "last batch at an unknown time" if age_ms is None else f"last batch {_age(age_ms)} ago"
    state = "open" if judgement is None or not judgement.is_hanging else "hanging"
    note = f"{age}; producer {one.producer_id}, epoch {one.producer_epoch}"
    if judgement is not None and judgement.is_hanging:
        note += f"; {judgement.reason}"
    return ChangeLine(f"{one.partition} from {one.start_offset:,}", state, "aborted", note)


def _age(age_ms: int) -> str:
    minutes, hours = max(0, age_ms) // 60_000, max(0, age_ms) // 3_600_000
    if hours >= 2:
        return f"{hours:,} h"
    return f"{minutes} min" if minutes >= 2 else f"{max(0, age_ms) // 1000} s"


def _warnings(cluster: Cluster, one: OpenTransaction, judgement: Judgement | None, at_ms: int) -> list[str]:
    if judgement is None:
        return [_UNKNOWN]
    if judgement.is_hanging:
        return [] if one.is_older(MAX_TRANSACTION_TIMEOUT_MS, at_ms) else [_YOUNG]
    name = judgement.transactional_id or ""
    known, _ = describe_transactions(cluster, [name])
    others = len(known[name].partitions - {one.partition}) if name in known else 0
    text = f"its {others:,} other partitions" if others > 1 else "its other partition" if others else "other partitions"
    return [_ALIVE.format(judgement.reason, text)]


def _abort(cluster: Cluster, one: OpenTransaction) -> ChangeResult:
    failure = write_marker(cluster, one)
    if failure is not None:
        return ChangeResult([], [f"{one.partition}: {failure.text}"])
    return ChangeResult([f"The transaction in {one.partition} from offset {one.start_offset:,} on is aborted"])
