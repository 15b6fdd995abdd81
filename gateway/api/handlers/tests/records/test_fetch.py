"""Fetch: what it plans, and what it waits for. Sessions have tests of their own."""

import os
from typing import Any

import pytest

from headgate.gateway.api.fetch.plan import DISK_DEADLINE_MS
from headgate.gateway.api.fetch.tests.fetches import (
    NOW_MS,
    append,
    from_offset,
    let_cool,
    old,
    parked_fetch,
    put,
    request,
    rows,
    sizes,
    wanted,
)
from headgate.gateway.runtime.disk_reads import MAX_READS_AT_ONCE
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.runtime.tests.fake_scheduler import HeldThreads
from headgate.gateway.tests.builders import HandlerBroker, led_elsewhere, parked, start
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.fetch import FetchResponse
from headgate.protocol.records import legacy
from headgate.protocol.records.batch import Record, iterate, split
from headgate.storage.files import File
from headgate.storage.log import rolling
from headgate.storage.segment.file_slice import FileSlice

VERSIONS = range(4, 19)


@pytest.mark.parametrize("version", VERSIONS)
def test_batches_are_planned_as_pieces_of_the_segment(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 1)
    size = append(node, "t", b"a", b"b") + append(node, "t", b"c")
    response = node.handle(request(wanted(node, "t", version, from_offset(0))), version)
    (row,) = rows(response)
    assert (row.error_code, row.high_watermark, row.last_stable_offset, row.log_start_offset) == (0, 3, 3, 0)
    assert isinstance(row.records, FileSlice)
    assert [header.base_offset for header, _ in split(row.records.read())] == [0, 2]
    assert sizes(response) == [size]


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_both_isolation_levels_are_answered(node: HandlerBroker, isolation_level: int) -> None:
    node.services.metadata.create_topic("t", 1)
    size = append(node, "t", b"a")
    fetch = request(wanted(node, "t", 12, from_offset(0)), isolation_level=isolation_level)
    response = node.handle(fetch, 12)
    assert rows(response)[0].aborted_transactions == []
    assert sizes(response) == [size]


def test_limits_cut_between_batches_and_the_first_comes_whole(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 3)
    size = append(node, "t", bytes(1_000))
    for index in (0, 1, 2):
        for _ in range(3 if index else 2):
            append(node, "t", bytes(1_000), index=index)
    everywhere = [from_offset(0, index, max_bytes=size * 2 + 10) for index in (0, 1, 2)]
    assert sizes(node.handle(request(wanted(node, "t", 12, *everywhere)), 12)) == [2 * size] * 3
    few = request(wanted(node, "t", 12, *everywhere), max_bytes=3 * size + 10)
    assert sizes(node.handle(few, 12)) == [2 * size, size, 0]
    tiny = request(wanted(node, "t", 12, *[from_offset(0, index, max_bytes=1) for index in (0, 1, 2)]), max_bytes=1)
    assert sizes(node.handle(tiny, 12)) == [size, 0, 0]


def test_an_empty_fetch_waits_for_one_append(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 2)
    replies: list[Any] = []
    both = wanted(node, "t", 12, from_offset(0, 0), from_offset(0, 1))
    waiting = node.handle(request(both, max_wait_ms=500), 12)
    assert is_task(waiting)
    node.services.tasks.start(waiting, replies.append)
    size = append(node, "t", b"late", index=1)
    assert replies == [], "it is answered after the turn, not within it"
    node.time.advance()
    assert sizes(replies[0]) == [0, size]


def test_it_waits_for_min_bytes_over_all_partitions(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 2)
    size = append(node, "t", b"first")
    replies: list[Any] = []
    both = wanted(node, "t", 12, from_offset(0, 0), from_offset(0, 1))
    waiting = node.handle(request(both, max_wait_ms=500, min_bytes=2 * size), 12)
    assert is_task(waiting)
    node.services.tasks.start(waiting, replies.append)
    append(node, "t", b"", index=1)
    node.time.advance()
    assert replies == []
    append(node, "t", b"", index=1)
    node.time.advance()
    assert len(replies) == 1
    sizes(replies[0])


