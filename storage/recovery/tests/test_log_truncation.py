"""The truncation of a log in use: equal to a log that never had the removed records."""

from __future__ import annotations

import errno
from random import Random
from typing import NoReturn

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.steps import finish
from headgate.protocol.tests.examples import first_in_unit
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.disk import checkpoint
from headgate.storage.log import flushing, rolling
from headgate.storage.log.following import UnexpectedAppendOffset
from headgate.storage.log.log import Log
from headgate.storage.log.tests.test_following import assert_equal, feed, follow, led
from headgate.storage.recovery import log_truncation
from headgate.storage.tests.builders import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    append_own,
    assert_derived_state,
    batch,
    content,
    files_of,
    marker,
    new_log,
    open_store,
    stored,
    transactional,
)
from headgate.storage.tests.compacted import COMPACT, close_segment, compact, keyed, put
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut
from headgate.storage.tests.truncating import cut, finish_truncation

KEY = "t", 0


def begun(files: CrashingFiles | None = None) -> tuple[LogDirectory, Log]:
    store = open_store(files or CrashingFiles())
    return store, store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)


def ends_of(log: Log) -> list[int]:
    return [header.last_offset + 1 for header, _ in stored(content(log))]


@pytest.mark.parametrize("seed", range(12))
def test_a_cut_log_is_as_if_it_never_had_the_rest(seed: int) -> None:
    random = Random(seed)
    leader = led(random)
    data = content(leader)
    store, follower = begun()
    feed(follower, data, random)
    for _ in range(4):
        end = random.choice(ends_of(follower))
        cut(follower, end, store.begin_recovery_points)
        assert_derived_state(follower)
        for index in follower.segments.active.indexes:
            assert len(files_of(follower).read(index.path) if index.is_whole else b"") == index.written
        never, position = new_log(), follower.segments.size
        follow(never, data[:position])
        assert_equal(follower, never)
        if random.random() < 0.5:
            flushing.flush(follower)
        feed(follower, data[position:], random)
        assert_equal(follower, leader)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*first_in_unit(range(6))])
@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_any_step_leaves_a_beginning_of_the_log(seed: int, power: bool) -> None:
    """The whole log, the cut one, or a part between: never a gap, and never less than was to stay."""
    leader = led(Random(seed), 40)
    whole = content(leader)
    cut_after = 0
    while True:
        random = Random(seed)
        files = CrashingFiles()
        store, log = begun(files)
        feed(log, whole, random)
        flushing.flush(log)
        store.checkpoint({KEY: log.end_offset})
        end = random.choice(ends_of(log)[3:])
        files.cut_after = cut_after
        try:
            cut(log, end, store.begin_recovery_points)
        except PowerCut:
            is_done = False
        else:
            is_done = True
        reopened = open_store(files.crash(random, power=power)).logs[KEY]
        assert whole.startswith(content(reopened))
        assert reopened.end_offset >= end
        assert_derived_state(reopened)
        if is_done:
            assert reopened.end_offset == end
            return
        cut_after += 1


@pytest.mark.parametrize("offset", [0, 8, 17, 31, 100])
def test_a_log_begins_again_anywhere(offset: int) -> None:
    files = CrashingFiles()
    store, log = begun(files)
    append_own(log, *(batch() for _ in range(30)), transactional(0))
    rolling.roll(log, NOW_MS)
    append_own(log, marker(False), *(batch() for _ in range(20)))
    flushing.flush(log)
    store.checkpoint({KEY: log.end_offset})
    finish_truncation(log, log_truncation.begin_again(log, offset), store.begin_recovery_points)
    assert (log.start_offset, log.end_offset, log.stable_offset, content(log)) == (offset, offset, offset, b"")
    assert (log.epochs.entries, log.producers.by_id, len(log.segments)) == ([], {}, 1)
    append(log, batch(2), leader_epoch=5)
    flushing.flush(log)
    assert log.recovery_point == offset + 2
    reopened = open_store(files.crash(Random(1), power=True)).logs[KEY]
    assert (content(reopened), reopened.epochs.entries) == (content(log), [(5, offset)])
    assert (reopened.start_offset, reopened.stable_offset, reopened.producers.by_id) == (offset, offset + 2, {})


@pytest.mark.slow
def test_a_crash_while_a_log_begins_again_loses_no_segment_alone() -> None:
    for cut_after in range(40):
        files = CrashingFiles()
        store, log = begun(files)
        append(log, *(batch() for _ in range(60)))
        flushing.flush(log)
        store.checkpoint({KEY: 60})
        whole, files.cut_after = content(log), cut_after
        try:
            finish_truncation(log, log_truncation.begin_again(log, 90), store.begin_recovery_points)
        except PowerCut:
            pass
        else:
            break
        reopened = open_store(files.crash(Random(cut_after), power=True)).logs[KEY]
        assert whole.startswith(content(reopened))
        assert reopened.start_offset in {0, 90}
    else:
        pytest.fail("the power was cut each time")


