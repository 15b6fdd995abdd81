"""LogReplay: any log, in any pieces, comes to the state that its records say; nothing in it stops the load."""

from __future__ import annotations

import struct
from random import Random

import pytest
from crc32c import crc32c

from headgate.gateway.coordinator.decision import Decision
from headgate.gateway.coordinator.groups.classic.group import ClassicGroup
from headgate.gateway.coordinator.groups.group_shard import GroupShard
from headgate.gateway.coordinator.groups.settings import GroupSettings
from headgate.gateway.coordinator.groups.shard_factory import new_shard
from headgate.gateway.coordinator.groups.tests.groups import FakeTopics
from headgate.gateway.coordinator.log_replay import RECORDS_A_STEP, LogReplay
from headgate.gateway.coordinator.tests.coordinator_bench import GROUPS_LOG
from headgate.protocol.internal.offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from headgate.protocol.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, Record, build

NOW_MS = 1_700_000_000_000


def new_loading(start_offset: int = 0) -> LogReplay[GroupShard]:
    return LogReplay(new_shard(GroupSettings(), FakeTopics({}), Random(0), lambda: NOW_MS), start_offset)


def record(offset: int | None, group: str = "g", topic: str = "t", partition: int = 0) -> Record:
    value = None if offset is None else encode_value(OffsetCommitValue(offset, -1, "", NOW_MS))
    return Record(timestamp=NOW_MS, key=encode_key(OffsetCommitKey(group, topic, partition)), value=value)


def log(*batches: list[Record], **options: object) -> bytes:
    """Batches as a log has them, one behind the other."""
    data, offset = b"", 0
    for records in batches:
        data += build(records, base_offset=offset, **options)  # type: ignore[arg-type]
        offset += len(records)
    return data


def load(data: bytes, piece: int = 1 << 20, start_offset: int = 0) -> LogReplay[GroupShard]:
    loading = new_loading(start_offset)
    for position in range(0, len(data), piece):
        for _ in loading.replay(data[position : position + piece]):
            pass
    return loading


def offsets(loading: LogReplay[GroupShard], group: str = "g") -> dict[tuple[str, int], int]:
    return {partition: value.offset for partition, value in loading.shard.offsets.of(group).items()}


@pytest.mark.parametrize("piece", [1, 60, 61, 62, 200, 1 << 20])
@pytest.mark.parametrize("codec", [0, 2])
def test_pieces_of_any_size(piece: int, codec: int) -> None:
    data = log([record(1), record(2)], [record(3, topic="u")], [record(4), record(5, partition=1)], compression=codec)
    loading = load(data, piece)
    assert offsets(loading) == {("t", 0): 4, ("u", 0): 3, ("t", 1): 5}
    assert (loading.replayed, loading.skipped, loading.end_offset) == (5, 0, 5)


def test_a_batch_that_was_only_begun_says_how_much_is_wanted() -> None:
    data = log([record(1)])
    loading = new_loading()
    list(loading.replay(data[:40]))
    assert loading.wanted() == 0  # nobody knows yet
    list(loading.replay(data[40:70]))
    assert loading.wanted() == len(data) - 70
    list(loading.replay(data[70:]))
    assert (loading.wanted(), loading.replayed) == (0, 1)


def test_what_a_segment_ends_with_does_not_go_on_in_the_next() -> None:
    data = log([record(1)])
    loading = new_loading()
    list(loading.replay(data[:-1]))
    loading.forget_rest()
    list(loading.replay(data))
    assert (loading.replayed, loading.skipped) == (1, 0)


def test_it_can_be_put_down_often() -> None:
    steps = list(new_loading().replay(log([record(n, partition=n) for n in range(RECORDS_A_STEP * 3)])))
    assert len(steps) >= 3


def test_tombstones_and_groups_that_come_again() -> None:
    """An offset behind the tombstone of its group makes the group anew, as it did when it was live."""
    gone = Record(timestamp=NOW_MS, key=encode_key(GroupMetadataKey("g")), value=None)
    loading = load(log([record(1), record(2)], [record(None), gone]))
    assert (offsets(loading), list(loading.shard.groups)) == ({}, [])
    loading = load(log([record(1), record(2)], [record(None), gone], [record(3)]))
    assert (offsets(loading), list(loading.shard.groups)) == ({("t", 0): 3}, ["g"])


def test_records_before_the_start_of_the_log_are_left_out() -> None:
    data = log([record(1)], [record(2, topic="u")], [record(3, topic="w")])
    assert offsets(load(data, start_offset=1)) == {("u", 0): 2, ("w", 0): 3}


