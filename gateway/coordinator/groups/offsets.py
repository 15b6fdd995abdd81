"""The committed offsets of the groups of a shard, and the pending offsets of open transactions.

An offset is stored as its record's value, in bytes: `group -> topic -> partition -> bytes`. This form is the smallest
(24 bytes and the object around them), the garbage collector does not scan it, and a load stores values without decoding
them. `decode_offset` decodes a value. `offset_requests.py` has the requests about offsets, `offset_expiration.py` their
removal.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Collection, Iterator

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch, Records
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue, decode_offset, encode_value

PartitionOffsets = dict[int, bytes]
Vector = dict[str, PartitionOffsets]
"""The offsets of a group, by topic and partition; each is a record's value, for `decode_offset`."""

_ORDER_BYTES = 8
_SUPERSEDED = b""


class OffsetsSnapshot:
    """The offsets of one group at the creation of the snapshot, unaffected by later commits.

    A topic is copied before its offsets first change; so a snapshot costs nothing if the group commits nothing.
    """

    __slots__ = ("__weakref__", "_before", "_vector", "group_id", "pending")

    def __init__(self, group_id: str, vector: Vector, pending: frozenset[tuple[str, int]]) -> None:
        self.group_id = group_id
        self.pending = pending
        """Topics and partitions whose offsets an open transaction was about to commit."""
        self._vector = vector
        self._before: Vector = {}

    def topic(self, name: str) -> PartitionOffsets:
        before = self._before.get(name)
        return self._vector.get(name, {}) if before is None else before

    def keep(self, name: str) -> None:
        """Copy the offsets of a topic that are about to change."""
        if name not in self._before:
            self._before[name] = dict(self._vector.get(name, {}))


