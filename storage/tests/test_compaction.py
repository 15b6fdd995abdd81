"""Segments written anew: which records are left, what their batches say, and that nothing else is lost."""

from __future__ import annotations

from dataclasses import asdict, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records import compression, legacy
from protocol.records.batch import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    Record,
    build,
    check_crc,
    iterate,
    read_header,
    with_records,
)
from protocol.records.compression import finish
from storage import compaction
from storage.compaction import Compaction, Damaged, Job, compact
from storage.config import LOG_APPEND_TIME
from storage.log import Log
from storage.tests.builders import NOW_MS, append, content, new_log, numbered, open_store, read
from storage.tests.compacted import (
    ABORT,
    COMMIT,
    COMPACT,
    assert_indexes,
    close_segment,
    headers,
    keyed,
    marker,
    offsets,
    put,
    records,
    transactional,
    values,
)
from storage.tests.crashing_files import CrashingFiles

DAY_MS = 86_400_000


def filled(*batches: bytearray, config: Any = COMPACT) -> Log:
    """A log of one closed segment with these batches, and an empty active one."""
    log = new_log(config=config)
    put(log, *batches)
    close_segment(log)
    return log


def test_of_each_key_the_last_record_is_left_where_it_was() -> None:
    log = filled(keyed(("a", "1"), ("b", "1")), keyed(("a", "2")), keyed(("c", "1"), ("a", "3")))
    before = {record.offset: record for record in records(log)}
    assert compact(log, NOW_MS)
    assert offsets(records(log)) == [1, 3, 4]
    assert [before[record.offset] for record in records(log)] == records(log), "times and headers too"
    assert log.compacted.offset == log.end_offset == 5
    assert not compact(log, NOW_MS), "there is nothing dirty"


