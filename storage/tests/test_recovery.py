"""Opening after clean stops and crashes.

The three ends of a scan, and what is derived. Random histories are in `test_histories.py`.
"""

from __future__ import annotations

import logging
import struct
from random import Random

import pytest

from protocol.errors import KafkaError
from storage import recovery
from storage.config import LogConfig
from storage.errors import CorruptLog, UnsupportedLog
from storage.log import Log
from storage.pool import Pool
from storage.recovery import Clean, Corrupt, Torn
from storage.segment import Walk
from storage.store import Store
from storage.tests.builders import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    StillOwner,
    append,
    assert_derived_state,
    batch,
    content,
    numbered,
    open_store,
)
from storage.tests.crashing_files import CrashingFiles

PARTITION = "/data/t-0"
KEY = "t", 0
FIRST = f"{PARTITION}/{0:020d}.log"


def filled(files: CrashingFiles, batches: int = 40, flush_at: int = 20) -> Store:
    """A store whose log t-0 has several segments, flushed and checkpointed in between."""
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    for number in range(batches):
        append(log, numbered(number, producer_id=number % 3 + 1) if number < 3 else batch(1 + number % 2))
        if number == flush_at:
            log.flush()
            store.checkpoint({KEY: log.end_offset})
    return store


def killed(files: CrashingFiles) -> CrashingFiles:
    return files.crash(Random(1), power=False)


def reopened(files: CrashingFiles) -> Store:
    return open_store(killed(files))


def names(files: CrashingFiles, suffix: str) -> list[str]:
    return sorted(name for name in files.list(PARTITION) if name.endswith(suffix))


# The three ends


def walk_of(log: Log, damage: int | None = None) -> Walk:
    segment = log.segments[0]
    if damage is not None:
        segment.file.write_at(b"\xff" * 8, damage)
    walk = segment.walk()
    walk.check_crc_from = 0
    for _ in walk:
        pass
    return walk


def test_judge() -> None:
    log = filled(CrashingFiles(), batches=6).logs[KEY]
    assert recovery.judge(walk_of(log), 0) == Clean()
    assert recovery.judge(walk_of(log), log.end_offset) == Clean()
    assert isinstance(recovery.judge(walk_of(log), log.end_offset + 1), Corrupt)
    second = log.segments[0].locate(1)
    for damage in (second + 8, second + 16, second + 30, second + 70):
        log = filled(CrashingFiles(), batches=6).logs[KEY]
        assert isinstance(verdict := recovery.judge(walk_of(log, damage), 1), Torn)
        assert verdict.at == second
        assert isinstance(recovery.judge(walk_of(log), 2), Corrupt)


def test_a_torn_tail_is_cut_and_kept_aside(caplog: pytest.LogCaptureFixture) -> None:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    before, end = content(log), log.end_offset
    last = log.segments[-1]
    last.file.write_at(b"not a batch", last.size)
    size = last.size
    with caplog.at_level(logging.WARNING):
        store = reopened(files)
    log = store.logs[KEY]
    assert (log.end_offset, content(log)) == (end, before)
    kept = store.pool.files.read(f"{last.path}.{size}{recovery.TORN_SUFFIX}")
    assert kept == b"not a batch"
    assert f"cut at byte {size} of {last.path}, offset {end}" in caplog.text
    append(log, batch())
    assert_derived_state(log)


def test_what_lies_behind_a_torn_place_is_kept_aside_too() -> None:
    files = CrashingFiles()
    log = filled(files, batches=80, flush_at=5).logs[KEY]
    log.segments[1].file.write_at(b"\xff" * 40, log.segments[1].locate(log.segments[1].base_offset + 5))
    later = log.segments[2:]
    assert later
    store = reopened(files)
    assert len(store.logs[KEY].segments) == 2
    for segment in later:
        assert not store.pool.files.exists(segment.path)
        assert store.pool.files.read(f"{segment.path}.0{recovery.TORN_SUFFIX}")
    append(store.logs[KEY], batch())
    assert_derived_state(store.logs[KEY])


def test_zeros_are_cut_and_not_kept() -> None:
    files = CrashingFiles()
    log = filled(files).logs[KEY]
    before = content(log)
    log.segments[-1].file.write_at(bytes(500), log.segments[-1].size)
    store = reopened(files)
    assert content(store.logs[KEY]) == before
    assert not names(files, recovery.TORN_SUFFIX)


