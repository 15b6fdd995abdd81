"""The marker of a batch: the last batch that a sink has written, inside the transaction of this batch.

A marker is a record of the compacted topic `headgate-spark-batches`, so it never expires. Its key is the name of the
sink, its value JSON:

    {"version": 1, "query": "2f1c...", "batch": 12, "positions": {"orders": {"0": 250}}, "timestamp_ms": 1790000000000}

`query` is the id in the checkpoint's `metadata` file, `positions` are the next offsets to read after the batch. The
marker becomes visible with the batch's records, or neither does; so `decide` is exact.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

BATCHES_TOPIC = "headgate-spark-batches"
ONE_WRITE = "write "
"""The query id of a write that is no query's begins so; the next one under the name may have any other id."""
_VERSION = 1

Positions: TypeAlias = Mapping[str, Mapping[int, int]]
"""The next offset to read by topic and partition."""


class SinkRefused(Exception):
    """The sink cannot honour this batch; the text says why and what to do."""


class Marker(NamedTuple):
    """The last batch that was written under a name."""

    query_id: str
    batch_id: int
    positions: Positions
    timestamp_ms: int


class Decision(Enum):
    """The answer to: is this batch to be written?"""

    WRITE = "write"
    SKIP = "skip"


def decide(name: str, marker: Marker | None, query_id: str, batch_id: int, *, accept_gap: bool = False) -> Decision:
    """Compare a batch with the marker under its name. Raises SinkRefused for a batch that can be neither.

    Spark repeats the last batch after a failure, and numbers batches one after another; a checkpoint made anew has a
    new query id and starts at 0.
    """
    if marker is None:
        return Decision.WRITE
    if marker.query_id != query_id:
        if marker.query_id.startswith(ONE_WRITE) and query_id.startswith(ONE_WRITE):
            return Decision.WRITE
        raise SinkRefused(
            f"batch {batch_id} of the query {query_id} is not written: under the name {name!r} the query "
            f"{marker.query_id} has written up to batch {marker.batch_id}. A checkpoint made anew starts at batch 0 "
            "and would write records twice or skip them. Go on with the old checkpoint, or give the sink another name"
        )
    if batch_id <= marker.batch_id:
        return Decision.SKIP
    if batch_id > marker.batch_id + 1 and not accept_gap:
        raise SinkRefused(
            f"batch {batch_id} of {name!r} is not written: the last batch in the cluster is {marker.batch_id}, so "
            f"{marker.batch_id + 1} to {batch_id - 1} are missing. If the query wrote them elsewhere on purpose, pass "
            "accept_gap=True once"
        )
    return Decision.WRITE


def encode_marker(marker: Marker) -> bytes:
    """The value of the record."""
    value = {
        "version": _VERSION,
        "query": marker.query_id,
        "batch": marker.batch_id,
        "positions": {
            topic: {str(number): offset for number, offset in sorted(row.items())}
            for topic, row in sorted(marker.positions.items())
        },
        "timestamp_ms": marker.timestamp_ms,
    }
    return json.dumps(value, separators=(",", ":")).encode()


def decode_marker(name: str, value: bytes) -> Marker:
    """The marker in a record. Raises SinkRefused for a value of a later version, or damage."""
    try:
        found: Any = json.loads(value)
        _check_version(found["version"])
        positions = {
            str(topic): {int(number): int(offset) for number, offset in row.items()}
            for topic, row in found["positions"].items()
        }
        return Marker(str(found["query"]), int(found["batch"]), positions, int(found["timestamp_ms"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SinkRefused(
            f"the marker of {name!r} in {BATCHES_TOPIC} cannot be read ({error}): a newer headgate wrote the marker, "
            "or another program did; no batch is written over it"
        ) from None


def _check_version(version: object) -> None:
    if version != _VERSION:
        raise ValueError(f"its version is {version!r}")