def test_the_first_batch_may_begin_below_the_start() -> None:
    """The leader's start is within a batch: the follower begins where the batch does."""
    leader = new_log()
    append(leader, batch(5), batch(5))
    leader.advance_start(7)
    store, log = begun()
    finish_truncation(log, log_truncation.begin_again(log, 7), store.begin_recovery_points)
    data = content(leader)
    with pytest.raises(UnexpectedAppendOffset) as unexpected:
        follow(log, data)
    work = log_truncation.begin_again(log, unexpected.value.first_offset, start_offset=7)
    finish_truncation(log, work, store.begin_recovery_points)
    follow(log, data)
    assert (log.start_offset, log.end_offset, content(log)) == (7, 10, data)


def test_a_cut_within_a_batch_removes_the_batch() -> None:
    store, log = begun()
    append(log, batch(3), batch(3))
    cut(log, 4, store.begin_recovery_points)
    assert log.end_offset == 3


def test_a_cut_within_the_first_batch_leaves_nothing() -> None:
    store, log = begun()
    append(log, batch(5), batch(5))
    log.advance_start(2)
    cut(log, 4, store.begin_recovery_points)
    assert (log.start_offset, log.end_offset, content(log)) == (2, 2, b"")


def test_no_record_is_taken_until_the_end() -> None:
    store, log = begun()
    append(log, *(batch() for _ in range(40)))
    before = content(log)
    work = log_truncation.begin(log, 20)
    assert work is not None
    assert log_truncation.begin(log, 20) is None
    for _ in work.steps():
        assert content(log) == before
    with pytest.raises(KafkaError, match="takes no records until its truncation to offset 20") as refused:
        append(log, batch())
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log_truncation.apply(log, work, store.begin_recovery_points)
    written = files_of(log).writes
    assert before.startswith(after := content(log))
    assert (log.end_offset, files_of(log).writes) == (20, written)
    for _ in work.write_steps():
        assert content(log) == after
    with pytest.raises(KafkaError):
        append(log, batch())
    assert log_truncation.end(log, work)
    assert append(log, batch()) == 21


@pytest.mark.parametrize("operation", ["write", "remove", "truncate", "sync", "sync_directory"])
def test_files_that_cannot_follow_are_tried_again(operation: str) -> None:
    files = CrashingFiles()
    store, log = begun(files)
    append(log, *(batch() for _ in range(60)))
    flushing.flush(log)
    work = log_truncation.begin(log, 20)
    assert work is not None
    finish(work.steps())
    assert log_truncation.apply(log, work, store.begin_recovery_points)
    files.fail(errno.EIO, operation)
    finish(work.write_steps())
    assert work.error is not None
    files.heal()
    finish(work.write_steps())
    assert log_truncation.end(log, work)
    assert_derived_state(log)
    assert open_store(files.crash(Random(1), power=True)).logs[KEY].end_offset <= 20
    assert append(log, batch()) == 21


def test_a_place_that_cannot_be_read_leaves_the_log_alone() -> None:
    files = CrashingFiles()
    store, log = begun(files)
    append(log, *(batch() for _ in range(60)))
    work = log_truncation.begin(log, 20)
    assert work is not None
    files.fail(errno.EIO, "read", "open")
    finish(work.steps())
    files.heal()
    assert not log_truncation.apply(log, work, store.begin_recovery_points)
    assert not log_truncation.end(log, work)
    assert append(log, batch()) == 61


def test_the_checkpoint_promises_nothing_that_goes() -> None:
    files = CrashingFiles()
    store, log = begun(files)
    append(log, *(batch() for _ in range(20)))
    flushing.flush(log)
    store.checkpoint({KEY: 20})
    cut(log, 4, store.begin_recovery_points)
    assert log.recovery_point == 4
    assert checkpoint.read_offsets(files, f"{DIRECTORY}/{checkpoint.RECOVERY_POINTS}") == {KEY: 4}


def test_a_cut_of_what_no_checkpoint_promises_writes_none() -> None:
    _, log = begun()
    append(log, *(batch() for _ in range(20)))
    flushing.flush(log)
    append(log, *(batch() for _ in range(20)))

    def refuse() -> NoReturn:
        raise AssertionError("the file has the recovery points of all logs")

    cut(log, 21, refuse)
    assert (log.end_offset, log.recovery_point) == (21, 20)


def test_compaction_knows_nothing_of_what_is_cut() -> None:
    store = open_store(CrashingFiles(), COMPACT)
    log = store.create("t", 0, TOPIC_ID, COMPACT, NOW_MS)
    for number in range(60):
        put(log, keyed((f"key {number % 40}", "value" * 5)))
    close_segment(log)
    compact(log, NOW_MS)
    assert log.segments.compacted.offset == 60
    cut(log, 30, store.begin_recovery_points)
    assert log.segments.compacted.offset <= log.end_offset <= 30
    reopened = open_store(files_of(log).crash(Random(1), power=True), COMPACT).logs[KEY]
    assert (content(reopened), reopened.end_offset) == (content(log), log.end_offset)
