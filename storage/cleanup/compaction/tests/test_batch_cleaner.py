"""What becomes of a batch: which of its records are left, what it says then, and whom it stays for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.protocol.records import compression
from headgate.protocol.records.batch import HEADER_SIZE, NO_TIMESTAMP, check_crc, iterate, read_header, with_records
from headgate.storage.config import LOG_APPEND_TIME
from headgate.storage.log import appending
from headgate.storage.tests.builders import NOW_MS, append, content, new_log, numbered, open_store, read
from headgate.storage.tests.compacted import (
    ABORT,
    COMMIT,
    COMPACT,
    close_segment,
    compact,
    compact_with,
    filled,
    headers,
    keyed,
    marker,
    offsets,
    put,
    records,
    transactional,
    values,
)
from headgate.storage.tests.crashing_files import CrashingFiles

DAY_MS = 86_400_000


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
    assert log.segments.compacted.offset == 3


def test_a_record_without_a_key_goes() -> None:
    log = filled(keyed((None, "1"), ("a", "1"), (None, "2")), keyed((None, "3")), keyed(("b", "1")))
    compact(log, NOW_MS)
    assert offsets(records(log)) == [1, 4]


@pytest.mark.slow
@pytest.mark.parametrize("codec", range(1, 5))
def test_the_codec_stays(codec: int) -> None:
    log = filled(keyed(("a", "1" * 100), ("b", "1" * 100), compression=codec), keyed(("a", "2"), compression=codec))
    compact(log, NOW_MS)
    assert [header.compression for header in headers(log)] == [codec, codec]
    assert offsets(records(log)) == [1, 2]


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


# Tombstones


def test_a_tombstone_stays_for_a_while_and_goes_in_a_later_round() -> None:
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


def test_an_idempotent_producer_goes_on_after_a_compaction() -> None:
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
    assert appending.append(log, memoryview(again), leader_epoch=0, now_ms=NOW_MS).is_duplicate
    append(log, numbered(5))


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("unflushed", [1, 6])
def test_a_producer_is_known_after_a_power_cut_took_later_batches(unflushed: int, is_clean: bool) -> None:
    """They are all that is remembered of it; and the last one before is perhaps in what was compacted earlier."""
    files = CrashingFiles()
    store = open_store(files, COMPACT)
    log = store.create("t", 0, bytes(16), COMPACT, NOW_MS)
    sent = [keyed(("a", "1"), producer_id=7, producer_epoch=0, base_sequence=number) for number in range(2 + unflushed)]
    for data in sent[:2]:
        append(log, memoryview(bytearray(data)))
    append(log, memoryview(keyed(("z" if is_clean else "a", "2"))))
    close_segment(log)
    if is_clean:
        compact(log, NOW_MS)
        append(log, memoryview(keyed(("a", "3"))))
        close_segment(log)
    store.checkpoint({("t", 0): log.end_offset})
    for data in sent[2:]:
        append(log, memoryview(bytearray(data)))
    compact(log, NOW_MS)
    assert [header.base_offset for header in headers(log)][:2] == [1, 2], "its last one that is safe, and no other"
    files = files.copy(only_durable=True)
    for name in [name for name in files.list("/data/t-0") if name.endswith(".snapshot")]:
        files.remove(f"/data/t-0/{name}")
    log = open_store(files, COMPACT).logs["t", 0]
    assert log.end_offset == 3 + is_clean
    assert appending.append(log, memoryview(sent[1]), leader_epoch=0, now_ms=NOW_MS).is_duplicate


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


def test_a_marker_goes_after_its_transaction_and_its_time() -> None:
    config = replace(COMPACT, delete_retention_ms=DAY_MS)
    log = filled(transactional(("a", "1")), marker(COMMIT), keyed(("a", "2")), keyed(("z", "1")), config=config)
    log.producers.by_id.clear()
    compact_with(log)
    assert [header.is_control for header in headers(log)] == [True, False, False]
    assert headers(log)[0].delete_horizon_ms is None, "there was a batch of it until now"
    for now_ms, horizon in ((NOW_MS + 5, NOW_MS + 5 + DAY_MS), (NOW_MS + 4 + DAY_MS, NOW_MS + 5 + DAY_MS)):
        put(log, keyed(("z", str(now_ms))))
        close_segment(log)
        compact_with(log, now_ms=now_ms)
        assert headers(log)[0].delete_horizon_ms == horizon
        assert records(log)[0].value == b"\x00" * 6
    put(log, keyed(("z", "last")))
    close_segment(log)
    compact_with(log, now_ms=NOW_MS + 5 + DAY_MS)
    assert not any(header.is_control for header in headers(log))


def test_a_deleted_key_stays_so_behind_an_aborted_transaction() -> None:
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
        compact_with(log, now_ms=now_ms)
        put(log, keyed(("z", str(now_ms))))
        close_segment(log)
    kept = headers(log)[0]
    assert (kept.is_control, kept.producer_id, kept.records_count) == (True, 7, 0)
