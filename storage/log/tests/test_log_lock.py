"""Who has a log, and what is done beside a thread that is at its files: rolls, flushes, mending, deletion."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.steps import finish
from headgate.storage.config import LogConfig
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.disk import layout
from headgate.storage.log import appending, flush, flushing, log_lock, rolling
from headgate.storage.log.log import Log
from headgate.storage.recovery import sync_failure_repair
from headgate.storage.tests.builders import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    batch,
    delete_old_segments,
    numbered,
    open_store,
)
from headgate.storage.tests.crashing_files import CrashingFiles

NEW_ID = bytes(range(16, 32))
ACTS = (log_lock.FLUSH, log_lock.ROLL, log_lock.REPAIR, log_lock.DELETE_SEGMENTS)


@pytest.fixture
def files() -> CrashingFiles:
    return CrashingFiles()


@pytest.fixture
def store(files: CrashingFiles) -> LogDirectory:
    return open_store(files)


def new_log(store: LogDirectory, config: LogConfig = SMALL) -> Log:
    return store.create("t", 0, TOPIC_ID, config, NOW_MS)


def remade(store: LogDirectory) -> Log:
    """The log of a topic that was deleted and made anew."""
    store.delete("t", 0, remove=False)
    return store.create("t", 0, NEW_ID, SMALL, NOW_MS)


def broken(store: LogDirectory, files: CrashingFiles, config: LogConfig = SMALL) -> Log:
    """A log of which a sync failed."""
    log = new_log(store, config)
    append(log, *(batch() for _ in range(10)))
    flushing.flush(log)
    append(log, *(batch() for _ in range(60)))
    files.fail(errno.EIO, "sync", path="/t-0/")
    with pytest.raises(KafkaError):
        flushing.flush(log)
    files.heal()
    return log


def begun(log: Log) -> sync_failure_repair.SyncFailureRepair:
    work = sync_failure_repair.begin(log)
    assert work is not None
    return work


def rolled_by_a_thread(log: Log) -> OSError | None:
    log.lock.acquire(log_lock.ROLLING)
    try:
        rolling.roll(log, NOW_MS)
    except OSError as error:
        return error
    finally:
        log.lock.release(log_lock.ROLLING)
    return None


def assert_survives(log: Log, files: CrashingFiles) -> None:
    assert log.recovery_point == log.end_offset
    for seed in range(12):
        again = open_store(files.crash(Random(seed), power=True))
        assert not again.failed
        assert again.logs["t", 0].end_offset == log.end_offset


def stage(log: Log) -> None:
    appending.stage(log, batch(), 0, NOW_MS)


def begin_write(log: Log) -> None:
    stage(log)
    assert appending.begin_write(log) is not None


STATES: dict[str, Callable[[Log], object]] = {
    "staged": stage,
    "writing": begin_write,
    "flushing": flushing.begin,
    "rolling": lambda log: log.lock.acquire(log_lock.ROLLING),
    "repairing": lambda log: log.lock.acquire(log_lock.REPAIRING),
    "deleting": lambda log: log.lock.acquire(log_lock.DELETING),
    "swapping": lambda log: log.lock.acquire(log_lock.SWAPPING),
    "failed": lambda log: flushing.refuse(log, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)),
    "retired": lambda log: log.retire(),
}


@pytest.mark.parametrize("state", STATES)
def test_the_table_of_the_module_is_what_holds(store: LogDirectory, state: str) -> None:
    log = new_log(store)
    assert all(log.lock.may(act) for act in ACTS)
    STATES[state](log)
    (row,) = [line.split() for line in (log_lock.__doc__ or "").splitlines() if line.strip().startswith(state)]
    told = row[-5:]
    assert [log.lock.may(act) for act in ACTS] == [word == "yes" for word in told[:4]]
    assert bool(log.lock.is_exclusive) == (told[4] == "no")
    assert log.lock.waits(log_lock.FLUSH) == (state in ("flushing", "rolling", "repairing", "deleting"))


def test_two_threads_do_not_work_with_the_same_names(store: LogDirectory) -> None:
    log = new_log(store)
    log.lock.acquire(log_lock.ROLLING)
    with pytest.raises(AssertionError, match="works with the files"):
        log.lock.acquire(log_lock.REPAIRING)


def test_a_roll_beside_a_flush_that_is_begun_is_for_the_next_flush(
    store: LogDirectory, files: CrashingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_log(store)
    append(log, *(batch() for _ in range(10)))
    flushing.flush(log)
    append(log, *(batch() for _ in range(5)))
    hold = flush.hold

    def roll_meanwhile(segments: Any) -> Any:
        monkeypatch.setattr(flushing, "hold", hold)
        held = hold(segments)
        thread = threading.Thread(target=rolling.roll, args=(log, NOW_MS))
        thread.start()
        thread.join()
        return held

    monkeypatch.setattr(flushing, "hold", roll_meanwhile)
    flushing.flush(log)
    append(log, *(batch() for _ in range(5)))
    flushing.flush(log)
    assert_survives(log, files)


def test_a_flush_that_cannot_begin_forgets_nothing(store: LogDirectory, files: CrashingFiles) -> None:
    log = new_log(store)
    append(log, batch())
    rolling.roll(log, NOW_MS)
    append(log, batch())
    owed = list(log.indexes_unsynced)
    assert owed
    log.close_files()
    files.fail(errno.EMFILE, "open")
    with pytest.raises(OSError, match=r".*"):
        flushing.begin(log)
    files.heal()
    assert (log.names_unsynced, log.indexes_unsynced, log.flushing) == (True, owed, None)


def test_no_flush_is_due_while_a_thread_rolls(store: LogDirectory) -> None:
    log = new_log(store, LogConfig(flush_ms=0))
    append(log, batch())
    assert flushing.is_due(log, NOW_MS)
    log.lock.acquire(log_lock.ROLLING)
    assert not flushing.is_due(log, NOW_MS)
    log.lock.release(log_lock.ROLLING)
    assert flushing.is_due(log, NOW_MS)


def leave(log: Log) -> object:
    """As retention does it with the only segment."""
    log.configure(LogConfig(retention_ms=1))
    return delete_old_segments(log, NOW_MS + 10_000, log.end_offset)


def expire(log: Log) -> object:
    log.configure(LogConfig(retention_ms=1, segment_bytes=log.config.segment_bytes))
    return delete_old_segments(log, NOW_MS + 10_000, log.end_offset)


@pytest.mark.parametrize("act", [leave, expire])
def test_no_segment_comes_or_goes_while_a_log_is_mended(
    store: LogDirectory, files: CrashingFiles, act: Callable[[Log], object]
) -> None:
    log = broken(store, files, LogConfig(segment_ms=1000))
    work = begun(log)
    finish(work.steps())
    assert not act(log)
    assert not sync_failure_repair.apply(log, work)
    assert sync_failure_repair.end(log, work)
    assert act(log)
    append(log, *(batch() for _ in range(5)))
    flushing.flush(log)
    assert_survives(log, files)


def test_dropped_bytes_are_cut_though_retention_would_take_them(store: LogDirectory, files: CrashingFiles) -> None:
    log = broken(store, files)
    work = begun(log)
    lost = log.segments[1]
    content = files.file(lost.path).content
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    finish(work.steps())
    assert work.lost is not None
    log.advance_start(log.segments[3].base_offset)
    assert not delete_old_segments(log, NOW_MS, log.end_offset)
    assert sync_failure_repair.apply(log, work)
    finish(work.write_steps())
    assert sync_failure_repair.end(log, work)
    append(log, batch())
    flushing.flush(log)
    assert_survives(log, files)


@pytest.mark.parametrize("where", [".index", ".snapshot"])
def test_a_roll_writes_nothing_into_the_directory_of_a_new_topic(
    store: LogDirectory, files: CrashingFiles, where: str
) -> None:
    log = new_log(store)
    append(log, *(numbered(number) for number in range(15)))

    def deleted() -> None:
        with pytest.raises(KafkaError, match="older log of t-0") as refused:
            remade(store)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    wait = files.delay(deleted, "write", path=where, times=1)
    error = rolled_by_a_thread(log)
    assert wait.met
    assert error is not None
    new = store.create("t", 0, NEW_ID, SMALL, NOW_MS)
    assert set(files.list(new.directory)) == {layout.PARTITION_METADATA, f"{0:020d}.log"}
    append(new, batch())
    flushing.flush(new)
    again = open_store(files.crash(Random(3), power=False)).logs["t", 0]
    assert not again.producers.by_id


def test_a_log_is_not_made_anew_while_its_predecessor_is_mended(store: LogDirectory, files: CrashingFiles) -> None:
    log = broken(store, files)
    work = begun(log)
    with pytest.raises(KafkaError, match="older log of t-0"):
        remade(store)
    finish(work.steps())
    assert work.error is not None
    assert not sync_failure_repair.apply(log, work)
    assert not sync_failure_repair.end(log, work)
    new = store.create("t", 0, NEW_ID, SMALL, NOW_MS)
    append(new, *(batch() for _ in range(20)))
    flushing.flush(new)
    again = open_store(files.crash(Random(1), power=True)).logs["t", 0]
    assert (again.topic_id, again.end_offset) == (NEW_ID, 20)


def test_an_exclusive_operation_excludes_others_until_it_is_released() -> None:
    lock = log_lock.LogLock()
    lock.acquire(log_lock.ROLLING)
    assert (lock.may(log_lock.ROLL), lock.waits(log_lock.ROLL), lock.may(log_lock.REPAIR)) == (False, True, False)
    with pytest.raises(AssertionError, match="a thread works"):
        lock.acquire(log_lock.ROLLING)
    lock.acquire(log_lock.SWAPPING)
    lock.release(log_lock.ROLLING)
    assert (lock.may(log_lock.ROLL), lock.operations) == (True, log_lock.SWAPPING)
