"""The plan of a fetch: which partitions it looks at, in slices where these are many, and the files it holds."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.gateway.api.fetch.plan import AT_ONCE
from headgate.gateway.api.fetch.rows import PartitionReader
from headgate.gateway.api.fetch.tests.fetches import (
    append,
    from_offset,
    let_cool,
    parked_fetch,
    request,
    rows,
    sizes,
    wanted,
)
from headgate.gateway.api.fetch_sessions import FEW
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.tests.builders import HandlerBroker, parked, start
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.fetch import FetchPartition, FetchResponse
from headgate.storage.segment.file_slice import FileSlice

MANY = 2 * FEW


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that plans look at, in order."""
    found: list[int] = []
    row = PartitionReader.read

    def counted(reader: PartitionReader, key: Any, one: Any, *rest: Any, **options: Any) -> Any:
        found.append(one.partition)
        return row(reader, key, one, *rest, **options)

    monkeypatch.setattr(PartitionReader, "read", counted)
    return found


def answer(node: HandlerBroker, fetch: Any, version: int = 12) -> FetchResponse:
    """The response, for which slices are gone through."""
    outcome = node.handle(fetch, version)
    if is_task(outcome):
        answers = parked(node, outcome)
        while not answers:
            node.time.advance()
        outcome = answers[0]
    assert isinstance(outcome, FetchResponse)
    return outcome


def opened(node: HandlerBroker, count: int, name: str = "t") -> int:
    """A session of all partitions of a new topic with a record in each, which it has read; its id."""
    node.services.metadata.create_topic(name, count)
    for index in range(count):
        append(node, name, b"a", index=index)
    everything = wanted(node, name, 12, *[from_offset(1, index) for index in range(count)])
    response = answer(node, request(everything, session_epoch=0))
    assert len(rows(response)) == count
    return response.session_id


def go_on(session_id: int, epoch: int, *topics: Any, **options: Any) -> Any:
    return request(*topics, session_id=session_id, session_epoch=epoch, **options)


def told(response: Any) -> list[int]:
    return [row.partition_index for row in rows(response)]


def test_an_incremental_fetch_looks_at_nothing_that_has_not_changed(node: HandlerBroker, looked_at: list[int]) -> None:
    session_id = opened(node, MANY)
    looked_at.clear()
    assert told(answer(node, go_on(session_id, 1))) == []
    assert looked_at == []
    append(node, "t", b"b", index=7)
    assert told(answer(node, go_on(session_id, 2))) == [7]
    assert looked_at == [7]


def test_a_parked_incremental_fetch_waits_on_one_list(node: HandlerBroker, looked_at: list[int]) -> None:
    session_id = opened(node, MANY)
    looked_at.clear()
    waiting = node.handle(go_on(session_id, 1, max_wait_ms=500), 12)
    answers = parked(node, waiting)
    assert len(node.services.tasks) == 2, "the fetch, and the test"
    assert not any(replica.waiters.waiters for replica in node.services.partitions)
    append(node, "t", b"b", index=9)
    node.time.advance()
    assert told(answers[0]) == [9]
    assert looked_at == [9]


def test_a_parked_incremental_fetch_counts_over_partitions(node: HandlerBroker) -> None:
    session_id = opened(node, 3)
    size = append(node, "t", b"b", index=0)
    answers = parked_fetch(node, go_on(session_id, 1, max_wait_ms=500, min_bytes=3 * size))
    append(node, "t", b"b", index=0)
    node.time.advance()
    assert answers == []
    append(node, "t", b"b", index=2)
    node.time.advance()
    assert sizes(answers[0]) == [2 * size, size]