def test_a_lost_segment_cuts_the_log() -> None:
    files = CrashingFiles()
    log = filled(files, batches=60, flush_at=5).logs[KEY]
    lost = log.segments[-2]
    files.remove(lost.path)
    store = reopened(files)
    assert store.logs[KEY].end_offset == lost.base_offset
    assert len(names(files, recovery.TORN_SUFFIX)) == 1


@pytest.mark.parametrize("position", [0, 8, 16, 23])
def test_damage_below_the_recovery_point_stops_that_partition_only(position: int) -> None:
    files = CrashingFiles()
    store = filled(files)
    store.create("other", 0, bytes(16), SMALL, NOW_MS)
    log = store.logs[KEY]
    log.flush()
    store.checkpoint({KEY: 3})
    file = files.file(log.segments[-1].path)
    damaged = log.segments[-1].offsets.last_position + position
    file.content[damaged : damaged + 8] = b"\xff" * 8
    before = bytes(file.content)
    store = reopened(files)
    assert list(store.logs) == [("other", 0)]
    assert isinstance(store.failed[KEY], CorruptLog)
    assert bytes(file.content) == before, "nothing is touched"
    with pytest.raises(KafkaError, match="damaged"):
        store.create("t", 0, TOPIC_ID, SMALL)
    store.close()
    again = reopened(store.pool.files)  # type: ignore[arg-type]
    assert KEY in again.failed, "a clean stop does not hide it"
    assert again.high_watermarks()[KEY] == 3
    again.delete("t", 0)
    assert again.create("t", 0, TOPIC_ID, SMALL).end_offset == 0


def test_lost_segments_are_corrupt() -> None:
    files = CrashingFiles()
    store = filled(files)
    for segment in store.logs[KEY].segments:
        files.remove(segment.path)
    assert "no segments" in str(reopened(files).failed[KEY])


def test_old_messages_are_not_taken_for_damage() -> None:
    files = CrashingFiles()
    filled(files)
    import zlib

    message = b"\x00\x00" + struct.pack(">i", -1) + struct.pack(">i", 3) + b"old"
    files.write(FIRST, struct.pack(">qiI", 0, len(message) + 4, zlib.crc32(message)) + message)
    files.remove("/data/recovery-point-offset-checkpoint")
    for segment in names(files, ".log")[1:]:
        files.remove(f"{PARTITION}/{segment}")
    assert isinstance(reopened(files).failed[KEY], UnsupportedLog)


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
    with pytest.raises(KafkaError, match=r"/data/holiday-24 holds other files, and nothing of a log; move it away"):
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


# What is derived


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
def test_what_is_derived_is_made_again(suffix: str, clean: bool) -> None:
    files = CrashingFiles()
    store = filled(files)
    before = content(store.logs[KEY])
    producers = dict(store.logs[KEY].producers.by_id)
    if clean:
        store.close()
    for name in names(files, suffix):
        files.remove(f"{PARTITION}/{name}")
    log = reopened(files).logs[KEY]
    assert (content(log), log.producers.by_id) == (before, producers)
    assert_derived_state(log)
    append(log, numbered(1, producer_id=1))
    assert_derived_state(log)


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


def test_a_damaged_snapshot_or_index_is_not_believed() -> None:
    files = CrashingFiles()
    store = filled(files)
    producers = dict(store.logs[KEY].producers.by_id)
    store.close()
    for name in names(files, ".snapshot"):
        files.file(f"{PARTITION}/{name}").content[-1:] = b"\xff"
    for name in names(files, "index"):
        files.append(f"{PARTITION}/{name}", b"x")
    log = reopened(files).logs[KEY]
    assert log.producers.by_id == producers
    assert_derived_state(log)


def test_a_clean_stop_starts_without_a_scan() -> None:
    files = CrashingFiles()
    store = filled(files, batches=400)
    store.close()
    files.reads = 0
    store = open_store(files)
    log = store.logs[KEY]
    assert (len(log.segments), log.end_offset) > (10, 200)
    assert files.reads < 10


def left(files: CrashingFiles) -> None:
    """A store left cleanly and opened again, so that a kill finds it idle; its last segment has some index entries."""
    store = filled(files, batches=400)
    while len(store.logs[KEY].segments[-1].offsets.content()) < 32:
        append(store.logs[KEY], batch(timestamp=NOW_MS + store.logs[KEY].end_offset))
    store.close()
    open_store(files)


