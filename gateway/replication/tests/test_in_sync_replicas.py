"""A leader with two followers, each of which is scripted fetches: what is committed, who is in sync, who waits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Node
from headgate.gateway.replication.append import ACKS_ALL, Append
from headgate.gateway.replication.in_sync_replicas import AT_ONCE, LINE_MS, MOST_LINES, RETRY_MS, InSyncReplicas
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.tasks import Ask, Tasks, is_task
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.tests.builders import NOW_MS, HandlerBroker, over_the_wire, parked, records
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headgate.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

VERSION = 15
ALL = (0, 1, 2)


class Changes:
    """Where in-sync sets are stored: the test answers each change."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[int, ...], int]] = []
        self._resume: list[Callable[[Any], None]] = []

    def alter(self, _replica: Replica, isr: tuple[int, ...], partition_epoch: int) -> Ask:
        self.asked.append((isr, partition_epoch))
        return self._resume.append

    def answer(self, answer: int | KafkaError) -> None:
        self._resume.pop(0)(answer)


class LedPartition:
    """Partition 0 of the topic `t`, whose partitions node 0 leads."""

    def __init__(self, path: Path, isr: tuple[int, ...] = ALL, partitions: int = 1, **settings: str) -> None:
        self.node = HandlerBroker(path, **settings)
        self.metadata = self.node.services.metadata
        self.metadata.create_topic("t", partitions)
        self.changes = Changes()
        self.in_sync_replicas = self.node.services.partitions.leadership.in_sync_replicas
        self.in_sync_replicas.changes = self.changes
        self.order(isr=isr)

    def order(
        self,
        leader: int = 0,
        isr: tuple[int, ...] = ALL,
        epoch: int = 0,
        live: tuple[int, ...] = ALL,
        topic_name: str = "t",
    ) -> None:
        """The image of the cluster has this state of all partitions of a topic from now on."""
        old = self.metadata.image
        states = [
            before._replace(
                leader=leader,
                leader_epoch=before.leader_epoch + epoch,
                replicas=ALL,
                isr=isr,
                partition_epoch=before.partition_epoch + 1,
            )
            for before in old.topics[topic_name].partitions
        ]
        topic = old.topics[topic_name]._replace(partitions=tuple(states))
        brokers = {node_id: Node(node_id, None, {}) for node_id in live}
        self.metadata.image = old._replace(topics={**old.topics, topic_name: topic}, brokers=brokers)
        self.node.services.partitions.follow(old, self.metadata.image, [topic_name])

    @property
    def replica(self) -> Replica:
        return self.node.services.partitions.get("t", 0)

    def produce(self, acks: int = -1) -> list[Any]:
        """The answers to a batch of one record, as they come."""
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records(b"v"))])
        outcome = self.node.handle(ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[data]), 9)
        return parked(self.node, outcome) if is_task(outcome) else [outcome]

    def code(self, acks: int = -1) -> int:
        (response,) = self.produce(acks)
        return code_of(response)

    def fetch(
        self,
        node_id: int,
        offset: int,
        *,
        wait_ms: int = 0,
        start: int = 0,
        session: tuple[int, int] = (0, -1),
        is_named: bool = True,
        index: int = 0,
        topic_id: bytes | None = None,
    ) -> Any:
        """The outcome of a fetch by a follower; node -1 is a consumer."""
        wanted = FetchPartition(
            partition=index,
            fetch_offset=offset,
            log_start_offset=start,
            partition_max_bytes=1 << 20,
            current_leader_epoch=-1,
        )
        topic_id = topic_id or self.metadata.image.topics["t"].topic_id
        request = FetchRequest(
            replica_state=ReplicaState(node_id, 5),
            max_wait_ms=wait_ms,
            min_bytes=1,
            session_id=session[0],
            session_epoch=session[1],
            topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])] if is_named else [],
        )
        return self.node.handle(request, VERSION)

    def row(self, node_id: int, offset: int, **options: Any) -> Any:
        (topic,) = self.fetch(node_id, offset, **options).responses
        (row,) = topic.partitions
        if not isinstance(row.records, bytes):
            row.records.release()
        return row


