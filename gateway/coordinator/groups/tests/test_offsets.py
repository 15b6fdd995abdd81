"""The store of committed offsets: what a record does to it, and how small it keeps them."""

import gc
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.groups.offsets import GroupOffsets, OffsetsSnapshot
from headgate.gateway.coordinator.groups.tests.groups import state_of_offsets
from headgate.protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue, decode_offset


def commit(offsets: GroupOffsets, group: str, topic: str, partition: int, offset: int) -> None:
    offsets.replay(OffsetCommitKey(group, topic, partition), OffsetCommitValue(offset, commit_timestamp=1))


def test_the_latest_of_a_partition_is_kept() -> None:
    offsets = GroupOffsets()
    for group, offset in (("g", 5), ("h", 9), ("g", 4)):
        commit(offsets, group, "t", 0, offset)
    commit(offsets, "g", "u", 3, 8)
    assert {place: value.offset for place, value in offsets.of("g").items()} == {("t", 0): 4, ("u", 3): 8}
    assert {place: value.offset for place, value in offsets.of("h").items()} == {("t", 0): 9}
    assert offsets.of("other") == {}


def test_a_tombstone_leaves_nothing_behind() -> None:
    offsets = GroupOffsets()
    commit(offsets, "g", "t", 0, 5)
    commit(offsets, "g", "t", 1, 5)
    for key in (OffsetCommitKey("g", "t", 7), OffsetCommitKey("g", "u", 0), OffsetCommitKey("h", "t", 0)):
        offsets.replay(key, None)  # there is no such offset
    assert len(offsets.of("g")) == 2
    offsets.replay(OffsetCommitKey("g", "t", 0), None)
    assert list(offsets.of("g")) == [("t", 1)]
    offsets.replay(OffsetCommitKey("g", "t", 1), None)
    assert state_of_offsets(offsets) == state_of_offsets(GroupOffsets())
    assert offsets.groups == {}


def test_the_tombstones_of_a_group() -> None:
    offsets = GroupOffsets()
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        commit(offsets, "g", topic, partition, 5)
    commit(offsets, "h", "t", 0, 5)
    offsets.pending["g"] = {4: {"t": {1: b"", 2: b""}}}
    places = [("t", 0), ("t", 1), ("u", 0), ("t", 2)]
    assert offsets.tombstones("g") == [(OffsetCommitKey("g", *place), None) for place in places]
    assert offsets.tombstones("g", ["u", "gone"]) == [(OffsetCommitKey("g", "u", 0), None)]
    assert offsets.tombstones("other") == []


def test_an_offset_is_small_and_no_work_for_the_garbage_collector() -> None:
    offsets = GroupOffsets()
    for group in range(10):
        for partition in range(100):
            commit(offsets, f"group {group}", str(b"topic", "ascii"), partition, 1 << 40)
    vectors = list(offsets.groups.values())
    assert len({id(topic) for vector in vectors for topic in vector}) == 1
    inner = [partitions for vector in vectors for partitions in vector.values()]
    assert not any(gc.is_tracked(partitions) for partitions in inner)
    values = [packed for partitions in inner for packed in partitions.values()]
    size = sum(map(sys.getsizeof, [*inner, *values])) / len(values)
    assert size < 120


def told(snapshot: OffsetsSnapshot, *topics: str) -> dict[tuple[str, int], int]:
    return {
        (name, index): decode_offset(packed).offset for name in topics for index, packed in snapshot.topic(name).items()
    }


def test_a_snapshot_stays_whatever_is_committed() -> None:
    offsets = GroupOffsets()
    for topic, partition in (("t", 0), ("t", 1), ("u", 0), ("v", 0)):
        commit(offsets, "g", topic, partition, 5)
    snapshot, other = offsets.snapshot("g"), offsets.snapshot("h")
    commit(offsets, "g", "t", 1, 6)
    commit(offsets, "g", "t", 2, 6)
    commit(offsets, "g", "w", 0, 6)
    offsets.replay(OffsetCommitKey("g", "u", 0), None)
    commit(offsets, "h", "t", 0, 6)
    assert told(snapshot, "t", "u", "v", "w") == {("t", 0): 5, ("t", 1): 5, ("u", 0): 5, ("v", 0): 5}
    assert told(other, "t") == {}
    assert told(offsets.snapshot("g"), "t", "u", "v", "w")["t", 1] == 6
    for topic, partition in (("t", 0), ("t", 1), ("t", 2), ("v", 0), ("w", 0)):
        offsets.replay(OffsetCommitKey("g", topic, partition), None)
    commit(offsets, "g", "t", 0, 7)
    assert told(snapshot, "t", "u", "v", "w") == {("t", 0): 5, ("t", 1): 5, ("u", 0): 5, ("v", 0): 5}


