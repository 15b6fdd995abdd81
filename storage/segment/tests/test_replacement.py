"""One segment in the place of others: a crash at any moment leaves the ones or the other, whole."""

from __future__ import annotations

import errno
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from headgate.protocol.steps import finish
from headgate.storage.cleanup.compaction.compaction_job import assess
from headgate.storage.cleanup.compaction.computation import Computation
from headgate.storage.cleanup.compaction.log_compaction import (
    Collect,
    CompactionAborted,
    LogCompaction,
    Rewrite,
    advance,
)
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.disk import checkpoint
from headgate.storage.disk.pool import SWAP_SUFFIX
from headgate.storage.log import flushing
from headgate.storage.log.log import Log
from headgate.storage.recovery import sync_failure_repair
from headgate.storage.segment.replacement import CLEANED_SUFFIX, CompactionState, Replacement
from headgate.storage.segment.segment import Segment
from headgate.storage.tests.builders import NOW_MS, TOPIC_ID, content, delete_old_segments, no_checkpoint, open_store
from headgate.storage.tests.compacted import (
    COMPACT,
    assert_indexes,
    close_segment,
    compact,
    keyed,
    offsets,
    put,
    records,
    values,
)
from headgate.storage.tests.crashing_files import CrashingFiles, MemoryDirectory, PowerCut
from headgate.storage.tests.truncating import truncate_to

LARGE = replace(COMPACT, segment_bytes=4000)  # so that the three segments become one
PARTITION = "/data/t-0"
KEY = "t", 0
EXPECTED = {f"k{number}": f"{number + 16}" + "v" * 60 for number in range(8)} | {"head": "1"}


def filled(files: CrashingFiles) -> LogDirectory:
    """A store whose log t-0 has three closed segments, safe on the disk, and something in the active one."""
    store = open_store(files, LARGE)
    log = store.create(*KEY, TOPIC_ID, LARGE, NOW_MS)
    for number in range(24):
        put(log, keyed((f"k{number % 8}", f"{number}" + "v" * 60)))
        if number % 8 == 7:
            close_segment(log)
    put(log, keyed(("head", "1")))
    flushing.flush(log)
    store.checkpoint({KEY: log.end_offset})
    return store


def names(files: CrashingFiles, suffix: str) -> list[str]:
    return sorted(name for name in files.list(PARTITION) if name.endswith(suffix))


def steps_of_a_compaction() -> int:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    before = files.writes
    compact(log, NOW_MS)
    return files.writes - before


@pytest.mark.slow
@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_any_step_loses_no_last_value(power: bool) -> None:
    kept = set()
    for cut_after in range(steps_of_a_compaction() + 1):
        crashed = CrashingFiles()
        log = filled(crashed).logs[KEY]
        end_offset = log.end_offset
        crashed.cut_after = cut_after
        with suppress(PowerCut):
            compact(log, NOW_MS)
        for seed in range(9 if power else 1):
            files = deepcopy(crashed)
            files.mixes_names = seed > 5  # which counts at the crash alone
            files = files.crash(Random(seed), power=power)
            store = open_store(files, LARGE)
            assert not store.failed
            log = store.logs[KEY]
            assert values(log) == EXPECTED
            assert log.end_offset == end_offset
            assert_indexes(log)
            assert not [name for name in files.list(PARTITION) if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX, ".torn"))]
            kept.add(len(records(log)))
            store.close()
    assert {9, 25} <= kept, "before, and after"


def compacting(files: CrashingFiles, log: Log) -> Replacement:
    """A compaction of the three segments into one, up to the moment at which the new one has won."""
    ready: list[Replacement] = []

    class Stopped(Exception):
        pass

    def stop(self: CompactionState, replacement: Replacement, delay_ms: float) -> bool:
        ready.append(replacement)
        raise Stopped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CompactionState, "end", stop)
        with pytest.raises(Stopped):
            compact(log, NOW_MS)
    assert names(files, SWAP_SUFFIX) == [f"{0:020d}{kind}{SWAP_SUFFIX}" for kind in (".index", ".log", ".timeindex")]
    return ready[0]