def code_of(response: Any) -> int:
    code: int = response.responses[0].partition_responses[0].error_code
    return code


@pytest.fixture
def led(tmp_path: Path) -> Iterator[LedPartition]:
    led = LedPartition(tmp_path, replica_lag_time_max_ms="1000", replica_fetch_wait_max_ms="100")
    yield led
    led.node.close()


def test_acks_all_waits_for_every_in_sync_follower(led: LedPartition) -> None:
    answers = led.produce()
    assert answers == []
    led.row(1, 1)
    led.node.time.advance()
    assert answers == []
    led.row(2, 1)
    led.node.time.advance()
    assert [code_of(answer) for answer in answers] == [ErrorCode.NONE]


def test_acks_1_waits_for_no_follower(led: LedPartition) -> None:
    assert led.code(acks=1) == ErrorCode.NONE


def test_followers_read_what_is_not_committed_yet(led: LedPartition) -> None:
    led.produce(1)
    assert led.row(-1, 0).records == b""
    assert len(led.row(1, 0).records) > 0
    assert led.row(1, 0).high_watermark == 0


def test_a_write_wakes_followers_and_the_watermark_consumers(led: LedPartition) -> None:
    follower = parked(led.node, led.fetch(1, 0, wait_ms=500))
    consumer = parked(led.node, led.fetch(-1, 0, wait_ms=500))
    led.produce(1)
    led.node.time.advance()
    assert (len(follower), len(consumer)) == (1, 0)
    led.row(1, 1)
    led.row(2, 1)
    led.node.time.advance()
    assert len(consumer) == 1


def test_the_session_of_a_follower_wakes_at_writes(led: LedPartition) -> None:
    session_id = led.fetch(1, 0, session=(0, 0)).session_id
    waiting = parked(led.node, led.fetch(1, 0, session=(session_id, 1), is_named=False, wait_ms=500))
    led.produce(1)
    led.node.time.advance()
    ((topic,),) = [response.responses for response in waiting]
    topic.partitions[0].records.release()
    waiting = parked(led.node, led.fetch(1, 1, session=(session_id, 2), wait_ms=500))
    led.row(2, 1)
    led.node.time.advance()
    assert waiting == [], "the watermark alone wakes no follower"
    led.node.time.advance(500)
    ((topic,),) = [response.responses for response in waiting]
    assert topic.partitions[0].high_watermark == 1


class Lookup:
    """The partitions whose leader is asked for."""

    def __init__(self) -> None:
        self.is_needed = True
        self.asked: list[list[int]] = []

    def begin(self, replicas: Collection[Replica]) -> None:
        self.asked.append([replica.index for replica in replicas])


def test_the_leader_of_a_partition_without_fetches_is_asked(led: LedPartition) -> None:
    lookup = led.in_sync_replicas.leader_lookup = Lookup()
    led.node.time.advance(500)
    led.row(2, 0)
    led.node.time.advance(500)
    assert lookup.asked == []
    led.node.time.advance(500)
    assert lookup.asked == [[0]]
    lookup.is_needed = False
    led.node.time.advance(500)
    assert lookup.asked == [[0]]


def test_a_follower_that_is_back_joins_without_a_new_record(led: LedPartition) -> None:
    led.order(isr=(0, 1), epoch=1, live=(0, 1))
    session_id = led.fetch(2, 0, session=(0, 0)).session_id
    assert led.changes.asked == [], "the follower is not registered"
    led.order(isr=(0, 1), live=ALL)
    assert led.changes.asked == [], "the next fetch shows that the follower still has the records"
    led.fetch(2, 0, session=(session_id, 1), is_named=False)
    assert [isr for isr, _ in led.changes.asked] == [(0, 1, 2)]


def test_a_follower_joins_after_the_change_for_another(led: LedPartition) -> None:
    led.order(isr=(0,), epoch=1)
    sessions = [led.fetch(node_id, 0, session=(0, 0)).session_id for node_id in (1, 2)]
    led.changes.answer(led.replica.partition_epoch + 1)
    led.node.time.advance()
    led.fetch(2, 0, session=(sessions[1], 1), is_named=False)
    assert [isr for isr, _ in led.changes.asked] == [(0, 1), (0, 1, 2)]