@pytest.mark.parametrize(
    "bad",
    [
        Record(timestamp=NOW_MS, key=None, value=b"v"),
        Record(timestamp=NOW_MS, key=b"\0", value=b"v"),
        Record(timestamp=NOW_MS, key=b"\0\1\0\1g\0\1t", value=b"v"),
        Record(timestamp=NOW_MS, key=record(1).key, value=b""),
        Record(timestamp=NOW_MS, key=record(1).key, value=b"\0\x63" + bytes(22)),
        Record(timestamp=NOW_MS, key=record(1).key, value=b"\0\4short"),
        Record(timestamp=NOW_MS, key=encode_key(GroupMetadataKey("g")), value=b"\0\3"),
    ],
)
@pytest.mark.parametrize("before", [[], [record(9)]])
def test_what_cannot_be_decoded_is_counted_and_skipped(bad: Record, before: list[Record]) -> None:
    loading = load(log([*before, bad, record(2, partition=1)], [record(3, topic="u")]))
    assert loading.skipped == 1
    assert f"the record at offset {len(before)}" in loading.problem
    assert offsets(loading) == {**({("t", 0): 9} if before else {}), ("t", 1): 2, ("u", 0): 3}


def test_a_batch_with_a_wrong_checksum_is_skipped() -> None:
    first, second = log([record(1)]), build([record(2, topic="u")], base_offset=1)
    loading = load(first[:-1] + bytes([first[-1] ^ 1]) + second)
    assert (loading.skipped, offsets(loading)) == (1, {("u", 0): 2})
    assert "wrong checksum" in loading.problem


def test_bytes_that_are_no_batch_end_a_piece() -> None:
    loading = load(log([record(1)]) + bytes(100))
    assert (loading.skipped, offsets(loading)) == (1, {("t", 0): 1})


def test_kinds_of_groups_that_are_not_served_are_counted() -> None:
    unknown = Record(timestamp=NOW_MS, key=struct.pack(">h", 11) + b"a share group", value=b"v")
    loading = load(log([unknown, record(1)]))
    assert (loading.unknown, loading.skipped, offsets(loading)) == (1, 0, {("t", 0): 1})


@pytest.mark.parametrize("marker, expected", [(1, {("t", 0): 7}), (0, {("t", 0): 1}), (None, {("t", 0): 1})])
def test_offsets_of_a_transaction_count_when_it_was_committed(
    marker: int | None, expected: dict[tuple[str, int], int]
) -> None:
    data = log([record(1)])
    data += build([record(7)], base_offset=1, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    if marker is not None:
        end = Record(timestamp=NOW_MS, key=struct.pack(">hh", 0, marker), value=struct.pack(">hi", 0, 0))
        data += build([end], base_offset=2, producer_id=5, producer_epoch=0, is_transactional=True, is_control=True)
    assert offsets(load(data)) == expected


def test_a_marker_that_was_cleaned_away_ends_nothing() -> None:
    """Kafka's cleaner keeps the last batch of a producer without its records."""
    end = Record(timestamp=NOW_MS, key=struct.pack(">hh", 0, 1), value=struct.pack(">hi", 0, 0))
    control = build([end], producer_id=5, producer_epoch=0, is_transactional=True, is_control=True)
    header = HEADER.unpack_from(control)
    empty = bytearray(HEADER.pack(*header[:1], HEADER_SIZE - LOG_OVERHEAD, *header[2:-1], 0))
    empty[17:21] = struct.pack(">I", crc32c(bytes(empty[21:])))
    loading = load(bytes(empty) + build([record(1)], base_offset=1))
    assert (loading.skipped, offsets(loading)) == (0, {("t", 0): 1})


def test_a_record_that_a_machine_trips_over_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def trip(*_: object) -> None:
        raise KeyError("no such protocol")

    monkeypatch.setattr(ClassicGroup, "replay", trip)
    group = Record(
        timestamp=NOW_MS,
        key=encode_key(GroupMetadataKey("g")),
        value=encode_value(GroupMetadataValue("consumer", 1, "range", "m", NOW_MS, [])),
    )
    loading = load(log([group, record(1)]))
    assert (loading.skipped, offsets(loading)) == (1, {("t", 0): 1})
    assert "no such protocol" in loading.problem


def test_what_the_coordinator_writes_is_what_is_loaded() -> None:
    records = [(OffsetCommitKey("g", "t", n), OffsetCommitValue(n, -1, "x" * n, NOW_MS)) for n in range(50)]
    decision = Decision([*records, (OffsetCommitKey("g", "t", 0), None)])
    loading = load(bytes(GROUPS_LOG.encode(decision, NOW_MS)))
    assert offsets(loading) == {("t", n): n for n in range(1, 50)}
