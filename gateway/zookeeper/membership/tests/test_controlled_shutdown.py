"""Controlled shutdowns of two whole brokers: the leads move, and clients are served until then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.api.handlers.controlled_shutdown import controlled_shutdown
from headgate.gateway.zookeeper.tests.two_brokers import TwoBrokers
from headgate.gateway.zookeeper.tests.whole_broker import WholeBroker
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

NEXT_ATTEMPT_MS = 5_000


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoBrokers]:
    """Broker 0 is the controller; each broker leads one partition that both have."""
    brokers = TwoBrokers(tmp_path)
    brokers.change(lambda: brokers.stores[0].create_topic("t", assignments={0: [0, 1], 1: [1, 0]}))
    brokers.settle()
    yield brokers
    brokers.stop()


def leave(broker: WholeBroker) -> list[object]:
    """Begin to leave; the list gets the result."""
    results: list[object] = []
    broker.parts.leave(results.append)
    return results


def ask(two: TwoBrokers, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
    """The answer of the controller."""
    found: list[ControlledShutdownResponse | KafkaError] = []
    two.brokers[0].services.tasks.start(controlled_shutdown(request, two.brokers[0].context(3)), found.append)
    two.settle()
    (answer,) = found
    return request.error_response(3, answer.code) if isinstance(answer, KafkaError) else answer


def leaders(two: TwoBrokers, number: int) -> list[int]:
    return [state.leader for state in two.stores[number].image.topics["t"].partitions]


def led(broker: WholeBroker) -> set[int]:
    return {replica.index for replica in broker.services.partitions.led if replica.topic == "t"}


@pytest.mark.parametrize("number", [0, 1], ids=["the controller", "another broker"])
def test_a_broker_that_leaves_gives_its_leads_away(two: TwoBrokers, number: int) -> None:
    results = leave(two.brokers[number])
    two.settle()
    assert results == [None]
    other = 1 - number
    assert leaders(two, 0) == leaders(two, 1) == [other, other]
    assert led(two.brokers[number]) == set()
    assert led(two.brokers[other]) == {0, 1}
    assert [state.isr for state in two.stores[other].image.topics["t"].partitions] == [(other,), (other,)]


@pytest.mark.parametrize("number", [0, 1], ids=["the controller", "another broker"])
def test_the_last_order_is_obeyed_before_a_broker_stops(two: TwoBrokers, number: int) -> None:
    """A client that gets NOT_LEADER_OR_FOLLOWER here must find the next leader there."""
    broker, other = two.brokers[number], two.brokers[1 - number]
    seen: list[set[int]] = []
    broker.parts.leave(lambda _: seen.append(led(broker) | {10 + index for index in led(other)}))
    two.settle()
    assert seen == [{10, 11}]


def test_the_controller_names_leads_that_nobody_takes(two: TwoBrokers) -> None:
    assert ask(two, ControlledShutdownRequest(broker_id=0)) == ControlledShutdownResponse()
    response = ask(two, ControlledShutdownRequest(broker_id=1))
    assert response.remaining_partitions == [RemainingPartition("t", 0), RemainingPartition("t", 1)]


def test_only_the_controller_serves_controlled_shutdowns(two: TwoBrokers) -> None:
    refused = two.brokers[1].answer(ControlledShutdownRequest(broker_id=0), 3)
    assert refused.error_code == ErrorCode.NOT_CONTROLLER


def test_an_earlier_registration_is_refused(two: TwoBrokers) -> None:
    epoch = two.stores[0].broker_epochs[1]
    refused = ask(two, ControlledShutdownRequest(broker_id=1, broker_epoch=epoch - 1))
    assert refused.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert leaders(two, 0) == [0, 1]


def test_without_a_controller_a_stop_takes_two_pauses(two: TwoBrokers) -> None:
    two.cut()
    results = leave(two.brokers[1])
    two.brokers[1].settle(2 * NEXT_ATTEMPT_MS - 1_000)
    assert results == []
    two.brokers[1].settle(2_000)
    assert results == [None]
    assert led(two.brokers[1]) == {1}


def test_a_controller_without_zookeeper_stops_at_once(two: TwoBrokers) -> None:
    two.keeper.stop()
    two.settle()
    results = leave(two.brokers[0])
    assert results == [None]


def test_a_broker_that_is_alone_stops_at_once(two: TwoBrokers) -> None:
    two.kill_first()
    two.settle()
    results = leave(two.brokers[0])
    assert results == [None]
    assert led(two.brokers[0]) == {0, 1}


@pytest.mark.slow
def test_the_setting_turns_controlled_shutdowns_off(tmp_path: Path) -> None:
    brokers = TwoBrokers(tmp_path, controlled_shutdown_enable="false")
    brokers.change(lambda: brokers.stores[0].create_topic("t", assignments={0: [1, 0]}))
    brokers.settle()
    assert leave(brokers.brokers[1]) == [None]
    assert led(brokers.brokers[1]) == {0}
    brokers.stop()
