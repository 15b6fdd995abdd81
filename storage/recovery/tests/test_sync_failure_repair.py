"""After a failed sync: what is not known to be on the disk is checked and written once more, or found to be lost."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.steps import finish
from headgate.storage.config import LogConfig
from headgate.storage.disk import checkpoint
from headgate.storage.log import closing, flushing, log_lock, rolling
from headgate.storage.log.epochs import read_entries
from headgate.storage.log.log import Log
from headgate.storage.recovery import sync_failure_repair
from headgate.storage.segment.segment import Segment
from headgate.storage.segment.segment_file import SOUND
from headgate.storage.tests.builders import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    append,
    assert_derived_state,
    batch,
    content,
    delete_old_segments,
    files_of,
    new_log,
    next_offset,
    numbered,
    open_store,
    repair,
)
from headgate.storage.tests.compacted import COMPACT, assert_indexes, close_segment, compact, keyed, put, values
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut


def broken(*batches: memoryview, flushed: int = 10, config: LogConfig = SMALL) -> Log:
    """A log of which so many batches are on the disk, and a sync of the rest failed."""
    log = new_log(CrashingFiles(), config)
    append(log, *(batch() for _ in range(flushed)))
    flushing.flush(log)
    append(log, *(batches or [batch() for _ in range(60)]))
    fail(log)
    return log


def fail(log: Log) -> None:
    files = files_of(log)
    files.fail(errno.EIO, "sync", path="/t-0/")
    for name in files.list(log.directory):  # the system writes when it likes, and fails; the sync reports it
        files.file(f"{log.directory}/{name}").fail_to_sync()
    with pytest.raises(KafkaError, match=r"a sync of t-0 failed|refuses"):
        flushing.flush(log)
    assert log.sync_error is not None
    files.heal()


def after_a_power_cut(log: Log, seed: int) -> Log:
    return open_store(files_of(log).crash(Random(seed), power=True)).logs["t", 0]


def test_a_second_sync_alone_proves_nothing() -> None:
    """The test's own disk: what the failed sync has dropped does not come back by a sync that succeeds."""
    log = broken()
    log.sync_error = None
    log.lock.release(log_lock.FAILED)
    flushing.flush(log)
    assert log.recovery_point == log.end_offset
    store = open_store(files_of(log).crash(Random(0), power=True))
    assert ("t", 0) in store.failed or store.logs["t", 0].end_offset < log.end_offset


@pytest.mark.parametrize("seed", range(5))
def test_all_is_written_once_more_and_then_survives(seed: int) -> None:
    log = broken()
    assert len(log.segments) > 2
    before, end_offset = content(log), log.end_offset
    assert log.pool.needs_repair == [log]
    assert repair(log)
    assert (log.recovery_point, log.end_offset, log.sync_error) == (end_offset, end_offset, None)
    for segment in log.segments:
        for path in segment.sealed_indexes:
            node = files_of(log).file(path)
            assert bytes(node.durable) == bytes(node.content), path
    append(log, batch())
    again = after_a_power_cut(log, seed)
    assert content(again)[: len(before)] == before
    assert_derived_state(again)


def test_nothing_is_taken_meanwhile_and_all_is_read() -> None:
    log = broken()
    before = content(log)
    work = sync_failure_repair.begin(log)
    assert work is not None
    for refused in (lambda: append(log, batch()), lambda: flushing.flush(log), lambda: closing.finish(log)):
        with pytest.raises(KafkaError, match="once more") as caught:
            refused()
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert content(log) == before
    finish(work.steps())
    assert content(log) == before
    assert not sync_failure_repair.apply(log, work)
    assert sync_failure_repair.end(log, work)


def test_a_disk_that_still_fails_is_tried_again() -> None:
    log = broken()
    fault = files_of(log).fail(errno.EIO, "sync")
    assert not repair(log)
    assert log.sync_error is not None
    assert fault.met
    files_of(log).heal()
    assert repair(log)