@pytest.mark.parametrize("cut_after", range(8, 22))
def test_what_a_round_has_left_does_not_undo_what_another_has_done(cut_after: int) -> None:
    files = CrashingFiles()
    store = filled(files)
    log = store.logs[KEY]
    log.configure(COMPACT)
    left = f"{PARTITION}/{0:020d}.log{CLEANED_SUFFIX}"
    files.write(left, b"of a process that was killed")
    log.advance_start(8)
    delete_old_segments(log, NOW_MS, log.end_offset)
    store.checkpoint({KEY: log.end_offset})
    expected = values(log)
    put(log, keyed(("k1", "new")))
    flushing.flush(log)
    files.cut_after = cut_after
    with suppress(PowerCut):
        _replace_with_copy(log, 1)
    log = open_store(files.crash(Random(1), power=False), LARGE).logs[KEY]
    assert values(log) == expected | {"k1": "new"}
    assert_indexes(log)


def _replace_with_copy(log: Log, number: int) -> None:
    old = log.segments[number : number + 1]
    log.segments.compacted.replace(log.pool.files, old, _copied(log, number), 1000.0)


# What happens to the log meanwhile


def test_segments_that_are_being_replaced_are_not_deleted_meanwhile() -> None:
    """The new one may win already, and would come back after a crash without them."""
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    replacement = compacting(files, log)
    log.advance_start(8)
    assert delete_old_segments(log, NOW_MS, log.end_offset) == 0
    assert log.segments.compacted.end(replacement, 0.0)
    log.segments.compacted.finish()
    log.advance_start(24)
    assert delete_old_segments(log, NOW_MS, log.end_offset) == 1
    log = open_store(files.crash(Random(1), power=False), LARGE).logs[KEY]
    assert [segment.base_offset for segment in log.segments] == [24]


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_new_segment_is_deleted_behind_those_that_it_replaced(is_refused: bool) -> None:
    """Those would be there in the next start, and of what follows the first would be gone."""
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    replacement = log.segments.compacted.begin(files, log.segments[:1], _copied(log))
    replacement.run()
    if is_refused:
        files.fail(errno.EIO, "rename", path=f"{0:020d}.log")
    assert log.segments.compacted.end(replacement, 0.0)
    log.advance_start(24)
    with pytest.raises(OSError, match="cannot be renamed") if is_refused else nullcontext():
        assert delete_old_segments(log, NOW_MS, log.end_offset) == 3
    files.heal()
    after = files.copy()
    after.remove("/data/recovery-point-offset-checkpoint")
    again = open_store(after, LARGE).logs[KEY]
    assert again.start_offset == (0 if is_refused else 24)
    assert values(again)["head"] == "1"
    assert delete_old_segments(log, NOW_MS, log.end_offset) == (3 if is_refused else 0)


def test_a_reader_finds_the_new_one_while_a_thread_gives_it_its_names() -> None:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    assert log.segments.compacted.end(compacting(files, log), 0.0)
    (new,) = [segment for segment in log.segments if segment.suffix == SWAP_SUFFIX]
    for name in names(files, SWAP_SUFFIX):
        files.rename(f"{PARTITION}/{name}", f"{PARTITION}/{name.removesuffix(SWAP_SUFFIX)}")
    log.close_files()
    assert new.suffix == SWAP_SUFFIX, "nobody has told the log yet"
    assert values(log) == EXPECTED
    assert_indexes(log)


def test_failed_renames_are_tried_again_until_all_are_done() -> None:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    replacement = compacting(files, log)
    assert log.segments.compacted.end(replacement, 0.0)
    for path in (".log", ".index", ".timeindex", ".index.swap", ".log.swap", ".log.swap"):
        files.fail(errno.EIO, "rename", path=path, times=1)
        with pytest.raises(OSError, match="cannot be renamed"):
            replacement.finish_renames()
        files.heal()
        log.close_files()
        assert values(log) == EXPECTED
    replacement.finish_renames()
    new = replacement.new
    assert all(map(files.exists, (new.path, new.offsets.path, new.times.path))), "its own were not given up"
    before = files.list(PARTITION)
    replacement.finish_renames()
    log.segments.compacted.finish()
    assert files.list(PARTITION) == before
    assert not [name for name in before if name.endswith(SWAP_SUFFIX)]
    assert values(log) == EXPECTED


def test_the_log_start_is_kept_while_older_files_may_come_back() -> None:
    """And where some of that does, and some not, it takes nothing with it."""
    files = CrashingFiles()
    store = filled(files)
    log = store.logs[KEY]
    log.segments.compacted.begin(files, log.segments[:1], _copied(log)).run()
    log.advance_start(16)
    flushing.flush(log)
    assert log.has_own_start
    store.checkpoint({KEY: log.end_offset})
    checkpoint.write_offsets(files, f"/data/{checkpoint.RECOVERY_POINTS}", {})
    files.remove(f"{PARTITION}/{8:020d}.log")
    log = open_store(files.crash(Random(1), power=False), LARGE).logs[KEY]
    assert (log.start_offset, offsets(records(log))) == (16, [*range(16, 25)])


