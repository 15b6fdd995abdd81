"""Offsets that nobody may want any more: of groups that are long empty, and of topics that were deleted.

Kafka's rules (KIP-211, and its OffsetMetadataManager). An offset expires

| in a group that | when |
|---|---|
| rebalances | not now |
| has members that are subscribed to its topic | not as long as they are |
| is empty | `offsets.retention.minutes` after it became so; where its record does not say when: after the commit |
| else: never had members (a "simple" consumer), or is stable | so long after the commit |

A commit with a retention of its own (OffsetCommit v2-v4) sets the time in the last two rows. An open transaction keeps
the offsets that it is about to change. An empty group goes with its last offset, and at once if it has none.
`Group.expires_from` and `Group.subscribes_to` know the groups; the rest is here.

Both are iterators: each step looks at some thousand offsets and decides what is written of them, so a million offsets
stop nobody. Between two steps the shard may change in any way; a step is taken when the one before it was replayed, or
failed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from gateway.coordinator.decision import Decision, Records
from protocol.internal.offsets import OffsetCommitKey, decode_offset

if TYPE_CHECKING:
    from gateway.coordinator.groups import Group, Shard

OFFSETS_A_STEP = 2_000


def expire(shard: Shard, timestamp_ms: int) -> Iterator[Decision]:
    """Look through all groups once, as they are at `timestamp_ms`: tombstones of offsets, and of groups."""
    looked = 0
    records: Records = []
    for group_id in list(shard.groups):
        gone = 0  # offsets of this group that end with the records not yet yielded
        for topic in list(shard.offsets.groups.get(group_id, ())):
            group = shard.groups.get(group_id)
            if group is None:
                break
            expired = _expired(shard, group, topic, timestamp_ms)
            records += expired
            gone += len(expired)
            looked += len(shard.offsets.groups.get(group_id, {}).get(topic, ()))
            if looked >= OFFSETS_A_STEP:
                yield Decision(records, is_atomic=False)
                looked, gone, records = 0, 0, []
        records += _group_tombstones(shard, group_id, gone)
        looked += 1
        if looked >= OFFSETS_A_STEP:
            yield Decision(records, is_atomic=False)
            looked, records = 0, []
    yield Decision(records, is_atomic=False)


def _expired(shard: Shard, group: Group, topic: str, timestamp_ms: int) -> Records:
    """Tombstones of the offsets of one topic that are expired."""
    if group.subscribes_to(topic):
        return []
    retention_ms, offsets, group_id = shard.settings.offsets_retention_ms, shard.offsets, group.group_id
    records: Records = []
    for partition, packed in offsets.groups.get(group_id, {}).get(topic, {}).items():
        value = decode_offset(packed)
        since_ms = group.expires_from(value.commit_timestamp)
        if since_ms is None:
            continue
        expire_ms = value.expire_timestamp if value.expire_timestamp != -1 else since_ms + retention_ms
        if timestamp_ms >= expire_ms and not offsets.is_pending(group_id, topic, partition):
            records.append((OffsetCommitKey(group_id, topic, partition), None))
    return records


def _group_tombstones(shard: Shard, group_id: str, gone: int) -> Records:
    """What ends an empty group, if `gone` are all of its offsets."""
    group, offsets = shard.groups.get(group_id), shard.offsets
    if group is None or group.state != "Empty" or group_id in offsets.pending:
        return []
    left = sum(map(len, offsets.groups.get(group_id, {}).values()))
    return group.tombstones() if left == gone else []


def forget_topics(shard: Shard, names: Collection[str]) -> Iterator[Decision]:
    """Topics were deleted: so are the offsets that groups have of them. The groups stay."""
    looked, offsets = 0, shard.offsets
    records: Records = []
    for group_id in [*offsets.groups, *(each for each in offsets.pending if each not in offsets.groups)]:
        forgotten = offsets.tombstones(group_id, names)
        records += forgotten
        looked += 1 + len(forgotten)
        if looked >= OFFSETS_A_STEP:
            yield Decision(records, is_atomic=False)
            looked, records = 0, []
    yield Decision(records, is_atomic=False)