def test_what_the_system_dropped_is_lost_kept_aside_and_told(caplog: pytest.LogCaptureFixture) -> None:
    log = broken(*(numbered(number) for number in range(40)))
    before, segments = content(log), log.segments[:]
    lost = next(segment for segment in segments if segment.base_offset > 20)
    assert lost is not segments[-1]
    position = lost.locate(lost.base_offset + 2)
    size = lost.size
    blank(log, lost, position, 30)
    assert repair(log)
    end_offset = lost.base_offset + 2
    assert (log.end_offset, log.recovery_point) == (end_offset, end_offset)
    kept = content(log)
    assert before.startswith(kept)
    assert next_offset(kept) == end_offset
    assert f"records from offset {end_offset} to 49 are lost" in caplog.text
    later = {f"{segment.base_offset:020d}.log.0.torn": segment.size for segment in segments[segments.index(lost) + 1 :]}
    assert asides(log) == {f"{lost.base_offset:020d}.log.{position}.torn": size - position, **later}
    append(log, numbered(end_offset - 10))
    assert_derived_state(log)


def test_what_is_lost_is_kept_aside_once_however_often_it_is_tried() -> None:
    log = broken(*(numbered(number) for number in range(40)))
    blank(log, log.segments.active, log.segments.active.size - 50, 30)
    fault = files_of(log).fail(errno.EIO, "sync_directory")
    for _ in range(3):
        assert not repair(log)
        assert not asides(log)
    assert fault.met == 3
    files_of(log).heal()
    assert repair(log)
    assert len(asides(log)) == 1


def asides(log: Log) -> dict[str, int]:
    return {name: size for name, size in files_of(log).list(log.directory).items() if name.endswith(".torn")}


def test_the_first_batch_behind_the_recovery_point_may_be_lost() -> None:
    log = broken(batch(), batch(), flushed=3)
    blank(log, log.segments[0], log.segments[0].locate(3), 200)
    assert repair(log)
    assert (log.end_offset, log.recovery_point) == (3, 3)
    assert append(log, batch()) == 4
    assert_derived_state(log)


def test_offsets_are_not_reused_where_all_that_was_kept_is_lost() -> None:
    log = broken(flushed=0)
    end = log.end_offset
    start = end - 5
    log.advance_start(start)
    delete_old_segments(log, NOW_MS, up_to=end)
    for segment in log.segments:
        files_of(log).file(segment.path).content[:] = bytes(segment.size)
    assert repair(log)
    assert (log.start_offset, log.end_offset) == (start, start)
    again = open_store(files_of(log).crash(Random(1), power=False)).logs["t", 0]
    assert (again.start_offset, again.end_offset) == (start, start)


@pytest.mark.parametrize("cut_after", range(12))
def test_a_power_cut_never_leaves_a_repaired_log_without_a_segment(cut_after: int) -> None:
    """Where all of it is lost that was not deleted, it goes on in a new segment: then the old one may go."""
    log = broken(batch(), batch(), flushed=3)
    log.advance_start(3)
    points = f"{DIRECTORY}/{checkpoint.RECOVERY_POINTS}"
    checkpoint.write_offsets(log.pool.files, points, {log.key: log.recovery_point})
    blank(log, log.segments[0], log.segments[0].locate(3), 200)
    files = files_of(log)
    work = sync_failure_repair.begin(log)
    assert work is not None
    finish(work.steps())
    if sync_failure_repair.apply(log, work):
        files.cut_after = cut_after
        with suppress(PowerCut):
            finish(work.write_steps())
        files.cut_after = None
    for seed in range(5):
        store = open_store(files.crash(Random(seed), power=False))
        assert not store.failed
        assert ("t", 0) in store.logs


def test_what_a_repair_says_of_losses() -> None:
    whole = broken(batch(), batch(), flushed=3)
    work = sync_failure_repair.begin(whole)
    assert work is not None
    finish(work.steps())
    sync_failure_repair.apply(whole, work)
    assert (sync_failure_repair.end(whole, work), work.has_lost_records) == (True, False)
    cut = broken(batch(), batch(), flushed=3)
    blank(cut, cut.segments[0], cut.segments[0].locate(3), 200)
    work = sync_failure_repair.begin(cut)
    assert work is not None
    finish(work.steps())
    assert not work.has_lost_records, "nothing has gone yet"
    assert sync_failure_repair.apply(cut, work)
    assert work.has_lost_records