@pytest.mark.parametrize("meanwhile", ["nothing", "deleted", "cut"])
def test_only_a_thread_waits_for_the_disk_whatever_happens_meanwhile(meanwhile: str) -> None:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    syncs: list[str] = []
    files.delay(lambda: syncs.append("now"), "sync_directory", "sync", path=PARTITION)
    with pytest.raises(CompactionAborted if meanwhile == "cut" else StopIteration):
        _drive(log, meanwhile, syncs)
    expected = {"nothing": [0, 24], "deleted": [0, 24], "cut": [0, 8, 16]}
    assert [segment.base_offset for segment in log.segments] == expected[meanwhile]
    assert not names(files, CLEANED_SUFFIX)
    assert not names(files, SWAP_SUFFIX)
    assert syncs


def _drive(log: Log, meanwhile: str, syncs: list[str]) -> None:
    steps = LogCompaction(log, assess(log, NOW_MS, 25), NOW_MS, table_bytes=1 << 20, read_bytes=1 << 16).steps()
    work: Computation | None = None
    answer: Any = None
    while True:
        before = len(syncs)
        request = advance(steps, answer)
        assert len(syncs) == before, "the loop has waited"
        if isinstance(request, Collect):
            work = Computation(log.pool, request.job)
            answer = finish(work.collect())
        elif isinstance(request, Rewrite):
            assert work is not None
            answer = finish(work.rewrite(request.bases))
            if meanwhile == "cut":
                truncate_to(log, 20, no_checkpoint)
        else:
            answer = request.work()
            if meanwhile == "deleted" and len(syncs) > before:  # behind the question for room
                log.advance_start(8)
                delete_old_segments(log, NOW_MS, log.end_offset)


def test_old_segments_are_gone_for_good_before_their_note_is(monkeypatch: pytest.MonkeyPatch) -> None:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    durable: list[set[str]] = []
    rename = files.rename

    def note(old: str, new: str) -> None:
        if old.endswith(f".log{SWAP_SUFFIX}"):
            directory = files.find(PARTITION)
            assert isinstance(directory, MemoryDirectory)
            durable.append({name for name in directory.durable if name.endswith((".log", SWAP_SUFFIX))})
        rename(old, new)

    monkeypatch.setattr(files, "rename", note)
    compact(log, NOW_MS)
    assert len(durable) == 1
    assert f"{0:020d}.log{SWAP_SUFFIX}" in durable[0]
    assert not durable[0] & {f"{base:020d}.log" for base in (0, 8, 16)}


def test_records_that_were_cut_off_meanwhile_do_not_come_back() -> None:
    for begins_later in (False, True):
        files = CrashingFiles()
        store = filled(files)
        log = store.logs[KEY]
        replacement = None if begins_later else compacting(files, log)
        if begins_later:
            replacement = log.segments.compacted.begin(files, log.segments[:1], log.segments[0])
            replacement.new = _copied(log)
        assert replacement is not None
        log.segments.compacted._begun = replacement
        truncate_to(log, 4, store.write_recovery_points)
        replacement.run()
        assert not log.segments.compacted.end(replacement, 0.0)
        files = files.crash(Random(2), power=True)
        log = open_store(files, LARGE).logs[KEY]
        assert log.end_offset == 4
        assert offsets(records(log)) == [0, 1, 2, 3]


def _copied(log: Log, number: int = 0) -> Segment:
    files, segment = log.pool.files, log.segments[number]
    for kind in (".log", ".index", ".timeindex"):
        path = segment.path.removesuffix(".log") + kind
        files.write(path + CLEANED_SUFFIX, files.read(path))
    sizes = (segment.size, segment.offsets.size, segment.times.size, -1)
    return Segment(log.pool, log.directory, segment.base_offset, sizes, suffix=CLEANED_SUFFIX)


