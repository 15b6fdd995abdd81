"""Opening after clean stops and crashes. Scans: `test_scan.py`; random histories: `test_histories.py`."""

from __future__ import annotations

import errno
import struct
from dataclasses import replace
from random import Random

import pytest

from headgate.protocol.errors import KafkaError
from headgate.protocol.steps import finish
from headgate.storage.config import LogConfig
from headgate.storage.directory.log_directory import LogDirectory
from headgate.storage.disk import checkpoint
from headgate.storage.disk.pool import Pool
from headgate.storage.errors import CorruptLog
from headgate.storage.log import flushing
from headgate.storage.recovery import recovery_steps as opening
from headgate.storage.recovery.recovery_input import RecoveryInput
from headgate.storage.recovery.recovery_steps import open_log_steps
from headgate.storage.tests.builders import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    StillOwner,
    append,
    assert_derived_state,
    batch,
    content,
    open_store,
)
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.reopened import KEY, PARTITION, filled, killed, reopened


def test_lost_segments_are_corrupt() -> None:
    files = CrashingFiles()
    store = filled(files)
    for segment in store.logs[KEY].segments:
        files.remove(segment.path)
    assert "no segments" in str(reopened(files).failed[KEY])


def test_leftovers_are_tidied() -> None:
    files = CrashingFiles()
    filled(files)
    for name in ("00000000000000000000.log.deleted", "leader-epoch-checkpoint.tmp", "00000000000000099999.index"):
        files.write(f"{PARTITION}/{name}", b"x")
    store = reopened(files)
    store.remove_deleted()
    left = store.pool.files.list(PARTITION)
    assert not [name for name in left if name.endswith((".deleted", ".tmp")) or "99999" in name]


def test_files_that_no_log_makes_are_left_alone() -> None:
    files = CrashingFiles()
    filled(files)
    others = ["notes.tmp", "pic.index", "readme.swap", "old.deleted", "a.log.cleaned", f"{'1' * 20}-mine.log"]
    for name in others:
        files.write(f"{PARTITION}/{name}", b"mine")
    before = [name for name in files.list(PARTITION) if name not in others]
    for _ in range(2):
        store = reopened(files)
        assert KEY in store.logs
        store.remove_deleted()
        assert [name for name in files.list(PARTITION) if name in others] == others
        store.close()
    assert set(before) <= files.list(PARTITION).keys()
    assert all(files.read(f"{PARTITION}/{name}") == b"mine" for name in others)


def test_a_directory_without_anything_of_a_log_is_nobodys_partition() -> None:
    """Nothing is made in it, it makes no stop unclean, and deleting what is called like it does not remove it."""
    files = CrashingFiles()
    filled(files)
    files.make_directories("/data/holiday-24")
    files.write("/data/holiday-24/beach.jpg", b"mine")
    store = reopened(files)
    assert ("holiday", 24) not in store
    with pytest.raises(
        KafkaError, match=r"/data/holiday-24 holds other files, but none of a log; move the directory away"
    ):
        store.create("holiday", 24, bytes(16), SMALL)
    with pytest.raises(KafkaError):
        store.delete("holiday", 24)
    store.close()
    assert files.exists("/data/.kafka_cleanshutdown")
    assert files.list("/data/holiday-24") == {"beach.jpg": 4}


def test_a_directory_that_a_crash_left_empty_is_a_partition() -> None:
    files = CrashingFiles()
    filled(files)
    files.make_directories("/data/u-0")
    assert ("u", 0) in reopened(files).logs


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"]
)
def test_lost_checkpoints(name: str, clean: bool) -> None:
    files = CrashingFiles()
    store = filled(files)
    before = content(store.logs[KEY])
    if clean:
        store.close()
    for damage in (b"garbage", None):
        if damage is None:
            files.remove(f"/data/{name}")
        else:
            files.write(f"/data/{name}", damage)
        log = reopened(files).logs[KEY]
        assert content(log) == before


def test_a_clean_stop_starts_without_a_scan() -> None:
    files = CrashingFiles()
    store = filled(files, batches=400)
    store.close()
    files.reads = 0
    store = open_store(files)
    log = store.logs[KEY]
    assert (len(log.segments), log.end_offset) > (10, 200)
    assert files.reads < 10


