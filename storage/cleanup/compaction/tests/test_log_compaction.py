"""Whole compactions: which records are left for a reader, and that nothing else is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.records import legacy
from headgate.protocol.records.batch import HEADER_SIZE, Record, build, iterate, read_header
from headgate.protocol.tests.examples import share
from headgate.storage.cleanup.compaction.compaction_job import assess, plan
from headgate.storage.cleanup.compaction.log_compaction import (
    Collect,
    CompactionAborted,
    CompactionStep,
    LogCompaction,
    Sync,
    advance,
)
from headgate.storage.files import File
from headgate.storage.log.log import Log
from headgate.storage.log.validation import BROKER
from headgate.storage.tests.builders import (
    NOW_MS,
    append,
    content,
    delete_old_segments,
    files_of,
    new_log,
    no_checkpoint,
    open_store,
    read,
)
from headgate.storage.tests.compacted import (
    ABORT,
    COMPACT,
    assert_indexes,
    close_segment,
    compact,
    filled,
    headers,
    keyed,
    marker,
    offsets,
    put,
    records,
    transactional,
)
from headgate.storage.tests.crashing_files import CrashingFiles, OpenFile
from headgate.storage.tests.truncating import truncate_to

DAY_MS = 86_400_000


def test_of_each_key_the_last_record_is_left_where_it_was() -> None:
    log = filled(keyed(("a", "1"), ("b", "1")), keyed(("a", "2")), keyed(("c", "1"), ("a", "3")))
    before = {record.offset: record for record in records(log)}
    assert compact(log, NOW_MS)
    assert offsets(records(log)) == [1, 3, 4]
    assert [before[record.offset] for record in records(log)] == records(log), "times and headers too"
    assert log.segments.compacted.offset == log.end_offset == 5
    assert not compact(log, NOW_MS), "there is nothing dirty"


def test_a_reader_that_holds_a_slice_goes_on() -> None:
    log = filled(keyed(("a", "1")), keyed(("a", "2")), keyed(("b", "1")))
    before = content(log)
    piece = log.read(0, 1 << 20, log.end_offset, at_least_one=True)
    assert piece is not None
    compact(log, NOW_MS)
    removal = log.pool.pending_deletions.take(0.0, at_once=True)
    assert removal is not None
    removal.run()
    assert piece.read() == before
    piece.release()
    assert offsets(records(log)) == [1, 2]


def test_a_batch_of_build_is_a_batch_of_the_tests() -> None:
    """`put` writes what an append would."""
    one, other = new_log(config=COMPACT), new_log(config=COMPACT)
    data = build([Record(-1, NOW_MS, b"k", b"v")])
    append(one, memoryview(bytearray(data)))
    put(other, bytearray(data))
    assert content(one) == content(other)


def with_aborted() -> Log:
    """A log with two closed segments, in each of which a transaction was aborted."""
    log = new_log(config=COMPACT)
    for sequence in range(2):
        put(log, keyed(("a", "1")), transactional(("a", "2"), sequence=sequence), marker(ABORT), keyed(("b", "1")))
        close_segment(log)
    return log


def asked_for(log: Log, meanwhile: Callable[[], None] = lambda: None) -> list[CompactionStep]:
    """What a round asks for until its job is there."""
    steps = LogCompaction(log, assess(log, NOW_MS, log.end_offset), NOW_MS, table_bytes=1 << 20, read_bytes=100).steps()
    requests = list[CompactionStep]()
    while not requests or isinstance(requests[-1], Sync):
        requests.append(advance(steps, None))
        if isinstance(requests[-1], Sync):
            requests[-1].work()
            meanwhile()
    steps.close()
    return requests


@pytest.mark.parametrize("forgets", [False, True])
def test_aborted_transactions_not_in_memory_are_read_by_a_thread(
    monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    """Where memory is so short that they are gone again, they are waited for: else it would never end."""
    log, brought = with_aborted(), list[str]()
    expected = plan(log, assess(log, NOW_MS, log.end_offset), NOW_MS, table_bytes=1 << 20, read_bytes=100)
    assert len(expected.aborted) == 2

    def read_cached(file: OpenFile, length: int, position: int) -> bytes | None:
        return file.read_at(length, position) if file.path in brought and not forgets else None

    monkeypatch.setattr(File, "read_cached", read_cached)
    monkeypatch.setattr(File, "warm", lambda file, *_: brought.append(file.path))
    handles = files_of(log).open_handles
    *syncs, collect = asked_for(log)
    assert collect == Collect(expected)
    assert len(syncs) == len(brought) == (1 if forgets else 2)
    assert files_of(log).open_handles == handles


@pytest.mark.parametrize("act", ["deleted", "cut", "retired"])
def test_a_log_that_changes_while_they_are_read_is_left_alone(monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    log = with_aborted()

    def change() -> None:
        if act == "deleted":
            log.advance_start(log.end_offset)
            delete_old_segments(log, NOW_MS, log.end_offset)
        elif act == "cut":
            truncate_to(log, 3, no_checkpoint)
        else:
            log.retire()

    monkeypatch.setattr(File, "read_cached", lambda *_: None)
    monkeypatch.setattr(File, "warm", lambda *_: None)
    with pytest.raises(CompactionAborted):
        asked_for(log, change)


# Against a model


KEYS = ["a", "b", "c", "long" * 10]
PAIRS = st.tuples(st.sampled_from([*KEYS, None]), st.sampled_from([None, "", "1", "v" * 70]))
STEPS = st.one_of(
    st.lists(PAIRS, min_size=1, max_size=5),
    st.sampled_from(["roll", "compact", "compact a day later", "reopen"]),
)


@pytest.mark.slow
@settings(max_examples=share(120, soak=300))
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
            assert offset < log.segments.compacted.offset
            assert record.key is None or record.value is None or last[record.key] > offset
        elif offset < log.segments.compacted.offset:
            assert record.key is not None
            later = [other for other, its in kept.items() if its.key == record.key and other > offset]
            assert all(other >= log.segments.compacted.offset for other in later)


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


def test_a_reader_gets_over_empty_batches_after_a_kill() -> None:
    """The checkpoint of compacted offsets may be older than the last round, or missing."""
    files, config = CrashingFiles(), replace(COMPACT, segment_bytes=200)
    log = new_log(files, config)
    for number in range(30):
        append(log, memoryview(keyed(("same", str(number) * 50))))
    close_segment(log)
    compact(log, NOW_MS)
    reopened = open_store(files.crash(Random(1), power=False), config).logs["t", 0]
    assert reopened.segments.compacted.offset < 0
    assert [record.offset for record in iterate(read(reopened, 0))] == [29]


def test_at_the_end_the_last_empty_batch_tells_where_to_go_on() -> None:
    log = new_log(config=replace(COMPACT, segment_bytes=200))
    for number in range(30):
        append(log, memoryview(keyed((None if number > 3 else "k", str(number) * 50), timestamp=NOW_MS)), origin=BROKER)
    close_segment(log)
    compact(log, NOW_MS)
    assert [read_header(read(log, offset)).base_offset for offset in (0, 3, 4, 20)] == [3, 3, 29, 29]
    piece = log.read(5, 1 << 20, 10, at_least_one=True)
    assert piece is not None
    assert 5 <= read_header(piece.read()).base_offset < 10, "none that reaches the end that was asked for"


def test_no_message_of_an_old_format_is_taken_for_an_empty_batch() -> None:
    log = filled(keyed(("a", "1")), keyed(("a", "2")))
    messages = legacy.build([Record(offset, NOW_MS, b"k", b"v" * 26) for offset in range(2)], 1)
    assert len(messages) == 2 * HEADER_SIZE
    segment = log.segments[0]
    log.pool.files.write(segment.path, bytes(messages))
    segment.close()
    segment.size, segment.has_legacy_format = len(messages), True
    log.segments.compacted.offset = 2
    assert read(log, 0) == messages


def _compact_each_alone(log: Log) -> None:
    log.configure(replace(COMPACT, segment_bytes=60))
    compact(log, NOW_MS)