def test_a_partition_marked_behind_a_cold_one_is_read_too(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = opened(node, 2)
    answers = parked_fetch(node, go_on(session_id, 1, max_wait_ms=500))
    threads = let_cool(node, monkeypatch)
    for index in range(2):
        append(node, "t", b"b", index=index)
    node.time.advance()
    threads.run_all()
    node.time.advance()
    assert told(answers[0]) == [0, 1]


def test_retention_is_told_by_an_incremental_fetch(node: HandlerBroker) -> None:
    session_id = opened(node, 2)
    replica = node.services.partitions.get("t", 1)
    replica.log.advance_start(1)
    replica.notify()
    (row,) = rows(answer(node, go_on(session_id, 1)))
    assert (row.partition_index, row.log_start_offset) == (1, 1)


def test_another_leader_epoch_is_told_to_who_names_one(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    session_id = answer(node, request(wanted(node, "t", 12, from_offset(0, current_leader_epoch=0)), session_epoch=0))
    answers = parked_fetch(node, go_on(session_id.session_id, 1, max_wait_ms=500))
    metadata = node.services.metadata
    old = metadata.image
    topic = old.topics["t"]
    states = (topic.partitions[0]._replace(leader_epoch=1),)
    metadata.image = old._replace(topics={"t": topic._replace(partitions=states)})
    node.services.partitions.follow(old, metadata.image, ["t"])
    node.time.advance()
    assert [row.error_code for row in rows(answers[0])] == [ErrorCode.FENCED_LEADER_EPOCH]


def test_a_deleted_topic_made_anew_is_watched_again(node: HandlerBroker) -> None:
    session_id = opened(node, 1)
    node.services.metadata.delete_topic("t")
    gone = answer(node, go_on(session_id, 1))
    assert [row.error_code for row in rows(gone)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    node.services.metadata.create_topic("t", 1)
    named = go_on(session_id, 2, wanted(node, "t", 12, from_offset(0)))
    assert sizes(answer(node, named)) == [0]
    answers = parked_fetch(node, go_on(session_id, 3, max_wait_ms=500))
    size = append(node, "t", b"a")
    node.time.advance()
    assert sizes(answers[0]) == [size]


def test_an_offset_that_is_out_of_range_is_found_behind_full_limits(node: HandlerBroker) -> None:
    session_id = opened(node, 2)
    append(node, "t", b"b", index=0)
    both = wanted(node, "t", 12, from_offset(1, 0), from_offset(99, 1))
    assert sizes(answer(node, go_on(session_id, 1, both, max_bytes=1)))[0] > 0
    second = answer(node, go_on(session_id, 2, wanted(node, "t", 12, from_offset(2, 0))))
    assert [row.error_code for row in rows(second)] == [ErrorCode.OFFSET_OUT_OF_RANGE]


# In slices


@pytest.fixture
def in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """No work in slices ends at once."""
    monkeypatch.setattr("headgate.gateway.runtime.tasks.AT_ONCE_MS", 0.0)


@pytest.fixture
def planned(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The indexes of the partitions that were read; AT_ONCE of them take most of a millisecond."""
    planned: list[int] = []
    read = PartitionReader.read

    def slow(reader: PartitionReader, key: Any, asked: FetchPartition, *arguments: Any) -> Any:
        planned.append(asked.partition)
        node.time.clock.elapsed_ms += 0.6 / AT_ONCE
        return read(reader, key, asked, *arguments)

    monkeypatch.setattr(PartitionReader, "read", slow)
    return planned


def test_many_partitions_are_planned_and_told_in_slices(node: HandlerBroker, planned: list[int]) -> None:
    node.services.metadata.create_topic("t", MANY)
    everything = wanted(node, "t", 12, *[from_offset(0, index) for index in range(MANY)])
    answers = parked_fetch(node, request(everything, session_epoch=0))
    turns = [len(planned)]
    while not answers:
        before = len(planned)
        node.time.advance(0.1)
        turns.append(len(planned) - before)
    assert max(turns) == 2 * AT_ONCE, "a millisecond at a time"
    assert len(turns) >= MANY / AT_ONCE / 2
    assert planned == list(range(MANY))
    assert told(answers[0]) == list(range(MANY))


@pytest.mark.usefixtures("in_slices")
def test_what_changes_while_it_is_in_slices_is_noticed(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    node.services.metadata.create_topic("t", MANY)
    everything = wanted(node, "t", 12, *[from_offset(0, index) for index in range(MANY)])
    read = PartitionReader.read
    sent: list[int] = []

    def changing(reader: PartitionReader, key: Any, asked: FetchPartition, *arguments: Any) -> Any:
        if asked.partition > MANY / 2 and not sent:
            sent.append(append(node, "t", b"behind", index=3))
        return read(reader, key, asked, *arguments)

    monkeypatch.setattr(PartitionReader, "read", changing)
    answers = parked_fetch(node, request(everything, session_epoch=0, max_wait_ms=500))
    for _ in range(10):
        node.time.advance()
    assert sum(sizes(answers[0])) == sent[0], "it does not wait for another change"


@pytest.mark.usefixtures("planned")
def test_who_goes_while_it_is_in_slices_leaves_no_files(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", MANY)
    for index in range(MANY):
        append(node, "t", b"a", index=index)
    everything = wanted(node, "t", 12, *[from_offset(0, index) for index in range(MANY)])
    waiting = node.handle(request(everything, session_epoch=0, max_bytes=1 << 20), 12)
    assert is_task(waiting)
    running = start(node, waiting, lambda _: pytest.fail("nobody waits"))
    assert node.services.partitions.held.count
    running.cancel()
    for _ in range(3):
        node.time.advance()
    assert node.services.partitions.held.count == 0


@pytest.mark.usefixtures("planned")
def test_who_goes_between_two_slices_leaves_no_cold_reads(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    node.services.metadata.create_topic("t", MANY)
    for index in range(MANY):
        append(node, "t", b"a", index=index)
        append(node, "t", b"b", index=index)
    threads = let_cool(node, monkeypatch)
    everything = wanted(node, "t", 12, *[from_offset(1, index) for index in range(MANY)])
    running = start(node, node.handle(request(everything), 12), lambda _: pytest.fail("nobody waits"))
    held = node.services.partitions.held
    assert held.count
    running.cancel()
    assert (held.count, threads.waiting) == (0, [])


@pytest.mark.usefixtures("in_slices")
def test_a_session_that_outgrew_its_limit_is_told_so_from_slices(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = opened(node, FEW)
    monkeypatch.setattr("headgate.gateway.api.fetch_sessions.MAX_SESSION_PARTITIONS", FEW)
    more = wanted(node, "t", 12, *[from_offset(0, index) for index in range(2 * FEW)])
    answers = parked(node, node.handle(go_on(session_id, 1, more), 12))
    node.time.advance()
    assert answers[0].code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


# Files that pieces hold


def pieces(response: FetchResponse) -> list[FileSlice]:
    return [row.records for row in rows(response) if isinstance(row.records, FileSlice)]


def test_an_answer_carries_no_more_files_than_may_be_held(node: HandlerBroker) -> None:
    session_id = opened(node, 12)
    for index in range(12):
        append(node, "t", b"b", index=index)
    held = node.services.partitions.held
    held.limit = 5
    read = list[int]()
    for epoch in range(1, 4):
        named = [wanted(node, "t", 12, *[from_offset(2, index) for index in read[-5:]])] if read else []
        response = answer(node, go_on(session_id, epoch, *named))
        assert held.count <= 5
        read += [row.partition_index for row in rows(response) if row.records]
        sizes(response)
        del response
        assert held.count == 0
    assert read == list(range(12)), "the others come with the next fetch"


def test_many_slow_readers_hold_no_more_files_than_they_may(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 40)
    for index in range(40):
        append(node, "t", b"a", index=index)
    held = node.services.partitions.held
    held.limit = 8
    unread = []
    for first in range(20):  # each begins with another partition, and reads nothing of its answer
        order = [from_offset(0, (first + number) % 40) for number in range(40)]
        unread.append(pieces(answer(node, request(wanted(node, "t", 12, *order)))))
    assert all(unread), "the first partition always comes"
    assert held.count <= held.limit + len(unread)
    unread.clear()  # they hang up
    assert held.count == 0
    whole = answer(node, request(wanted(node, "t", 12, *[from_offset(0, index) for index in range(8)])))
    assert len(pieces(whole)) == 8


@pytest.mark.parametrize("version", [1, 3, 9, 12])
def test_every_version_holds_no_more_files_than_it_may(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 12)
    for index in range(12):
        append(node, "t", b"a", index=index)
    held = node.services.partitions.held
    held.limit = 3
    other = node.services.partitions.get("t", 0).read(0, 1000, 0, at_least_one=True)
    assert other is not None
    response = answer(
        node, request(wanted(node, "t", version, *[from_offset(0, index) for index in range(12)])), version
    )
    assert 1 <= sum(len(row.records or b"") > 0 for row in rows(response)) <= 4
    assert held.count <= 4
