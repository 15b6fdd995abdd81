"""The marker writer: which partitions are tried again, and when a transaction has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytest

from headgate.gateway.coordinator.broker_requests import OtherBrokers
from headgate.gateway.coordinator.shard_loader import CoordinatorServices
from headgate.gateway.coordinator.tests.fake_links import FakeLink, FakeLinks
from headgate.gateway.coordinator.transactions.effects import WriteMarkers
from headgate.gateway.coordinator.transactions.marker_writer import LONGEST_PAUSE_MS, WARN_EVERY, RetryingMarkerWriter
from headgate.gateway.coordinator.transactions.markers import Marker, PartitionMarkers, Written
from headgate.gateway.metadata.image import Node
from headgate.gateway.runtime.broker_links import LinkLost
from headgate.gateway.runtime.tasks import Lock, Running, Tasks
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

EFFECT = WriteMarkers("id", 7, 3, is_commit=True, partitions={"t": [0, 1], "u": [0]}, transaction_version=2)


class _Partition(NamedTuple):
    leader: int


class _Topic(NamedTuple):
    partitions: tuple[_Partition, ...]

    @classmethod
    def led_by(cls, *leaders: int) -> _Topic:
        return cls(tuple(_Partition(leader) for leader in leaders))


THIS_BROKER = 0


class FakeMetadata:
    """An image with these topics, which this broker leads."""

    def __init__(self, **topics: int) -> None:
        self.image = self
        self.knows_topics = True
        self.brokers: dict[int, Node] = {}
        self.topics = {name: _Topic.led_by(*[THIS_BROKER] * count) for name, count in topics.items()}

    def add_broker(self, node_id: int) -> None:
        self.brokers[node_id] = Node(node_id, None, {"PLAINTEXT": (f"broker-{node_id}", 9092)})


class FakeMarkers:
    """Partitions that answer what a test says: an error, or nothing until it says so."""

    def __init__(self) -> None:
        self.errors: dict[tuple[str, int], ErrorCode] = {}
        self.silent: set[tuple[str, int]] = set()
        self.asked: list[tuple[Marker, str, int]] = []
        self.unanswered: dict[tuple[str, int], Written] = {}
        self.staged: list[Callable[[], None]] = []
        self.writes = 0
        self.fault: Exception | None = None

    def append(self, marker: Marker, topic: str, index: int, resume: Written) -> None:
        self.asked.append((marker, topic, index))
        if self.fault is not None:
            raise self.fault
        code = self.errors.get((topic, index))
        if (topic, index) in self.silent:
            self.unanswered[topic, index] = resume
        elif code is not None:
            resume(KafkaError(code))
        else:
            self.staged.append(lambda: resume(None))

    def write_staged(self) -> None:
        self.writes += 1
        staged, self.staged = self.staged, []
        for end in staged:
            end()


def result(link: FakeLink, code: ErrorCode = ErrorCode.NONE) -> WriteTxnMarkersResponse:
    """The same result for every partition of the last request."""
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [WritableTxnMarkerPartitionResult(index, code) for index in topic.partition_indexes],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in link.asked[-1].markers
        ]
    )


class Bench:
    """A writer over fake partitions."""

    def __init__(self) -> None:
        self.time = ManualTime()
        self.markers, self.metadata = FakeMarkers(), FakeMetadata(t=2, u=1)
        self.tasks = Tasks(self.time.clock, self.time.scheduler)
        services = CoordinatorServices(
            self.time.clock, self.time.scheduler, self.tasks, cast("Any", None), cast("Any", None)
        )
        self.links = FakeLinks()
        others = OtherBrokers(THIS_BROKER, "PLAINTEXT", cast("Any", self.metadata), self.tasks, self.links, 30_000.0)
        self.writer = RetryingMarkerWriter(cast("PartitionMarkers", self.markers), services, others)
        self.running: dict[str, Running[bool]] = {}
        self.done: list[str] = []

    def write(self, effect: WriteMarkers = EFFECT, epoch: int = 5) -> None:
        """Have the markers written, in place of those of an earlier effect, as the coordinator does."""

        def done(is_done: bool) -> None:
            self.done += [f"{effect.transactional_id} {epoch}"] if is_done else []

        if effect.transactional_id in self.running:
            self.running[effect.transactional_id].cancel()
        self.running[effect.transactional_id] = self.tasks.start(self.writer.write(effect, epoch), done)

    def places(self) -> list[tuple[str, int]]:
        """The partitions asked since the last call."""
        asked, self.markers.asked = self.markers.asked, []
        return [(topic, index) for _, topic, index in asked]

    def run(self, milliseconds: float = 0.0) -> None:
        for _ in range(3):
            self.time.advance()
        self.time.advance(milliseconds)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_every_partition_gets_the_marker_and_then_all_is_done(bench: Bench) -> None:
    bench.write()
    assert (bench.markers.asked, bench.done) == ([], [])
    bench.run()
    marker = Marker(7, 3, is_commit=True, coordinator_epoch=5, transaction_version=2)
    assert bench.markers.asked == [(marker, "t", 0), (marker, "t", 1), (marker, "u", 0)]
    assert (bench.done, bench.markers.writes) == (["id 5"], 1)
    bench.run(60_000)
    assert (len(bench.markers.asked), bench.done) == (3, ["id 5"])


def test_markers_of_several_transactions_are_written_together(bench: Bench) -> None:
    for number in range(10):
        bench.write(EFFECT._replace(transactional_id=f"id{number}", producer_id=number))
    bench.run()
    assert (len(bench.markers.asked), bench.markers.writes, len(bench.done)) == (30, 1, 10)


def test_a_transaction_without_partitions_is_done(bench: Bench) -> None:
    bench.write(EFFECT._replace(partitions={}))
    bench.run()
    assert (bench.done, bench.markers.asked) == (["id 5"], [])


def test_only_what_failed_is_tried_again(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.markers.errors["t", 1] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.write()
    bench.run()
    assert bench.places() == [("t", 0), ("t", 1), ("u", 0)]
    for _ in range(3):
        bench.run(LONGEST_PAUSE_MS)
        bench.run()
        assert set(bench.places()) == {("t", 1)}
    assert bench.done == []
    assert caplog.text.count("written again") == 1
    del bench.markers.errors["t", 1]
    bench.run(LONGEST_PAUSE_MS)
    bench.run()
    assert bench.done == ["id 5"]


def test_pauses_grow_and_warnings_are_few(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.markers.errors["u", 0] = ErrorCode.KAFKA_STORAGE_ERROR
    bench.write()
    for _ in range(300_000 // 20):
        bench.time.advance(20)
    attempts = bench.places().count(("u", 0))
    assert 250 < attempts < 320
    assert caplog.text.count("u-0") == 1 + (attempts - 1) // WARN_EVERY


def test_a_deleted_partition_counts_as_done(bench: Bench) -> None:
    bench.markers.errors["u", 0] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    bench.metadata.topics["t"] = _Topic.led_by(THIS_BROKER)
    bench.write()
    bench.run()
    assert bench.places() == [("t", 0), ("u", 0)]
    del bench.metadata.topics["u"]
    bench.run(LONGEST_PAUSE_MS)
    bench.run()
    assert (bench.places(), bench.done) == ([], ["id 5"])


def test_a_partition_that_knows_a_later_epoch_counts_as_done(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.markers.errors["t", 0] = ErrorCode.INVALID_PRODUCER_EPOCH
    bench.write()
    bench.run()
    assert bench.done == ["id 5"]
    assert "is over in t-0" in caplog.text


def test_a_fenced_coordinator_leaves_the_transaction_to_the_later_one(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.markers.errors["t", 0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.markers.errors["t", 1] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    bench.write()
    bench.run(60_000)
    bench.run(60_000)
    assert (bench.places(), bench.done) == ([("t", 0), ("t", 1)], [])
    assert "a later coordinator ends" in caplog.text


def test_a_later_effect_replaces_an_earlier_one(bench: Bench) -> None:
    bench.markers.silent.add(("t", 0))
    bench.write()
    bench.run()
    first = bench.markers.unanswered["t", 0]
    bench.markers.silent.clear()
    bench.write(epoch=6)
    first(None)
    assert bench.done == []
    bench.run()
    assert bench.done == ["id 6"]
    bench.write(epoch=7)
    bench.write(epoch=8)  # before the first one has had its turn
    bench.places()
    bench.run()
    assert (len(bench.places()), bench.done) == (3, ["id 6", "id 8"])


def test_slow_partitions_hold_up_no_other_transaction(bench: Bench) -> None:
    bench.markers.silent.add(("u", 0))
    bench.write()
    bench.write(EFFECT._replace(transactional_id="other", partitions={"t": [0]}))
    bench.run(60_000)
    assert bench.done == ["other 5"]
    bench.markers.unanswered["u", 0](None)
    bench.run()
    assert bench.done == ["other 5", "id 5"]


def test_a_slow_partition_holds_up_no_other_of_its_transaction(bench: Bench) -> None:
    bench.markers.silent.add(("t", 0))
    bench.markers.errors["u", 0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.write()
    bench.run()
    bench.places()
    del bench.markers.errors["u", 0]
    bench.run(LONGEST_PAUSE_MS)
    bench.run()
    assert (bench.places(), bench.done) == ([("u", 0)], [])
    bench.markers.unanswered["t", 0](None)
    bench.run()
    assert bench.done == ["id 5"]


def test_a_fault_of_ours_is_tried_again(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.markers.fault = RuntimeError("a fault")
    bench.write()
    bench.run()
    assert "cannot be written to t-0" in caplog.text
    bench.markers.fault = None
    bench.run(LONGEST_PAUSE_MS)
    bench.run()
    assert bench.done == ["id 5"]


def test_very_many_markers_leave_turns_to_everybody_else(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    append = bench.markers.append

    def takes_time(*arguments: Any) -> None:
        bench.time.clock.elapsed_ms += 0.3
        append(*arguments)

    monkeypatch.setattr(bench.markers, "append", takes_time)
    bench.metadata.topics["t"] = _Topic.led_by(*[THIS_BROKER] * 40)
    bench.write(EFFECT._replace(partitions={"t": list(range(40))}))
    bench.run()
    for _ in range(20):
        bench.time.advance()
    assert bench.done == ["id 5"]
    assert bench.markers.writes == 10


def test_over_the_partitions_of_a_broker(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 2)
    services = node.services
    shared = CoordinatorServices(
        services.clock, services.scheduler, services.tasks, services.batcher, Lock(services.scheduler)
    )
    others = OtherBrokers(
        node.config.node_id, "PLAINTEXT", services.metadata, services.tasks, node.parts.links, 30_000.0
    )
    writer = RetryingMarkerWriter(services.markers, shared, others)
    done: list[int] = []
    services.tasks.start(writer.write(EFFECT, 5), done.append)
    node.time.advance()
    node.time.advance()
    assert done == [True]
    assert [services.partitions.get("t", index).log.end_offset for index in (0, 1)] == [1, 1]


def rows(request: Any) -> dict[int, dict[str, list[int]]]:
    """The partitions of a request, by producer id and topic."""
    return {
        marker.producer_id: {topic.name: sorted(topic.partition_indexes) for topic in marker.topics}
        for marker in request.markers
    }


@pytest.fixture
def cluster(bench: Bench) -> Bench:
    """Broker 1 leads t-1, broker 2 leads u-0."""
    bench.metadata.topics.update(t=_Topic.led_by(THIS_BROKER, 1), u=_Topic.led_by(2))
    bench.metadata.add_broker(1)
    bench.metadata.add_broker(2)
    return bench


def test_each_leader_gets_the_markers_of_its_partitions(cluster: Bench) -> None:
    cluster.write()
    cluster.run()
    first, second = cluster.links.opened[1], cluster.links.opened[2]
    assert (cluster.places(), rows(first.asked[0])) == ([("t", 0)], {7: {"t": [1]}})
    assert rows(second.asked[0]) == {7: {"u": [0]}}
    marker = first.asked[0].markers[0]
    assert (marker.producer_epoch, marker.transaction_result) == (3, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (5, 2)
    first.answer(result(first))
    assert cluster.done == []
    second.answer(result(second))
    cluster.run()
    assert cluster.done == ["id 5"]


def test_markers_that_come_meanwhile_share_the_next_request(cluster: Bench) -> None:
    for number in range(3):
        cluster.write(EFFECT._replace(transactional_id=f"id{number}", producer_id=number, partitions={"t": [1]}))
        cluster.run()
    link = cluster.links.opened[1]
    assert [rows(request) for request in link.asked] == [{0: {"t": [1]}}]
    link.answer(result(link))
    assert [rows(request) for request in link.asked[1:]] == [{1: {"t": [1]}, 2: {"t": [1]}}]
    link.answer(result(link))
    assert cluster.done == ["id0 5", "id1 5", "id2 5"]


def test_a_marker_follows_its_partition_to_the_next_leader(cluster: Bench) -> None:
    cluster.write(EFFECT._replace(partitions={"t": [1]}))
    cluster.run()
    link = cluster.links.opened[1]
    link.answer(result(link, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    cluster.metadata.topics["t"] = _Topic.led_by(THIS_BROKER, 2)
    cluster.run(LONGEST_PAUSE_MS)
    cluster.run()
    assert [rows(request) for request in cluster.links.opened[2].asked] == [{7: {"t": [1]}}]
    cluster.metadata.topics["t"] = _Topic.led_by(THIS_BROKER, THIS_BROKER)
    cluster.links.opened[2].answer(LinkLost("reset"))
    cluster.run(LONGEST_PAUSE_MS)
    cluster.run()
    assert (cluster.places(), len(link.asked), cluster.done) == ([("t", 1)], 1, ["id 5"])


def test_a_broker_that_is_gone_holds_up_no_marker(cluster: Bench) -> None:
    cluster.write(EFFECT._replace(partitions={"t": [1]}))
    cluster.run()
    silent = cluster.links.opened[1]
    del cluster.metadata.brokers[1]
    cluster.metadata.topics["t"] = _Topic.led_by(THIS_BROKER, -1)
    cluster.writer.requests.follow(cast("Any", None), cast("Any", cluster.metadata), ())
    assert silent.is_closed
    cluster.run(LONGEST_PAUSE_MS)
    cluster.run()
    assert (len(silent.asked), cluster.done) == (1, [])
    cluster.metadata.topics["t"] = _Topic.led_by(THIS_BROKER, 2)
    cluster.run(LONGEST_PAUSE_MS)
    cluster.run()
    link = cluster.links.opened[2]
    link.answer(result(link))
    assert cluster.done == ["id 5"]


def test_a_later_coordinator_fences_this_one_at_another_leader(cluster: Bench) -> None:
    cluster.write()
    cluster.run()
    link = cluster.links.opened[1]
    link.answer(result(link, ErrorCode.TRANSACTION_COORDINATOR_FENCED))
    cluster.run(60_000)
    assert (cluster.done, len(link.asked)) == ([], 1)


def test_a_cancelled_task_sends_no_more_markers(cluster: Bench) -> None:
    """The later task has the same producer id; the request in flight comes before its markers."""
    other = EFFECT._replace(partitions={"t": [1]})
    cluster.write(other)
    cluster.run()
    cluster.write(other, epoch=6)
    cluster.write(other, epoch=7)
    cluster.run()
    link = cluster.links.opened[1]
    link.answer(result(link))
    assert (cluster.done, [request.markers[0].coordinator_epoch for request in link.asked]) == ([], [5, 7])
    link.answer(result(link))
    assert cluster.done == ["id 7"]


def test_a_strange_answer_has_the_marker_written_again(cluster: Bench, caplog: pytest.LogCaptureFixture) -> None:
    cluster.write(EFFECT._replace(partitions={"t": [1]}))
    cluster.run()
    link = cluster.links.opened[1]
    link.answer(WriteTxnMarkersResponse())
    cluster.run(LONGEST_PAUSE_MS)
    cluster.run()
    strange = result(link)
    strange.markers[0].topics[0].partitions[0].error_code = 9_999
    link.answer(strange)
    assert "cannot be used" in caplog.text
    cluster.run(LONGEST_PAUSE_MS)
    cluster.run()
    link.answer(result(link))
    assert (len(link.asked), cluster.done) == (3, ["id 5"])


def test_no_topic_counts_as_deleted_before_the_first_order(bench: Bench) -> None:
    bench.metadata.knows_topics = False
    topics, bench.metadata.topics = bench.metadata.topics, {}
    bench.write()
    bench.run(LONGEST_PAUSE_MS)
    assert bench.done == []
    bench.metadata.topics, bench.metadata.knows_topics = topics, True
    bench.run(LONGEST_PAUSE_MS)
    bench.run()
    assert (len(bench.places()), bench.done) == (3, ["id 5"])
