"""The listeners by which brokers reach each other, as their registrations in ZooKeeper name them."""

from __future__ import annotations

from typing import Any

from headgate.gateway.runtime.tasks import Tasks
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.zookeeper.layout.brokers import BROKER_IDS_PATH, BrokerRegistration
from headgate.gateway.zookeeper.membership.broker_listeners import READ_EVERY_MS, BrokerListeners
from headgate.gateway.zookeeper.session import Create
from headgate.gateway.zookeeper.shared_session import SharedSession
from headgate.gateway.zookeeper.tests.model import ZooKeeperModel
from headgate.gateway.zookeeper.tests.opening import opener


class Asked:
    """A session, and what comes of questions."""

    def __init__(self) -> None:
        self.keeper, self.time = ZooKeeperModel(), ManualTime()
        self.tasks = Tasks(self.time.clock, self.time.scheduler)
        shared = SharedSession("zk:2181", 18_000, self.time.scheduler, opener(self.keeper))
        shared.session.start()
        self.session = self.keeper.sessions[0]
        self.time.advance()
        self.listeners = BrokerListeners(shared.session, self.tasks)
        parent = ""
        for name in BROKER_IDS_PATH.split("/")[1:]:
            parent += f"/{name}"
            self.keeper.transact(7, [Create(parent)])

    def register(self, broker_id: int, listener: str | None) -> None:
        data = BrokerRegistration((), inter_broker_listener=listener).encode()
        self.keeper.transact(7, [Create(BrokerRegistration.path(broker_id), data)])

    def are_used(self, *listeners: str) -> list[object]:
        answers: list[object] = []
        for listener in listeners:
            self.tasks.start(self.listeners.is_used(listener), answers.append)
        self.time.advance()
        return answers


def test_each_listener_that_a_broker_names_is_used() -> None:
    asked = Asked()
    assert asked.are_used("OLD") == [False]
    asked.register(1, "OLD")
    asked.register(2, "NEW")
    assert asked.are_used("OLD") == [False], "the registrations were read a moment ago"
    asked.time.advance(READ_EVERY_MS)
    assert asked.are_used("OLD", "NEW", "CLIENTS") == [True, True, False]


def test_many_questions_are_one_read() -> None:
    asked = Asked()
    asked.register(1, "NEW")
    reads: list[str] = []
    children = asked.session.children

    def count(path: str, *more: Any, **named: Any) -> None:
        reads.append(path)
        children(path, *more, **named)

    asked.session.children = count  # type: ignore[method-assign]
    assert asked.are_used(*["NEW"] * 20) == [True] * 20
    assert reads == [BROKER_IDS_PATH]


def test_a_broker_of_kafka_may_use_any_listener() -> None:
    asked = Asked()
    asked.register(1, None)
    assert asked.are_used("CLIENTS") == [True]


def test_a_registration_that_cannot_be_read_names_nothing() -> None:
    asked = Asked()
    asked.keeper.transact(7, [Create(BrokerRegistration.path(1), b"{")])
    assert asked.are_used("CLIENTS") == [False]


def test_without_zookeeper_the_last_answer_counts() -> None:
    asked = Asked()
    asked.register(1, "NEW")
    assert asked.are_used("NEW") == [True]
    asked.keeper.stop()
    asked.time.advance(READ_EVERY_MS)
    assert asked.are_used("NEW", "OLD") == [True, False]