@pytest.mark.parametrize("is_restarted", [True, False])
def test_names_that_cannot_be_changed_now_are_changed_later(
    is_restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    replacement = compacting(files, log)

    def refuse(old: str, new: str) -> None:
        raise OSError(5, "the disk refuses")

    monkeypatch.setattr(files, "rename", refuse)
    assert log.segments.compacted.end(replacement, 0.0)
    assert offsets(records(log)) == [*range(16, 25)], "it is read under the name that it has"
    put(log, keyed(("k0", "last")))
    with pytest.raises(OSError, match="cannot be renamed"):
        close_and_compact(log)
    monkeypatch.undo()
    if is_restarted:
        log = open_store(files.crash(Random(1), power=True), LARGE).logs[KEY]
    close_and_compact(log)
    assert values(log) == EXPECTED | {"k0": "last"}
    assert_indexes(log)
    assert not names(files, SWAP_SUFFIX) or is_restarted


def test_names_are_not_swapped_while_a_log_is_mended() -> None:
    """A thread may be writing an index once more, under the name that one of a new segment would get."""
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    assert log.segments.compacted.end(compacting(files, log), 0.0)
    work = sync_failure_repair.begin(log)
    assert work is not None
    dirt = assess(log, NOW_MS, log.end_offset)
    with pytest.raises(CompactionAborted, match="is being repaired"):
        advance(LogCompaction(log, dirt, NOW_MS, table_bytes=1 << 20, read_bytes=1 << 16).steps(), None)
    finish(work.steps())
    sync_failure_repair.apply(log, work)
    sync_failure_repair.end(log, work)
    close_and_compact(log)
    assert not names(files, SWAP_SUFFIX)
    assert values(log) == EXPECTED


def close_and_compact(log: Log) -> None:
    if log.segments[-1].size:
        close_segment(log)
    compact(log, NOW_MS)


def test_what_was_replaced_is_removed_later() -> None:
    files = CrashingFiles()
    store = filled(files)
    log = store.logs[KEY]
    log.configure(COMPACT)  # so that each becomes a segment of its own
    snapshots = names(files, ".snapshot")
    compact(log, NOW_MS)
    assert {f"{PARTITION}/{base:020d}.log.{number}.deleted" for number, base in ((1, 0), (2, 8))} <= set(
        store.pool.pending_deletions
    )
    store.remove_deleted()
    assert not names(files, ".deleted")
    assert content(log)
    assert set(names(files, ".snapshot")) <= set(snapshots), "those of replaced segments go with them"


def test_a_planned_read_finds_the_bytes_of_a_twice_replaced_segment() -> None:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    log.configure(COMPACT)
    planned = log.segments[0]
    before = files.read(planned.path)
    for _ in range(2):
        compact(log, NOW_MS)
        put(log, keyed(*((f"k{number}", "new") for number in range(8))))
        close_segment(log)
    assert planned.slice(0, planned.size).read() == before


# The checkpoint


def test_where_a_compaction_ended_is_known_after_a_restart() -> None:
    files = CrashingFiles()
    store = filled(files)
    compact(store.logs[KEY], NOW_MS)
    store.checkpoint({})
    assert b"t 0 24\n" in files.read("/data/cleaner-offset-checkpoint")
    files = files.crash(Random(1), power=True)
    assert open_store(files, LARGE).logs[KEY].segments.compacted.offset == 24


def test_without_the_checkpoint_all_is_dirty() -> None:
    files = CrashingFiles()
    store = filled(files)
    compact(store.logs[KEY], NOW_MS)
    store.close()
    files.remove("/data/cleaner-offset-checkpoint")
    store = open_store(files, LARGE)
    log = store.logs[KEY]
    assert log.segments.compacted.offset == -1
    assert compact(log, NOW_MS)
    assert values(log) == EXPECTED


def test_a_new_partition_does_not_inherit_the_cleaned_offset() -> None:
    files = CrashingFiles()
    store = filled(files)
    compact(store.logs[KEY], NOW_MS)
    store.checkpoint({})
    store.delete(*KEY)
    store.create(*KEY, TOPIC_ID, LARGE, NOW_MS)
    assert open_store(files.crash(Random(1), power=False), LARGE).logs[KEY].segments.compacted.offset == -1


def test_a_log_that_was_cut_is_dirty_from_there_on() -> None:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    compact(log, NOW_MS)
    truncate_to(log, 20, no_checkpoint)
    assert log.segments.compacted.offset <= 20


def test_a_cut_during_the_swap_keeps_the_old_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    before, sync = values(log), files.sync_directory

    def cut_and_sync(path: str) -> None:
        monkeypatch.setattr(files, "sync_directory", sync)
        log.segments.compacted.void_in_memory(log.end_offset)
        sync(path)

    monkeypatch.setattr(files, "sync_directory", cut_and_sync)
    with pytest.raises(CompactionAborted):
        compact(log, NOW_MS)
    log.close_files()
    assert values(log) == before
    assert not names(files, SWAP_SUFFIX)