def test_a_refused_follower_asks_again_without_a_new_record(led: LedPartition) -> None:
    led.order(isr=(0, 1), epoch=1)
    session_id = led.fetch(2, 0, session=(0, 0)).session_id
    led.changes.answer(KafkaError(ErrorCode.INVALID_UPDATE_VERSION))
    led.node.time.advance()
    led.fetch(2, 0, session=(session_id, 1), is_named=False)
    led.node.time.advance(RETRY_MS)
    led.fetch(2, 0, session=(session_id, 2), is_named=False)
    assert [isr for isr, _ in led.changes.asked] == [(0, 1, 2)] * 2


def test_a_later_epoch_of_the_same_lead_fails_no_append(led: LedPartition) -> None:
    answers = led.produce()
    led.order(epoch=1, isr=(0, 1))
    assert answers == []
    led.row(1, 1)
    led.node.time.advance()
    assert [code_of(answer) for answer in answers] == [ErrorCode.NONE]


def test_a_follower_that_is_no_replica_is_refused(led: LedPartition) -> None:
    assert led.row(3, 0).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_an_offset_that_the_leader_lacks_proves_nothing(led: LedPartition) -> None:
    led.produce(1)
    led.row(1, 1)
    assert led.row(2, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert led.replica.high_watermark == 0


def test_a_follower_that_lags_leaves_the_set(led: LedPartition) -> None:
    for node_id in (1, 2):
        led.row(node_id, 0)
    answers = led.produce()
    led.row(1, 1)
    led.node.time.advance(1000)
    assert led.changes.asked == []
    led.node.time.advance(1000)
    assert [isr for isr, _ in led.changes.asked] == [(0, 1)]
    assert answers == [], "until the set is stored, node 2 counts"
    led.changes.answer(led.replica.partition_epoch + 1)
    led.node.time.advance()
    assert [code_of(answer) for answer in answers] == [ErrorCode.NONE]
    assert led.replica.isr == (0, 1)


def test_a_follower_that_catches_up_as_it_leaves_joins_again(led: LedPartition) -> None:
    """The broker stood still: its look for lag comes before the fetches that waited. No record may follow."""
    session_id = led.fetch(2, 0, session=(0, 0)).session_id
    led.produce()
    led.row(1, 1)
    led.node.time.advance(2000)
    led.fetch(2, 1, session=(session_id, 1))
    led.changes.answer(led.replica.partition_epoch + 1)
    led.node.time.advance()
    assert led.replica.isr == (0, 1)
    led.fetch(2, 1, session=(session_id, 2), is_named=False)
    assert [isr for isr, _ in led.changes.asked] == [(0, 1), (0, 1, 2)]


def test_a_follower_that_is_gone_lags_at_the_next_record(led: LedPartition) -> None:
    """Its lag does not begin with the record: clients whose other appends had to wait would wait as long again."""
    for node_id in (1, 2):
        led.row(node_id, 0)
    led.node.time.advance(1500)
    led.row(1, 0)
    led.produce()
    led.row(1, 1)
    led.node.time.advance(500)
    assert [isr for isr, _ in led.changes.asked] == [(0, 1)]


def test_a_session_without_news_is_a_sign_of_life(led: LedPartition) -> None:
    session_id = led.fetch(2, 0, session=(0, 0)).session_id
    led.row(1, 0)
    led.node.time.advance(1400)
    led.fetch(2, 0, session=(session_id, 1), is_named=False)
    led.produce()
    led.row(1, 1)
    led.node.time.advance(900)
    assert led.changes.asked == []
    led.node.time.advance(600)
    assert [isr for isr, _ in led.changes.asked] == [(0, 1)]


def test_appends_fail_while_the_set_cannot_be_changed(led: LedPartition) -> None:
    for node_id in (1, 2):
        led.row(node_id, 0)
    answers = led.produce()
    led.row(1, 1)
    led.node.time.advance(2000)
    assert [isr for isr, _ in led.changes.asked] == [(0, 1)]
    assert answers == []
    led.node.time.advance(500)
    assert [code_of(answer) for answer in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert led.replica.log.end_offset == 1
    led.changes.answer(led.replica.partition_epoch + 1)
    assert (led.replica.isr, led.replica.high_watermark) == ((0, 1), 1)


def test_a_follower_that_has_caught_up_joins(led: LedPartition) -> None:
    led.order(isr=(0, 1))
    led.produce(1)
    led.row(1, 1)
    led.row(2, 0)
    assert led.changes.asked == []
    epoch = led.replica.partition_epoch
    led.row(2, 1)
    led.row(2, 1)
    assert led.changes.asked == [((0, 1, 2), epoch)], "one change at a time"
    led.changes.answer(epoch + 1)
    assert (led.replica.isr, led.replica.partition_epoch) == ((0, 1, 2), epoch + 1)


def test_a_follower_on_its_way_in_counts_already(led: LedPartition) -> None:
    led.order(isr=(0,))
    assert led.replica.commits_at_write
    led.row(2, 0)
    assert not led.replica.commits_at_write
    answers = led.produce()
    assert answers == []
    led.row(2, 1)
    led.node.time.advance()
    assert len(answers) == 1


def test_a_refused_change_leaves_the_old_set(led: LedPartition) -> None:
    led.order(isr=(0,))
    led.row(2, 0)
    answers = led.produce()
    led.changes.answer(KafkaError(ErrorCode.INVALID_UPDATE_VERSION))
    led.node.time.advance()
    assert (led.replica.isr, len(answers)) == ((0,), 1)
    led.row(2, 1)
    assert len(led.changes.asked) == 1
    led.node.time.advance(RETRY_MS)
    led.row(2, 1)
    assert len(led.changes.asked) == 2


def test_a_dead_broker_does_not_join(led: LedPartition) -> None:
    led.order(isr=(0, 1), live=(0, 1))
    led.row(2, 0)
    assert led.changes.asked == []


@pytest.mark.parametrize("count, lines", [(MOST_LINES, MOST_LINES), (MOST_LINES + 1, 1)])
def test_many_changes_are_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int, lines: int) -> None:
    led = LedPartition(tmp_path, isr=(0, 1), partitions=count)
    caplog.set_level(logging.INFO, "headgate.replication")
    for index in range(count):
        led.row(2, 0, index=index)
        led.changes.answer(led.replica.partition_epoch + 1)
    led.node.time.advance(LINE_MS)
    assert len(caplog.messages) == lines
    assert "t-0: in sync are (0, 1, 2), after (0, 1)" in caplog.text
    led.node.close()


def test_an_answer_from_before_a_new_epoch_changes_nothing(led: LedPartition) -> None:
    led.order(isr=(0,))
    led.row(2, 0)
    led.order(isr=(0, 1), epoch=1)
    led.changes.answer(99)
    assert led.replica.isr == (0, 1)
    assert led.replica.partition_epoch < 99


def test_an_order_from_before_a_change_leaves_it_counted(led: LedPartition) -> None:
    led.order(isr=(0,))
    led.row(2, 0)
    image = led.metadata.image
    led.node.services.partitions.leadership.apply(led.replica, image.topics["t"], led.replica.log.config)
    assert not led.replica.commits_at_write, "the stored set may have the follower by now"


def test_too_few_in_sync_replicas_refuse_acks_all(tmp_path: Path) -> None:
    led = LedPartition(tmp_path, isr=(0,), min_insync_replicas="2")
    assert led.code() == ErrorCode.NOT_ENOUGH_REPLICAS
    assert led.code(acks=1) == ErrorCode.NONE
    led.node.close()


def test_a_set_that_shrinks_after_the_append_is_told(tmp_path: Path) -> None:
    led = LedPartition(tmp_path, isr=(0, 1), min_insync_replicas="2")
    answers = led.produce()
    led.order(isr=(0,))
    led.node.time.advance()
    assert [code_of(answer) for answer in answers] == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    led.node.close()


class WatchedReplica:
    """What the look for followers that lag uses of a replica."""

    def __init__(self, looked: Callable[[], None]) -> None:
        self.progress = self.log = self
        self.has_resigned = self.is_retired = False
        self.written_end = 0
        self.unheard = ()
        self._looked = looked

    def lagging(self, *_: float) -> frozenset[int]:
        self._looked()
        return frozenset()


def test_other_work_has_its_turn_during_a_look() -> None:
    time = ManualTime()
    looked: list[int] = []
    others: list[int] = []

    def look() -> None:
        looked.append(1)
        time.scheduler.call_after(0.0, lambda: others.append(len(looked)))

    in_sync_replicas = InSyncReplicas(BrokerConfig.load(""), Tasks(time.clock, time.scheduler))
    for _ in range(3 * AT_ONCE):
        in_sync_replicas.watch(cast("Replica", WatchedReplica(look)))
    time.advance(15_000)
    assert len(looked) == 3 * AT_ONCE
    assert others[0] < AT_ONCE


def test_changes_are_counted(led: LedPartition) -> None:
    led.order(isr=(0, 1))
    led.row(2, 0)
    led.changes.answer(led.replica.partition_epoch + 1)
    led.row(1, 0)
    led.row(2, 0)
    led.produce(1)
    led.node.time.advance(2000)
    led.changes.answer(KafkaError(ErrorCode.INVALID_UPDATE_VERSION))
    led.node.time.advance(2000)
    led.changes.answer(led.replica.partition_epoch + 1)
    counts = led.in_sync_replicas
    assert (counts.expands, counts.shrinks, counts.refusals) == (1, 1, 1)


def test_one_that_stops_leading_fails_appends_at_once(led: LedPartition) -> None:
    answers = led.produce()
    follower = parked(led.node, led.fetch(1, 1, wait_ms=5000))
    led.order(leader=1, epoch=1)
    led.node.time.advance()
    assert [code_of(answer) for answer in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert len(follower) == 1


def test_a_write_that_ends_after_the_lead_is_not_acknowledged(led: LedPartition) -> None:
    led.order(isr=(0,))
    replica = led.replica
    append = Append(replica, ACKS_ALL)
    info = replica.append(records(b"v"), ACKS_ALL, NOW_MS)
    led.order(leader=1, epoch=1)
    append.end_write(info)  # a thread of a slow disk has written
    assert append.error is not None
    assert "node 1 leads" in str(append.error)


def list_latest(led: LedPartition, version: int, replica_id: int = -1) -> Any:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic("t", [wanted])])
    return led.node.ask(request, version).topics[0].partitions[0]