def test_the_time_is_up_with_what_there_is(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    size = append(node, "t", b"a")
    replies = parked(
        node, node.handle(request(wanted(node, "t", 12, from_offset(0)), max_wait_ms=500, min_bytes=1 << 19), 12)
    )
    node.time.advance(500)
    assert sizes(replies[0]) == [size]


def test_it_does_not_wait_for_what_its_limits_keep_back(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 2)
    size = append(node, "t", b"first")
    for index in (0, 1):
        append(node, "t", b"again", index=index)
    of_partition = wanted(node, "t", 12, from_offset(0, max_bytes=size))
    assert sizes(node.handle(request(of_partition, max_wait_ms=500, min_bytes=1 << 19), 12)) == [size]
    both = wanted(node, "t", 12, from_offset(1, 0), from_offset(0, 1))
    few = request(both, max_wait_ms=500, min_bytes=1 << 19, max_bytes=size + 1)
    assert sizes(node.handle(few, 12)) == [size, 0]
    capped = request(wanted(node, "t", 12, from_offset(1)), max_wait_ms=500, min_bytes=1 << 19, max_bytes=size)
    assert sizes(node.handle(capped, 12)) == [size]


def test_it_does_not_wait_at_the_end_of_an_older_segment(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    size = append(node, "t", b"old")
    log = node.services.partitions.get("t", 0).log
    rolling.roll(log, NOW_MS)
    fetch = request(wanted(node, "t", 12, from_offset(0)), max_wait_ms=500, min_bytes=1 << 19)
    assert is_task(node.handle(fetch, 12)), "the new segment is empty"
    append(node, "t", b"new")
    assert sizes(node.handle(fetch, 12)) == [size]
    behind = request(wanted(node, "t", 12, from_offset(1)), max_wait_ms=500, min_bytes=1 << 19)
    assert is_task(node.handle(behind, 12))


def test_a_topic_made_anew_ends_the_wait(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    replies = parked_fetch(node, request(wanted(node, "t", 12, from_offset(0)), max_wait_ms=500))
    node.services.metadata.delete_topic("t")
    node.services.metadata.create_topic("t", 1)
    node.time.advance()
    assert sizes(replies[0]) == [0]


def test_a_deleted_topic_ends_the_wait(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    replies = parked_fetch(node, request(wanted(node, "t", 12, from_offset(0)), max_wait_ms=500))
    node.services.metadata.delete_topic("t")
    node.time.advance()
    assert [row.error_code for row in rows(replies[0])] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_an_incremental_fetch_tells_only_what_is_new(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 2)
    both = wanted(node, "t", 12, from_offset(0, 0), from_offset(0, 1))
    first = node.handle(request(both, session_epoch=0), 12)
    assert isinstance(first, FetchResponse)
    assert len(rows(first)) == 2
    size = append(node, "t", b"new", index=1)
    second = node.handle(request(session_id=first.session_id, session_epoch=1), 12)
    assert [row.partition_index for row in rows(second)] == [1]
    assert sizes(second) == [size]


@pytest.fixture
def cold(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> HeldThreads:
    """The threads of `let_cool`."""
    return let_cool(node, monkeypatch)


def test_a_plan_on_a_cold_disk_waits_for_threads_and_not_on_the_loop(node: HandlerBroker, cold: HeldThreads) -> None:
    node.services.metadata.create_topic("t", 2)
    for index in (0, 1):
        for _ in range(30):
            append(node, "t", bytes(1_000), index=index)
        log = node.services.partitions.get("t", index).log
        log.segments[0].offsets.flush()
        log.segments[0].offsets.unload()
    partitions = (from_offset(7, 0, max_bytes=5_000), from_offset(20, 1, max_bytes=5_000))
    answers = parked_fetch(node, request(wanted(node, "t", 12, *partitions)))
    rounds = 0
    while not answers:
        assert len(cold.waiting) == 1, "one thread at a time for one fetch"
        cold.run_one()
        rounds += 1
    assert rounds == 3, "the index, the batches from there, those where it is cut: of both partitions together"
    assert [split(row.records.read())[0][0].base_offset for row in rows(answers[0])] == [7, 20]
    sizes(answers[0])


def test_what_is_in_memory_does_not_wait_for_what_is_not(
    node: HandlerBroker, cold: HeldThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.services.metadata.create_topic("t", 2)
    for index in (0, 1):
        append(node, "t", b"a", index=index)
        append(node, "t", b"b", index=index)
    warm = os.fstat(node.services.partitions.get("t", 1).log.segments[0].file.fileno).st_ino
    read_cached = File.read_cached

    def partly(file: File, length: int, position: int) -> Any:
        is_warm = os.fstat(file.fileno).st_ino == warm
        return file.read_at(length, position) if is_warm else read_cached(file, length, position)

    monkeypatch.setattr(File, "read_cached", partly)
    fetch = request(wanted(node, "t", 12, from_offset(1, 0), from_offset(1, 1)))
    first = node.handle(fetch, 12)
    assert [row.partition_index for row in rows(first) if len(row.records)] == [1]
    sizes(first)
    cold.run_one()
    second = node.handle(fetch, 12)
    assert [row.partition_index for row in rows(second) if len(row.records)] == [0, 1], "it was brought meanwhile"
    sizes(second)


def test_cold_partitions_are_brought_together(
    node: HandlerBroker, cold: HeldThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = MAX_READS_AT_ONCE + 10
    node.services.metadata.create_topic("t", count)
    for index in range(count):
        append(node, "t", b"a", index=index)
        append(node, "t", b"b", index=index)
    answers = parked_fetch(node, request(wanted(node, "t", 12, *(from_offset(1, index) for index in range(count)))))
    node.time.advance()  # so many are planned in slices
    cold.run_one()
    for _ in ("planned", "told"):
        node.time.advance()
    assert sum(len(row.records) > 0 for row in rows(answers[0])) == MAX_READS_AT_ONCE
    sizes(answers[0])
    assert len(cold.waiting) == 1, "the rest is brought for the next fetch"
    cold.run_one()


def test_who_goes_while_a_thread_reads_leaves_nothing(node: HandlerBroker, cold: HeldThreads) -> None:
    node.services.metadata.create_topic("t", 1)
    for _ in range(30):
        append(node, "t", bytes(1_000))
    outcome = node.handle(request(wanted(node, "t", 12, from_offset(7))), 12)
    assert is_task(outcome)
    running = start(node, outcome, lambda answer: pytest.fail("nobody waits"))
    file = node.services.partitions.get("t", 0).log.segments[0].file
    held = file.references
    running.cancel()
    cold.run_one()
    assert file.references == held - 1
    assert not cold.waiting


def test_what_is_gone_again_at_once_is_waited_for(
    node: HandlerBroker, cold: HeldThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.services.metadata.create_topic("t", 1)
    append(node, "t", b"a")
    append(node, "t", b"b")
    monkeypatch.setattr(File, "warm", lambda file, length, position: None)
    answers = parked_fetch(node, request(wanted(node, "t", 12, from_offset(1))))
    cold.run_one()
    assert [split(row.records.read())[0][0].base_offset for row in rows(answers[0])] == [1]
    sizes(answers[0])


def test_a_disk_that_does_not_answer_is_told(node: HandlerBroker, cold: HeldThreads) -> None:
    node.services.metadata.create_topic("t", 1)
    append(node, "t", b"a")
    append(node, "t", b"b")
    answers = parked_fetch(node, request(wanted(node, "t", 12, from_offset(1))))
    node.time.advance(DISK_DEADLINE_MS)
    (error,) = answers
    assert error.code == ErrorCode.REQUEST_TIMED_OUT
    cold.run_one()


@pytest.mark.parametrize("is_woken", [True, False])
def test_a_poll_ends_with_what_is_in_memory_by_then(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch, is_woken: bool
) -> None:
    node.services.metadata.create_topic("t", 2)
    for index in (0, 1, 1):
        append(node, "t", b"a", index=index)
    fetch = request(wanted(node, "t", 12, from_offset(0, 0), from_offset(1, 1)), max_wait_ms=500, min_bytes=1 << 19)
    answers = parked_fetch(node, fetch)
    threads = let_cool(node, monkeypatch)
    log = node.services.partitions.get("t", 1).log
    monkeypatch.setattr(log.segments, "_memo", {})
    if is_woken:
        append(node, "t", b"b", index=1)
    with monkeypatch.context() as patch:
        patch.setattr(File, "read_at", lambda *_: pytest.fail("it would wait for the disk"))
        node.time.advance(0 if is_woken else 500)
    assert [row.partition_index for row in rows(answers[0]) if len(row.records)] == [0], "nothing had to be looked up"
    sizes(answers[0])
    while threads.waiting:
        threads.run_one()
    answers = parked_fetch(node, fetch)
    node.time.advance(500)
    assert [row.partition_index for row in rows(answers[0]) if len(row.records)] == [0, 1], "it was brought meanwhile"
    sizes(answers[0])


def test_who_waits_is_told_when_another_broker_becomes_the_leader(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    replies = parked(node, old(node, 12, from_offset(0), max_wait_ms=500))
    led_elsewhere(node, 5, "t")
    node.time.advance()
    (row,) = rows(replies[0])
    assert (row.error_code, row.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 5)


@pytest.mark.parametrize("version", [1, 3, 4, 9])
def test_an_old_version_reads_a_cold_disk_in_threads(node: HandlerBroker, cold: HeldThreads, version: int) -> None:
    node.services.metadata.create_topic("t", 1)
    for number in range(30):
        put(node, Record(-1, NOW_MS, None, b"%d" % number), codec=4)
    log = node.services.partitions.get("t", 0).log
    log.segments[0].offsets.flush()
    log.segments[0].offsets.unload()
    log.segments.forget()
    replies = parked_fetch(node, request(wanted(node, "t", version, from_offset(7)), max_wait_ms=500), version)
    rounds = 0
    while not replies:
        assert len(cold.waiting) == 1, "one thread at a time for one fetch"
        cold.run_one()
        rounds += 1
    assert rounds > 1, "the position, then the records"
    (row,) = rows(replies[0])
    found = legacy.iterate(row.records) if version < 4 else iterate(split(row.records)[0][1])
    assert next(iter(found)).value == b"7"
    assert len(node.services.tasks) == 0


@pytest.mark.parametrize("version", [1, 9])
def test_an_old_client_that_goes_at_any_moment_leaves_nothing(
    node: HandlerBroker, cold: HeldThreads, version: int
) -> None:
    node.services.metadata.create_topic("t", 1)
    put(node, codec=4)
    put(node, codec=4)
    file = node.services.partitions.get("t", 0).log.segments[0].file
    before = file.references
    for moment in range(4):
        node.services.partitions.get("t", 0).log.segments.forget()
        waiting = old(node, version, from_offset(3), max_wait_ms=500)
        if not is_task(waiting):
            break
        running = start(node, waiting)
        for _ in range(min(moment, len(cold.waiting))):
            cold.run_one()
        running.cancel()
        while cold.waiting:
            cold.run_one()
        assert file.references == before, f"it went at moment {moment}"
        assert len(node.services.tasks) == 0
