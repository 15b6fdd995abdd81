"""Which log is compacted and when, and which is left alone."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headgate.gateway.coordinator.internal_topic import partition_of
from headgate.gateway.maintenance.log_cleaner import FIRST_DELAY_MS, LOGS_PER_TURN, MAX_BACKOFF_MS, LogCleaner
from headgate.gateway.maintenance.tests.compactions import NOW_MS, CompactingNode, Compactions, dirty, offsets
from headgate.gateway.tests.builders import HandlerBroker
from headgate.gateway.tests.requests import commit_request
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from headgate.storage.cleanup.compaction.compaction_job import Damaged
from headgate.storage.files import File
from headgate.storage.log import flushing, rolling
from headgate.storage.tests.builders import delete_old_segments


def test_a_dirty_log_is_compacted(
    node: HandlerBroker, compactions: Compactions, caplog: pytest.LogCaptureFixture
) -> None:
    replica = dirty(node)
    with caplog.at_level(logging.INFO, "headgate.cleaning"):
        assert compactions.run() == ["collect", "rewrite", "rewrite", "rewrite", "collect", "rewrite"]
    assert len(replica.log.segments) == 2, "those that have become small are one in the end"
    assert offsets(replica) == [9, 10, 11]
    assert replica.log.segments.compacted.offset == 12
    assert "t-0 is compacted up to offset 12: kept 3 of 12 records" in caplog.text
    assert compactions.run() == [], "it is clean"


def test_it_is_looked_for_time_and_again(node: HandlerBroker, compactions: Compactions) -> None:
    compactions.cleaning.start()
    partition = dirty(node)
    node.time.advance(node.config.log_cleaner_backoff_ms)
    node.time.advance()
    assert compactions.cleaning.running == (("t", 0),)
    compactions.run()
    dirty(node, times=2)
    node.time.advance(node.config.log_cleaner_backoff_ms)
    compactions.run()
    assert offsets(partition) == [33, 34, 35]


def test_another_backoff_counts_within_a_second(node: HandlerBroker, compactions: Compactions) -> None:
    compactions.cleaning.start()
    dirty(node)
    node.time.advance(MAX_BACKOFF_MS)
    assert not compactions.workers
    node.config.change({"log.cleaner.backoff.ms": "100"}, {})
    node.time.advance(MAX_BACKOFF_MS)
    node.time.advance()
    assert compactions.cleaning.running == (("t", 0),)


def test_not_where_it_is_switched_off(tmp_path: Path) -> None:
    node = CompactingNode(tmp_path, log_cleaner_enable="false")
    compactions = Compactions(node)
    compactions.cleaning.start()
    dirty(node)
    node.time.advance(node.config.log_cleaner_backoff_ms)
    node.time.advance()
    assert not compactions.workers
    node.close()


def test_topics_that_only_delete_are_left_alone(node: HandlerBroker, compactions: Compactions) -> None:
    dirty(node, settings={"cleanup.policy": "delete"})
    assert compactions.run() == []


def test_both_policies_together(node: HandlerBroker, compactions: Compactions) -> None:
    replica = dirty(node, settings={"cleanup.policy": "compact,delete", "retention.ms": "1000"})
    compactions.run()
    assert offsets(replica) == [9, 10, 11]
    delete_old_segments(replica.log, NOW_MS + 2000, replica.high_watermark)
    assert replica.log.start_offset == replica.log.end_offset == 12


def test_a_log_that_is_not_dirty_enough_waits(node: HandlerBroker, compactions: Compactions) -> None:
    dirty(node, settings={"min.cleanable.dirty.ratio": "0.9"})
    compactions.run()
    dirty(node)
    assert compactions.run() == []


def test_a_young_record_waits(node: HandlerBroker, compactions: Compactions) -> None:
    dirty(node, settings={"min.compaction.lag.ms": "1000000000"})
    node.time.advance(NOW_MS - node.time.clock.now_ms())
    assert compactions.run() == []


@pytest.mark.parametrize("forgets", [False, True])
def test_the_age_of_segments_on_a_cold_disk_is_read_by_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    """As after a start. Where memory is so short that it is gone again, the loop waits: else it would never end."""
    node = CompactingNode(tmp_path)
    dirty(node, settings={"min.compaction.lag.ms": "1", "max.compaction.lag.ms": "1000"})
    node.close()
    node = CompactingNode(tmp_path)
    compactions, brought = Compactions(node), set[int]()

    def read_cached(file: File, length: int, position: int) -> bytes | None:
        is_there = os.fstat(file.fileno).st_ino in brought
        return os.pread(file.fileno, length, position) if is_there and not forgets else None

    def warm(file: File, _: int, __: int) -> None:
        brought.add(os.fstat(file.fileno).st_ino)

    threads = node.time.scheduler.hold()
    monkeypatch.setattr(File, "read_cached", read_cached)
    monkeypatch.setattr(File, "warm", warm)
    if not forgets:
        monkeypatch.setattr(File, "read_at", lambda *_: pytest.fail("it would wait for the disk"))
    node.time.advance(10_000)
    compactions.check()
    assert not compactions.workers
    threads.run_all()
    assert compactions.cleaning.running == (("t", 0),)
    node.close()


class Cold:
    """A node with two log directories; as after a start nothing of what the first one has is in memory."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, names: str) -> None:
        self.directories = [f"{path}/a", f"{path}/b"]
        node = CompactingNode(path, log_dirs=",".join(self.directories))
        for name in names:
            dirty(node, name, settings={"min.compaction.lag.ms": "1", "max.compaction.lag.ms": "1000"})
        node.close()
        self.node = CompactingNode(path, log_dirs=",".join(self.directories))
        self.cold = self.directories[:1]
        self.compactions, self.threads = Compactions(self.node), self.node.time.scheduler.hold()
        self.node.time.advance(10_000)

        def read_cached(file: File, length: int, position: int) -> bytes | None:
            path = str(Path(f"/proc/self/fd/{file.fileno}").readlink())
            is_cold = any(path.startswith(directory) for directory in self.cold)
            return None if is_cold else os.pread(file.fileno, length, position)

        monkeypatch.setattr(File, "read_cached", read_cached)

    def names_in(self, number: int) -> list[str]:
        partitions = self.node.services.partitions
        return [its.topic for its in partitions if its.log.directory.startswith(self.directories[number])]

    def segments(self, number: int) -> list[int]:
        partitions = self.node.services.partitions
        return [len(partitions.get(name, 0).log.segments) for name in self.names_in(number)]

    def run(self) -> None:
        """Until no thread and no worker has anything to do."""
        while self.threads.waiting or self.compactions.run():
            self.threads.run_all()