def test_a_partition_that_was_idle_is_not_scanned_after_a_crash() -> None:
    for power in (False, True):
        files = CrashingFiles()
        left(files)
        before = {name: bytes(files.file(f"{PARTITION}/{name}").content) for name in names(files, "")}
        again = files.crash(Random(1), power=power)
        made = again.delay(lambda: None, "create", "truncate", "write", path="index")
        log = open_store(again).logs[KEY]
        assert log.end_offset > 200
        assert made.met == 0, "no index is made again"
        if not power:  # snapshots are made again where a power cut takes them
            assert {name: bytes(again.file(f"{PARTITION}/{name}").content) for name in names(again, "")} == before
        assert_derived_state(log)
        append(log, batch())
        assert_derived_state(log)


@pytest.mark.parametrize("damage", ["time entry lost", "time entry of later", "offsets lost", "zeros", "appended to"])
def test_an_index_that_is_not_as_it_was_left_is_made_again(damage: str) -> None:
    files = CrashingFiles()
    left(files)
    last = names(files, ".log")[-1].removesuffix(".log")
    times, offsets = (files.file(f"{PARTITION}/{last}{suffix}").content for suffix in (".timeindex", ".index"))
    match damage:
        case "time entry lost":
            del times[-12:]
        case "time entry of later":
            times += struct.pack(">qi", NOW_MS + 5, 1 << 20)
        case "offsets lost":
            del offsets[8:]
        case "zeros":
            offsets[8:16] = bytes(8)
        case _:
            files.append(f"{PARTITION}/{last}.log", b"torn")
    log = reopened(files).logs[KEY]
    assert_derived_state(log)


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


def test_batches_without_epochs_are_looked_through_once() -> None:
    files = CrashingFiles()
    store = open_store(files)
    append(store.create("t", 0, TOPIC_ID, SMALL, NOW_MS), *(batch() for _ in range(300)), leader_epoch=-1)
    store.close()
    open_store(files).close()
    files.reads = 0
    assert open_store(files).logs[KEY].epochs.entries == []
    assert files.reads < 10


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_lost_block_of_an_index_whose_segment_was_synced_before_is_made_again(suffix: str) -> None:
    """A roll leaves the indexes to the next flush; the bytes may have been on the disk, and the checkpoint too."""
    files = CrashingFiles()
    store = open_store(files)
    config = LogConfig(index_interval_bytes=0)
    log = store.create("t", 0, TOPIC_ID, config, NOW_MS)
    for number in range(20):
        append(log, batch(timestamp=NOW_MS + number))
    log.flush()
    store.checkpoint({KEY: log.end_offset})
    log.roll(NOW_MS)
    path = f"{log.directory}/{0:020d}{suffix}"
    whole = bytes(files.file(path).content)
    width = 8 if suffix == ".index" else 12
    files.file(path).content[5 * width : 9 * width] = bytes(4 * width)
    again = open_store(killed(files), config).logs[KEY]
    assert again.end_offset == 20
    assert again.pool.files.read(path) == whole


def test_what_a_killed_broker_left_in_memory_is_synced_where_commits_are() -> None:
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, LogConfig(headgate_flush="commit"), NOW_MS)
    log.owner = StillOwner()
    append(log, batch(), batch())
    assert log.recovery_point == 0
    for config, point in ((LogConfig(), 0), (log.config, 2)):
        partition = recovery.Partition("t", 0, log.directory, TOPIC_ID)
        pool = Pool(killed(files))
        again = recovery.open_log(pool, partition, config, Random(0), NOW_MS)
        assert (again.recovery_point, again.end_offset) == (point, 2)


@pytest.mark.parametrize("lost", [slice(0, 4), slice(4, 8), slice(0, 3)])
def test_a_hole_at_the_beginning_of_an_index_is_found(lost: slice) -> None:
    """Of a segment whose bytes were on the disk before it was sealed: zeros there are in order."""
    files = CrashingFiles()
    config = LogConfig(index_interval_bytes=200)
    store = open_store(files, config)
    log = store.create("t", 0, TOPIC_ID, config, NOW_MS)
    append(log, *(numbered(300 * number, 300) for number in range(3)))
    log.flush()
    store.checkpoint({})
    log.roll(NOW_MS)
    path = log.segments[0].offsets.path
    whole = files.read(path)
    assert whole[:4] == (599).to_bytes(4, "big")
    index = files.file(path).content
    index[lost] = bytes(lost.stop - lost.start)
    log = open_store(files.crash(Random(0), power=False), config).logs["t", 0]
    assert log.pool.files.read(path) == whole
    assert_derived_state(log)
