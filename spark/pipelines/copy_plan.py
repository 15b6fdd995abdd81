"""The plan of a copy, as pure decisions: which offsets the next batch takes, and what a marker says about the copy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import Bounds, OffsetRange
from headgate.spark.sink.marker import QueryBatch, SinkMarker
from headgate.tools.output import UsageError

CopiedOffsets = Mapping[TopicPartition, int]


class CopyIdentity(NamedTuple):
    """The identity of a copy: it never changes under one name. `ends`: where a replay ends, fixed at its first run."""

    kind: str
    source: Mapping[str, Any]
    ends: CopiedOffsets | None = None

    def query_id(self) -> str:
        """The text in the marker: readable, and a digest that differs for each copy."""
        text = json.dumps(self.source, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        ends = "" if self.ends is None else json.dumps(to_topics(self.ends), separators=(",", ":"), sort_keys=True)
        return f"{self.kind} {digest} {ends}".rstrip()


def plan_of(name: str, identity: CopyIdentity, marker: SinkMarker) -> str:
    """The plan in a marker of this copy; empty for a mirror. Raises UsageError for a marker of another copy."""
    kind, _, rest = marker.query_id.partition(" ")
    digest, _, plan = rest.partition(" ")
    mine = identity._replace(ends=None).query_id()
    if f"{kind} {digest}" != mine:
        raise UsageError(
            f"the name {name!r} belongs to another copy or query: its marker is of {marker.query_id[:80]!r}, with "
            f"batch {marker.batch_id}. Repeat the arguments of the first run, or take another name"
        )
    return plan


def ends_of(name: str, identity: CopyIdentity, marker: SinkMarker) -> CopiedOffsets | None:
    """Where the copy of a marker ends; None for a mirror. Raises UsageError for a marker of another copy."""
    ends = plan_of(name, identity, marker)
    try:
        return from_topics(json.loads(ends)) if ends else None
    except (ValueError, AttributeError, TypeError):
        raise damaged_plan(name, ends) from None


def damaged_plan(name: str, plan: str) -> UsageError:
    return UsageError(f"the marker of {name!r} is damaged: its plan is {plan[:80]!r}")


class CopyState(NamedTuple):
    """How far a copy has come. `next_batch`: the number of the next batch; `positions`: the next offsets to copy."""

    next_batch: int
    positions: CopiedOffsets


def resume(marker: SinkMarker | None) -> CopyState:
    """The state in a marker; without a marker nothing is copied yet."""
    if marker is None:
        return CopyState(0, {})
    return CopyState(marker.batch_id + 1, from_topics(marker.positions))


def starts(
    positions: CopiedOffsets, bounds: Mapping[TopicPartition, Bounds], *, skips_lost: bool
) -> dict[TopicPartition, int]:
    """The next offset of every partition: after what is copied, or the start of a new one. Raises UsageError.

    Offsets that retention took are an error, unless `skips_lost`; so is a partition that is shorter than what was
    copied of it.
    """
    found = {}
    for partition, (start, end) in bounds.items():
        position = positions.get(partition, start)
        if position > end:
            raise UsageError(
                f"{partition} ends before offset {end}, and {position} offsets were copied: the topic was made anew, "
                "or has lost records; copy it under another name"
            )
        if position < start and not skips_lost:
            raise UsageError(
                f"{partition}: the offsets {position} to {start - 1} are gone before they were copied: retention or "
                "DeleteRecords took them; --skip-lost goes on without them"
            )
        found[partition] = max(position, start)
    return found


def next_ranges(positions: CopiedOffsets, ends: CopiedOffsets, most: int) -> list[OffsetRange]:
    """The ranges of the next batch: up to `most` offsets, shared out among the partitions by what they have left."""
    left = {partition: end - positions[partition] for partition, end in sorted(ends.items())}
    total = sum(size for size in left.values() if size > 0)
    share = min(1.0, most / total) if total else 0.0
    return [
        OffsetRange(partition, positions[partition], positions[partition] + max(1, int(size * share)))
        for partition, size in left.items()
        if size > 0
    ]


def next_batch(identity: CopyIdentity, state: CopyState, ranges: Iterable[OffsetRange]) -> QueryBatch:
    """The batch of these ranges, with the positions after it."""
    after = {**state.positions, **{wanted.partition: wanted.end_offset for wanted in ranges}}
    return QueryBatch(identity.query_id(), state.next_batch, to_topics(after))


def to_topics(offsets: CopiedOffsets) -> dict[str, dict[int, int]]:
    """Offsets by topic and number."""
    found: dict[str, dict[int, int]] = {}
    for partition, offset in sorted(offsets.items()):
        found.setdefault(partition.topic, {})[partition.number] = offset
    return found


def from_topics(topics: Mapping[str, Mapping[Any, int]]) -> dict[TopicPartition, int]:
    """Offsets by partition; the numbers may be text, as in JSON. Raises ValueError, AttributeError, TypeError."""
    return {
        TopicPartition(topic, int(number)): int(offset)
        for topic, row in topics.items()
        for number, offset in row.items()
    }