def test_a_hung_disk_keeps_one_thread_and_other_logs_are_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = Cold(tmp_path, monkeypatch, "abcd")
    for _ in range(3):
        cold.compactions.check()
    (hung,) = cold.threads.waiting
    cold.threads.waiting.clear()
    cold.run()
    assert cold.segments(0) == [4, 4]
    assert cold.segments(1) == [2, 2]
    cold.cold.clear()
    cold.threads.waiting.append(hung)
    cold.run()
    assert cold.segments(0) == [2, 2]
    cold.node.close()


def test_the_loop_does_not_ask_again_for_what_a_thread_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cold = Cold(tmp_path, monkeypatch, "ab")
    monkeypatch.setattr(File, "read_at", lambda *_: pytest.fail("it would wait for the disk"))
    cold.compactions.check()
    cold.threads.run_one(OSError(5, "the disk refuses"))
    assert f"{cold.names_in(0)[0]}-0 cannot be compacted; the next attempt is in 15 s" in caplog.text
    assert not cold.threads.waiting
    cold.node.close()


@pytest.mark.parametrize("is_told", [True, False])
def test_what_is_brought_at_a_stop_is_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_told: bool
) -> None:
    cold = Cold(tmp_path, monkeypatch, "abcd")
    cold.compactions.check()
    if is_told:
        cold.compactions.cleaning.stop()
    else:
        cold.node.services.scheduler.is_over = True
    cold.threads.run_one()
    assert not cold.threads.waiting
    cold.node.close()


def test_the_dirtiest_is_first_and_one_at_a_time(node: HandlerBroker, compactions: Compactions) -> None:
    for name in ("a", "b"):
        dirty(node, name)
        compactions.run()
    dirty(node, "a", times=2)
    dirty(node, "b", times=4)
    compactions.check()
    assert compactions.cleaning.running == (("b", 0),)
    compactions.check()
    assert compactions.cleaning.running == (("b", 0),)
    compactions.run()
    ended = [node.services.partitions.get(name, 0).log.segments.compacted.offset for name in ("a", "b")]
    assert ended == [36, 60], "the other one comes by itself"


