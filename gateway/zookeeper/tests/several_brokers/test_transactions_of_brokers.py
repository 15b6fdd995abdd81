"""Transactions over two brokers: broker 0 is the coordinator of all ids, and the leaders are where a test puts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headgate.gateway.coordinator.decision import ProducerIdAndEpoch
from headgate.gateway.coordinator.transactions.marker_writer import LONGEST_PAUSE_MS
from headgate.gateway.metadata.image import CONSUMER_OFFSETS, TRANSACTION_STATE
from headgate.gateway.tests.builders import parked
from headgate.gateway.tests.requests import commit_request, produce_request
from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headgate.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headgate.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headgate.protocol.messages.end_txn import EndTxnRequest
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headgate.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headgate.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headgate.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from headgate.protocol.records.batch import Record, build
from headgate.protocol.schema import Message

ID = "transfers"
OLD, NEW = 3, 5
"""Versions of EndTxn: of the old protocol, and of the new one."""

pytestmark = pytest.mark.slow


class Transactions:
    """Two brokers with the topics of the coordinators, and a producer whose requests a test sends one by one."""

    def __init__(self, directory: Path, **settings: str) -> None:
        settings["transaction_state_log_num_partitions"] = "1"
        self.two = TwoBrokers(directory, is_linked=True, **settings)
        self.producer = ProducerIdAndEpoch(-1, -1)
        self.sequences = Counter[str]()

    def _hold(self, producer: ProducerIdAndEpoch) -> None:
        self.producer = producer
        self.sequences.clear()

    def create(self, **replicas: Sequence[int]) -> None:
        """Topics with one partition; the first replica leads."""
        for name, assigned in replicas.items():
            create = partial(self.two.stores[0].create_topic, name, assignments={0: list(assigned)})
            self.two.change(create)
        self.two.settle()

    def ask(self, number: int, request: Message, version: int) -> Any:
        """The response of a broker, once all brokers had their turns."""
        broker = self.two.brokers[number]
        outcome = broker.handle(request, version)
        if isinstance(outcome, Message):
            return outcome
        replies = parked(broker, outcome)
        for _ in range(5):
            broker.services.batcher.write_all()
            self.two.settle()
        (reply,) = replies
        return reply

    def begin(self, number: int = 0) -> None:
        response = self.ask(number, InitProducerIdRequest(ID, 60_000, *self.producer), 4)
        assert response.error_code == 0
        self._hold(ProducerIdAndEpoch(response.producer_id, response.producer_epoch))

    def add(self, topic: str, number: int = 0) -> None:
        partitions = [AddPartitionsToTxnTopic(topic, [0])]
        request = AddPartitionsToTxnRequest([], ID, *self.producer, partitions)
        response = self.ask(number, request, 3)
        assert response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0

    def produce(self, topic: str, number: int, version: int = 11) -> int:
        batch = build(
            [Record(value=b"value")],
            is_transactional=True,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            base_sequence=self.sequences[topic],
        )
        response = self.ask(number, produce_request(batch, topic, transactional_id=ID), version)
        code: int = response.responses[0].partition_responses[0].error_code
        self.sequences[topic] += not code
        return code

    def commit_offset(self, number: int, version: int = 4) -> int:
        rows = [TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 7)])]
        request = TxnOffsetCommitRequest(ID, "g", *self.producer, topics=rows)
        code: int = self.ask(number, request, version).topics[0].partitions[0].error_code
        return code

    def commit(self, number: int, offset: int) -> int:
        """Commit an offset without a transaction."""
        code: int = self.ask(number, commit_request("g", {0: offset}), 2).topics[0].partitions[0].error_code
        return code

    def end(self, number: int = 0, version: int = OLD) -> None:
        response = self.ask(number, EndTxnRequest(ID, *self.producer, committed=True), version)
        assert response.error_code == 0
        if version == NEW:
            self._hold(ProducerIdAndEpoch(response.producer_id, response.producer_epoch))

    def state(self, number: int = 0) -> str:
        response = self.ask(number, DescribeTransactionsRequest([ID]), 0)
        state: str = response.transaction_states[0].transaction_state
        return state

    def is_stable(self, topic: str, number: int) -> bool:
        """Whether no transaction is open in the partition, and all of it is committed."""
        replica = self.two.brokers[number].services.partitions.get(topic, 0)
        return replica.last_stable_offset == replica.log.end_offset

    def settle(self) -> None:
        for _ in range(int(2 * LONGEST_PAUSE_MS // 1_000)):
            self.two.settle()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Transactions]:
    transactions = Transactions(tmp_path)
    transactions.create(**{TRANSACTION_STATE: [0], CONSUMER_OFFSETS: [1], "t": [1], "u": [0]})
    yield transactions
    transactions.two.stop()


@pytest.mark.parametrize("version, end_version", [(11, OLD), (12, NEW)], ids=["old protocol", "new protocol"])
def test_a_transaction_ends_in_partitions_of_both(world: Transactions, version: int, end_version: int) -> None:
    world.begin()
    for _ in range(2):
        if version == 11:
            world.add("t")
            world.add("u")
        assert (world.produce("u", 0, version), world.produce("t", 1, version)) == (0, 0)
        assert not world.is_stable("t", 1)
        world.end(version=end_version)
        world.settle()
        assert (world.state(), world.is_stable("t", 1), world.is_stable("u", 0)) == ("CompleteCommit", True, True)


def test_a_leader_verifies_at_the_other_brokers_coordinator(world: Transactions) -> None:
    world.begin()
    assert world.produce("t", 1, 11) == ErrorCode.TRANSACTION_ABORTABLE
    world.add("t")
    assert world.produce("t", 1, 11) == 0


def test_a_producer_retries_while_no_coordinator_can_be_asked(world: Transactions) -> None:
    world.begin()
    world.two.cut()
    codes = [world.produce("t", 1, version) for version in (11, 12)]
    assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2


@pytest.mark.parametrize("version", [4, 5], ids=["old protocol", "new protocol"])
def test_offsets_at_another_broker_end_with_the_transaction(world: Transactions, version: int) -> None:
    world.begin()
    if version == 4:
        assert world.commit_offset(1, version) == ErrorCode.TRANSACTION_ABORTABLE
        assert world.ask(0, AddOffsetsToTxnRequest(ID, *world.producer, "g"), 3).error_code == 0
    assert world.commit_offset(1, version) == 0
    assert world.two.brokers[1].committed("g", "t", 0) == (-1, 0)
    world.end(version=NEW if version == 5 else OLD)
    world.settle()
    assert world.two.brokers[1].committed("g", "t", 0) == (7, 0)
    assert world.state() == "CompleteCommit"


def test_markers_wait_for_a_broker_that_cannot_be_reached(world: Transactions) -> None:
    world.begin()
    world.add("t")
    assert world.produce("t", 1) == 0
    listening = dict(world.two.brokers[0].listening)
    world.two.cut()
    world.end()
    world.settle()
    assert (world.state(), world.is_stable("t", 1)) == ("PrepareCommit", False)
    world.two.brokers[0].listening.update(listening)
    world.settle()
    assert (world.state(), world.is_stable("t", 1)) == ("CompleteCommit", True)


# The coordinator moves


NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
JOIN = JoinGroupRequest("h", 10_000, 10_000, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range")])
FETCH = OffsetFetchRequest(
    groups=[OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])])]
)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Transactions]:
    """Broker 0 leads every partition, and broker 1 has a replica of each."""
    transactions = Transactions(tmp_path)
    transactions.create(**{name: [0, 1] for name in (TRANSACTION_STATE, CONSUMER_OFFSETS, "t")})
    yield transactions
    transactions.two.stop()


def commit_unmarked(pair: Transactions, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction with a record and an offset, which is prepared; its coordinator writes no marker."""
    pair.begin()
    pair.add("t")
    assert pair.ask(0, AddOffsetsToTxnRequest(ID, *pair.producer, "g"), 3).error_code == 0
    assert (pair.produce("t", 0), pair.commit_offset(0)) == (0, 0)
    markers = pair.two.brokers[0].services.markers
    monkeypatch.setattr(markers, "append", lambda _marker, _topic, _index, resume: resume(KafkaError(NOT_LEADER)))
    pair.end()
    assert pair.state() == "PrepareCommit"


