"""A data directory as a whole: open, create, delete, checkpoints, clean and unclean ends."""

from __future__ import annotations

import errno
import gc
import logging
from functools import partial
from pathlib import Path
from random import Random
from types import FunctionType, ModuleType

import pytest

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.storage.config import LogConfig
from headgate.storage.directory.log_directory import MANY_LOGS, LogDirectory
from headgate.storage.errors import DirectoryLocked, WrongDirectory
from headgate.storage.files import Files
from headgate.storage.log import closing, flushing
from headgate.storage.log.epochs import read_entries
from headgate.storage.segment.segment import Segment
from headgate.storage.tests.builders import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    batch,
    content,
    delete_old_segments,
    numbered,
    open_all,
    open_directory,
    open_store,
)
from headgate.storage.tests.crashing_files import CrashingFiles
from headgate.storage.tests.reopened import killed


def test_a_store_on_the_disk(tmp_path: Path) -> None:
    def opened() -> LogDirectory:
        return open_directory(
            f"{tmp_path}/data/", files=Files(), node_id=1, config=LogConfig(), now_ms=NOW_MS, random=Random(1)
        )

    store = opened()
    append(store.create("t", 0, TOPIC_ID, SMALL, NOW_MS), *(batch() for _ in range(50)), numbered(0))
    before = content(store.logs["t", 0])
    store.create("empty", 2, bytes(16), SMALL, NOW_MS)
    with pytest.raises(DirectoryLocked):
        opened()
    store.checkpoint({("t", 0): 50})
    store.close()
    names = {path.name for path in (tmp_path / "data").iterdir()}
    assert names == {
        ".kafka_cleanshutdown", ".lock", "empty-2", "log-start-offset-checkpoint", "meta.properties",
        "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "t-0",
    }  # fmt: skip
    store = opened()
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    log = store.logs["t", 0]
    assert (content(log), log.topic_id, log.recovery_point, log.end_offset) == (before, TOPIC_ID, 51, 51)
    assert store.logs["empty", 2].end_offset == 0
    assert store.high_watermarks() == {("t", 0): 50}
    store.delete("t", 0)
    store.close()
    store.close()
    assert not (tmp_path / "data" / "t-0").exists()


def test_a_new_partition_syncs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    files = CrashingFiles()
    store = open_store(files)

    def refuse(path: str) -> None:
        raise AssertionError(f"{path} is synced")

    monkeypatch.setattr(files, "sync", refuse)
    monkeypatch.setattr(files, "sync_directory", refuse)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    append(log, batch())
    log.epochs.begin_write()()
    assert sorted(files.list("/data/t-0")) == [f"{0:020d}.log", "leader-epoch-checkpoint", "partition.metadata"]


def test_an_idle_partition_costs_no_descriptor_and_no_write() -> None:
    files = CrashingFiles()
    store = open_store(files)
    for partition in range(20):
        append(store.create("t", partition, TOPIC_ID, SMALL, NOW_MS), *(batch() for _ in range(partition)))
    assert files.open_handles == 19
    store.close()
    assert files.open_handles == 0
    store = open_store(files)
    writes = files.writes
    for log in store.logs.values():
        closing.close(log)
    assert files.writes == writes, "what was only opened is not written at the stop"


def test_partitions_are_made_once() -> None:
    store = open_store(CrashingFiles())
    store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    with pytest.raises(KafkaError) as caught:
        store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaError) as caught:
        store.delete("t", 1)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_full_disk_at_creation() -> None:
    files = CrashingFiles()
    store = open_store(files)
    files.room = 0
    with pytest.raises(KafkaError) as caught:
        store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert store.logs == {}
    assert not files.exists("/data/t-0"), "half of it would be taken for a partition by the next start"
    files.room = None
    store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)