def test_a_batch_keeps_its_bounds_and_says_what_is_in_it() -> None:
    log = filled(
        keyed(("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), producer_id=7, producer_epoch=3, base_sequence=9)
    )
    put(log, keyed(("c", "2")))
    close_segment(log)
    compact(log, NOW_MS)
    first = headers(log)[0]
    assert (first.base_offset, first.last_offset, first.records_count) == (0, 3, 2)
    assert (first.producer_id, first.producer_epoch, first.base_sequence) == (7, 3, 9)
    assert first.max_timestamp == NOW_MS + 2, "that of the records that are left"
    assert all(check_crc(read(log, header.base_offset)[: header.size]) for header in headers(log))


def test_what_needs_no_change_is_the_same_bytes() -> None:
    log = filled(keyed(("a", "1"), ("b", "1")), keyed(("c", "1")))
    before = content(log)
    compact(log, NOW_MS)
    assert content(log) == before
    assert log.segments[0].is_sealed
    assert log.compacted.offset == 3


def test_a_record_without_a_key_goes() -> None:
    log = filled(keyed((None, "1"), ("a", "1"), (None, "2")), keyed((None, "3")), keyed(("b", "1")))
    compact(log, NOW_MS)
    assert offsets(records(log)) == [1, 4]


@pytest.mark.parametrize("codec", range(1, 5))
def test_the_codec_stays(codec: int) -> None:
    log = filled(keyed(("a", "1" * 100), ("b", "1" * 100), compression=codec), keyed(("a", "2"), compression=codec))
    compact(log, NOW_MS)
    assert [header.compression for header in headers(log)] == [codec, codec]
    assert offsets(records(log)) == [1, 2]


def test_segments_that_have_become_small_become_one() -> None:
    log = new_log(config=COMPACT)
    for number in range(60):
        append(log, memoryview(keyed((f"key{number % 3}", "v" * 100))))
    close_segment(log)
    assert len(log.segments) > 5
    compact(log, NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 55, 60]
    assert offsets(records(log)) == [57, 58, 59]
    assert [header.records_count for header in headers(log)] == [0, 1, 1, 1], "one is left to mark an end"
    assert_indexes(log)


def test_no_new_segment_is_larger_than_one_may_be() -> None:
    log = new_log(config=COMPACT)
    for number in range(60):
        append(log, memoryview(keyed((f"key{number}", "v" * 100))))
    close_segment(log)
    before = len(log.segments)
    compact(log, NOW_MS)
    assert len(log.segments) == before
    assert all(segment.size <= COMPACT.segment_bytes for segment in log.segments)


def test_segments_end_where_they_ended_so_that_a_scan_finds_no_gap() -> None:
    log = new_log(config=replace(COMPACT, segment_bytes=300))
    for _ in range(12):
        append(log, memoryview(keyed(("same", "v" * 100))))
    append(log, memoryview(keyed(("other", "v" * 100), ("same", None))))
    close_segment(log)
    compact(log, NOW_MS)
    assert offsets(records(log)) == [12, 13]
    ends = [segment.end_offset() for segment in log.segments]
    assert ends[:-1] == [segment.base_offset for segment in log.segments[1:]]
    assert [header.records_count for header in headers(log)].count(0) == len(log.segments) - 2 > 1
    files = log.pool.files
    assert isinstance(files, CrashingFiles)
    again = open_store(files.crash(Random(1), power=False), COMPACT)  # no checkpoint: all of it is scanned
    assert offsets(records(again.logs["t", 0])) == [12, 13]


# Tombstones


def test_a_deletion_marker_stays_for_a_while_and_goes_in_a_later_round() -> None:
    config = replace(COMPACT, delete_retention_ms=DAY_MS)
    log = filled(keyed(("a", "1")), keyed(("a", None), ("b", "1")), config=config)
    compact(log, NOW_MS)
    assert values(log) == {"a": None, "b": "1"}
    assert headers(log)[-1].delete_horizon_ms == NOW_MS + DAY_MS, "from the round that met it first"
    times = [record.timestamp for record in records(log)]
    assert times == [NOW_MS, NOW_MS + 1], "the horizon stands where the base of the times does"
    for now_ms, expected in ((NOW_MS + DAY_MS - 1, {"a": None}), (NOW_MS + DAY_MS, {})):
        put(log, keyed(("c", str(now_ms))))
        close_segment(log)
        compact(log, now_ms)
        assert values(log) == {"b": "1", "c": str(now_ms), **expected}
    first = headers(log)[0]
    assert (first.records_count, first.delete_horizon_ms) == (1, NOW_MS + DAY_MS)


def test_a_key_that_was_deleted_and_came_back_is_there() -> None:
    log = filled(keyed(("a", "1")), keyed(("a", None)), keyed(("a", "2")))
    compact(log, NOW_MS)
    assert values(log) == {"a": "2"}


def test_times_of_the_broker_are_those_of_the_batch() -> None:
    batch = keyed(("a", "1"), ("a", None), log_append_time_ms=NOW_MS + 77)
    log = filled(batch, config=replace(COMPACT, message_timestamp_type=LOG_APPEND_TIME))
    compact(log, NOW_MS)
    assert [record.timestamp for record in records(log)] == [NOW_MS + 77]
    assert headers(log)[0].is_log_append_time


# Producers


def test_an_idempotent_producer_goes_on_after_its_records_were_compacted() -> None:
    files = CrashingFiles()
    store = open_store(files, COMPACT)
    log = store.create("t", 0, bytes(16), COMPACT, NOW_MS)
    for sequence in range(5):
        append(log, memoryview(keyed(("a", str(sequence)), producer_id=7, producer_epoch=0, base_sequence=sequence)))
    append(log, memoryview(keyed(("a", "5"))))
    close_segment(log)
    compact(log, NOW_MS)
    assert values(log) == {"a": "5"}
    kept = headers(log)[0]
    assert (kept.last_offset, kept.base_sequence, kept.records_count) == (4, 4, 0), "its last batch, without a record"
    assert kept.base_timestamp == NO_TIMESTAMP
    assert kept.max_timestamp == NOW_MS
    store.close()
    for name in [name for name in files.list("/data/t-0") if name.endswith(".snapshot")]:
        files.remove(f"/data/t-0/{name}")
    log = open_store(files, COMPACT).logs["t", 0]
    again = keyed(("a", "4"), producer_id=7, producer_epoch=0, base_sequence=4)
    assert log.append(memoryview(again), leader_epoch=0, now_ms=NOW_MS).is_duplicate
    append(log, numbered(5))


def test_only_the_last_batch_of_a_producer_is_kept_for_it() -> None:
    log = filled(
        keyed(("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0),
        keyed(("a", "2"), producer_id=7, producer_epoch=0, base_sequence=1),
        keyed(("a", "3"), ("b", "1")),
    )
    put(log, keyed(("c", "1"), producer_id=8, producer_epoch=0, base_sequence=0))
    close_segment(log)
    compact(log, NOW_MS)
    assert [(header.producer_id, header.base_sequence) for header in headers(log)] == [(7, 1), (-1, -1), (8, 0)]
    log.producers.by_id.clear()  # they have expired
    put(log, keyed(("d", "1")))
    close_segment(log)
    compact(log, NOW_MS)
    assert [header.producer_id for header in headers(log)] == [-1, 8, -1]


# Transactions


def test_what_was_aborted_goes_at_once_and_stands_for_nothing() -> None:
    log = filled(
        keyed(("a", "kept")),
        transactional(("a", "aborted"), ("b", "aborted")),
        marker(ABORT),
        transactional(("b", "committed"), sequence=2),
        marker(COMMIT),
        keyed(("c", "1")),
    )
    log.producers.by_id.clear()
    compact(log, NOW_MS)
    assert values(log) == {"a": "kept", "b": "committed", "c": "1"}
    assert [header.base_offset for header in headers(log)] == [0, 3, 4, 5, 6], "both markers are there"


def test_a_marker_goes_when_all_of_its_transaction_is_gone_and_its_time_is_over() -> None:
    config = replace(COMPACT, delete_retention_ms=DAY_MS)
    log = filled(transactional(("a", "1")), marker(COMMIT), keyed(("a", "2")), keyed(("z", "1")), config=config)
    log.producers.by_id.clear()
    _compact_with(log)
    assert [header.is_control for header in headers(log)] == [True, False, False]
    assert headers(log)[0].delete_horizon_ms is None, "there was a batch of it until now"
    for now_ms, horizon in ((NOW_MS + 5, NOW_MS + 5 + DAY_MS), (NOW_MS + 4 + DAY_MS, NOW_MS + 5 + DAY_MS)):
        put(log, keyed(("z", str(now_ms))))
        close_segment(log)
        _compact_with(log, now_ms=now_ms)
        assert headers(log)[0].delete_horizon_ms == horizon
        assert records(log)[0].value == b"\x00" * 6
    put(log, keyed(("z", "last")))
    close_segment(log)
    _compact_with(log, now_ms=NOW_MS + 5 + DAY_MS)
    assert not any(header.is_control for header in headers(log))


def test_a_key_that_was_deleted_stays_so_where_a_log_starts_behind_an_aborted_transaction() -> None:
    log = new_log(config=replace(COMPACT, delete_retention_ms=1000))
    put(log, transactional(("z", "0")), marker(ABORT), keyed(("k", "old")))
    start_offset = log.end_offset
    put(log, keyed(("k", "older than the deletion")), transactional(("k", None), sequence=1), marker(COMMIT))
    close_segment(log)
    put(log, keyed(("head", "1")))
    close_segment(log)
    log.advance_start(start_offset)
    for now_ms in (NOW_MS, NOW_MS + 5000):
        compact(log, now_ms)
        assert values(log).get("k") is None
        put(log, keyed(("head", str(now_ms))))
        close_segment(log)
    assert "k" not in values(log), "the deletion itself is gone after its time"


def test_the_marker_of_an_active_producer_stays_without_its_record() -> None:
    log = filled(transactional(("a", "1")), marker(COMMIT), keyed(("a", "2")))
    log.producers.by_id[7].batches.clear()
    for now_ms in (NOW_MS, NOW_MS + 1, NOW_MS + DAY_MS + 1, NOW_MS + 2 * DAY_MS):
        _compact_with(log, now_ms=now_ms)
        put(log, keyed(("z", str(now_ms))))
        close_segment(log)
    kept = headers(log)[0]
    assert (kept.is_control, kept.producer_id, kept.records_count) == (True, 7, 0)


def _compact_with(log: Log, now_ms: int = NOW_MS, **changes: Any) -> None:
    """Compact with a job that says something else than the log does."""
    dirt = compaction.assess(log, now_ms, log.end_offset)
    job = replace(compaction.plan(log, dirt, now_ms, table_bytes=1 << 20, read_bytes=100), **changes)
    job = Job.from_values(asdict(job))
    work = Compaction(log.pool, job)
    collected = finish(work.collect())
    for bases in collected.groups:
        rewritten = finish(work.rewrite(bases))
        old = log.compacted.closed(bases)
        assert old is not None
        if rewritten.is_changed:
            log.compacted.replace(log.pool.files, old, compaction.new_segment(log, bases, rewritten, now_ms), 0.0)
    log.compacted.offset = collected.end_offset


# Memory, faults


def test_a_full_table_leaves_the_rest_for_the_next_round() -> None:
    log = filled(*(keyed((f"k{number % 8}", str(number))) for number in range(16)))
    capacity = 5 * 192
    ends = []
    while compact(log, NOW_MS, table_bytes=capacity):
        ends.append(log.compacted.offset)
    assert ends == [5, 10, 15, 16]
    assert offsets(records(log)) == list(range(8, 16))


def test_a_batch_that_cannot_be_read_stays_and_stops_nothing() -> None:
    """headgate.validate.records=header lets it in: its CRC is right, its records are none."""
    sound = keyed(("a", "of it"), ("b", "of it"))
    header = read_header(sound)
    garbage = with_records(header, bytes(sound[HEADER_SIZE:-3]) + b"\xff\xff\xff")
    undecodable = with_records(header._replace(attributes=compression.LZ4), b"no frame")
    log = filled(keyed(("a", "1"), ("b", "1")), garbage, undecodable, keyed(("b", "2")))
    before = read(log, 2)
    assert compact(log, NOW_MS)
    assert [header.base_offset for header in headers(log)] == [0, 2, 4, 6]
    assert read(log, 2)[: len(garbage) + len(undecodable)] == before[: len(garbage) + len(undecodable)]
    kept = [record.key for record in iterate(read(log, 0)[: headers(log)[0].size])]
    assert kept == [b"a"], "what it says of a counts for nothing"


def test_a_batch_with_a_wrong_crc_ends_the_compaction_and_nothing_is_changed() -> None:
    log = filled(keyed(("a", "1"), ("a", "2")), keyed(("b", "1")))
    file = log.segments[0].file
    file.write_at(b"\xff", 70)
    before = log.pool.files.list(log.directory)
    with pytest.raises(Damaged, match="CRC"):
        compact(log, NOW_MS)
    assert log.pool.files.list(log.directory) == before


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_full_disk_ends_the_compaction_and_nothing_is_left_of_it(
    is_seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(*(keyed((f"k{number}", "v" * 50), ("same", "v")) for number in range(8)))
    files = log.pool.files
    assert isinstance(files, CrashingFiles)
    before, content_before = files.list(log.directory), content(log)
    files.room = 100
    if not is_seen:
        monkeypatch.setattr(files, "space", lambda path: (1 << 40, 1 << 40))
    with pytest.raises(OSError, match="space"):
        compact(log, NOW_MS)
    files.room = None
    assert files.list(log.directory) == before
    assert content(log) == content_before
    assert compact(log, NOW_MS)


def test_what_is_not_safe_on_the_disk_is_not_touched() -> None:
    log = new_log(config=COMPACT)
    put(log, keyed(("a", "1")), keyed(("a", "2")))
    log.recovery_point = 0
    log.roll(NOW_MS)
    assert not compact(log, NOW_MS)
    log.flush()
    assert compact(log, NOW_MS)


def test_records_that_may_change_yet_are_not_touched() -> None:
    log = filled(keyed(("a", "1")), keyed(("a", "2")))
    assert not compact(log, NOW_MS, up_to=1), "the high watermark"


def test_the_time_of_the_file_is_that_of_the_last_one_that_it_replaces() -> None:
    log = filled(keyed(("a", "1")), keyed(("a", "2")))
    put(log, keyed(("a", "3")), keyed(("a", "4")))
    close_segment(log)
    files = log.pool.files
    assert isinstance(files, CrashingFiles)
    for segment, modified_ms in zip(log.segments, (111, 222, 333), strict=True):
        files.file(segment.path).modified_ms = modified_ms
        segment._modified_ms = None
    compact(log, NOW_MS)
    assert log.modified_ms() == [222, 333]


def test_a_reader_that_holds_a_slice_goes_on() -> None:
    log = filled(keyed(("a", "1")), keyed(("a", "2")), keyed(("b", "1")))
    before = content(log)
    piece = log.read(0, 1 << 20, log.end_offset, at_least_one=True)
    assert piece is not None
    compact(log, NOW_MS)
    removal = log.pool.doomed.take(0.0, at_once=True)
    assert removal is not None
    removal.run()
    assert piece.read() == before
    piece.release()
    assert offsets(records(log)) == [1, 2]


# Against a model


KEYS = ["a", "b", "c", "long" * 10]
PAIRS = st.tuples(st.sampled_from([*KEYS, None]), st.sampled_from([None, "", "1", "v" * 70]))
STEPS = st.one_of(
    st.lists(PAIRS, min_size=1, max_size=5),
    st.sampled_from(["roll", "compact", "compact a day later", "reopen"]),
)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(STEPS, max_size=25), st.sampled_from([1 << 20, 2 * 192]))
def test_random_histories(steps: list[Any], table_bytes: int) -> None:
    """What a reader finds is what one who keeps everything finds, of each key the last; offsets never change."""
    files = CrashingFiles()
    store = open_store(files, COMPACT)
    log = store.create("t", 0, bytes(16), COMPACT, NOW_MS)
    kept: dict[int, Record] = {}
    now_ms = NOW_MS
    for number, step in enumerate(steps):
        if isinstance(step, list):
            settings = {} if number % 2 else {"producer_id": 7, "producer_epoch": 0, "base_sequence": _next(log)}
            first = log.end_offset
            put(log, keyed(*step, compression=number % 3, timestamp=NOW_MS + number, **settings))
            kept.update((record.offset, record) for record in iterate(read(log, first)))
        elif step == "roll" and log.segments[-1].size:
            close_segment(log)
        elif step.startswith("compact"):
            now_ms += DAY_MS if "day" in step else 1
            compact(log, now_ms, table_bytes=table_bytes)
        elif step == "reopen":
            store.close()
            files = files.crash(Random(number), power=False)
            store = open_store(files, COMPACT)
            log = store.logs["t", 0]
        found = {record.offset: record for record in records(log)}
        assert found.items() <= kept.items()
        _assert_explained(kept, found, log)
        assert_indexes(log)
    store.close()


def _next(log: Log) -> int:
    producer = log.producers.by_id.get(7)
    return 0 if producer is None else producer.last_sequence + 1


def _assert_explained(kept: dict[int, Record], found: dict[int, Record], log: Log) -> None:
    """Each record that is missing has no key, or a later one of its key; or it is a deletion."""
    last: dict[bytes, int] = {record.key: offset for offset, record in sorted(kept.items()) if record.key is not None}
    for offset, record in kept.items():
        if offset not in found:
            assert offset < log.compacted.offset
            assert record.key is None or record.value is None or last[record.key] > offset
        elif offset < log.compacted.offset:
            assert record.key is not None
            later = [other for other, its in kept.items() if its.key == record.key and other > offset]
            assert all(other >= log.compacted.offset for other in later)


def test_a_batch_of_build_is_a_batch_of_the_tests() -> None:
    """`put` writes what an append would."""
    one, other = new_log(config=COMPACT), new_log(config=COMPACT)
    data = build([Record(-1, NOW_MS, b"k", b"v")])
    append(one, memoryview(bytearray(data)))
    put(other, bytearray(data))
    assert content(one) == content(other)


def test_messages_of_old_formats_are_left_alone_with_all_before_them() -> None:
    log = filled(keyed(("a", "1")), keyed(("a", "2")))
    put(log, keyed(("a", "3")), keyed(("a", "4")))
    close_segment(log)
    log.segments[0].holds_messages = True
    assert compact(log, NOW_MS)
    log.segments[0].holds_messages = False
    assert offsets(records(log)) == [0, 1, 3]
    assert log.compacted.offset == 4


# Readers of what is left


def test_a_reader_gets_over_batches_without_records_in_one_answer() -> None:
    """Ten answers in a row without a record are a message that is too large, for librdkafka."""
    log = new_log(config=replace(COMPACT, segment_bytes=200))
    for number in range(30):
        append(log, memoryview(keyed(("same", str(number) * 50))))
    close_segment(log)
    compact(log, NOW_MS)
    assert sum(not header.records_count for header in headers(log)) > 5
    piece = read(log, 0)
    assert [record.offset for record in iterate(piece)] == [29]
    put(log, keyed(("same", "last")))
    close_segment(log)
    _compact_each_alone(log)
    assert [read_header(read(log, offset)).base_offset for offset in (0, 29, 30)] == [30, 30, 30]


def test_at_the_end_the_last_batch_without_records_tells_where_to_go_on() -> None:
    log = new_log(config=replace(COMPACT, segment_bytes=200))
    for number in range(30):
        append(
            log, memoryview(keyed((None if number > 3 else "k", str(number) * 50), timestamp=NOW_MS)), validate="own"
        )
    close_segment(log)
    compact(log, NOW_MS)
    assert [read_header(read(log, offset)).base_offset for offset in (0, 3, 4, 20)] == [3, 3, 29, 29]
    piece = log.read(5, 1 << 20, 10, at_least_one=True)
    assert piece is not None
    assert 5 <= read_header(piece.read()).base_offset < 10, "none that reaches the end that was asked for"


def test_no_message_of_an_old_format_is_taken_for_a_batch_without_records() -> None:
    log = filled(keyed(("a", "1")), keyed(("a", "2")))
    messages = legacy.build([Record(offset, NOW_MS, b"k", b"v" * 26) for offset in range(2)], 1)
    assert len(messages) == 2 * HEADER_SIZE
    segment = log.segments[0]
    log.pool.files.write(segment.path, bytes(messages))
    segment.close()
    segment.size, segment.holds_messages = len(messages), True
    log.compacted.offset = 2
    assert read(log, 0) == messages


def _compact_each_alone(log: Log) -> None:
    log.config = replace(COMPACT, segment_bytes=60)
    compact(log, NOW_MS)
