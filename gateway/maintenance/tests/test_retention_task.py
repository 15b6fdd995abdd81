"""Rounds of retention: decided on the loop, done by threads, one log of a directory after another."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.gateway.coordinator.tests.test_runtime import commit
from headgate.gateway.maintenance import retention_task
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tests.fake_scheduler import HeldThreads
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.records.batch import Record, build
from headgate.storage.cleanup import retention
from headgate.storage.files import File
from headgate.storage.log.log import Log
from headgate.storage.segment.segment import Segment
from headgate.storage.tests.builders import delete_old_segments

NOW_MS = 1_700_000_000_000
CONFIGS = {"segment.bytes": "200", "retention.ms": "1000"}


def partition(node: HandlerBroker, name: str, index: int = 0) -> Replica:
    return node.services.partitions.get(name, index)


def append(node: HandlerBroker, name: str, timestamp: int = NOW_MS, index: int = 0) -> None:
    """A segment of its own."""
    batch = build([Record(timestamp=timestamp, value=bytes(100))])
    partition(node, name, index).append(memoryview(batch), 1, NOW_MS)


def filled(node: HandlerBroker, name: str, count: int = 3) -> Log:
    """The log of a topic of which nothing is kept in five seconds."""
    node.services.metadata.create_topic(name, 1, configs=CONFIGS)
    for number in range(count):
        append(node, name, NOW_MS + number)
    node.time.clock.elapsed_ms = 5_000
    return partition(node, name).log


def logs_of(log: Log) -> list[int]:
    return sorted(int(path.stem) for path in Path(log.directory).glob("*.log"))


def test_a_thread_renames_what_the_log_has_given_up(node: HandlerBroker, threads: HeldThreads) -> None:
    log = filled(node, "t")
    work = node.parts.maintenance
    work.expire()
    assert (log.start_offset, logs_of(log)) == (2, [0, 1, 2])
    work.expire()
    assert len(threads.waiting) == 1, "one round after another"
    threads.run_one()
    assert logs_of(log) == [2]
    assert len(threads.waiting) == 1, "nothing is kept: another segment is begun"
    threads.run_all()
    assert (log.start_offset, logs_of(log)) == (3, [3])


def test_appends_wait_for_a_segment_that_a_thread_begins(node: HandlerBroker, threads: HeldThreads) -> None:
    log, served = filled(node, "t", 1), partition(node, "t")
    node.parts.maintenance.expire()
    writer = served.writer()
    assert writer is not None
    done: list[object] = []
    writer.append(memoryview(build([Record(timestamp=NOW_MS + 5_000, value=b"new")])), 1, NOW_MS, done.append)
    assert (done, log.end_offset, log.segments.active.base_offset) == ([], 1, 0)
    threads.run_all()
    assert (len(done), log.start_offset, log.end_offset, log.segments.active.base_offset) == (1, 1, 2, 1)
    assert served.writer() is None, "appends are made on the loop again"
    assert logs_of(log) == [1]


def test_an_old_segment_is_closed_by_a_thread_though_it_is_kept(node: HandlerBroker, threads: HeldThreads) -> None:
    node.services.metadata.create_topic("t", 1, configs={"segment.ms": "1000"})
    append(node, "t")
    log = partition(node, "t").log
    node.time.clock.elapsed_ms = 5_000
    node.parts.maintenance.expire()
    assert len(log.segments) == 1
    threads.run_all()
    assert ([segment.base_offset for segment in log.segments], log.start_offset) == ([0, 1], 0)
    node.parts.maintenance.expire()
    assert not threads.waiting, "an empty one stays"


def test_a_roll_that_fails_is_told_and_tried_again(
    node: HandlerBroker, threads: HeldThreads, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(node, "t", 1)
    work = node.parts.maintenance
    work.expire()
    threads.run_one(OSError(28, "No space left on device"))
    assert "old segments of Log(t-0" in caplog.text
    assert "No space left" in caplog.text
    append(node, "t", NOW_MS + 5_000)
    assert log.end_offset == 2
    node.time.clock.elapsed_ms = 20_000
    work.expire()
    threads.run_all()
    assert (log.start_offset, log.segments.size) == (2, 0)


def hold(node: HandlerBroker, count: int = 5, **configs: str) -> Log:
    """A topic whose records expire at once, but for group g: segments of one record each."""
    held = {"headgate.retention.hold.groups": "g"} | {
        f"headgate.retention.hold.{name}": value for name, value in configs.items()
    }
    node.services.metadata.create_topic("t", 1, configs={**CONFIGS, **held})
    for number in range(count):
        append(node, "t", NOW_MS + number)
    node.time.clock.elapsed_ms = 5_000
    return partition(node, "t").log


def expire(node: HandlerBroker, threads: HeldThreads) -> None:
    node.parts.maintenance.expire()
    threads.run_all()


def held_partitions(node: HandlerBroker) -> float:
    return node.services.metrics.snapshot()["retention.holding.partitions"]


def test_what_a_group_has_not_read_is_held(
    node: HandlerBroker, threads: HeldThreads, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.maintenance")
    log = hold(node)
    for _ in range(2):
        expire(node, threads)
    assert log.start_offset == 0, "a group without an offset has read nothing"
    assert caplog.text.count("t-0: retention waits at offset 0 for headgate.retention.hold.groups=g") == 1
    assert held_partitions(node) == 1
    commit(node, "g", 2)
    expire(node, threads)
    assert (log.start_offset, log.end_offset) == (2, 5)
    commit(node, "g", 5)
    expire(node, threads)
    assert (log.start_offset, log.end_offset) == (5, 5)
    assert held_partitions(node) == 0
    assert "has not read them" not in caplog.text


def test_the_group_that_has_read_the_least_decides(node: HandlerBroker, threads: HeldThreads) -> None:
    log = hold(node, groups="g,h")
    commit(node, "g", 4)
    expire(node, threads)
    assert log.start_offset == 0
    commit(node, "h", 1)
    expire(node, threads)
    assert log.start_offset == 1


@pytest.mark.parametrize(
    "limit, start", [({"ms": "4998"}, 2), ({"ms": "5000"}, 0), ({"bytes": "200"}, 3), ({"bytes": "0"}, 5)]
)
def test_a_hold_has_limits_and_the_log_names_what_is_lost(
    node: HandlerBroker, threads: HeldThreads, caplog: pytest.LogCaptureFixture, limit: dict[str, str], start: int
) -> None:
    log = hold(node, 5, **limit)
    expire(node, threads)
    assert log.start_offset == start
    assert ("are deleted, though a group that holds them has not read them" in caplog.text) is (start > 0)


def test_nothing_is_held_on_a_disk_that_is_nearly_full(
    node: HandlerBroker, threads: HeldThreads, caplog: pytest.LogCaptureFixture
) -> None:
    log = hold(node)
    (status,) = node.parts.partitions.directories.values()
    status.full_error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    starts = []
    for _ in range(6):
        expire(node, threads)
        starts.append(log.start_offset)
    assert starts == [1, 2, 3, 4, 5, 5], "no more than the disk needs"
    assert "t-0: the offsets 0 to 0 are deleted" in caplog.text
    assert "the disk is nearly full" in caplog.text


def test_what_is_read_goes_at_once_also_from_a_disk_that_is_nearly_full(
    node: HandlerBroker, threads: HeldThreads
) -> None:
    log = hold(node)
    commit(node, "g", 3)
    (status,) = node.parts.partitions.directories.values()
    status.full_error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    expire(node, threads)
    assert log.start_offset == 4, "one more, as the disk needs it"


def test_deleted_records_are_not_held(
    node: HandlerBroker, threads: HeldThreads, caplog: pytest.LogCaptureFixture
) -> None:
    log = hold(node)
    log.advance_start(3)
    expire(node, threads)
    assert (log.start_offset, len(log.segments)) == (3, 2)
    assert "has not read them" not in caplog.text


def test_a_hold_that_is_set_and_taken_away_while_the_broker_runs(node: HandlerBroker, threads: HeldThreads) -> None:
    log = hold(node)
    commit(node, "g", 1)
    node.restart()
    node.time.clock.elapsed_ms = 5_000
    log = partition(node, "t").log
    expire(node, threads)
    assert log.start_offset == 1, "the offsets are loaded with the group"
    node.services.metadata.change_topic_configs("t", {"headgate.retention.hold.groups": None})
    node.time.advance()
    expire(node, threads)
    assert (log.start_offset, held_partitions(node)) == (5, 0)


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The logs at which a round has looked."""
    names: list[str] = []
    begin = retention.begin_segment_deletion

    def note(log: Log, *args: int, blocking: bool, first_unread: int | None) -> object:
        names.append(log.topic)
        return begin(log, *args, blocking=blocking, first_unread=first_unread)

    monkeypatch.setattr(retention, "begin_segment_deletion", note)
    return names


