"""Which log is compacted and when, how a round goes, and what ends it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.cleaner_process import ThreadWorker
from gateway.cleaning import FIRST_DELAY_MS, LOGS_A_TURN, MOST_BACKOFF_MS, Cleaning
from gateway.coordinator.runtime import partition_of
from gateway.replication.partition import Partition
from gateway.scheduler import StoppedError
from gateway.tests.builders import Node
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.records.batch import Record, build, iterate, read_header
from storage.compaction import Damaged, Job

NOW_MS = 1_700_000_000_000
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "1000"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.close()


class Steps:
    """A worker whose steps run when the test says so."""

    def __init__(self, worker: ThreadWorker) -> None:
        self._worker = worker
        self.waiting: list[tuple[str, Callable[[], None], Callable[[Any], None]]] = []
        self.rates: list[float] = []
        self.is_closed = False

    def collect(self, job: Job, bytes_per_second: float, done: Callable[[Any], None]) -> None:
        self.job = job
        self.rates.append(bytes_per_second)
        self.waiting.append(("collect", lambda: self._worker.collect(job, 1e12, done), done))

    def rewrite(self, bases: Sequence[int], bytes_per_second: float, done: Callable[[Any], None]) -> None:
        self.waiting.append(("rewrite", lambda: self._worker.rewrite(bases, 1e12, done), done))

    def close(self) -> None:
        self.is_closed = True

    def step(self) -> str:
        name, run, _ = self.waiting.pop(0)
        run()
        return name

    def fail(self, error: BaseException) -> None:
        self.waiting.pop(0)[2](error)


class Compactions:
    """The cleaning of a node, and the workers that it has made."""

    def __init__(self, node: Node) -> None:
        self.workers: list[Steps] = []
        services = node.services
        self.cleaning = Cleaning(
            services.partitions, node.config, services.clock, services.scheduler, make_worker=self._make
        )
        self._time = node.time

    def _make(self, *arguments: Any) -> Steps:
        self.workers.append(Steps(ThreadWorker(*arguments)))
        return self.workers[-1]

    def look(self) -> None:
        self.cleaning.look()
        self._time.advance()

    def run(self) -> list[str]:
        """Until nothing waits any more; the steps that were made."""
        made = []
        self.look()
        while waiting := [worker for worker in self.workers if worker.waiting]:
            made.append(waiting[0].step())
            self._time.advance()
        return made


@pytest.fixture
def compactions(node: Node) -> Compactions:
    return Compactions(node)


def dirty(node: Node, name: str = "t", times: int = 1, settings: Mapping[str, str] | None = None) -> Partition:
    """A topic with closed segments in which every key was written again and again."""
    if name not in node.services.metadata.image.topics:
        node.services.metadata.create_topic(name, 1, configs={**COMPACTED, **(settings or {})})
    partition = node.services.partitions.get(name, 0)
    for number in range(12 * times):
        record = Record(timestamp=NOW_MS, key=b"k%d" % (number % 3), value=b"%03d" % number + bytes(100))
        partition.append(memoryview(build([record])), 1, NOW_MS)
    partition.log.roll(NOW_MS)
    partition.log.flush()
    return partition


def offsets(partition: Partition) -> list[int]:
    found, offset = [], partition.log.start_offset
    while (piece := partition.read(offset, 1 << 20, 0, at_least_one=True)) is not None:
        data = piece.read()
        while data:
            header = read_header(data)
            found += [record.offset for record in iterate(data[: header.size])]
            data, offset = data[header.size :], header.last_offset + 1
    return found


def test_a_dirty_log_is_compacted(node: Node, compactions: Compactions, caplog: pytest.LogCaptureFixture) -> None:
    partition = dirty(node)
    with caplog.at_level(logging.INFO, "headgate.cleaning"):
        assert compactions.run() == ["collect", "rewrite", "rewrite", "rewrite", "collect", "rewrite"]
    assert len(partition.log.segments) == 2, "those that have become small are one in the end"
    assert offsets(partition) == [9, 10, 11]
    assert partition.log.compacted.offset == 12
    assert "t-0 is compacted up to offset 12: 3 of 12 records are left" in caplog.text
    assert compactions.run() == [], "it is clean"


def test_it_is_looked_for_time_and_again(node: Node, compactions: Compactions) -> None:
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


def test_another_backoff_counts_within_a_second(node: Node, compactions: Compactions) -> None:
    compactions.cleaning.start()
    dirty(node)
    node.time.advance(MOST_BACKOFF_MS)
    assert not compactions.workers
    node.config.change({"log.cleaner.backoff.ms": "100"}, {})
    node.time.advance(MOST_BACKOFF_MS)
    node.time.advance()
    assert compactions.cleaning.running == (("t", 0),)


def test_not_where_it_is_switched_off(tmp_path: Path) -> None:
    node = Node(tmp_path, log_cleaner_enable="false")
    compactions = Compactions(node)
    compactions.cleaning.start()
    dirty(node)
    node.time.advance(node.config.log_cleaner_backoff_ms)
    node.time.advance()
    assert not compactions.workers
    node.close()


def test_topics_that_only_delete_are_left_alone(node: Node, compactions: Compactions) -> None:
    dirty(node, settings={"cleanup.policy": "delete"})
    assert compactions.run() == []


def test_both_policies_together(node: Node, compactions: Compactions) -> None:
    partition = dirty(node, settings={"cleanup.policy": "compact,delete", "retention.ms": "1000"})
    compactions.run()
    assert offsets(partition) == [9, 10, 11]
    partition.log.delete_old_segments(NOW_MS + 2000, partition.high_watermark)
    assert partition.log.start_offset == partition.log.end_offset == 12


def test_a_log_that_is_not_dirty_enough_waits(node: Node, compactions: Compactions) -> None:
    dirty(node, settings={"min.cleanable.dirty.ratio": "0.9"})
    compactions.run()
    dirty(node)
    assert compactions.run() == []


def test_a_young_record_waits(node: Node, compactions: Compactions) -> None:
    dirty(node, settings={"min.compaction.lag.ms": "1000000000"})
    node.time.advance(NOW_MS - node.time.clock.now_ms())
    assert compactions.run() == []


def test_the_dirtiest_is_first_and_one_at_a_time(node: Node, compactions: Compactions) -> None:
    for name in ("a", "b"):
        dirty(node, name)
        compactions.run()
    dirty(node, "a", times=2)
    dirty(node, "b", times=4)
    compactions.look()
    assert compactions.cleaning.running == (("b", 0),)
    compactions.look()
    assert compactions.cleaning.running == (("b", 0),)
    compactions.run()
    ended = [node.services.partitions.get(name, 0).log.compacted.offset for name in ("a", "b")]
    assert ended == [36, 60], "the other one comes by itself"


def test_several_at_a_time(tmp_path: Path) -> None:
    node = Node(tmp_path, log_cleaner_threads="2", log_cleaner_io_max_bytes_per_second="1000")
    compactions = Compactions(node)
    for name in ("a", "b", "c"):
        dirty(node, name)
    compactions.look()
    assert len(compactions.cleaning.running) == len(compactions.workers) == 2
    assert compactions.workers[0].rates == [500.0]
    assert compactions.workers[0].job.table_bytes == int(134_217_728 * 0.9 / 2)
    compactions.run()
    assert len(compactions.workers) == 2
    assert all(worker.is_closed for worker in compactions.workers), "there is nothing more to do"
    node.close()


def test_many_logs_are_looked_at_over_several_turns(node: Node, compactions: Compactions, monkeypatch: Any) -> None:
    partition = dirty(node)
    looked: list[int] = []
    monkeypatch.setattr(compactions.cleaning, "_partitions", [partition] * (2 * LOGS_A_TURN + 1))
    monkeypatch.setattr(compactions.cleaning, "_assess", lambda its: looked.append(1))
    compactions.cleaning.look()
    turns = []
    while len(looked) < 2 * LOGS_A_TURN + 1:
        turns.append(len(looked))
        compactions.cleaning.look()  # has no effect: one look is under way
        node.time.scheduler.run_due()
    assert len(turns) <= 3
    assert turns[0] == LOGS_A_TURN


def test_a_topic_that_is_deleted_meanwhile(node: Node, compactions: Compactions, caplog: Any) -> None:
    dirty(node)
    compactions.look()
    worker = compactions.workers[0]
    worker.step()
    node.services.metadata.delete_topic("t")
    dirty(node)
    worker.step()
    node.time.advance()
    assert not caplog.records, "there is nothing wrong"
    compactions.run()
    assert offsets(node.services.partitions.get("t", 0)) == [9, 10, 11]


@pytest.mark.parametrize("steps", range(7))
def test_a_topic_that_is_deleted_at_any_step_is_nothing_to_be_told_of(
    node: Node, compactions: Compactions, caplog: Any, steps: int
) -> None:
    dirty(node)
    compactions.look()
    worker = compactions.workers[0]
    for _ in range(steps):
        if worker.waiting:
            worker.step()
            node.time.advance()
    node.services.metadata.delete_topic("t")
    node.time.advance()
    while worker.waiting:
        worker.step()
        node.time.advance()
    assert not caplog.records, "there is nothing wrong"
    successor = dirty(node)
    compactions.run()
    assert offsets(successor) == [9, 10, 11], "it does not wait"


def test_what_was_wrong_with_a_deleted_log_is_forgotten(node: Node, compactions: Compactions) -> None:
    for error in (Damaged("byte 7"), OSError(5, "the disk fails")):
        dirty(node)
        compactions.look()
        compactions.workers[-1].fail(error)
        node.services.metadata.delete_topic("t")
        compactions.look()
        assert not compactions.cleaning._uncleanable
        assert not compactions.cleaning._delays


def test_a_policy_that_changes_meanwhile_ends_it(node: Node, compactions: Compactions) -> None:
    partition = dirty(node)
    compactions.look()
    compactions.workers[0].step()
    node.services.metadata.change_topic_configs("t", {"cleanup.policy": "delete"})
    compactions.workers[0].step()
    assert not compactions.cleaning.running
    assert len(offsets(partition)) == 12


def test_segments_that_are_deleted_meanwhile_end_it(node: Node, compactions: Compactions, caplog: Any) -> None:
    partition = dirty(node, settings={"cleanup.policy": "compact,delete"})
    compactions.look()
    worker = compactions.workers[0]
    worker.step()
    partition.log.advance_start(partition.log.segments[1].base_offset)
    partition.log.delete_old_segments(NOW_MS, partition.high_watermark)
    before = offsets(partition)
    worker.fail(StoppedError("the process looked for a file that is gone"))
    assert offsets(partition) == before
    assert not caplog.records
    compactions.run()
    assert offsets(partition) == [9, 10, 11]


def test_a_failing_disk_is_tried_again_ever_later(node: Node, compactions: Compactions, caplog: Any) -> None:
    partition = dirty(node)
    for delay_ms in (FIRST_DELAY_MS, 2 * FIRST_DELAY_MS):
        compactions.look()
        compactions.workers[-1].fail(OSError(28, "no space left on device"))
        assert f"tried again in {delay_ms // 1000} s: [Errno 28]" in caplog.text
        node.time.advance(delay_ms - 1)
        compactions.look()
        assert not compactions.cleaning.running
        node.time.advance(1)
    compactions.run()
    assert offsets(partition) == [9, 10, 11]


def test_without_room_for_a_new_segment_none_is_begun(
    node: Node, compactions: Compactions, caplog: Any, monkeypatch: Any
) -> None:
    partition = dirty(node)
    monkeypatch.setattr(partition.log.pool.files, "space", lambda path: (10**12, 100))
    compactions.look()
    compactions.workers[0].step()
    assert "and 100 are left" in caplog.text
    assert not compactions.cleaning.running


def test_a_damaged_log_is_left_alone_and_others_are_not(node: Node, compactions: Compactions, caplog: Any) -> None:
    damaged = dirty(node, "a")
    compactions.look()
    compactions.workers[0].fail(Damaged("byte 7"))
    assert "a-0 is not compacted any more, as it is damaged: byte 7" in caplog.text
    other = dirty(node, "b")
    compactions.run()
    node.time.advance(10 * FIRST_DELAY_MS)
    compactions.run()
    assert (damaged.log.compacted.offset, other.log.compacted.offset) == (-1, 12)


def test_it_stops_in_the_middle(node: Node, compactions: Compactions, caplog: Any) -> None:
    partition = dirty(node)
    compactions.look()
    worker = compactions.workers[0]
    worker.step()
    compactions.cleaning.stop()
    assert worker.is_closed
    worker.fail(StoppedError("the worker was closed"))
    compactions.look()
    assert not compactions.cleaning.running
    assert len(offsets(partition)) == 12
    assert not caplog.records


def test_batches_that_cannot_be_read_are_told_of(node: Node, compactions: Compactions, caplog: Any) -> None:
    from protocol.records.batch import HEADER_SIZE, with_records

    partition = dirty(node)
    sound = build([Record(timestamp=NOW_MS, key=b"k", value=b"v")])
    bad = with_records(read_header(sound), bytes(sound[HEADER_SIZE:-1]) + b"\xff")
    partition.append(memoryview(bad), 1, NOW_MS, validate="own")
    dirty(node)
    compactions.run()
    assert "t-0 has 1 batches with records that cannot be read" in caplog.text
    assert partition.log.compacted.offset == 25


@pytest.mark.slow
def test_committed_offsets_are_compacted_and_found_after_a_restart(
    node: Node, compactions: Compactions, caplog: pytest.LogCaptureFixture
) -> None:
    node.services.metadata.create_topic("t", 1)
    node.ask(FindCoordinatorRequest("g", 0, ["g"]), 4)
    node.time.advance()
    for offset in range(300):
        row = OffsetCommitRequestPartition(0, offset, -1, -1, "")
        topic = OffsetCommitRequestTopic("t", partitions=[row])
        assert node.ask(OffsetCommitRequest("g", topics=[topic]), 8).topics[0].partitions[0].error_code == 0
    index = partition_of("g", node.config.offsets_topic_num_partitions)
    partition = node.services.partitions.get("__consumer_offsets", index)
    partition.log.roll(NOW_MS)
    partition.log.flush()
    compactions.run()
    assert offsets(partition) == [299]
    with caplog.at_level(logging.INFO, "headgate.groups"):
        node.restart()
    wanted = OffsetFetchRequest("g", topics=[OffsetFetchRequestTopic("t", [0])])
    assert node.ask(wanted, 7).topics[0].partitions[0].committed_offset == 299
