"""The marker of a batch: the last batch that a sink has written, inside the transaction of this batch.

A marker is a record of the compacted topic `headgate-spark-batches`, so it never expires. Its key is the name of the
sink, its value JSON:

    {"version": 1, "query": "2f1c...", "batch": 12, "positions": {"orders": {"0": 250}}, "others": "",
     "timestamp_ms": 1790000000000}

`query` is the id in the checkpoint's `metadata` file, `positions` are the next offsets to read after it. `others`
is a digest of offsets that positions do not show. The marker becomes visible with the batch's records, or neither does.
Numbers of batches prove nothing: Spark plans a batch again, with other records, if its checkpoint is older than the
marker. So `decide` compares the offsets too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.client.cluster import shorten_list

BATCHES_TOPIC = "headgate-spark-batches"
ONE_WRITE = "write "
"""The query id of a write that is no query's begins so; the next one under the name may have any other id."""
_VERSION = 1
_OTHER_SOURCES: Final = "a source that reads no topic, or a topic that two sources read"

MarkerPositions: TypeAlias = Mapping[str, Mapping[int, int]]
"""The next offset to read by topic and partition."""


class SinkRefused(Exception):
    """The sink cannot honour this batch; the text says why and what to do."""


class SourceOffsets(NamedTuple):
    """The next offsets of all sources of a query.

    `others`: a digest of what `positions` do not show: offsets of sources that read no topics, and of partitions that
    two sources read. Empty if there are none, None if they are unknown.
    """

    positions: MarkerPositions
    others: str | None = ""


class QueryBatch(NamedTuple):
    """A batch of a query. `positions`: the next offsets to read after the batch; with `others`, see `SourceOffsets`.

    `before`: the offsets before the batch; None if they are unknown.
    """

    query_id: str
    batch_id: int
    positions: MarkerPositions
    others: str | None = ""
    before: SourceOffsets | None = None


class SinkMarker(NamedTuple):
    """The last batch that was written under a name. `others`: see `SourceOffsets`."""

    query_id: str
    batch_id: int
    positions: MarkerPositions
    timestamp_ms: int
    others: str | None = ""


class BatchDecision(Enum):
    """The answer to: is this batch to be written?"""

    WRITE = "write"
    SKIP = "skip"


def decide(name: str, marker: SinkMarker | None, batch: QueryBatch, *, accept_gap: bool = False) -> BatchDecision:
    """Compare a batch with the marker under its name. Raises SinkRefused for a batch that can be neither.

    Spark repeats the last batch after a failure, to the same offsets, and numbers batches one after another. A new
    checkpoint has a new query id and starts at 0. From a checkpoint that is older than the marker, Spark plans its
    next batches again: a batch that ends within the written offsets is skipped, and the first other one is refused.
    """
    if marker is None:
        return BatchDecision.WRITE
    number = batch.batch_id
    if marker.query_id != batch.query_id:
        if marker.query_id.startswith(ONE_WRITE) and batch.query_id.startswith(ONE_WRITE):
            return BatchDecision.WRITE
        raise SinkRefused(
            f"batch {number} of the query {batch.query_id} is not written: under the name {name!r} the query "
            f"{marker.query_id} has written up to batch {marker.batch_id}. A checkpoint made anew starts at batch 0 "
            "and would write records twice or skip them. Go on with the old checkpoint, or give the sink another name"
        )
    if number > marker.batch_id + 1 and not accept_gap:
        raise SinkRefused(
            f"batch {number} of {name!r} is not written: the last batch in the cluster is {marker.batch_id}, so "
            f"{marker.batch_id + 1} to {number - 1} are missing. If the query wrote them elsewhere on purpose, pass "
            "accept_gap=True once"
        )
    if number > marker.batch_id:
        if number == marker.batch_id + 1 and batch.before is not None:
            _refuse(name, marker, number, "begins", _differences(marker, batch.before))
        return BatchDecision.WRITE
    ends = SourceOffsets(batch.positions, batch.others)
    differences = _differences(marker, ends) if number == marker.batch_id else _beyond(marker, ends)
    _refuse(name, marker, number, "ends", differences)
    return BatchDecision.SKIP


def _differences(marker: SinkMarker, offsets: SourceOffsets) -> list[str]:
    """The partitions whose offsets differ from the marker. A partition that was not read yet has offset 0."""
    here, there = _by_partition(offsets.positions), _by_partition(marker.positions)
    found = [
        _difference(partition, here, there)
        for partition in sorted(here | there)
        if here.get(partition, 0) != there.get(partition, 0)
    ]
    # Older markers have no digest: then the number alone decides about such sources
    if marker.others is not None and offsets.others is not None and marker.others != offsets.others:
        found.append(_OTHER_SOURCES)
    return found


def _beyond(marker: SinkMarker, offsets: SourceOffsets) -> list[str]:
    """The partitions whose offsets are not known to lie within the marker's. Digests have no order."""
    here, there = _by_partition(offsets.positions), _by_partition(marker.positions)
    found = [
        _difference(partition, here, there) for partition in sorted(here) if here[partition] > there.get(partition, 0)
    ]
    if (marker.others or "") != (offsets.others or ""):
        found.append(_OTHER_SOURCES)
    return found


def _by_partition(positions: MarkerPositions) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, number): offset for topic, row in positions.items() for number, offset in row.items()}


def _difference(
    partition: TopicPartition, here: Mapping[TopicPartition, int], there: Mapping[TopicPartition, int]
) -> str:
    return f"{partition}: {here.get(partition, 0)}, written up to {there.get(partition, 0)}"


def _refuse(name: str, marker: SinkMarker, number: int, verb: str, differences: list[str]) -> None:
    if differences:
        raise SinkRefused(
            f"batch {number} of {name!r} is not written: it {verb} at other offsets than those at which batch "
            f"{marker.batch_id} ended ({shorten_list(differences)}), so records would be lost or come twice. Another "
            "run wrote that batch: this checkpoint is an older copy, or lacks its last files. Go on with the newest "
            "checkpoint. If there is none, start with a new checkpoint and another name behind the written records: "
            "`headgate spark offsets group:GROUP spark:` prints the startingOffsets, GROUP is the sink's group, by "
            "default its name. A mirror or a replay only needs another start"
        )


def encode_marker(marker: SinkMarker) -> bytes:
    """The value of the record."""
    value = {
        "version": _VERSION,
        "query": marker.query_id,
        "batch": marker.batch_id,
        "positions": {
            topic: {str(number): offset for number, offset in sorted(row.items())}
            for topic, row in sorted(marker.positions.items())
        },
        "others": marker.others,
        "timestamp_ms": marker.timestamp_ms,
    }
    return json.dumps(value, separators=(",", ":")).encode()


def decode_marker(name: str, value: bytes) -> SinkMarker:
    """The marker in a record. Raises SinkRefused for a value of a later version, or damage."""
    try:
        found: Any = json.loads(value)
        _check_version(found["version"])
        positions = {
            str(topic): {int(number): int(offset) for number, offset in row.items()}
            for topic, row in found["positions"].items()
        }
        others = found.get("others")
        return SinkMarker(
            str(found["query"]),
            int(found["batch"]),
            positions,
            int(found["timestamp_ms"]),
            None if others is None else str(others),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SinkRefused(
            f"the marker of {name!r} in {BATCHES_TOPIC} cannot be read ({error}): a newer headgate wrote the marker, "
            "or another program did; no batch is written over it"
        ) from None


def _check_version(version: object) -> None:
    if version != _VERSION:
        raise ValueError(f"its version is {version!r}")