def test_old_segments_are_removed_when_there_is_time() -> None:
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    append(log, *(batch() for _ in range(80)))
    assert not store.pool.pending_deletions
    log.advance_start(log.end_offset)
    count = delete_old_segments(log, NOW_MS, log.end_offset)
    assert store.pool.pending_deletions
    left = [name for name in files.list("/data/t-0") if name.endswith(".deleted")]
    assert len([name for name in left if name.endswith(".log.deleted")]) == count > 1
    files.remove(f"/data/t-0/{left[0]}")
    store.remove_deleted()
    assert not store.pool.pending_deletions
    assert not [name for name in files.list("/data/t-0") if name.endswith(".deleted")]


def test_deletion_is_finished_after_a_crash() -> None:
    files = CrashingFiles()
    store = open_store(files)
    append(store.create("t", 0, TOPIC_ID, SMALL, NOW_MS), batch())
    store.delete("t", 0, remove=False)
    assert [name for name in files.list("/data") if name.endswith("-delete")]
    store = open_store(killed(files))
    assert store.logs == {}
    store.remove_deleted()
    assert not [name for name in store.pool.files.list("/data") if name.endswith("-delete")]


def test_a_partition_made_again_owes_nothing_to_the_old_one() -> None:
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    append(log, *(batch() for _ in range(40)))
    flushing.flush(log)
    log.advance_start(35)
    store.checkpoint({("t", 0): 40})
    store.delete("t", 0)
    store.create("t", 0, bytes(16), SMALL, NOW_MS)
    store = open_store(killed(files))
    assert store.failed == {}
    log = store.logs["t", 0]
    assert (log.start_offset, log.end_offset, log.recovery_point) == (0, 0, 0)
    assert store.high_watermarks() == {}