def test_the_next_coordinator_completes_what_was_prepared(pair: Transactions, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_unmarked(pair, monkeypatch)
    pair.two.kill_first()
    pair.settle()
    assert (pair.state(), pair.is_stable("t", 0)) == ("CompleteCommit", True)
    assert pair.two.brokers[0].committed("g", "t", 0) == (7, 0)
    producer = pair.producer
    pair.begin()
    assert pair.producer == (producer.producer_id, producer.producer_epoch + 1)
    pair.add("t")
    assert pair.produce("t", 0) == 0


@pytest.mark.parametrize("topic", ["t", CONSUMER_OFFSETS])
def test_a_marker_of_the_lost_coordinator_is_fenced(
    pair: Transactions, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    commit_unmarked(pair, monkeypatch)
    marker = WritableTxnMarker(*pair.producer, True, [WritableTxnMarkerTopic(topic, [0])], coordinator_epoch=0)
    pair.two.kill_first()
    pair.settle()
    pair.add("t")
    assert pair.produce("t", 0) == 0
    response = pair.ask(0, WriteTxnMarkersRequest([marker]), 1)
    code = response.markers[0].topics[0].partitions[0].error_code
    assert code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert not pair.is_stable("t", 0), "the next transaction is open"


@pytest.mark.parametrize("topic", ["t", CONSUMER_OFFSETS])
def test_a_broker_that_follows_writes_no_marker(pair: Transactions, topic: str) -> None:
    pair.begin()
    marker = WritableTxnMarker(*pair.producer, True, [WritableTxnMarkerTopic(topic, [0])], coordinator_epoch=0)
    response = pair.ask(1, WriteTxnMarkersRequest([marker]), 1)
    assert response.markers[0].topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_no_offset_is_shown_before_the_follower_has_it(pair: Transactions) -> None:
    assert pair.commit(0, 5) == 0
    pair.two.cut()
    pair.settle()  # the last fetch of the follower has ended
    first = pair.two.brokers[0]
    replies = parked(first, first.handle(commit_request("g", {0: 6}), 2))
    fetches = parked(first, first.handle(FETCH, 8))
    first.settle(1_000)
    assert (replies, fetches) == ([], [])
    pair.two.kill_first()
    pair.settle()
    assert pair.two.brokers[0].committed("g", "t", 0) == (5, 0)


def test_the_loser_of_a_lead_answers_all_who_wait(tmp_path: Path) -> None:
    """At once, though the follower is cut off: a commit, and a member of a group that waits for others."""
    world = Transactions(tmp_path)
    world.create(**{CONSUMER_OFFSETS: [1, 0], "t": [1]})
    loser = world.two.brokers[1]
    assert world.commit(1, 5) == 0
    world.two.cut()
    requests = (commit_request("g", {0: 6}), 2), (JOIN, 3)
    replies = [reply for request in requests for reply in [parked(loser, loser.handle(*request))]]
    loser.settle(100)
    assert replies == [[], []]
    world.two.take_lead(CONSUMER_OFFSETS)
    assert [reply.code for (reply,) in replies] == [ErrorCode.NOT_COORDINATOR] * 2
    world.two.stop()