def test_what_goes_behind_a_start_that_was_set_is_no_loss() -> None:
    log = broken(batch(), batch(), flushed=3)
    log.advance_start(log.end_offset)
    blank(log, log.segments[0], log.segments[0].locate(3), 200)
    end_offset = log.end_offset
    work = sync_failure_repair.begin(log)
    assert work is not None
    finish(work.steps())
    assert sync_failure_repair.apply(log, work)
    assert (work.lost is not None, work.has_lost_records, log.end_offset) == (True, False, end_offset)


@pytest.mark.parametrize("suffix", ["offsets", "times"])
def test_indexes_that_the_system_dropped_are_made_anew(suffix: str) -> None:
    log = broken()
    segment = log.segments[1]
    assert segment.is_sealed
    path = getattr(segment, suffix).path
    whole = files_of(log).read(path)
    files_of(log).file(path).content[:] = bytes(len(whole))
    assert repair(log)
    assert files_of(log).read(path) == whole
    assert_derived_state(log)


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EIO])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("is_active", [False, True])
def test_indexes_that_are_gone_or_cannot_be_read_are_made_anew(number: int, suffix: str, is_active: bool) -> None:
    log = broken(*(batch() for _ in range(100)))
    before, segment = content(log), log.segments[-1 if is_active else 1]
    rolling.seal(log)
    path = f"{log.directory}/{segment.base_offset:020d}{suffix}"
    whole = files_of(log).read(path)
    assert whole
    if number == errno.ENOENT:
        files_of(log).remove(path)
    else:
        files_of(log).fail(number, "read", path=path)
    assert repair(log)
    files_of(log).heal()
    rolling.roll(log, NOW_MS)
    assert content(log) == before
    assert files_of(log).read(path) == whole
    assert_derived_state(log)


def test_an_index_for_which_there_is_no_descriptor_is_read_later() -> None:
    log = broken(*(batch() for _ in range(100)))
    fault = files_of(log).fail(errno.EMFILE, "read", path=".index")
    assert not repair(log)
    assert fault.met
    files_of(log).heal()
    assert repair(log)


@pytest.mark.parametrize("is_active", [False, True])
def test_indexes_that_are_older_than_the_log_are_made_anew(is_active: bool) -> None:
    """What was dropped may show what the disk had before: whole entries, in order, of a log that was cut since."""
    config = LogConfig(segment_bytes=300_000, index_interval_bytes=0)
    log = broken(*(batch(size=200) for _ in range(1_800)), config=config)
    segment = log.segments[-1 if is_active else 0]
    assert segment.is_sealed != is_active
    whole = files_of(log).read(segment.offsets.path)
    assert whole
    entries = [whole[at : at + 8] for at in range(0, len(whole), 8)]
    older = [entry[:4] + (int.from_bytes(entry[4:], "big") - 1).to_bytes(4, "big") for entry in entries]
    files_of(log).file(segment.offsets.path).content[:] = b"".join(older)
    assert repair(log)
    if is_active:  # made anew by a start, or once it is full
        assert not files_of(log).exists(segment.offsets.path)
    else:
        assert files_of(log).read(segment.offsets.path)[: len(whole)] == whole
    assert_derived_state(log)
    rolling.roll(log, NOW_MS)
    assert files_of(log).read(segment.offsets.path)[: len(whole)] == whole
    append(log, batch())
    assert_derived_state(log)


def test_a_log_that_is_written_to_is_left_alone() -> None:
    log = broken()
    log.lock.operations |= log_lock.STAGED
    assert sync_failure_repair.begin(log) is None
    assert not repair(log)
    log.lock.release(log_lock.STAGED)
    assert repair(log)


def test_want_of_descriptors_is_not_the_disks_fault() -> None:
    log = new_log()
    append(log, batch())
    flushing.refuse_after_failed_sync(log, OSError(errno.EMFILE, "too many open files"))
    assert log.sync_error is None
    append(log, batch())


