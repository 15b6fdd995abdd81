"""Produce requests whose replies wait for appends."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.api.context import CloseConnection
from headgate.gateway.api.delayed_produce import MIN_WAIT_MS, SILENT_WAIT_MS, Delayed, DelayedProduce
from headgate.gateway.api.handler_registration import load
from headgate.gateway.api.handlers import produce
from headgate.gateway.api.handlers.produce import render
from headgate.gateway.replication import append_queue
from headgate.gateway.replication.append import ACKS_ALL, Append
from headgate.gateway.runtime.tasks import is_task
from headgate.gateway.runtime.tests.fake_scheduler import hung
from headgate.gateway.tests.builders import HandlerBroker, reach, records, start
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headgate.storage.log.pending_write import AppendInfo

NOW_MS = 1_700_000_000_000
PARKED = 1_000
WRITTEN = AppendInfo(7, 7, -1, 0, NOW_MS, is_duplicate=False)


class Bench:
    """A request with some appends to two partitions, and what its client hears."""

    def __init__(self, node: HandlerBroker, acks: int, count: int = 2) -> None:
        if "t" not in node.services.metadata.image.topics:
            node.services.metadata.create_topic("t", 2)
        self.node = node
        self.request = ProduceRequest(None, acks, 1_500)
        self.appends = [Append(node.services.partitions.get("t", number % 2), acks) for number in range(count)]
        self.rows = [PartitionProduceResponse(number) for number in range(count)]
        self.heard: list[Any] = []

    def delayed(self) -> DelayedProduce:
        response = ProduceResponse([TopicProduceResponse("t", partition_responses=self.rows)])
        rows: list[Delayed] = list(zip(self.appends, self.rows, strict=True))
        return DelayedProduce(self.node.context(9), response, rows, render)

    def park(self, outcome: Any) -> None:
        start(self.node, outcome, self.heard.append)

    @property
    def codes(self) -> list[tuple[int, int]]:
        return [(row.error_code, row.base_offset) for row in self.rows]


def test_the_last_append_that_ends_completes_the_request(node: HandlerBroker) -> None:
    bench = Bench(node, acks=1)
    bench.park(bench.delayed().answer(bench.request))
    bench.appends[1].end_write(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full"))
    node.time.advance()
    assert bench.heard == []
    bench.appends[0].end_write(WRITTEN)
    node.time.advance()
    assert len(bench.heard) == 1
    assert bench.codes == [(0, 7), (ErrorCode.KAFKA_STORAGE_ERROR, -1)]


def test_appends_that_ended_at_once_are_answered_at_once(node: HandlerBroker) -> None:
    bench = Bench(node, acks=1)
    for append in bench.appends:
        append.end_write(WRITTEN)
    assert isinstance(bench.delayed().answer(bench.request), ProduceResponse)
    assert bench.codes == [(0, 7), (0, 7)]


def test_a_request_that_is_completed_before_it_is_parked_is_answered(node: HandlerBroker) -> None:
    bench = Bench(node, acks=1)
    outcome = bench.delayed().answer(bench.request)
    for append in bench.appends:
        append.end_write(WRITTEN)
    bench.park(outcome)
    node.time.advance()
    assert len(bench.heard) == 1


@pytest.mark.parametrize("acks, wait_ms", [(ACKS_ALL, 1_500), (1, MIN_WAIT_MS)])
def test_what_has_not_ended_in_time_has_timed_out(node: HandlerBroker, acks: int, wait_ms: float) -> None:
    bench = Bench(node, acks)
    bench.park(bench.delayed().answer(bench.request))
    bench.appends[0].required_acks = 1
    bench.appends[0].end_write(WRITTEN)
    node.time.advance(wait_ms - 1)
    assert bench.heard == []
    node.time.advance(1)
    assert bench.codes == [(0, 7), (ErrorCode.REQUEST_TIMED_OUT, -1)]
    bench.appends[1].end_write(WRITTEN)
    assert bench.codes[1] == (ErrorCode.REQUEST_TIMED_OUT, -1)


def test_acks_0_waits_for_conversions_and_crowded_disks_alone(
    node: HandlerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_queue, "PAUSE_BYTES", 10)
    bench = Bench(node, acks=0)
    assert bench.delayed().answer_silently() is None, "nothing is converted, and the disk takes what comes"
    disk = bench.appends[1].replica.disk
    assert disk is not None
    bench.appends[0].begin_conversion()
    disk.waiting_bytes = 11
    bench.park(bench.delayed().answer_silently())
    disk.taken(1)
    node.time.advance()
    assert bench.heard == []
    disk.waiting_bytes = 11
    bench.appends[0].end_conversion()
    node.time.advance()
    assert bench.heard == []
    disk.taken(11)
    node.time.advance()
    assert bench.heard == [None]


def test_without_acks_an_error_ends_the_connection(node: HandlerBroker) -> None:
    bench = Bench(node, acks=0)
    bench.appends[0].begin_conversion()
    bench.appends[1].fail(KafkaError(ErrorCode.CORRUPT_MESSAGE, "spoilt"))
    bench.park(bench.delayed().answer_silently())
    node.time.advance(SILENT_WAIT_MS)
    assert isinstance(bench.heard[0], CloseConnection)
    bench.appends[0].end_conversion()
    with pytest.raises(CloseConnection, match="t-1 failed with error 2: spoilt"):
        bench.delayed().answer_silently()


class Counted:
    """Counts what is tried: appends, and requests."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.appends = self.requests = 0
        commit, render = Append.acknowledge, produce.render

        def commit_counted(append: Append) -> None:
            self.appends += 1
            commit(append)

        def render_counted(*arguments: Any) -> None:
            self.requests += 1
            render(*arguments)

        patch.setattr(Append, "acknowledge", commit_counted)
        patch.setattr(produce, "render", render_counted)


@pytest.mark.slow
def test_a_move_of_the_high_watermark_costs_what_it_completes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    node = HandlerBroker(tmp_path / "data")
    node.services.metadata.create_topic("t", 1, configs={"headgate.flush": "commit"})
    node.time.scheduler.threads = hung
    replica, replies = node.services.partitions.get("t", 0), dict[int, Any]()
    served = load()[0].find(9)
    assert served is not None
    for number in range(PARKED):
        topic = TopicProduceData("t", partition_data=[PartitionProduceData(0, records(b"v"))])
        outcome = served.handler(ProduceRequest(None, ACKS_ALL, 60_000, [topic]), node.context(9))
        assert is_task(outcome)
        node.services.tasks.start(outcome, partial(replies.__setitem__, number))
    node.services.batcher.write_all()
    node.time.advance()
    assert (replica.uncommitted, counted.appends, counted.requests) == (PARKED, 0, 0)
    for number in range(PARKED):
        reach(replica, number + 1)
        node.time.advance()
        assert (counted.appends, counted.requests) == (number + 1, number + 1)
        assert list(replies) == list(range(number + 1))
    assert [reply.responses[0].partition_responses[0].base_offset for reply in replies.values()] == list(range(PARKED))
    assert len(node.services.tasks) == 0
    monkeypatch.undo()
    node.close()
