"""The session of a whole broker ends: its leads end with it, and begin again in a leader epoch above."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headgate.gateway.metadata.image import PartitionState
from headgate.gateway.zookeeper.session import Operation, Refused, Results
from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers
from headgate.gateway.zookeeper.tests.whole_broker import WholeBroker
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.elect_leaders import PREFERRED

SHARED, OWN = "shared", "own"


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoBrokers]:
    """Broker 0 is the controller. Each leads a partition that both have, and one that it has alone."""
    brokers = TwoBrokers(tmp_path)
    metadata = brokers.stores[0]
    brokers.change(lambda: metadata.create_topic(SHARED, assignments={0: [0, 1], 1: [1, 0]}))
    brokers.change(lambda: metadata.create_topic(OWN, assignments={0: [0], 1: [1]}))
    brokers.settle()
    yield brokers
    brokers.stop()


def state(two: TwoBrokers, number: int, topic: str = SHARED) -> PartitionState:
    """The state of the partition that a broker has led first, as that broker knows it."""
    return two.stores[number].image.topics[topic].partitions[number]


def leads(broker: WholeBroker) -> set[str]:
    return {replica.topic for replica in broker.services.partitions.led if replica.index == broker.config.node_id}


def expire(two: TwoBrokers, number: int) -> None:
    """End a session; the client learns it, and cannot register: the server takes no more requests."""
    keeper, session = two.keeper, two.keeper.sessions[number]
    keeper.expire(session.session_id)
    keeper.connect(session)
    keeper.freeze()
    for broker in two.brokers:
        broker.settle(100)


@pytest.mark.parametrize("number", [0, 1], ids=["the controller", "another broker"])
def test_a_broker_resigns_with_its_session(two: TwoBrokers, number: int) -> None:
    broker = two.brokers[number]
    assert leads(broker) == {SHARED, OWN}
    expire(two, number)
    assert leads(broker) == {OWN}, "no other broker has a replica"
    with pytest.raises(KafkaError) as refused:
        broker.services.partitions.get(SHARED, number)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_controller_elects_nobody_in_its_next_session(two: TwoBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its term has ended: it may elect again once it is registered, and is elected itself."""
    written, transact = list[str](), two.keeper.transact

    def note(session_id: int, operations: Sequence[Operation]) -> Results | Refused:
        written.extend(operation.path for operation in operations)
        return transact(session_id, operations)

    expire(two, 0)
    monkeypatch.setattr(two.keeper, "transact", note)
    two.stores[0].elect(PREFERRED, None)(lambda _: None)
    two.keeper.time_out(takes_effect=True)
    assert not [path for path in written if path.endswith("/state")]
    two.keeper.start()
    two.settle()
    two.settle()
    assert [path for path in written[written.index("/controller") :] if path.endswith("/state")]


@pytest.mark.parametrize("number", [0, 1], ids=["the controller", "another broker"])
def test_the_next_leads_have_a_leader_epoch_above(two: TwoBrokers, number: int) -> None:
    before = state(two, number)
    expire(two, number)
    two.keeper.time_out()
    two.keeper.start()
    two.settle()
    two.settle()
    after = state(two, number)
    assert after.leader in {0, 1}
    assert after.leader_epoch > before.leader_epoch
    assert sorted(after.isr) == [0, 1]
    assert state(two, number, OWN).leader == number


def test_without_a_connection_a_broker_leads_on(two: TwoBrokers) -> None:
    two.keeper.stop()
    two.settle()
    assert [leads(broker) for broker in two.brokers] == [{SHARED, OWN}, {SHARED, OWN}]