def blank(log: Log, segment: Segment, position: int, length: int) -> None:
    """What the system had in memory is gone; the disk has zeros there."""
    content = files_of(log).file(segment.path).content
    content[position : position + length] = bytes(min(length, len(content) - position))


EVERYTHING = ("create", "look", "open", "read", "remove", "rename", "sync", "sync_directory", "truncate", "write")


def mended_with_a_dead_loop(log: Log) -> bool:
    """All of it, where whatever is not done by a thread finds a disk that does nothing."""
    files = files_of(log)
    fault = files.fail(errno.EIO, *EVERYTHING)
    work = sync_failure_repair.begin(log)
    assert work is not None
    files.heal()
    finish(work.steps())
    files.faults.append(fault)
    is_owed = sync_failure_repair.apply(log, work)
    files.heal()
    change = files.fail(errno.EIO, *(set(EVERYTHING) - {"look", "open", "read"}))
    content(log)
    assert not change.met, "reads go on, and change nothing"
    files.heal()
    if is_owed:
        finish(work.write_steps())
    files.faults.append(fault)
    is_mended = sync_failure_repair.end(log, work)
    assert not fault.met
    files.heal()
    return is_mended


@pytest.mark.parametrize("number", [0, 1, -2, -1])
def test_a_cut_waits_for_the_disk_in_threads_alone(number: int) -> None:
    log = broken(*(numbered(number) for number in range(40)))
    segment = log.segments[number]
    position = segment.locate(max(12, segment.base_offset))
    end_offset = max(12, segment.base_offset)
    blank(log, segment, position, 5000)
    file = files_of(log).file(segment.path)
    file.durable[:] = file.content
    log.close_files()
    assert mended_with_a_dead_loop(log)
    assert (log.end_offset, log.recovery_point, log.sync_error) == (end_offset, end_offset, None)
    assert log.segments.active.state is SOUND
    for left in log.segments:
        assert len(files_of(log).file(left.path).durable) == left.size
    names = files_of(log).list(log.directory)
    bases = {one.base_offset for one in log.segments}
    assert {int(name[:20]) for name in names if name.endswith(".log")} == bases
    assert {int(name[:20]) for name in names if name.endswith(("index", "snapshot"))} <= {*bases, end_offset}
    assert_derived_state(log)
    append(log, numbered(end_offset - 10))
    for seed in range(3):
        again = after_a_power_cut(log, seed)
        assert again.end_offset in (end_offset, end_offset + 1)
        assert_derived_state(again)


def test_indexes_are_made_anew_in_threads_alone() -> None:
    log = broken()
    segment = log.segments[1]
    whole = {path: files_of(log).read(path) for path in segment.sealed_indexes}
    for path, data in whole.items():
        files_of(log).file(path).content[:] = bytes(len(data))
    log.close_files()
    assert mended_with_a_dead_loop(log)
    assert {path: files_of(log).read(path) for path in log.segments[1].sealed_indexes} == whole
    assert_derived_state(log)


def test_without_room_for_indexes_they_stay_in_memory() -> None:
    log = broken()
    segment = log.segments[1]
    path = segment.offsets.path
    whole = files_of(log).read(path)
    files_of(log).file(path).content[:] = bytes(len(whole))
    work = sync_failure_repair.begin(log)
    assert work is not None
    finish(work.steps())
    assert sync_failure_repair.apply(log, work)
    files_of(log).fail(errno.ENOSPC, "write", "create", path=".index")
    finish(work.write_steps())
    files_of(log).heal()
    assert sync_failure_repair.end(log, work)
    assert not files_of(log).exists(path), "a start makes it anew"
    assert_derived_state(log)
    rolling.roll(log, NOW_MS)
    assert files_of(log).read(path) == whole


def test_a_cut_that_the_disk_refuses_is_tried_again() -> None:
    log = broken(*(numbered(number) for number in range(40)))
    blank(log, log.segments[1], 0, 5000)
    base = log.segments[1].base_offset
    work = sync_failure_repair.begin(log)
    assert work is not None
    finish(work.steps())
    assert sync_failure_repair.apply(log, work)
    assert (log.end_offset, log.sync_error is None) == (base, False)
    fault = files_of(log).fail(errno.EIO, "rename", "truncate", "remove")
    finish(work.write_steps())
    assert not sync_failure_repair.end(log, work)
    assert fault.met
    files_of(log).heal()
    assert mended_with_a_dead_loop(log)
    assert (log.end_offset, log.recovery_point) == (base, base)
    names = files_of(log).list(log.directory)
    assert [name for name in sorted(names) if name.endswith(".log")] == [f"{0:020d}.log"]
    append(log, numbered(base - 10))
    assert_derived_state(after_a_power_cut(log, 0))


