"""Append, read, find, roll, truncate: what a partition asks of its log."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records import compression
from headgate.protocol.records.batch import Record, build, iterate, read_header, set_crc, split
from headgate.protocol.steps import finish
from headgate.storage.config import LogConfig
from headgate.storage.log import appending, flushing, rolling
from headgate.storage.log.log import Log
from headgate.storage.log.validation import BROKER, CLIENT, HEADER, RECORDS, BatchOrigin, Depth
from headgate.storage.tests.builders import (
    NOW_MS,
    SMALL,
    append,
    assert_derived_state,
    batch,
    content,
    delete_old_segments,
    new_log,
    next_offset,
    no_checkpoint,
    numbered,
    open_store,
    read,
)
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.truncating import truncate_to


def refused(log: Log, data: memoryview, *, depth: Depth = HEADER, origin: BatchOrigin = CLIENT) -> ErrorCode:
    before = log.end_offset, content(log)
    with pytest.raises(KafkaError) as caught:
        appending.append(log, data, leader_epoch=0, now_ms=NOW_MS, depth=depth, origin=origin)
    assert (log.end_offset, content(log)) == before
    return caught.value.code


def patched(data: memoryview, position: int, form: str, value: int) -> memoryview:
    struct.pack_into(form, data, position, value)
    return data


def filled(count: int = 60, config: LogConfig = SMALL) -> Log:
    """Batches of one and two records in several segments; the timestamp of an offset is NOW_MS + 10 * offset."""
    log = new_log(config=config)
    for number in range(count):
        records = [Record(timestamp=NOW_MS + 10 * (log.end_offset + i), value=b"v" * 30) for i in range(1 + number % 2)]
        append(log, memoryview(build(records)))
    return log


LOG = filled()
BOUNDARIES = [header.base_offset for header in LOG.segments.headers(0)]


def test_an_append_gets_the_next_offsets() -> None:
    log = new_log()
    first = appending.append(log, batch(3), leader_epoch=4, now_ms=NOW_MS)
    second = appending.append(log, batch(2), leader_epoch=4, now_ms=NOW_MS)
    assert (first.first_offset, first.last_offset) == (0, 2)
    assert (second.first_offset, second.last_offset, log.end_offset) == (3, 4, 5)
    assert (first.log_append_time_ms, first.log_start_offset, first.max_timestamp, first.is_duplicate) == (
        -1,
        0,
        NOW_MS,
        False,
    )
    assert [(h.base_offset, h.partition_leader_epoch) for h, _ in split(content(log))] == [(0, 4), (3, 4)]


def test_offsets_are_patched_in_place() -> None:
    log = new_log()
    append(log, batch(2))
    data = batch(1)
    append(log, data)
    assert read_header(data).base_offset == 2


def test_bytes_that_cannot_be_written_to_are_copied() -> None:
    log = new_log()
    data = bytes(batch(1))
    append(log, batch(1), memoryview(data))
    assert read_header(data).base_offset == 0
    assert log.end_offset == 2


def test_several_batches_go_into_one_write() -> None:
    log = new_log()
    several = memoryview(bytearray(batch(2)) + batch(3))
    assert refused(log, several) is ErrorCode.INVALID_RECORD, "a client sends one"
    info = appending.append(log, several, leader_epoch=0, now_ms=NOW_MS, origin=BROKER)
    assert (info.first_offset, info.last_offset) == (0, 4)
    assert [r.offset for _, view in split(content(log)) for r in iterate(view)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "data,code",
    [
        (memoryview(b""), ErrorCode.INVALID_RECORD),
        (patched(batch(), 17, ">I", 1), ErrorCode.CORRUPT_MESSAGE),
        (patched(batch(), 0, ">q", 5), ErrorCode.INVALID_RECORD),
        (batch(is_control=True), ErrorCode.INVALID_RECORD),
        (batch(is_transactional=True), ErrorCode.INVALID_RECORD),
        (batch(is_transactional=True, producer_id=3, producer_epoch=0, base_sequence=0), ErrorCode.INVALID_TXN_STATE),
        (batch(timestamp=NOW_MS + 3_600_001), ErrorCode.INVALID_TIMESTAMP),
        (batch(producer_id=3, producer_epoch=0), ErrorCode.INVALID_RECORD),
        (batch(size=3000), ErrorCode.RECORD_LIST_TOO_LARGE),
    ],
)
def test_what_a_leader_refuses(data: memoryview, code: ErrorCode) -> None:
    log = new_log()
    append(log, batch())
    assert refused(log, data) is code


def test_a_codec_that_does_not_exist_is_refused() -> None:
    data = bytearray(batch())
    struct.pack_into(">h", data, 21, 5)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    assert refused(new_log(), memoryview(data)) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_batch_without_timestamps_is_taken() -> None:
    log = new_log()
    assert appending.append(log, batch(timestamp=-1), leader_epoch=0, now_ms=NOW_MS).max_timestamp == -1
    assert finish(log.max_timestamp(log.end_offset)) is None


def test_limits_of_the_topic() -> None:
    assert refused(new_log(config=LogConfig(max_message_bytes=90)), batch(size=50)) is ErrorCode.MESSAGE_TOO_LARGE
    late = LogConfig(message_timestamp_before_max_ms=100)
    assert refused(new_log(config=late), batch(timestamp=NOW_MS - 101)) is ErrorCode.INVALID_TIMESTAMP
    append(new_log(config=late), batch(timestamp=NOW_MS - 100))


def test_log_append_time_is_the_time_of_the_append() -> None:
    log = new_log(config=LogConfig(message_timestamp_type="LogAppendTime"))
    info = appending.append(log, batch(2, timestamp=5), leader_epoch=0, now_ms=NOW_MS)
    assert (info.log_append_time_ms, info.max_timestamp) == (NOW_MS, NOW_MS)
    assert [record.timestamp for record in iterate(content(log))] == [NOW_MS, NOW_MS]


@pytest.mark.parametrize("name,codec", [("gzip", 1), ("zstd", 4), ("uncompressed", 0)])
def test_compression_type_of_the_topic(name: str, codec: int) -> None:
    log = new_log(config=LogConfig(compression_type=name))
    append(log, batch(3, compression=compression.LZ4), batch(1, compression=codec))
    parts = split(content(log))
    assert [header.compression for header, _ in parts] == [codec, codec]
    assert [record.key for _, view in parts for record in iterate(view)] == [b"k0", b"k1", b"k2", b"k0"]


def test_a_compacted_topic_wants_keys() -> None:
    log = new_log(config=LogConfig(cleanup_policy=("compact",)))
    append(log, batch(2))
    assert refused(log, memoryview(build([Record(key=b"k"), Record()]))) is ErrorCode.INVALID_RECORD


def test_of_batches_that_the_broker_made_the_header_is_looked_at() -> None:
    log = new_log(config=LogConfig(cleanup_policy=("compact",), compression_type="gzip"))
    made = memoryview(build([Record(timestamp=NOW_MS, key=None, value=b"v")]))
    appending.append(log, made, leader_epoch=0, now_ms=NOW_MS, origin=BROKER)
    assert content(log) == bytes(made)
    assert refused(log, patched(made, 57, ">i", 2), origin=BROKER) is ErrorCode.INVALID_RECORD


def test_full_validation_reads_every_record() -> None:
    log = new_log()
    wrong_deltas = build([Record(offset=0), Record(offset=2)])
    struct.pack_into(">i", wrong_deltas, 57, 3)
    set_crc(wrong_deltas)
    appending.append(log, memoryview(bytearray(wrong_deltas)), leader_epoch=0, now_ms=NOW_MS)
    assert refused(log, memoryview(wrong_deltas), depth=RECORDS) is ErrorCode.INVALID_RECORD
    appending.append(log, batch(2), leader_epoch=0, now_ms=NOW_MS, depth=RECORDS)


# Producers


def test_a_duplicate_gets_the_old_offset() -> None:
    log = new_log()
    append(log, batch(4), numbered(0, 2), numbered(2, 2))
    info = appending.append(log, numbered(0, 2), leader_epoch=0, now_ms=NOW_MS)
    assert (info.is_duplicate, info.first_offset, info.last_offset, log.end_offset) == (True, 4, 5, 8)


def test_sequences_must_follow() -> None:
    log = new_log()
    append(log, numbered(0), numbered(1))
    assert refused(log, numbered(3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, numbered(1, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, numbered(0, epoch=1))
    assert refused(log, numbered(2, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_numbered_batches_come_alone() -> None:
    log = new_log()
    assert refused(log, memoryview(bytearray(numbered(0)) + numbered(1))) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("clean", [True, False])
def test_five_batches_are_remembered_over_a_restart(clean: bool) -> None:
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, bytes(16), SMALL, NOW_MS)
    append(log, *(numbered(number) for number in range(8)))
    if clean:
        store.close()
    else:
        files.locked.clear()
    log = open_store(files).logs["t", 0]
    for back in range(5):
        info = appending.append(log, numbered(7 - back), leader_epoch=0, now_ms=NOW_MS)
        assert (info.is_duplicate, info.first_offset) == (True, 7 - back)
    assert refused(log, numbered(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, numbered(8))


# Segments


def test_segments_roll_by_size() -> None:
    log = filled()
    assert all(segment.size <= SMALL.segment_bytes for segment in log.segments)
    assert [s.base_offset for s in log.segments[1:]] == [
        next_offset(read(log, s.base_offset)) for s in log.segments[:-1]
    ]
    assert_derived_state(log)


def test_segments_roll_by_the_time_of_records() -> None:
    log = new_log(config=LogConfig(segment_ms=1000))
    append(log, batch(timestamp=5), batch(timestamp=1005), batch(timestamp=1006))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_without_timestamps_roll_by_the_clock() -> None:
    log = new_log(config=LogConfig(segment_ms=1000))
    append(log, batch(timestamp=-1))
    assert not rolling.is_aged(log, NOW_MS + 1000)
    assert rolling.is_aged(log, NOW_MS + 1001)
    rolling.roll(log, NOW_MS + 1001)
    assert not rolling.is_aged(log, NOW_MS + 9999), "an empty segment stays"


def test_segments_roll_when_an_index_is_full() -> None:
    log = new_log(config=LogConfig(index_interval_bytes=0, segment_index_bytes=48))
    append(log, *(batch(timestamp=NOW_MS + number) for number in range(8)))
    assert len(log.segments) > 1
    assert all(segment.times.size <= 48 for segment in log.segments)


@given(offset=st.integers(0, 90))
@settings(max_examples=40, deadline=None)
def test_truncation(offset: int) -> None:
    log = filled()
    whole = [bytes(view) for header, view in split(content(log)) if header.last_offset < offset]
    flushing.flush(log)
    truncate_to(log, offset, no_checkpoint)
    assert log.end_offset == min(offset, 90)
    assert content(log) == b"".join(whole)
    assert log.recovery_point <= log.end_offset
    append(log, batch(2))
    assert content(log).startswith(b"".join(whole))
    assert_derived_state(log)


def test_truncation_forgets_producers_and_epochs() -> None:
    log = new_log()
    append(log, numbered(0))
    append(log, numbered(1), numbered(0, producer_id=8), leader_epoch=3)
    truncate_to(log, 1, no_checkpoint)
    assert log.epochs.entries == [(0, 0)]
    assert list(log.producers.by_id) == [7]
    assert refused(log, numbered(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, numbered(1), numbered(9, producer_id=8))


def test_retention_by_time() -> None:
    log = new_log(config=LogConfig(segment_bytes=500, retention_ms=1000))
    append(log, *(batch(timestamp=NOW_MS + 100 * number, size=100) for number in range(20)))
    count = len(log.segments)
    assert delete_old_segments(log, NOW_MS + 2000, up_to=0) == 0
    assert delete_old_segments(log, NOW_MS + 2000, up_to=log.end_offset) == 5
    assert len(log.segments) == count - 5
    assert log.start_offset == log.segments[0].base_offset > 0
    assert log.epochs.entries == [(0, log.start_offset)]
    assert next_offset(content(log)) == log.end_offset
    assert delete_old_segments(log, NOW_MS + 10_000, up_to=log.end_offset) == count - 5
    assert (log.start_offset, log.segments.size) == (log.end_offset, 0)


@pytest.mark.parametrize("failing", range(9))
def test_a_segment_that_cannot_be_deleted_is_tried_again(failing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    files = CrashingFiles()
    log = new_log(files, LogConfig(segment_bytes=500, retention_ms=1000))
    append(log, *(batch(timestamp=NOW_MS + 100 * number, size=100) for number in range(20)))
    due, done = files.rename, 0

    def fail(*paths: str) -> None:
        nonlocal done
        done += 1
        if done > failing:
            raise OSError(24, "Too many open files")
        due(*paths)

    with monkeypatch.context() as broken:
        broken.setattr(files, "rename", fail)
        with pytest.raises(OSError, match="Too many"):
            delete_old_segments(log, NOW_MS + 2000, log.end_offset)
    start = log.start_offset
    assert delete_old_segments(log, NOW_MS + 2000, log.end_offset) > 0
    assert log.start_offset == start == log.segments[0].base_offset
    kept = {f"{segment.base_offset:020d}.log" for segment in log.segments}
    assert {name for name in files.list(log.directory) if name.endswith(".log")} == kept
    assert next_offset(content(log)) == log.end_offset


def test_records_before_the_start_are_out_of_range() -> None:
    log = filled()
    log.advance_start(40)
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        log.read(39, 100, log.end_offset, at_least_one=True)
    assert finish(log.offset_for_time(NOW_MS, log.end_offset)) == (40, NOW_MS + 400, 0)
    assert delete_old_segments(log, NOW_MS, log.end_offset) > 0
    assert log.segments[0].base_offset <= 40


# Durability


def test_flush_policy_by_messages() -> None:
    log = new_log(config=LogConfig(flush_messages=3))
    append(log, batch(2))
    assert log.recovery_point == 0
    append(log, batch(2))
    assert log.recovery_point == 4


def test_a_flush_is_due_after_a_roll_or_flush_ms() -> None:
    log = new_log(config=LogConfig(flush_ms=1000))
    flushing.flush(log, NOW_MS)
    append(log, batch())
    assert not flushing.is_due(log, NOW_MS + 999)
    assert flushing.is_due(log, NOW_MS + 1000)
    flushing.flush(log, NOW_MS + 1000)
    append(log, batch())
    rolling.roll(log, NOW_MS)
    assert flushing.is_due(log, NOW_MS + 1000)


@pytest.mark.parametrize("room", [0, 10, 100])
def test_a_full_disk_leaves_the_log_as_it_was(room: int) -> None:
    files = CrashingFiles()
    log = new_log(files)
    append(log, batch(), numbered(0))
    before = content(log)
    files.room = room
    assert refused(log, numbered(1, size=200)) is ErrorCode.KAFKA_STORAGE_ERROR
    files.room = None
    assert content(log) == before
    assert files.file(log.segments[0].path).content == before
    append(log, numbered(1))
    assert_derived_state(log)