def test_a_snapshot_is_forgotten_with_its_reader() -> None:
    offsets = GroupOffsets()
    snapshots = [offsets.snapshot("g") for _ in range(3)]
    del snapshots[1]
    assert len(offsets._snapshots) == 2
    snapshots.clear()
    assert offsets._snapshots == []


def test_a_snapshot_knows_what_is_pending() -> None:
    offsets = GroupOffsets()
    offsets.pending["g"] = {1: {"t": {0: b""}}, 2: {"t": {1: b""}, "u": {0: b""}}}
    assert offsets.snapshot("g", with_pending=True).pending == {("t", 0), ("t", 1), ("u", 0)}
    assert not offsets.snapshot("g").pending


# Transactions


def test_an_offset_of_a_transaction_is_pending_until_its_marker() -> None:
    offsets = GroupOffsets()
    commit(offsets, "g", "t", 0, 5)
    for producer_id, offset in ((1, 8), (2, 9)):
        offsets.replay(
            OffsetCommitKey("g", "t", producer_id - 1),
            OffsetCommitValue(offset, commit_timestamp=1),
            ProducerIdAndEpoch(producer_id, 0),
        )
    assert [value.offset for value in offsets.of("g").values()] == [5]
    assert offsets.is_pending("g", "t", 0)
    offsets.end_transaction(1, is_commit=True)
    offsets.end_transaction(2, is_commit=False)
    offsets.end_transaction(3, is_commit=True)  # it wrote nothing here
    assert {place: value.offset for place, value in offsets.of("g").items()} == {("t", 0): 8}
    assert offsets.pending == {}


def test_a_tombstone_removes_what_is_pending() -> None:
    offsets = GroupOffsets()
    for partition in (0, 1):
        offsets.replay(
            OffsetCommitKey("g", "t", partition), OffsetCommitValue(8, commit_timestamp=1), ProducerIdAndEpoch(1, 0)
        )
    offsets.replay(OffsetCommitKey("g", "t", 0), None)
    assert not offsets.is_pending("g", "t", 0)
    offsets.replay(OffsetCommitKey("g", "t", 1), None)
    assert offsets.pending == {}


class KafkasOffsets:
    """Kafka's rule: an offset of a transaction counts if its record is behind that of the committed offset."""

    def __init__(self) -> None:
        self.committed: dict[int, tuple[int, int]] = {}
        self.pending: dict[int, dict[int, tuple[int, int]]] = {}

    def replay(self, place: int, record_offset: int, value: int | None, producer_id: int) -> None:
        if value is None:
            self.committed.pop(place, None)
            for own in self.pending.values():
                own.pop(place, None)
        elif producer_id:
            self.pending.setdefault(producer_id, {})[place] = record_offset, value
        else:
            self.committed[place] = record_offset, value

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        for place, (record_offset, value) in self.pending.pop(producer_id, {}).items():
            if is_commit and record_offset > self.committed.get(place, (-1, 0))[0]:
                self.committed[place] = record_offset, value


WRITES = st.tuples(st.integers(0, 2), st.sampled_from([True, True, False]), st.integers(0, 3))
ENDS = st.tuples(st.booleans(), st.integers(1, 3))


@pytest.mark.slow
@given(st.lists(st.one_of(WRITES, ENDS), max_size=40))
def test_transactions_and_plain_commits_mix_as_in_kafka(events: list[tuple[int, bool, int] | tuple[bool, int]]) -> None:
    offsets, kafkas = GroupOffsets(), KafkasOffsets()
    for record_offset, event in enumerate(events):
        if len(event) == 2:
            is_commit, producer_id = event
            offsets.end_transaction(producer_id, is_commit)
            kafkas.end(producer_id, is_commit=is_commit)
        else:
            place, has_value, producer_id = event
            value = OffsetCommitValue(record_offset, commit_timestamp=1) if has_value else None
            producer = ProducerIdAndEpoch(producer_id, 0) if producer_id else None
            offsets.replay(OffsetCommitKey("g", "t", place), value, producer)
            kafkas.replay(place, record_offset, record_offset if has_value else None, producer_id)
        live = {place: value.offset for (_, place), value in offsets.of("g").items()}
        assert live == {place: value for place, (_, value) in kafkas.committed.items()}
        pending = {place for own in kafkas.pending.values() for place in own}
        assert {place for place in range(3) if offsets.is_pending("g", "t", place)} == pending