def test_an_index_that_points_too_far_hides_no_loss() -> None:
    """What the system dropped shows what the disk had before: entries of a log that was cut since."""
    config = LogConfig(index_interval_bytes=200)
    log = new_log(CrashingFiles(), config)
    append(log, *(batch() for _ in range(100)))
    flushing.flush(log)
    append(log, *(batch() for _ in range(200)))
    segment = log.segments.active
    segment.offsets.flush()
    fail(log)
    log.close_files()
    index = files_of(log).file(segment.offsets.path).content
    assert len(index) > 8 * 40
    for at in range(0, len(index) - 8 * 30, 8):
        index[at + 4 : at + 8] = index[at + 8 * 30 + 4 : at + 8 * 30 + 8]
    position = walk_to(segment, 104)
    files_of(log).file(segment.path).content[position : position + 50] = bytes(50)
    assert mended_with_a_dead_loop(log)
    assert log.end_offset == 104
    assert_derived_state(log)


def walk_to(segment: Segment, offset: int) -> int:
    return next(position for position, header in segment.iterate() if header.base_offset == offset)


def test_leader_epochs_of_what_is_lost_are_forgotten() -> None:
    log = new_log(CrashingFiles())
    append(log, batch(), leader_epoch=1)
    flushing.flush(log)
    append(log, batch(), leader_epoch=1)
    append(log, batch(), leader_epoch=2)
    position = walk_to(log.segments.active, 2)
    flushing.write_epochs(log)
    fail(log)
    blank(log, log.segments.active, position, 90)
    assert mended_with_a_dead_loop(log)
    assert log.epochs.entries == [(1, 0)]
    assert read_entries(files_of(log).copy(only_durable=True), log.directory) == [(1, 0)]
    append(log, batch(), leader_epoch=2)
    assert_derived_state(log)


LARGE = replace(COMPACT, segment_bytes=4000)  # so that three segments become one


def compacted() -> Log:
    """A log of which three segments are one since a compaction, whose names are not what they are to be yet."""
    files = CrashingFiles()
    log = new_log(files, LARGE)
    for number in range(24):
        put(log, keyed((f"k{number % 8}", f"{number}" + "v" * 60)))
        if number % 8 == 7:
            close_segment(log)
    files.fail(errno.EIO, "rename", path=f"{log.segments[1].base_offset:020d}.log")
    with pytest.raises(OSError, match="cannot be renamed"):
        compact(log, NOW_MS)
    files.heal()
    assert log.segments.compacted.unfinished is not None
    assert len(log.segments) == 2
    return log


def test_replaced_segments_are_not_taken_for_bytes_behind_the_end() -> None:
    log = compacted()
    put(log, *(keyed((f"n{number}", "1")) for number in range(10)))
    fail(log)
    before, active = values(log), log.segments.active
    blank(log, active, active.size - 80, 80)
    assert repair(log)
    assert values(log).items() < before.items()
    assert [name for name in asides(log) if not name.startswith(f"{active.base_offset:020d}.")] == []
    names = files_of(log).list(log.directory)
    assert len([name for name in names if ".log." in name and name.endswith(".deleted")]) == 3
    assert after_a_power_cut(log, 0).end_offset == log.end_offset


def test_an_index_is_rebuilt_from_the_compacted_segment() -> None:
    log = compacted()
    expected = values(log)
    work = sync_failure_repair.SyncFailureRepair(log, [])
    finish(work.rebuild_index_steps(log.segments[0].base_offset))
    assert sync_failure_repair.apply_index(log, work)
    assert values(log) == expected
    assert_indexes(log)
    log.segments.compacted.finish()
    assert values(log) == expected