class GroupOffsets:
    """The offsets of all groups in a shard.

    `pending`: group -> producer id -> offsets that TxnOffsetCommit has written and no marker has ended. A pending
    offset is its order in the log, 8 bytes, and the record's value; or empty, once a later commit has superseded it.
    The end of a transaction must not restore an offset that is older than the committed one: compaction may have
    removed its record, and a load would then find another offset. Kafka compares record offsets for this purpose.
    """

    def __init__(self) -> None:
        self.groups: dict[str, Vector] = {}
        self.pending: dict[str, dict[int, Vector]] = {}
        self._groups_of: dict[int, dict[str, None]] = {}  # producer id -> the groups that it may have offsets in
        self._pending_order = 0
        self._snapshots: list[weakref.ref[OffsetsSnapshot]] = []

    def of(self, group_id: str) -> dict[tuple[str, int], OffsetCommitValue]:
        """The present offsets of a group, by topic and partition."""
        return {
            (topic, partition): decode_offset(packed)
            for topic, partitions in self.groups.get(group_id, {}).items()
            for partition, packed in partitions.items()
        }

    def snapshot(self, group_id: str, *, with_pending: bool = False, is_for_now: bool = False) -> OffsetsSnapshot:
        """The present offsets of a group, for a slow reader; the snapshot ends with its last reference.

        `is_for_now`: the reader finishes before any commit.
        """
        pending: frozenset[tuple[str, int]] = frozenset()
        if with_pending and group_id in self.pending:
            vectors = self.pending[group_id].values()
            pending = frozenset((topic, index) for vector in vectors for topic in vector for index in vector[topic])
        snapshot = OffsetsSnapshot(group_id, self.groups.get(group_id, {}), pending)
        if not is_for_now:
            self._snapshots.append(weakref.ref(snapshot, self._snapshots.remove))
        return snapshot

    def replay(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer: ProducerIdAndEpoch | None = None
    ) -> None:
        """Apply a record: an offset or a tombstone. With a producer the offset is pending until `end_transaction`."""
        if producer is not None and value is not None:
            self._pending_order += 1
            packed = self._pending_order.to_bytes(_ORDER_BYTES, "big") + encode_value(value)
            vector = self.pending.setdefault(key.group, {}).setdefault(producer.producer_id, {})
            vector.setdefault(sys.intern(key.topic), {})[key.partition] = packed
            self._groups_of.setdefault(producer.producer_id, {})[key.group] = None
        else:
            self.put(key.group, key.topic, key.partition, None if value is None else encode_value(value))

    def put(self, group_id: str, topic: str, partition: int, packed: bytes | None) -> None:
        """Apply a record outside of transactions; None removes the offset and the partition's pending offsets."""
        if self._snapshots:
            self._keep(group_id, topic)
        if self.pending and group_id in self.pending:
            self._supersede(group_id, topic, partition, is_gone=packed is None)
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

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a transaction whose marker was replayed."""
        for group_id in self._groups_of.pop(producer_id, ()):
            vectors = self.pending.get(group_id, {})
            ended = vectors.pop(producer_id, {})  # tombstones may have removed it
            if not vectors:
                self.pending.pop(group_id, None)
                if is_commit:
                    self._commit_alone(group_id, ended)
                continue
            for topic, partitions in ended.items() if is_commit else ():
                for partition, packed in partitions.items():
                    if packed != _SUPERSEDED:
                        self._commit_pending(group_id, topic, partition, packed)

    def _commit_alone(self, group_id: str, ended: Vector) -> None:
        """Commit all offsets of the only transaction of a group, of which there may be very many."""
        for topic, partitions in ended.items():
            committed = {index: packed[_ORDER_BYTES:] for index, packed in partitions.items() if packed != _SUPERSEDED}
            if committed:
                if self._snapshots:
                    self._keep(group_id, topic)
                self.groups.setdefault(group_id, {}).setdefault(topic, {}).update(committed)

    def _commit_pending(self, group_id: str, topic: str, partition: int, packed: bytes) -> None:
        """Commit an offset, and keep later offsets of other transactions pending."""
        later = {
            producer_id: vector[topic][partition]
            for producer_id, vector in self._pending_of(group_id, topic, partition)
            if vector[topic][partition] > packed
        }
        self.put(group_id, topic, partition, packed[_ORDER_BYTES:])
        for producer_id, kept in later.items():
            self.pending[group_id][producer_id][topic][partition] = kept

    def _supersede(self, group_id: str, topic: str, partition: int, *, is_gone: bool) -> None:
        """Supersede or remove the pending offsets of a partition: a commit or a tombstone came after them."""
        vectors = self.pending[group_id]
        for producer_id, vector in list(self._pending_of(group_id, topic, partition)):
            if not is_gone:
                vector[topic][partition] = _SUPERSEDED
                continue
            del vector[topic][partition]
            if not vector[topic]:
                del vector[topic]
            if not vector:
                del vectors[producer_id]
                if not vectors:
                    del self.pending[group_id]

    def _pending_of(self, group_id: str, topic: str, partition: int) -> Iterator[tuple[int, Vector]]:
        """The producers with a pending offset of this partition, each with all its pending offsets in the group."""
        for producer_id, vector in self.pending.get(group_id, {}).items():
            if partition in vector.get(topic, ()):
                yield producer_id, vector

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
        return any(True for _ in self._pending_of(group_id, topic, partition))

    def groups_of(self, producer_id: int) -> Collection[str]:
        """The groups that may have pending offsets of a producer."""
        return self._groups_of.get(producer_id, ())

    def pending_offsets(self, group_id: str, producer_id: int) -> dict[tuple[str, int], int]:
        """The offsets that the producer's open transaction would commit now, by topic and partition."""
        vector = self.pending.get(group_id, {}).get(producer_id, {})
        return {
            (topic, partition): decode_offset(packed[_ORDER_BYTES:]).offset
            for topic, partitions in vector.items()
            for partition, packed in partitions.items()
            if packed != _SUPERSEDED
        }

    def tombstones(self, group_id: str, topics: Collection[str] | None = None) -> Records:
        """The records that remove a group's offsets, of all or of some topics, pending offsets included."""
        vectors = [self.groups.get(group_id, {}), *self.pending.get(group_id, {}).values()]
        named = {
            (topic, partition): None
            for vector in vectors
            for topic in (vector if topics is None else topics)
            for partition in vector.get(topic, ())
        }
        return [(OffsetCommitKey(group_id, topic, partition), None) for topic, partition in named]
