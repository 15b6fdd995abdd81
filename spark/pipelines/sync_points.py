"""Sync points of a mirror: pairs of offsets, in the source and in the target, that stand for the same place.

Each batch writes one in its transaction: the next offsets of the source, and the ends of the target, before the batch.
They are records of the compacted topic `headgate-mirror-offsets`. The key has one of few slots, so that the last points
lie close together and old ones far apart, as in the offset syncs of MirrorMaker 2 (KIP-382, KAFKA-12468):

    batch 0 has a slot of its own; batch n = odd * 2^level has one of four slots of its level, in turns
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.pipelines.copy_plan import CopiedOffsets, from_topics, to_topics
from headgate.tools.output import UsageError

OFFSETS_TOPIC = "headgate-mirror-offsets"
_SLOTS_OF_A_LEVEL = 4
_VERSION = 1


class SyncPoint(NamedTuple):
    """The state before a batch. `names`: the target topic of each source topic."""

    batch_id: int
    source: CopiedOffsets
    target: CopiedOffsets
    names: Mapping[str, str]


class OffsetPair(NamedTuple):
    """One partition's place in a sync point."""

    target: TopicPartition
    source_offset: int
    target_offset: int


def slot(batch_id: int) -> str:
    """The slot of a batch: the number of slots grows with the logarithm of the number of batches."""
    if batch_id == 0:
        return "start"
    level = (batch_id & -batch_id).bit_length() - 1
    return f"{level}.{(batch_id >> (level + 1)) % _SLOTS_OF_A_LEVEL}"


def key(name: str, batch_id: int) -> bytes:
    """The key of a point's record."""
    return f"{name}/{slot(batch_id)}".encode()


def encode(point: SyncPoint) -> bytes:
    """The value of a point's record."""
    value = {
        "version": _VERSION,
        "batch": point.batch_id,
        "names": dict(point.names),
        "source": to_topics(point.source),
        "target": to_topics(point.target),
    }
    return json.dumps(value, separators=(",", ":")).encode()


def decode(name: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> list[SyncPoint]:
    """The points of a mirror, oldest first, from all records of the topic in order. Raises UsageError for damage."""
    found: dict[bytes, SyncPoint] = {}
    for own_key, value in records:
        if own_key is not None and value is not None and own_key.rpartition(b"/")[0] == name.encode():
            found[own_key] = _decode(name, value)
    return sorted(found.values(), key=lambda point: point.batch_id)


def _decode(name: str, value: bytes) -> SyncPoint:
    try:
        data: Any = json.loads(value)
        _check_version(data["version"])
        names = {str(topic): str(target) for topic, target in data["names"].items()}
        return SyncPoint(int(data["batch"]), from_topics(data["source"]), from_topics(data["target"]), names)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"a sync point of {name!r} in {OFFSETS_TOPIC} cannot be read ({error}): a newer headgate wrote the point, "
            "or another program did"
        ) from None


def nearest(points: Iterable[SyncPoint], partition: TopicPartition, offset: int) -> OffsetPair | None:
    """The last point at or before an offset of the source; None if there is none."""
    best: OffsetPair | None = None
    for point in points:
        at = point.source.get(partition)
        if at is None or at > offset or partition.topic not in point.names:
            continue
        target = TopicPartition(point.names[partition.topic], partition.number)
        if target in point.target and (best is None or at >= best.source_offset):
            best = OffsetPair(target, at, point.target[target])
    return best


def _check_version(version: object) -> None:
    if version != _VERSION:
        raise ValueError(f"its version is {version!r}")