def test_an_index_that_points_into_a_batch_says_nothing_of_the_end() -> None:
    """Four bytes before a batch its base offset reads as its length, and what comes of that as an offset."""
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, replace(SMALL, segment_bytes=100_000), NOW_MS)
    while log.end_offset < 75:
        append(log, batch(size=100))
    before, end_offset = content(log), log.end_offset
    store.close()
    path = f"{PARTITION}/{0:020d}.index"
    index = bytearray(files.read(path))
    (position,) = struct.unpack_from(">i", index, len(index) - 4)
    struct.pack_into(">i", index, len(index) - 4, position - 4)
    files.write(path, index)
    log = open_store(files, log.config).logs[KEY]
    assert log.end_offset == end_offset
    assert content(log) == before


def test_a_start_behind_the_end_begins_anew_there() -> None:
    files = CrashingFiles()
    store = filled(files, flush_at=-1)
    log = store.logs[KEY]
    log.advance_start(log.end_offset)
    store.checkpoint({})
    last = log.segments[-1]
    files.file(last.path).content[:] = b""
    log = reopened(files).logs[KEY]
    assert log.start_offset == log.end_offset == 59
    append(log, batch())
    assert_derived_state(log)


def test_memory_of_a_killed_broker_is_synced_where_commits_are() -> None:
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, LogConfig(headgate_flush="commit"), NOW_MS)
    append(log, batch(), batch(), owner=StillOwner())
    assert log.recovery_point == 0
    for config, point in ((LogConfig(), 0), (log.config, 2)):
        found = RecoveryInput("t", 0, log.directory, TOPIC_ID)
        pool = Pool(killed(files))
        again = finish(open_log_steps(pool, found, config, Random(0), NOW_MS))
        assert (again.recovery_point, again.end_offset) == (point, 2)


def test_a_start_writes_again_what_a_failed_sync_may_have_lost() -> None:
    files = CrashingFiles()
    config = LogConfig(headgate_flush="commit")
    log = open_store(files).create("t", 0, TOPIC_ID, config, NOW_MS)
    append(log, batch())
    append(log, batch(), owner=StillOwner())
    files.fail(errno.EIO, "sync", path=".log", times=1)
    with pytest.raises(KafkaError, match="EIO"):
        flushing.flush(log)
    stored, after = content(log), killed(files)
    found = RecoveryInput("t", 0, log.directory, TOPIC_ID, recovery_point=1)
    again = finish(open_log_steps(Pool(after), found, config, Random(0), NOW_MS))
    assert (again.recovery_point, again.end_offset) == (2, 2)
    assert bytes(after.file(again.segments.active.path).durable) == stored


def test_what_was_scanned_is_not_scanned_by_the_next_start_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a broker that dies again and again: a flush is due at once, whatever the policy is."""
    files = CrashingFiles()
    store = open_store(files)
    append(store.create("t", 0, TOPIC_ID, LogConfig(), NOW_MS), *(batch() for _ in range(20)))
    assert not flushing.is_due(reopened(files).logs[KEY], NOW_MS), "so little is scanned again in no time"
    monkeypatch.setattr(opening, "SCANNED_BYTES", 1000)
    files = killed(files)
    store = open_store(files)
    log = store.logs[KEY]
    assert flushing.is_due(log, NOW_MS)
    flushing.flush(log)
    assert not flushing.is_due(log, NOW_MS)
    store.checkpoint({})
    store = LogDirectory.take("/data", files=killed(files), node_id=0, config=SMALL, random=Random(1)).claim()
    begun = store.begin_opening(KEY, LogConfig(), NOW_MS)
    begun.run()
    store.end_opening(begun)
    assert (begun.recovery.bytes_scanned, store.logs[KEY].end_offset) == (0, 20)


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_unexplained_start_behind_the_end_takes_nothing_away(is_clean: bool) -> None:
    """A bit of the checkpoint is wrong. Where a power cut took the end of a log its high watermark tells of it."""
    files = CrashingFiles()
    store = filled(files)
    expected = content(store.logs[KEY])
    if is_clean:
        store.close()
    checkpoint.write_offsets(files, f"/data/{checkpoint.START_OFFSETS}", {KEY: 1000})
    files = killed(files)
    store = open_store(files)
    assert isinstance(store.failed[KEY], CorruptLog)
    assert checkpoint.START_OFFSETS in str(store.failed[KEY])
    store.abandon()
    checkpoint.write_offsets(files, f"/data/{checkpoint.START_OFFSETS}", {})
    assert content(open_store(files).logs[KEY]) == expected
