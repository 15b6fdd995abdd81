"""What is not in memory, on two disks of which one hangs: the other one's is read, and few threads wait."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api.fetch.plan import DISK_DEADLINE_MS
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
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.runtime.workers import MAX_THREADS_PER_EXECUTOR
from headgate.gateway.tests.builders import HandlerBroker, start
from headgate.protocol.messages.fetch import FetchRequest
from headgate.storage.files import File, parent
from headgate.storage.log.log import Log


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[HandlerBroker]:
    """Of the topic t each has a partition with two batches."""
    node = HandlerBroker(tmp_path, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    node.services.metadata.create_topic("t", 2)
    for index in (0, 1):
        append(node, "t", b"a", index=index)
        append(node, "t", b"b", index=index)
    yield node
    node.close()


def both(node: HandlerBroker) -> FetchRequest:
    return request(wanted(node, "t", 12, from_offset(1, 0), from_offset(1, 1)))


def there(response: Any) -> list[int]:
    """The partitions of which it has records, which are given back."""
    sizes(response)
    return [row.partition_index for row in rows(response) if len(row.records)]


def test_what_one_disk_has_does_not_wait_for_another(disks: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = let_cool(disks, monkeypatch)
    answers = parked_fetch(disks, both(disks))
    assert len(threads.waiting) == 2, "a thread for each"
    threads.run_one(number=1)
    assert there(answers[0]) == [1]
    assert len(threads.waiting) == 1, "the other's is being read already"
    threads.run_one()


@pytest.mark.parametrize("version", [3, 9, 12])
def test_what_comes_while_a_disk_hangs_is_told_at_once(
    disks: HandlerBroker, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that has read all of one disk's partition, and waits for the other's."""
    threads = let_cool(disks, monkeypatch)
    topic = wanted(disks, "t", version, from_offset(1, 0), from_offset(2, 1))
    answers = parked_fetch(disks, request(topic, max_wait_ms=500), version)
    assert (len(threads.waiting), answers) == (1, [])
    hung = disks.services.partitions.get("t", 0).log.segments[0].file
    # What is appended is in memory
    monkeypatch.setattr(File, "read_cached", lambda file, size, at: None if file is hung else file.read_at(size, at))
    append(disks, "t", b"c", index=1)
    disks.time.advance()
    assert there(answers[0]) == [1]
    while threads.waiting:
        threads.run_one()


def test_nobody_reads_on_the_loop_while_a_disk_may_hang(disks: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where what the other one has given is gone again."""
    threads, patience = let_cool(disks, monkeypatch), list[bool]()
    warm, read = File.warm, Log.read

    def spied(log: Log, offset: int, size: int, up_to: int, is_first: bool, blocking: bool = True) -> Any:
        patience.append(blocking)
        return read(log, offset, size, up_to, is_first, blocking)

    monkeypatch.setattr(Log, "read", spied)
    monkeypatch.setattr(File, "warm", lambda file, length, position: None)
    answers = parked_fetch(disks, both(disks))
    for _ in range(3):
        threads.run_one(number=1)
        assert len(threads.waiting) == 2, "it is read once more"
    assert (any(patience), answers) == (False, [])
    monkeypatch.setattr(File, "warm", warm)
    threads.run_one()
    assert there(answers[0]) == [0]
    threads.run_one()


def test_what_nobody_waits_for_yet_is_read_where_a_thread_is_free(
    disks: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each fetch that has something of one disk would add to what waits for the other, which hangs."""
    threads = let_cool(disks, monkeypatch)
    parked_fetch(disks, both(disks))
    threads.run_one(number=1)
    file = disks.services.partitions.get("t", 0).log.segments[0].file
    for _ in range(MAX_THREADS_PER_EXECUTOR + 5):
        assert there(disks.handle(both(disks), 12)) == [1]
    for _ in range(MAX_THREADS_PER_EXECUTOR):
        threads.run_one()
    assert (threads.waiting, file.references) == ([], 1)


def test_a_piece_tells_its_disk(disks: HandlerBroker) -> None:
    found = []
    for index in (0, 1):
        piece = disks.services.partitions.get("t", index).read(0, 100, 0, True)
        assert piece is not None
        found.append(Path(piece.disk))
        piece.release()
    assert found == [Path(directory) for directory in reversed(disks.config.log_directories)]


def test_many_consumers_of_a_disk_that_hangs_leave_threads_to_others(
    disks: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = let_cool(disks, monkeypatch)
    one = [request(wanted(disks, "t", 12, from_offset(1, index))) for index in (0, 1)]
    waiting = [parked_fetch(disks, one[0]) for _ in range(MAX_THREADS_PER_EXECUTOR + 5)]
    assert len(threads.waiting) == MAX_THREADS_PER_EXECUTOR
    other = parked_fetch(disks, one[1])
    threads.run_one(number=MAX_THREADS_PER_EXECUTOR)
    assert there(other[0]) == [1]
    while threads.waiting:
        threads.run_one()
    assert [there(answers[0]) for answers in waiting] == [[0]] * len(waiting)


@pytest.mark.parametrize("hangs_up", [False, True])
def test_consumers_who_gave_up_leave_nothing_that_waits_for_the_disk(
    disks: HandlerBroker, hangs_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come again as long as it hangs, and what they want when it is back is read first."""
    threads = let_cool(disks, monkeypatch)
    log, one = disks.services.partitions.get("t", 0).log, request(wanted(disks, "t", 12, from_offset(1, 0)))
    share = disks.services.scheduler.reads(parent(log.directory))
    for _ in range(40):
        for _ in range(5):
            waiting = disks.handle(one, 12)
            assert is_task(waiting)
            running = start(disks, waiting)
            if hangs_up:
                running.cancel()
        disks.time.advance(DISK_DEADLINE_MS + 1)
        assert len(share.waiting) <= 64
    last, reads, warm = parked_fetch(disks, one), list[int](), File.warm
    monkeypatch.setattr(File, "warm", lambda *arguments: reads.append(1) or warm(*arguments))  # type: ignore[func-returns-value]
    while threads.waiting:
        threads.run_one()
    assert there(last[0]) == [0]
    assert (len(reads), log.segments[0].file.references) == (MAX_THREADS_PER_EXECUTOR + 1, 1)