def test_checkpoints_hold_what_was_flushed() -> None:
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    append(log, batch(3))
    flushing.flush(log)
    append(log, batch(2))
    log.advance_start(2)
    store.checkpoint({("t", 0): 4})
    assert files.read("/data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 3\n"
    assert files.read("/data/replication-offset-checkpoint") == b"0\n1\nt 0 4\n"
    assert files.read("/data/log-start-offset-checkpoint") == b"0\n1\nt 0 2\n"
    log = open_store(killed(files)).logs["t", 0]
    assert (log.start_offset, log.recovery_point, log.end_offset) == (2, 3, 5)


def reachable(root: object) -> list[object]:
    """Everything that an object holds, without code."""
    found: dict[int, object] = {}
    waiting = [root]
    while waiting:
        each = waiting.pop()
        if id(each) not in found and not isinstance(each, type | ModuleType | FunctionType):
            found[id(each)] = each
            waiting += gc.get_referents(each)
    return list(found.values())


def test_what_is_kept_by_partition_has_one_key_for_each() -> None:
    files = CrashingFiles()
    store = open_store(files)
    for index in range(2):
        append(store.create("topic", index, TOPIC_ID, SMALL, NOW_MS), batch())
    store.checkpoint({log.key: 1 for log in store.logs.values()})
    store.close()
    store = LogDirectory.take(DIRECTORY, files=files, node_id=0, config=SMALL, random=Random(1)).claim()
    store.checkpoint({})  # holds what the one before said, as no log is open
    open_all(store, NOW_MS)
    store.checkpoint({log.key: 1 for log in store.logs.values()})
    keys = {id(log.key) for log in store.logs.values()}
    assert keys == {id(key) for key in store.logs}
    reached = [each for each in reachable(store) if each in (("topic", 0), ("topic", 1))]
    assert {id(each) for each in reached} == keys, "also in what checkpoints hold"
    assert len({id(log.topic) for log in store.logs.values()}) == 1


def test_a_new_directory_gets_the_id_of_its_cluster_when_claimed() -> None:
    files = CrashingFiles()
    take = partial(LogDirectory.take, DIRECTORY, files=files, node_id=0, config=SMALL, random=Random(1))
    store = take()
    known = store.meta.directory_id
    store.claim("AAAAAAAAAAAAAAAAAAAAAA").close()
    store = take()
    assert store.cluster_id == "AAAAAAAAAAAAAAAAAAAAAA"
    assert store.meta.directory_id == known, "ZooKeeper knows the process by it"
    with pytest.raises(WrongDirectory, match="belongs to cluster AAAAAAAAAAAAAAAAAAAAAA, not BBBBBBBBBBBBBBBBBBBBBB"):
        store.claim("BBBBBBBBBBBBBBBBBBBBBB")


def test_what_is_no_partition_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    files = CrashingFiles()
    open_store(files)
    files.make_directories("/data/lost+found")
    with caplog.at_level(logging.WARNING):
        store = open_store(killed(files))
    assert "lost+found is not a partition's directory" in caplog.text
    assert store.logs == {}


def test_a_log_that_cannot_be_closed_makes_the_next_start_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    files = CrashingFiles()
    store = open_store(files)
    append(store.create("t", 0, TOPIC_ID, SMALL, NOW_MS), batch())
    append(store.create("u", 0, TOPIC_ID, SMALL, NOW_MS), batch())
    seal = Segment.seal

    def fail(segment: Segment) -> bool:
        if segment.directory == "/data/t-0":
            raise OSError(errno.EIO, "input/output error")
        return seal(segment)

    monkeypatch.setattr(Segment, "seal", fail)
    store.close()
    assert not files.exists("/data/.kafka_cleanshutdown")
    assert (files.locked, files.open_handles) == (set(), 0)
    monkeypatch.undo()
    assert [log.end_offset for log in open_store(files).logs.values()] == [1, 1]


def test_a_start_after_a_crash_is_told(caplog: pytest.LogCaptureFixture) -> None:
    files = CrashingFiles()
    told = "/data: the last stop was not clean"
    with caplog.at_level(logging.INFO):
        store = open_store(files)
        append(store.create("t", 0, TOPIC_ID, SMALL, NOW_MS), batch())
        store.close()
        open_store(files)
        assert told not in caplog.text
        open_store(files.crash(Random(1), power=False))
    assert told in caplog.text


def test_many_logs_are_synced_at_once() -> None:
    files = CrashingFiles()
    store = open_store(files)
    for partition in range(MANY_LOGS + 1):
        append(store.create("t", partition, TOPIC_ID, SMALL, NOW_MS), batch())
    store.close()
    after = files.crash(Random(1), power=True)
    assert after.exists("/data/.kafka_cleanshutdown")
    store = open_store(after)
    assert {log.recovery_point for log in store.logs.values()} == {1}
    assert all(content(log) for log in store.logs.values())


def test_the_next_checkpoint_has_the_log_start_and_nothing_before() -> None:
    """By a thread: DeleteRecords and retention wait for no disk."""
    files = CrashingFiles()
    store = open_store(files)
    logs = [store.create(name, 0, TOPIC_ID, SMALL, NOW_MS) for name in "tu"]
    for log in logs:
        append(log, *(batch() for _ in range(5)))
    begun = files.writes
    for log in logs:
        log.advance_start(3)
    assert files.writes == begun
    assert [log.epochs.entries for log in logs] == [[(0, 3)], [(0, 3)]]
    fault = files.fail(errno.ENOSPC, path="t-0/leader-epoch-checkpoint")
    with pytest.raises(OSError, match="ENOSPC"):
        store.checkpoint({("t", 0): 5, ("u", 0): 5})
    assert fault.met == 1
    assert [log.epochs.is_stale for log in logs] == [True, False]
    assert read_entries(files, logs[1].directory) == [(0, 3)]
    files.heal()
    write = store.begin_checkpoint({})
    store.delete("t", 0, remove=False)
    again = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    write()
    assert read_entries(files, again.directory) is None, "what belonged to the old one is not written to the new one"


def test_epochs_older_than_the_start_are_trimmed_by_the_next_start() -> None:
    files = CrashingFiles()
    store = open_store(files)
    log = store.create("t", 0, TOPIC_ID, SMALL, NOW_MS)
    for epoch in range(4):
        append(log, batch(), leader_epoch=epoch)
    log.epochs.begin_write()()
    log.advance_start(2)
    files.write("/data/log-start-offset-checkpoint", b"0\n1\nt 0 2\n")
    assert read_entries(files, log.directory) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    again = open_store(killed(files)).logs["t", 0]
    assert again.epochs.entries == [(2, 2), (3, 3)]