@pytest.mark.parametrize("version, code", [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)])
def test_a_new_leader_names_no_end_before_its_epoch(led: LedPartition, version: int, code: ErrorCode) -> None:
    led.produce(1)
    led.order(epoch=1)
    assert list_latest(led, version).error_code == code
    assert list_latest(led, version, replica_id=1).offset == 1
    led.row(1, 1)
    led.row(2, 1)
    assert list_latest(led, version).offset == 1


def test_deleted_records_wait_for_the_live_followers(led: LedPartition) -> None:
    led.produce(1)
    led.row(1, 1)
    led.row(2, 1)
    topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
    answers = parked(led.node, led.node.handle(request, 2))
    led.row(1, 1, start=1)
    led.node.time.advance()
    assert answers == []
    led.row(2, 1, start=1)
    led.node.time.advance()
    (row,) = over_the_wire(answers[0], 2).topics[0].partitions
    assert (row.error_code, row.low_watermark) == (ErrorCode.NONE, 1)


def test_deleted_records_do_not_wait_for_ever(led: LedPartition) -> None:
    led.produce(1)
    led.row(1, 1)
    led.row(2, 1)
    topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
    answers = parked(led.node, led.node.handle(DeleteRecordsRequest(topics=[topic], timeout_ms=100), 2))
    led.node.time.advance(100)
    (row,) = over_the_wire(answers[0], 2).topics[0].partitions
    assert row.error_code == ErrorCode.REQUEST_TIMED_OUT