def test_a_round_looks_at_some_partitions_in_each_turn(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        node.services.metadata.create_topic(f"t{number}", 1)
    names, work = looked_at(monkeypatch), node.parts.maintenance
    now_ms: Iterator[int] = iter(range(10_000))
    with monkeypatch.context() as patch:
        patch.setattr(type(node.time.clock), "monotonic_ms", lambda _: float(next(now_ms)))
        work.expire()
        assert 0 < len(names) < 20
        count = len(names)
        work.expire()
        assert len(names) == count, "it goes on by itself"
    node.time.advance(100_000)
    assert sorted(names) == sorted(f"t{number}" for number in range(20))


def test_many_segments_of_one_log_are_deleted_in_several_turns(
    node: HandlerBroker, threads: HeldThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_task, "SLICE_SEGMENTS", 4)
    large, small = filled(node, "large", 12), filled(node, "small", 2)
    node.parts.maintenance.expire()
    turns = []
    while threads.waiting:
        before = large.start_offset, small.start_offset
        threads.run_one()
        turns.append((large.start_offset - before[0], small.start_offset - before[1]))
    assert max(turns)[0] == 4
    assert (large.start_offset, small.start_offset) == (12, 2)
    assert turns.index((0, 1)) < turns.index((3, 0)), "others have their turn"


@pytest.mark.parametrize("fault", [OSError(5, "Input/output error"), ValueError("whatever it is")])
@pytest.mark.parametrize("place", ["loop", "thread"])
def test_one_log_does_not_end_the_retention_of_the_others(
    node: HandlerBroker, fault: Exception, place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, other = filled(node, "a"), filled(node, "b")
    work = node.parts.maintenance

    def failing(due: Callable[..., object], log_of: Callable[[object], bool]) -> Callable[..., object]:
        def fail(one: object, *args: object, **named: object) -> object:
            if log_of(one):
                raise fault
            return due(one, *args, **named)

        return fail

    with monkeypatch.context() as patch:
        if place == "loop":
            of = failing(retention.begin_segment_deletion, lambda log: log is broken)
            patch.setattr(retention, "begin_segment_deletion", of)
        else:
            of = failing(Segment.delete, lambda segment: getattr(segment, "directory", "") == broken.directory)
            patch.setattr(Segment, "delete", of)
        work.expire()
    assert "old segments of Log(" in caplog.text
    assert str(fault) in caplog.text
    assert ("Traceback" in caplog.text) == isinstance(fault, ValueError)
    assert (logs_of(broken), logs_of(other)) == ([0, 1, 2], [3])
    work.expire()
    assert logs_of(broken) == [3]


def test_a_cut_index_does_not_end_the_retention_of_other_logs(node: HandlerBroker) -> None:
    for name in ("a", "b"):
        filled(node, name)
    node.restart()  # after a start timestamps are not known yet
    work = node.parts.maintenance
    path = Path(partition(node, "a").log.segments[0].times.path)
    assert path.stat().st_size
    path.write_bytes(b"")
    work.expire()
    assert partition(node, "b").log.start_offset == 3
    work.expire()
    assert partition(node, "a").log.start_offset == 3, "it was made again"


def test_what_is_not_in_memory_is_read_by_a_thread(
    node: HandlerBroker, threads: HeldThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        filled(node, name)
    node.restart()
    node.time.scheduler.threads = threads
    a, b = (partition(node, name).log for name in ("a", "b"))
    warm, read_cached = File.warm, File.read_cached
    is_there: set[int] = set()

    def bring(file: File, length: int, position: int) -> None:
        is_there.add(position)
        warm(file, length, position)

    monkeypatch.setattr(File, "warm", bring)
    monkeypatch.setattr(
        File, "read_cached", lambda file, length, at: read_cached(file, length, at) if at in is_there else None
    )
    work = node.parts.maintenance
    work.expire()
    assert (a.start_offset, b.start_offset) == (0, 0)
    threads.run_all()
    assert (a.start_offset, b.start_offset) == (3, 3)


def begin_on_a_cold_disk(node: HandlerBroker, threads: HeldThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round for one log, of which nothing is ever in memory."""
    filled(node, "t")
    node.restart()
    node.time.scheduler.threads = threads
    monkeypatch.setattr(File, "read_cached", lambda *_: None)
    node.parts.maintenance.expire()


def test_what_has_left_the_memory_at_once_is_left_to_the_next_round(
    node: HandlerBroker, threads: HeldThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_on_a_cold_disk(node, threads, monkeypatch)
    threads.run_one()
    assert not threads.waiting
    assert partition(node, "t").log.start_offset == 0


@pytest.mark.parametrize("flush", ["commit", "cache"])
def test_a_flush_that_had_to_wait_begins_when_the_files_are_renamed(
    node: HandlerBroker, threads: HeldThreads, flush: str
) -> None:
    log, served = filled(node, "t"), partition(node, "t")
    log.configure(replace(log.config, headgate_flush=flush))
    served.configure(log.config)
    node.time.advance()
    threads.run_all()
    node.parts.maintenance.expire()
    assert len(threads.waiting) == 1
    append(node, "t", NOW_MS + 5_000)
    served.sync_soon()
    node.time.advance()
    assert len(threads.waiting) == 1
    assert log.recovery_point < log.end_offset
    while threads.waiting:
        threads.run_one()
    assert log.recovery_point == served.high_watermark == log.end_offset


def test_a_disk_that_refuses_what_is_read_for_a_look_is_told(
    node: HandlerBroker, threads: HeldThreads, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin_on_a_cold_disk(node, threads, monkeypatch)
    threads.run_one(OSError(5, "Input/output error"))
    assert not threads.waiting
    assert "old segments of Log(t-0" in caplog.text
    assert "Input/output error" in caplog.text


def test_a_topic_may_be_deleted_meanwhile(
    node: HandlerBroker, threads: HeldThreads, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(node, "t")
    node.parts.maintenance.expire()
    assert log.start_offset == 2
    node.services.metadata.delete_topic("t")
    threads.run_all()
    assert not Path(log.directory).exists()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_first_look_reads_nothing_of_segments_that_stay(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1, configs={"segment.bytes": "200"})
    for number in range(5):
        append(node, "t", NOW_MS + number)
    node.restart()
    log = partition(node, "t").log
    for segment in log.segments[1:]:
        Path(segment.times.path).unlink()
    assert delete_old_segments(log, NOW_MS, log.end_offset) == 0


def test_a_stop_begins_nothing_more(
    node: HandlerBroker, threads: HeldThreads, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        filled(node, name)
    node.parts.maintenance.expire()
    node.services.scheduler.is_over = True
    threads.run_one()
    assert not threads.waiting
    assert [partition(node, name).log.start_offset for name in ("a", "b")] == [2, 0]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
