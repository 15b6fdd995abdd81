"""How the compaction of a log goes: what happens meanwhile ends it, and leaves what was there."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.gateway.maintenance.tests.compactions import NOW_MS, Compactions, dirty, offsets
from headgate.gateway.runtime.scheduler import StoppedError
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.records.batch import Record, build, read_header
from headgate.storage.log.validation import BROKER
from headgate.storage.tests.builders import delete_old_segments


def test_a_topic_that_is_deleted_meanwhile(node: HandlerBroker, compactions: Compactions, caplog: Any) -> None:
    dirty(node)
    compactions.check()
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
    node: HandlerBroker, compactions: Compactions, caplog: Any, steps: int
) -> None:
    dirty(node)
    compactions.check()
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


def test_a_policy_that_changes_meanwhile_ends_it(node: HandlerBroker, compactions: Compactions) -> None:
    partition = dirty(node)
    compactions.check()
    compactions.workers[0].step()
    node.services.metadata.change_topic_configs("t", {"cleanup.policy": "delete"})
    compactions.workers[0].step()
    assert not compactions.cleaning.running
    assert len(offsets(partition)) == 12


def test_segments_that_are_deleted_meanwhile_end_it(node: HandlerBroker, compactions: Compactions, caplog: Any) -> None:
    replica = dirty(node, settings={"cleanup.policy": "compact,delete"})
    compactions.check()
    worker = compactions.workers[0]
    worker.step()
    replica.log.advance_start(replica.log.segments[1].base_offset)
    delete_old_segments(replica.log, NOW_MS, replica.high_watermark)
    before = offsets(replica)
    worker.fail(StoppedError("the process looked for a file that is gone"))
    assert offsets(replica) == before
    assert not caplog.records
    compactions.run()
    assert offsets(replica) == [9, 10, 11]


def test_without_room_for_a_new_segment_none_is_begun(
    node: HandlerBroker, compactions: Compactions, caplog: Any, monkeypatch: Any
) -> None:
    replica = dirty(node)
    monkeypatch.setattr(replica.log.pool.files, "space", lambda path: (10**12, 100))
    compactions.check()
    compactions.workers[0].step()
    assert "but only 100 are free" in caplog.text
    assert not compactions.cleaning.running


def test_the_room_for_a_new_segment_is_asked_for_by_a_thread(
    node: HandlerBroker, compactions: Compactions, monkeypatch: Any
) -> None:
    replica, asked = dirty(node), list[str]()

    def space(path: str) -> tuple[int, int]:
        asked.append(path)
        return 10**12, 10**11

    monkeypatch.setattr(replica.log.pool.files, "space", space)
    compactions.check()
    threads = node.time.scheduler.hold()
    (worker,) = compactions.workers
    worker.step()
    threads.run_one()  # which collects
    assert (asked, worker.waiting) == ([], [])
    threads.run_one()
    assert asked == [replica.log.directory]
    assert [name for name, *_ in worker.waiting] == ["rewrite"]


def test_it_stops_in_the_middle(node: HandlerBroker, compactions: Compactions, caplog: Any) -> None:
    partition = dirty(node)
    compactions.check()
    worker = compactions.workers[0]
    worker.step()
    compactions.cleaning.stop()
    assert worker.is_closed
    worker.fail(StoppedError("the worker was closed"))
    compactions.check()
    assert not compactions.cleaning.running
    assert len(offsets(partition)) == 12
    assert not caplog.records


def test_batches_that_cannot_be_read_are_told_of(node: HandlerBroker, compactions: Compactions, caplog: Any) -> None:
    from headgate.protocol.records.batch import HEADER_SIZE, with_records

    replica = dirty(node)
    sound = build([Record(timestamp=NOW_MS, key=b"k", value=b"v")])
    bad = with_records(read_header(sound), bytes(sound[HEADER_SIZE:-1]) + b"\xff")
    replica.append(memoryview(bad), 1, NOW_MS, origin=BROKER)
    dirty(node)
    compactions.run()
    assert "t-0 has 1 batches with unreadable records" in caplog.text
    assert replica.log.segments.compacted.offset == 25
