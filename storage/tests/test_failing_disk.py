"""A disk that refuses: each of its operations fails for a while, or it is full. Nothing is lost or comes twice."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import iterate, split
from headgate.protocol.tests.examples import first_in_unit
from headgate.storage.config import LogConfig
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.log import appending, flushing, rolling
from headgate.storage.log.log import Log
from headgate.storage.tests.builders import (
    NOW_MS,
    TOPIC_ID,
    append,
    assert_derived_state,
    batch,
    content,
    delete_old_segments,
    numbered,
    open_store,
    repair,
)
from headgate.storage.tests.crashing_files import CrashingFiles

CHANGES = ("create", "open", "remove", "rename", "sync", "sync_directory", "truncate", "write")
# Three batches a segment, an index entry for each.
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=0, retention_bytes=1500)


def sequences(log: Log) -> list[int]:
    """The first sequence of each batch, which says what it is: one record, of an idempotent producer."""
    data = memoryview(content(log))
    assert sum(1 for header, view in split(data) for _ in iterate(view)) == len(split(data))
    return [header.base_sequence for header, _ in split(data)]


def insist(log: Log, act: Callable[[], object]) -> int:
    """Do something until the disk takes it, mending the log after a failed sync; how often it failed."""
    for failures in range(50):
        try:
            act()
        except (KafkaError, OSError) as error:
            if isinstance(error, KafkaError) and error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            if log.sync_error is not None:
                repair(log)
        else:
            return failures
    raise AssertionError("it never came back")


def append_new(log: Log, number: int) -> None:
    """Append a batch of its own: an append that failed has changed the offset in the bytes of its batch."""
    appending.append(log, numbered(number), leader_epoch=number // 5, now_ms=NOW_MS)


def history(log: Log) -> None:
    """Appends that roll segments, flushes, retention; each tried again until it is done, as clients and upkeep do."""
    for number in range(14):
        insist(log, partial(append_new, log, number))
        if number % 4 == 3:
            insist(log, lambda: flushing.flush(log))
        if number % 6 == 5:
            insist(log, lambda: delete_old_segments(log, NOW_MS, log.end_offset))
        log.close_files()  # so that files are opened again


def new_log(files: CrashingFiles) -> tuple[LogDirectory, Log]:
    store = open_store(files, CONFIG)
    return store, store.create("t", 0, TOPIC_ID, CONFIG, NOW_MS)


def operations() -> int:
    files = CrashingFiles()
    _, log = new_log(files)
    fault = files.fail(0, *CHANGES, after=1 << 60)
    history(log)
    return (1 << 60) - fault.after


OPERATIONS = operations()
PARTS = 4
"""As many tests share the operations, each with every fourth of them."""


def test_the_history_has_much_that_can_fail() -> None:
    assert OPERATIONS > 70


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 9, pytest.param(2, marks=pytest.mark.soak)])
@pytest.mark.parametrize("ending", ["stop", "kill", "power cut"])
@pytest.mark.parametrize("part", list(first_in_unit(range(PARTS))))
def test_whatever_fails_nothing_is_lost_and_nothing_comes_twice(part: int, code: int, times: int, ending: str) -> None:
    for number in range(part, OPERATIONS, PARTS):
        files = CrashingFiles()
        store, log = new_log(files)
        fault = files.fail(code, *CHANGES, after=number, times=times)
        history(log)
        assert fault.met
        files.heal()
        insist(log, partial(flushing.flush, log))
        kept = sequences(log)
        assert kept == list(range(14))[-len(kept) :], number
        assert log.end_offset == 14
        assert_derived_state(log)
        again = after(ending, store, files, number)
        assert sequences(again)[-len(kept) :] == kept, number
        assert sequences(again) == kept or ending == "power cut", "what was deleted may come back in a power cut"
        assert_derived_state(again)
        assert again.producers.by_id[7].last_sequence == 13


def after(ending: str, store: LogDirectory, files: CrashingFiles, seed: int) -> Log:
    """The log as the next start has it."""
    if ending == "stop":
        store.close()
    elif ending == "power cut":
        files = files.crash(Random(seed), power=True)
    files.locked.clear()
    return open_store(files, CONFIG).logs["t", 0]


def full_store(files: CrashingFiles) -> tuple[LogDirectory, Log]:
    """A log on a disk that has become full: appended to until it was refused."""
    store, log = new_log(files)
    files.room = 4_000
    for number in range(1_000):
        try:
            append(log, numbered(number))
        except KafkaError as error:
            if "no space" not in error.message.lower():
                raise
            break
    else:
        raise AssertionError("the disk never became full")
    files.room = 0
    return store, log


def test_on_a_full_disk_all_is_read_and_retention_makes_room() -> None:
    files = CrashingFiles()
    _, log = full_store(files)
    before = sequences(log)
    assert before == list(range(len(before)))
    log.advance_start(log.end_offset - 2)
    assert delete_old_segments(log, NOW_MS, log.end_offset) > 0
    assert sequences(log)[-2:] == before[-2:]
    removal = log.pool.pending_deletions.take(0.0, at_once=True)
    assert removal is not None
    removal.run()
    assert not [name for name in files.list(log.directory) if name.endswith(".deleted")]
    files.room = None
    append(log, numbered(len(before)))
    assert_derived_state(log)
    assert log.epochs.is_stale
    log.epochs.begin_write()()
    assert not log.epochs.is_stale
    assert f"0 {log.start_offset}\n" in files.read(log.epochs.path).decode()


def test_on_a_full_disk_a_log_that_is_all_too_old_is_emptied() -> None:
    files = CrashingFiles()
    _, log = full_store(files)
    end_offset = log.end_offset
    log.configure(LogConfig(segment_bytes=400, index_interval_bytes=0, retention_ms=0))
    delete_old_segments(log, NOW_MS + 1, end_offset)
    assert (log.start_offset, log.end_offset, log.segments.size) == (end_offset, end_offset, 0)
    files.room = None
    with pytest.raises(KafkaError, match="SEQUENCE"):
        append(log, numbered(end_offset + 5))
    append(log, numbered(end_offset))
    flushing.flush(log)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("missing", ["", ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
def test_a_start_needs_no_room(missing: str, is_clean: bool, caplog: pytest.LogCaptureFixture) -> None:
    """After a stop that had no room to be clean too; with whatever can be derived gone."""
    files = CrashingFiles()
    store, log = full_store(files)
    before, directory = sequences(log), log.directory
    if is_clean:
        files.room = None
        store.close()
        files.room = 0
    for name in list(files.list(directory)):
        if missing and name.endswith(missing):
            files.remove(f"{directory}/{name}")
    files.room = 0
    files.locked.clear()
    again = open_store(files, CONFIG).logs["t", 0]
    assert sequences(again) == before
    assert_derived_state(again)
    with pytest.raises(KafkaError, match=r"(?i)no space"):
        append(again, *(numbered(again.end_offset + number) for number in range(5)))
    files.room = None
    append(again, numbered(again.end_offset))
    rolling.roll(again, NOW_MS)
    assert_derived_state(again)
    assert all(files.exists(path) for segment in again.segments[:-1] for path in segment.sealed_indexes)


def test_a_stop_without_room_is_told_and_the_next_start_scans(caplog: pytest.LogCaptureFixture) -> None:
    files = CrashingFiles()
    store, log = new_log(files)
    append(log, *(numbered(number) for number in range(20)))
    files.room = 0
    store.close()
    assert "the next start scans" in caplog.text
    assert not files.exists("/data/.kafka_cleanshutdown")
    again = open_store(files, CONFIG)
    assert sequences(again.logs["t", 0]) == list(range(20))


def test_torn_bytes_without_room_to_be_kept(caplog: pytest.LogCaptureFixture) -> None:
    """The beginning of one batch is dropped; anything else is left as it is until there is room."""
    files = CrashingFiles()
    _, log = new_log(files)
    append(log, numbered(0), numbered(1))
    flushing.write_epochs(log)
    whole, path = files.read(log.segments[0].path), log.segments[0].path
    append(log, numbered(2))
    third = files.read(path)[len(whole) :]
    for debris, is_open in ((third[:50], True), (third[:-1], True), (b"\1" * 100, False)):
        torn = files.copy()
        torn.write(path, whole + debris)
        torn.room = 0
        store = open_store(torn, CONFIG)
        assert (("t", 0) in store.logs) == is_open
        if is_open:
            assert sequences(store.logs["t", 0]) == [0, 1]
            assert "no disk space to keep the beginning of an unacknowledged batch" in caplog.text
        else:
            assert torn.read(path) == whole + debris
            torn.room = None
            torn.locked.clear()
            assert sequences(open_store(torn, CONFIG).logs["t", 0]) == [0, 1]
            assert [name for name in torn.list(log.directory) if name.endswith(".torn")]


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("is_released", [False, True])
def test_an_uncut_rest_of_a_failed_write_is_never_seen(is_killed: bool, is_released: bool) -> None:
    """The disk takes a part of a batch, refuses to cut it off again, and then the broker is stopped, or killed."""
    files = CrashingFiles()
    store, log = new_log(files)
    append(log, numbered(0))
    flushing.flush(log)
    files.room = 60
    files.fail(errno.EIO, "truncate")
    with pytest.raises(KafkaError, match=r"(?i)no space"):
        append(log, numbered(1))
    assert files.size(log.segments[0].path) > log.segments.size
    if is_released:
        log.close_files()
        assert sequences(log) == [0], "it can still be read"
        with pytest.raises(KafkaError):
            append(log, numbered(1))
    files.room = None
    if not is_killed:
        store.close()
        assert not files.exists("/data/.kafka_cleanshutdown")
    files.heal()
    files.locked.clear()
    again = open_store(files, CONFIG).logs["t", 0]
    assert sequences(again) == [0]
    append(again, numbered(1))
    assert sequences(again) == [0, 1]


def test_a_half_failed_roll_leaves_no_trace_if_the_segment_goes_on() -> None:
    """As when segment.bytes was raised before there was room again."""
    files = CrashingFiles()
    _, log = new_log(files)
    batches = [batch(timestamp=NOW_MS + number) for number in range(8)]
    log.configure(LogConfig(segment_bytes=400, index_interval_bytes=100))
    append(log, *batches[:4])
    files.room = 1
    with pytest.raises(KafkaError, match=r"(?i)no space"):
        append(log, batches[4])
    files.room = None
    log.configure(LogConfig(index_interval_bytes=100))
    append(log, *batches[4:])
    assert len(log.segments) == 1
    assert_derived_state(log)
    rolling.roll(log, NOW_MS)
    assert_derived_state(log)


@pytest.mark.parametrize("seed", range(10))
def test_deleted_records_do_not_come_back_in_a_power_cut(seed: int) -> None:
    """The names of their files may, for a while: then the checkpoint still says where the log begins."""
    files = CrashingFiles()
    store, log = new_log(files)
    append(log, *(numbered(number) for number in range(20)))
    flushing.flush(log)
    log.advance_start(log.segments[2].base_offset)
    assert delete_old_segments(log, NOW_MS, log.end_offset) >= 2
    start_offset = log.start_offset
    store.checkpoint({})
    store.remove_deleted()
    again = open_store(files.crash(Random(seed), power=True), CONFIG).logs["t", 0]
    assert again.start_offset == start_offset
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        again.read(start_offset - 1, 1000, again.end_offset, at_least_one=True)


def test_a_reader_keeps_what_is_deleted_under_it() -> None:
    files = CrashingFiles()
    _, log = new_log(files)
    append(log, *(numbered(number) for number in range(20)))
    whole = content(log)
    pieces = []
    offset = 0
    while offset < log.end_offset:
        piece = log.read(offset, 1 << 20, log.end_offset, at_least_one=True)
        assert piece is not None
        pieces.append(piece)
        offset = log.segments[len(pieces)].base_offset if len(pieces) < len(log.segments) else log.end_offset
    late = log.segments[0]
    log.advance_start(log.end_offset)
    assert delete_old_segments(log, NOW_MS, log.end_offset) == len(pieces)
    log.close_files()
    assert late.file.read_at(10, 0) == whole[:10], "one who opens it only now finds it"
    removal = log.pool.pending_deletions.take(0.0, at_once=True)
    assert removal is not None
    removal.run()
    assert b"".join(piece.read() for piece in pieces) == whole
    for piece in pieces:
        piece.release()
    log.close_files()
    assert files.open_handles == 0


def test_a_log_without_room_says_so_and_others_go_on() -> None:
    files = CrashingFiles()
    store, log = new_log(files)
    other = store.create("u", 0, TOPIC_ID, CONFIG, NOW_MS)
    append(log, batch())
    files.room = 10
    with pytest.raises(KafkaError, match=r"(?i)the disk of t-0 refuses: .*no space"):
        append(log, batch())
    files.room = None
    append(other, batch())
    append(log, batch())


def test_an_append_that_cannot_read_an_index_leaves_the_log_as_it_was() -> None:
    """The first after a stop takes back what that has put behind the times; what is left is compared with."""
    config = LogConfig(index_interval_bytes=100)
    failed = 0
    for after in range(4):
        files = CrashingFiles()
        store = open_store(files, config)
        log = store.create("t", 0, TOPIC_ID, config, NOW_MS)
        for number in range(4):  # the third is indexed, as the next one will be; the stop indexes the time of the last
            append(log, batch(timestamp=NOW_MS + number))
        store.close()
        log = open_store(files, config).logs["t", 0]
        expected = content(log)
        files.fail(errno.EIO, "read", path=".timeindex", after=after, times=1)
        try:
            append(log, batch(timestamp=NOW_MS + 9))
        except KafkaError:
            failed += 1
            assert content(log) == expected
        files.heal()
        append(log, batch(timestamp=NOW_MS + 10))
        assert_derived_state(log)
    assert failed
