"""Work that waits for the disk of one directory: what hangs there holds up no other directory."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import Record, build
from headgate.storage.files import Files
from headgate.storage.log import flushing, log_lock
from headgate.storage.log.log import Log

NOW_MS = 1_700_000_000_000


class Bench:
    """Two directories, a and b, and a topic with partitions in both."""

    def __init__(self, root: Path) -> None:
        self.node = HandlerBroker(root, log_dirs=f"{root}/a,{root}/b")
        self.node.services.metadata.create_topic("t", 4)
        self.use_threads()

    def use_threads(self) -> None:
        """Hold the threads of the broker that runs now."""
        self.threads = self.node.time.scheduler.hold()
        self.upkeep = self.node.parts.maintenance

    def logs(self, directory: str) -> list[Log]:
        partitions = self.node.services.partitions
        return [one.log for one in partitions if one.topic == "t" and f"/{directory}/" in one.log.directory]

    def append(self) -> None:
        for index in range(4):
            batch = build([Record(timestamp=NOW_MS, value=b"v")])
            self.node.services.partitions.get("t", index).append(memoryview(batch), 1, NOW_MS)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_checkpoints_of_one_directory_do_not_wait_for_the_other(bench: Bench, tmp_path: Path) -> None:
    bench.upkeep.checkpoint()
    assert len(bench.threads.waiting) == 2
    bench.threads.run_one(number=1)
    bench.append()
    bench.upkeep.checkpoint()
    assert len(bench.threads.waiting) == 2, "that of a is still being written"
    bench.threads.run_one(number=1)
    rows = (tmp_path / "b" / "replication-offset-checkpoint").read_text("ascii").splitlines()[2:]
    assert rows == [f"t {log.partition} 1" for log in bench.logs("b")]
    assert not (tmp_path / "a" / "replication-offset-checkpoint").exists()


def test_files_of_one_directory_are_removed_whatever_the_other_does(bench: Bench, tmp_path: Path) -> None:
    bench.node.services.metadata.delete_topic("t")
    bench.upkeep.remove_deleted()
    bench.node.time.advance(60_000)
    bench.upkeep.remove_deleted()
    assert len(bench.threads.waiting) == 2
    bench.threads.run_one(number=1)
    assert [len(list((tmp_path / name).glob("t-*"))) for name in "ab"] == [2, 0]


def test_what_cannot_be_removed_is_not_tried_again_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where the room is needed, and all of it is due."""
    bench.node.services.metadata.delete_topic("t")
    full = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    bench.node.services.partitions.directories[bench.node.config.log_directories[1]].set_full(full)

    def refuse(files: Files, path: str) -> None:
        raise OSError(errno.EIO, "Input/output error", path)

    with monkeypatch.context() as patch:
        patch.setattr(Files, "remove_tree", refuse)
        bench.upkeep.remove_deleted()
        bench.threads.run_one()
        assert not bench.threads.waiting
    bench.upkeep.remove_deleted()
    assert len(bench.threads.waiting) == 1


def test_logs_of_one_directory_are_mended_whatever_the_other_does(bench: Bench) -> None:
    bench.append()
    for log in bench.logs("a") + bench.logs("b"):
        flushing.refuse_after_failed_sync(log, OSError(errno.EIO, "Input/output error"))
    bench.upkeep.repair()
    assert len(bench.threads.waiting) == 2
    bench.threads.run_one(number=1)
    bench.threads.run_one(number=1)
    assert [log.sync_error is None for log in bench.logs("b")] == [True, True]
    assert [log.sync_error is None for log in bench.logs("a")] == [False, False]


def test_a_log_of_which_an_index_was_cut_has_its_retention_again(bench: Bench) -> None:
    """By whatever: the file is shorter than it was when the log was opened."""
    bench.node.services.metadata.create_topic("old", 1, configs={"segment.bytes": "300", "index.interval.bytes": "0"})
    partition = bench.node.services.partitions.get("old", 0)
    for _ in range(12):
        batch = build([Record(timestamp=NOW_MS - 10**9, value=b"v" * 20)])
        partition.append(memoryview(batch), 1, NOW_MS)
    bench.node.restart()
    bench.use_threads()
    log = bench.node.services.partitions.get("old", 0).log
    first = log.segments[0]
    Files().truncate(first.times.path, first.times.written - 12)
    bench.upkeep.expire()
    log.lock.acquire(log_lock.ROLLING)
    bench.threads.run_all()
    assert log.segments[0] is first, "a thread has the segments"
    log.lock.release(log_lock.ROLLING)
    bench.upkeep.expire()
    bench.threads.run_all()
    assert log.segments[0] is not first
    bench.upkeep.expire()
    bench.threads.run_all()
    assert log.start_offset > 0
