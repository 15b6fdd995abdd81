"""The removal of unused offsets: of groups that have been empty for long, and of deleted topics.

The rules are Kafka's (KIP-211, OffsetMetadataManager). An offset expires

| in a group that | when |
|---|---|
| rebalances | not now |
| has members that subscribe to its topic | not while they do |
| is empty | `offsets.retention.minutes` after it became empty; after the commit if its record has no time |
| else: never had members (a "simple" consumer), or is stable | `offsets.retention.minutes` after the commit |

A retention in the commit itself (OffsetCommit v2-v4) replaces the time in the last two rows. An open transaction keeps
the offsets that it is about to change. An empty group is deleted with its last offset, or at once if it has none.
`Group.expires_from` and `Group.subscribes_to` have the facts about groups; this module has the rest.

`expire` and `forget_topics` are iterators: each step checks some thousand offsets and returns a decision, so a million
offsets hold up no other work. Between two steps the shard may change in any way. The caller takes a step when the last
decision was replayed or has failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headgate.gateway.coordinator.decision import Decision, Records
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.protocol.internal.offsets import OffsetCommitKey, decode_offset

OFFSETS_A_STEP = 500
"""Removing so many offsets takes two to three milliseconds, writes included."""


def expire(shard: GroupShard, timestamp_ms: int) -> Iterator[Decision]:
    """Check all groups once, as of `timestamp_ms`: decisions with tombstones of offsets and of groups."""
    looked = 0
    records: Records = []
    for group_id in list(shard.groups):
        gone = 0  # offsets of this group whose tombstones are in `records`
        for topic, partitions in _places(shard, group_id):
            expired = _expired(shard, group_id, topic, partitions, timestamp_ms)
            records += expired
            gone += len(expired)
            looked += len(partitions)
            if looked >= OFFSETS_A_STEP:
                yield Decision(records, is_atomic=False)
                looked, gone, records = 0, 0, []
        records += _group_tombstones(shard, group_id, gone)
        looked += 1
        if looked >= OFFSETS_A_STEP:
            yield Decision(records, is_atomic=False)
            looked, records = 0, []
    yield Decision(records, is_atomic=False)


def _places(shard: GroupShard, group_id: str) -> list[tuple[str, list[int]]]:
    """The topics and partitions of a group's present offsets, in slices of at most `OFFSETS_A_STEP`."""
    vector = shard.offsets.groups.get(group_id, {})
    return [
        (topic, partitions[start : start + OFFSETS_A_STEP])
        for topic, partitions in ((topic, list(partitions)) for topic, partitions in vector.items())
        for start in range(0, len(partitions), OFFSETS_A_STEP)
    ]


def _expired(shard: GroupShard, group_id: str, topic: str, indexes: Sequence[int], timestamp_ms: int) -> Records:
    """Tombstones of the expired offsets of a topic."""
    group, offsets, retention_ms = shard.groups.get(group_id), shard.offsets, shard.settings.offsets_retention_ms
    if group is None or group.subscribes_to(topic):
        return []
    partitions = offsets.groups.get(group_id, {}).get(topic, {})
    records: Records = []
    for index in indexes:
        packed = partitions.get(index)
        if packed is None:
            continue
        value = decode_offset(packed)
        since_ms = group.expires_from(value.commit_timestamp)
        if since_ms is None:
            return []
        expire_ms = value.expire_timestamp if value.expire_timestamp != -1 else since_ms + retention_ms
        if timestamp_ms >= expire_ms and not offsets.is_pending(group_id, topic, index):
            records.append((OffsetCommitKey(group_id, topic, index), None))
    return records


def _group_tombstones(shard: GroupShard, group_id: str, gone: int) -> Records:
    """The records that delete an empty group, if `gone` are all of its offsets."""
    group, offsets = shard.groups.get(group_id), shard.offsets
    if group is None or group.state != "Empty" or group_id in offsets.pending:
        return []
    left = sum(map(len, offsets.groups.get(group_id, {}).values()))
    return group.tombstones() if left == gone else []


def forget_topics(shard: GroupShard, deleted_ms: Mapping[str, int], *, keeps_newer: bool = False) -> Iterator[Decision]:
    """Delete the groups' offsets of deleted topics (name -> time of the deletion in ms). The groups stay.

    Newer offsets stay if a new topic has that name; with `keeps_newer`, in any case.
    """
    offsets = shard.offsets
    records: Records = []
    looked = 0
    for group_id in [*offsets.groups, *(each for each in offsets.pending if each not in offsets.groups)]:
        forgotten = offsets.tombstones(group_id, deleted_ms)
        for start in range(0, len(forgotten) or 1, OFFSETS_A_STEP):
            step = forgotten[start : start + OFFSETS_A_STEP]
            records += [(key, None) for key, _ in step if not _is_newer(shard, key, deleted_ms, is_new=keeps_newer)]
            looked += 1 + len(step)
            if looked >= OFFSETS_A_STEP:
                yield Decision(records, is_atomic=False)
                looked, records = 0, []
    yield Decision(records, is_atomic=False)


def _is_newer(shard: GroupShard, key: Any, deleted_ms: Mapping[str, int], *, is_new: bool) -> bool:
    """Whether the offset was committed since the deletion, for a new topic of the same name."""
    if not is_new and not shard.topics.partitions_of(key.topic):
        return False
    packed = shard.offsets.groups.get(key.group, {}).get(key.topic, {}).get(key.partition)
    return packed is not None and decode_offset(packed).commit_timestamp > deleted_ms[key.topic]
