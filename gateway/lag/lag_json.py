"""`/v1/lag.json`: the last survey as JSON, slice by slice.

A group may have ten thousand partitions, so a slice ends after some rows wherever that is. Times are in ms. A number
that is not known is null, never 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from headgate.gateway.lag.lag_collector import LagCollector
from headgate.gateway.lag.readers import GroupLag, GroupPartitionLag, OwningMember

ROWS_AT_ONCE: Final = 32
"""The text of a row takes some ten microseconds."""


def slices(collector: LagCollector, node_id: int) -> Iterator[bytes]:
    """The text of the answer; empty slices while a survey is made."""
    steps = collector.survey()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            survey = end.value
            break
        yield b""
    head = {"node_id": node_id, "measured_ms": survey.measured_ms, "interval_ms": round(collector.interval_ms)}
    parts = [_text(head)[:-1], ', "groups": [']
    separator, count = "\n", 0
    for group in survey.groups:
        parts += [separator, _text(group_fields(group))[:-1], ', "partitions": [']
        separator, between = ",\n", "\n  "
        for row in group.partitions:
            parts += [between, _text(partition_fields(row))]
            between = ",\n  "
            count += 1
            if count % ROWS_AT_ONCE == 0:
                yield "".join(parts).encode()
                parts.clear()
        parts.append("]}")
        count += 1
        if count % ROWS_AT_ONCE == 0:
            yield "".join(parts).encode()
            parts.clear()
    parts.append("\n]}\n")
    yield "".join(parts).encode()


def group_fields(group: GroupLag) -> dict[str, Any]:
    """A group, without its partitions."""
    return {
        "group": group.name,
        "type": group.kind,
        "state": group.state or None,
        "members": group.members,
        "verdict": None if group.verdict is None else group.verdict.value,
        "lag_records": group.records,
        "lag_ms": _ms(group.seconds),
        "error": group.error,
    }


def partition_fields(row: GroupPartitionLag) -> dict[str, Any]:
    """The lag of a group in a partition."""
    return {
        "topic": row.topic,
        "partition": row.partition,
        "committed_offset": None if row.committed is None else row.committed.offset,
        "committed_ms": None if row.committed is None or row.committed.time_ms < 0 else row.committed.time_ms,
        "start_offset": row.start,
        "end_offset": row.end,
        "stable_end_offset": row.stable_end,
        "lag_records": row.records,
        "lag_ms": _ms(row.seconds),
        "status": row.status,
        "verdict": None if row.verdict is None else row.verdict.value,
        "leader": row.leader,
        "owner": None if row.owner is None else _owner(row.owner),
    }


def _owner(owner: OwningMember) -> dict[str, str]:
    return {"member_id": owner.member_id, "client_id": owner.client_id, "host": owner.host}


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, allow_nan=False)