def test_several_at_a_time(tmp_path: Path) -> None:
    node = CompactingNode(tmp_path, log_cleaner_threads="2", log_cleaner_io_max_bytes_per_second="1000")
    compactions = Compactions(node)
    for name in ("a", "b", "c"):
        dirty(node, name)
    compactions.check()
    assert len(compactions.cleaning.running) == len(compactions.workers) == 2
    assert compactions.workers[0].rates == [500.0]
    assert compactions.workers[0].job.table_bytes == int(134_217_728 * 0.9 / 2)
    compactions.run()
    assert len(compactions.workers) == 2
    assert all(worker.is_closed for worker in compactions.workers), "there is nothing more to do"
    node.close()


def test_many_logs_are_looked_at_over_several_turns(
    node: HandlerBroker,
) -> None:
    looked: list[int] = []

    class Looked:
        topic, index = "t", 0

        @property
        def log(self) -> Any:
            looked.append(1)
            return SimpleNamespace(config=SimpleNamespace(is_compacted=False))

    time, many = node.time, cast("Any", [Looked()] * (2 * LOGS_PER_TURN + 1))
    cleaning = LogCleaner(many, node.config, time.clock, time.scheduler, node.services.metrics)
    cleaning.check()
    turns = []
    while len(looked) < 2 * LOGS_PER_TURN + 1:
        turns.append(len(looked))
        cleaning.check()  # has no effect: one check is under way
        node.time.scheduler.run_due()
    assert len(turns) <= 3
    assert turns[0] == LOGS_PER_TURN


def test_what_was_wrong_with_a_deleted_log_is_forgotten(node: HandlerBroker, compactions: Compactions) -> None:
    for error in (Damaged("byte 7"), OSError(5, "the disk fails")):
        dirty(node)
        compactions.check()
        compactions.workers[-1].fail(error)
        node.services.metadata.delete_topic("t")
        compactions.check()
        assert not compactions.cleaning._cleanings


def test_a_failing_disk_is_tried_again_ever_later(node: HandlerBroker, compactions: Compactions, caplog: Any) -> None:
    partition = dirty(node)
    for delay_ms in (FIRST_DELAY_MS, 2 * FIRST_DELAY_MS):
        compactions.check()
        compactions.workers[-1].fail(OSError(28, "no space left on device"))
        assert f"the next attempt is in {delay_ms // 1000} s: [Errno 28]" in caplog.text
        node.time.advance(delay_ms - 1)
        compactions.check()
        assert not compactions.cleaning.running
        node.time.advance(1)
    compactions.run()
    assert offsets(partition) == [9, 10, 11]


def test_a_damaged_log_is_left_alone_and_others_are_not(
    node: HandlerBroker, compactions: Compactions, caplog: Any
) -> None:
    damaged = dirty(node, "a")
    compactions.check()
    compactions.workers[0].fail(Damaged("byte 7"))
    assert "a-0 is damaged, and is not compacted any more: byte 7" in caplog.text
    other = dirty(node, "b")
    compactions.run()
    node.time.advance(10 * FIRST_DELAY_MS)
    compactions.run()
    assert (damaged.log.segments.compacted.offset, other.log.segments.compacted.offset) == (-1, 12)


@pytest.mark.parametrize("error", [Damaged("byte 7"), OSError(5, "the disk fails")])
def test_failures_of_a_failed_disk_are_forgotten_when_it_is_back(
    node: HandlerBroker, compactions: Compactions, error: Exception
) -> None:
    replica = dirty(node)
    directory = Path(replica.log.directory).parent
    compactions.check()
    compactions.workers[-1].fail(error)
    node.services.partitions.disk_recovered(f"{directory}-of-others")
    assert compactions.run() == []
    node.services.partitions.disk_recovered(str(directory))
    compactions.run()
    assert offsets(replica) == [9, 10, 11]


@pytest.mark.slow
def test_committed_offsets_are_compacted_and_found_after_a_restart(
    node: HandlerBroker, compactions: Compactions, caplog: pytest.LogCaptureFixture
) -> None:
    node.services.metadata.create_topic("t", 1)
    node.ask(FindCoordinatorRequest("g", 0, ["g"]), 4)
    node.time.advance()
    for offset in range(300):
        assert node.ask(commit_request("g", {0: offset}), 8).topics[0].partitions[0].error_code == 0
    index = partition_of("g", node.config.offsets_topic_num_partitions)
    replica = node.services.partitions.get("__consumer_offsets", index)
    rolling.roll(replica.log, NOW_MS)
    flushing.flush(replica.log)
    compactions.run()
    assert offsets(replica) == [299]
    with caplog.at_level(logging.INFO, "headgate.groups"):
        node.restart()
    wanted = OffsetFetchRequest("g", topics=[OffsetFetchRequestTopic("t", [0])])
    assert node.ask(wanted, 7).topics[0].partitions[0].committed_offset == 299
