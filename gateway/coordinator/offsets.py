"""The committed offsets of the groups of a shard.

An offset is kept as the value of its record, as bytes: `group -> topic -> partition -> bytes`. That is the smallest
form (24 bytes and the object around them), the garbage collector does not look into it, and a load puts records in
their places without reading them. `decode_offset` reads it. What requests do with offsets stands in
`offset_requests.py`, how they expire in `expiry.py`.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Collection

from headgate.gateway.coordinator.decision import Records
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue, decode_offset, encode_value

Partitions = dict[int, bytes]
Vector = dict[str, Partitions]
"""The offsets of a group, by topic and partition; each is a value of a record, for `decode_offset`."""


class Snapshot:
    """The offsets of one group as they were when it was made, whatever is committed since.

    A topic is copied when its offsets first change; so the snapshot of a group that nobody commits to costs nothing.
    """

    __slots__ = ("__weakref__", "_before", "_vector", "group_id", "pending")

    def __init__(self, group_id: str, vector: Vector, pending: frozenset[tuple[str, int]]) -> None:
        self.group_id = group_id
        self.pending = pending
        """Topics and partitions whose offsets an open transaction was about to commit."""
        self._vector = vector
        self._before: Vector = {}

    def topic(self, name: str) -> Partitions:
        """The offsets of one topic."""
        before = self._before.get(name)
        return self._vector.get(name, {}) if before is None else before

    def keep(self, name: str) -> None:
        """The offsets of a topic are about to change."""
        if name not in self._before:
            self._before[name] = dict(self._vector.get(name, {}))


class Offsets:
    """The offsets of all groups in a shard.

    `pending` is for transactions, which come with a later issue: group -> producer id -> offsets that TxnOffsetCommit
    has written and no marker has ended. Nothing fills it yet; all that reads it is here.
    """

    def __init__(self) -> None:
        self.groups: dict[str, Vector] = {}
        self.pending: dict[str, dict[int, Vector]] = {}
        self._snapshots: list[weakref.ref[Snapshot]] = []

    def of(self, group_id: str) -> dict[tuple[str, int], OffsetCommitValue]:
        """The offsets of a group by topic and partition, as they are now."""
        return {
            (topic, partition): decode_offset(packed)
            for topic, partitions in self.groups.get(group_id, {}).items()
            for partition, packed in partitions.items()
        }

    def snapshot(self, group_id: str, *, with_pending: bool = False, is_for_now: bool = False) -> Snapshot:
        """The offsets of a group as they are now, for whoever reads them slowly; forgotten with its last reference.

        `is_for_now`: they are read before anything is committed.
        """
        pending: frozenset[tuple[str, int]] = frozenset()
        if with_pending and group_id in self.pending:
            vectors = self.pending[group_id].values()
            pending = frozenset((topic, index) for vector in vectors for topic in vector for index in vector[topic])
        snapshot = Snapshot(group_id, self.groups.get(group_id, {}), pending)
        if not is_for_now:
            self._snapshots.append(weakref.ref(snapshot, self._snapshots.remove))
        return snapshot

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, _: int = 0) -> None:
        """Take a record: an offset, or the end of one."""
        self.put(key.group, key.topic, key.partition, None if value is None else encode_value(value))

    def put(self, group_id: str, topic: str, partition: int, packed: bytes | None) -> None:
        """Take what a record says; None removes the offset, if there is one."""
        if self._snapshots:
            self._keep(group_id, topic)
        vector = self.groups.get(group_id)
        if packed is None:
            if vector is not None and topic in vector:
                self._remove(group_id, vector, topic, partition)
            return
        if vector is None:
            vector = self.groups[group_id] = {}
        partitions = vector.get(topic)
        if partitions is None:
            # Many groups read the same topics: the name is kept once
            partitions = vector[sys.intern(topic)] = {}
        partitions[partition] = packed

    def _keep(self, group_id: str, topic: str) -> None:
        for reference in self._snapshots:
            snapshot = reference()
            if snapshot is not None and snapshot.group_id == group_id:
                snapshot.keep(topic)

    def _remove(self, group_id: str, vector: Vector, topic: str, partition: int) -> None:
        partitions = vector[topic]
        partitions.pop(partition, None)
        if not partitions:
            del vector[topic]
            if not vector:
                del self.groups[group_id]

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction is about to commit an offset of that partition."""
        return group_id in self.pending and any(
            partition in vector.get(topic, ()) for vector in self.pending[group_id].values()
        )

    def tombstones(self, group_id: str, topics: Collection[str] | None = None) -> Records:
        """The records that remove all offsets of a group, or those of some topics; those of open transactions too."""
        vectors = [self.groups.get(group_id, {}), *self.pending.get(group_id, {}).values()]
        named = {
            (topic, partition): None
            for vector in vectors
            for topic in (vector if topics is None else topics)
            for partition in vector.get(topic, ())
        }
        return [(OffsetCommitKey(group_id, topic, partition), None) for topic, partition in named]

    def persistent_state(self) -> object:
        """All of it, to be compared: a value may be packed in more than one way."""
        return {group_id: self.of(group_id) for group_id in self.groups}
