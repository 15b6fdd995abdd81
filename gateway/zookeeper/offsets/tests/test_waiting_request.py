from typing import Any

import pytest

from headgate.gateway.runtime.purgatory import Purgatory
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.gateway.zookeeper.offsets.waiting_request import Request, leaving, refusal
from headgate.gateway.zookeeper.session import KeeperError
from headgate.protocol.errors import ErrorCode, KafkaError


class Scene:
    def __init__(self) -> None:
        self.time = ManualTime()
        self.purgatory = Purgatory(self.time.clock, self.time.scheduler)
        self.request = Request(self.purgatory)
        self.heard: list[Any] = []

    def park(self) -> None:
        self.waiting = self.request.park(5_000)
        self.purgatory.park(self.waiting, self.heard.append)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_reply_comes_once(scene: Scene) -> None:
    scene.park()
    scene.request.answer("first")
    scene.request.answer("second")
    scene.time.advance(6_000)
    assert scene.heard == ["first"]


def test_a_reply_may_come_before_the_request_waits(scene: Scene) -> None:
    scene.request.answer("reply")
    scene.park()
    scene.time.advance()
    assert scene.heard == ["reply"]


def test_an_error_is_raised(scene: Scene) -> None:
    scene.park()
    scene.request.answer(refusal(KeeperError.CONNECTION_LOSS))
    scene.time.advance()
    assert isinstance(scene.heard[0], KafkaError)


def test_the_client_is_told_in_time(scene: Scene) -> None:
    scene.park()
    assert not scene.request.is_over
    scene.time.advance(5_000)
    assert scene.heard[0].code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert scene.request.is_over
    scene.request.answer("late")
    assert len(scene.heard) == 1


def test_a_client_that_has_gone_awaits_nothing(scene: Scene) -> None:
    scene.park()
    scene.purgatory.abandon(scene.waiting)
    assert scene.request.is_over


def test_clients_ask_again_after_these_errors() -> None:
    assert leaving().code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
