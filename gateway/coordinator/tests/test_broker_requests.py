"""Requests to other brokers: one in flight for each broker, and nothing waits for a broker that is gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from headgate.gateway.coordinator.broker_requests import BrokerRequests, OtherBrokers
from headgate.gateway.coordinator.tests.fake_links import FakeLinks
from headgate.gateway.metadata.image import Image, Node
from headgate.gateway.runtime.broker_links import LinkLost
from headgate.gateway.runtime.tasks import Tasks
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headgate.protocol.schema import Message


class Pairs:
    """Requests of at most two numbers; `ended` has each request's numbers and its answer."""

    version: ClassVar[int | None] = 3

    def __init__(self) -> None:
        self.ended: list[tuple[list[int], Any]] = []

    def take(self, queue: deque[int]) -> tuple[Message, Sequence[int]] | None:
        taken = [queue.popleft() for _ in range(min(2, len(queue)))]
        return (HeartbeatRequest(str(taken)), taken) if taken else None

    def end(self, taken: Sequence[int], answer: Message | KafkaError) -> None:
        self.ended.append((list(taken), answer.code if isinstance(answer, KafkaError) else answer))


def node(broker_id: int, port: int = 9092) -> Node:
    return Node(broker_id, None, {"IN": (f"host-{broker_id}", port), "OUT": ("elsewhere", 1)})


class Bench:
    """The requests of broker 0 to brokers 1 and 2."""

    def __init__(self) -> None:
        self.time, self.links, self.pairs = ManualTime(), FakeLinks(), Pairs()
        self.metadata = SimpleNamespace(image=Image.empty(brokers=[node(1), node(2)]))
        tasks = Tasks(self.time.clock, self.time.scheduler)
        others = OtherBrokers(0, "IN", cast("Any", self.metadata), tasks, self.links, 30_000.0)
        self.requests = BrokerRequests("test", self.pairs, others)

    def add(self, broker_id: int, *numbers: int) -> None:
        for number in numbers:
            self.requests.add(broker_id, number)
        self.time.advance()

    def follow(self, *nodes: Node) -> None:
        old, self.metadata.image = self.metadata.image, Image.empty(brokers=nodes)
        self.requests.follow(old, self.metadata.image, ())
        self.time.advance()

    def asked(self, broker_id: int) -> list[str]:
        return [request.group_id for request in self.links.opened[broker_id].asked]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_work_of_a_turn_and_work_meanwhile_is_gathered(bench: Bench) -> None:
    bench.add(1, 1, 2, 3)
    bench.add(1, 4, 5)
    bench.add(2, 6)
    assert (bench.asked(1), bench.asked(2)) == (["[1, 2]"], ["[6]"])
    answer = HeartbeatResponse()
    for _ in range(3):
        bench.links.opened[1].answer(answer)
    assert bench.asked(1) == ["[1, 2]", "[3, 4]", "[5]"]
    assert bench.pairs.ended == [([1, 2], answer), ([3, 4], answer), ([5], answer)]
    bench.add(1, 7)
    assert bench.asked(1)[3:] == ["[7]"]


def test_a_lost_link_ends_the_work_of_its_request_alone(bench: Bench) -> None:
    bench.add(1, 1, 2, 3)
    bench.links.opened[1].answer(LinkLost("reset"))
    assert bench.pairs.ended == [([1, 2], ErrorCode.NETWORK_EXCEPTION)]
    assert bench.asked(1) == ["[1, 2]", "[3]"]


@pytest.mark.parametrize("broker_id", [-1, 7])
def test_work_for_no_known_broker_ends_at_once(bench: Bench, broker_id: int) -> None:
    bench.add(broker_id, 1)
    assert bench.pairs.ended == [([1], ErrorCode.NETWORK_EXCEPTION)]


def test_all_work_for_a_broker_that_is_gone_ends(bench: Bench) -> None:
    bench.add(1, 1, 2, 3)
    bench.add(2, 4)
    bench.follow(node(2))
    lost = ErrorCode.NETWORK_EXCEPTION
    assert bench.pairs.ended == [([1, 2], lost), ([3], lost)]
    assert not bench.links.opened[2].is_closed


def test_a_broker_at_another_address_has_another_link(bench: Bench) -> None:
    bench.add(1, 1)
    first = bench.links.opened[1]
    bench.follow(node(1, port=9093), node(2))
    bench.add(1, 2)
    assert first.is_closed
    assert (len(first.asked), bench.asked(1)) == (1, ["[2]"])
