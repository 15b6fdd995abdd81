"""The store of committed offsets: what a record does to it, and how small it keeps them."""

import gc
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.coordinator.offsets import Offsets, pack, unpack
from protocol import compiler
from protocol.errors import MalformedRequest
from protocol.internal.offsets import OffsetCommitKey, OffsetCommitValue, encode_value
from protocol.wire import ZERO_UUID

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
VALUES = st.builds(
    OffsetCommitValue,
    offset=INT64,
    leader_epoch=st.integers(-1, (1 << 31) - 1),
    metadata=st.text(max_size=200),
    commit_timestamp=INT64,
    topic_id=st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16),
)
EXPIRING = st.builds(
    OffsetCommitValue, offset=INT64, metadata=st.text(max_size=5), commit_timestamp=INT64, expire_timestamp=INT64
)


def old(value: OffsetCommitValue, version: int) -> bytes:
    """A value as an older broker wrote it."""
    out = bytearray(version.to_bytes(2, "big"))
    compiler.write(value, version, out, [])
    return bytes(out)


@settings(max_examples=50)
@given(VALUES | EXPIRING)
def test_what_is_packed_is_the_value_of_the_record(value: OffsetCommitValue) -> None:
    assert pack(value) == encode_value(value)
    assert unpack(pack(value)) == value


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("metadata", ["", "note"])
def test_values_of_older_brokers(version: int, metadata: str) -> None:
    value = OffsetCommitValue(5, -1, metadata, 1_000)
    if version >= 3:
        value.leader_epoch = 2
    if version == 1:
        value.expire_timestamp = 2_000
    assert unpack(old(value, version)) == value


@settings(max_examples=50)
@given(st.binary(max_size=60))
def test_other_bytes_are_malformed(data: bytes) -> None:
    try:
        value = unpack(data)
    except MalformedRequest:
        return
    assert value.unknown_tags or unpack(pack(value)) == value


@pytest.mark.parametrize(
    "damage", [lambda data: data + b"\0", lambda data: data[:-1], lambda data: b"\0\x05" + data[2:], lambda _: b""]
)
@pytest.mark.parametrize("metadata", ["", "note"])
def test_damaged_values_are_malformed(damage: object, metadata: str) -> None:
    data = damage(pack(OffsetCommitValue(5, 2, metadata, 1_000)))  # type: ignore[operator]
    with pytest.raises(MalformedRequest):
        unpack(data)


def commit(offsets: Offsets, group: str, topic: str, partition: int, offset: int) -> None:
    offsets.replay(OffsetCommitKey(group, topic, partition), OffsetCommitValue(offset, commit_timestamp=1))


def test_the_latest_of_a_partition_is_kept() -> None:
    offsets = Offsets()
    for group, offset in (("g", 5), ("h", 9), ("g", 4)):
        commit(offsets, group, "t", 0, offset)
    commit(offsets, "g", "u", 3, 8)
    assert {place: value.offset for place, value in offsets.of("g").items()} == {("t", 0): 4, ("u", 3): 8}
    assert {place: value.offset for place, value in offsets.of("h").items()} == {("t", 0): 9}
    assert offsets.of("other") == {}


def test_a_tombstone_leaves_nothing_behind() -> None:
    offsets = Offsets()
    commit(offsets, "g", "t", 0, 5)
    commit(offsets, "g", "t", 1, 5)
    for key in (OffsetCommitKey("g", "t", 7), OffsetCommitKey("g", "u", 0), OffsetCommitKey("h", "t", 0)):
        offsets.replay(key, None)  # there is no such offset
    assert len(offsets.of("g")) == 2
    offsets.replay(OffsetCommitKey("g", "t", 0), None)
    assert list(offsets.of("g")) == [("t", 1)]
    offsets.replay(OffsetCommitKey("g", "t", 1), None)
    assert offsets.hard() == Offsets().hard()
    assert offsets.groups == {}


def test_the_tombstones_of_a_group() -> None:
    offsets = Offsets()
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        commit(offsets, "g", topic, partition, 5)
    commit(offsets, "h", "t", 0, 5)
    offsets.pending["g"] = {4: {"t": {1: b"", 2: b""}}}
    places = [("t", 0), ("t", 1), ("u", 0), ("t", 2)]
    assert offsets.tombstones("g") == [(OffsetCommitKey("g", *place), None) for place in places]
    assert offsets.tombstones("g", ["u", "gone"]) == [(OffsetCommitKey("g", "u", 0), None)]
    assert offsets.tombstones("other") == []


def test_an_offset_is_small_and_no_work_for_the_garbage_collector() -> None:
    offsets = Offsets()
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
