"""Questions are repeated over new connections until they are answered, refused, or too late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.find_coordinator import TRANSACTION, FindCoordinatorRequest
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.sink.connection import Connection, SinkFailed
from headgate.tools.client.client import Client, ClientError
from headgate.tools.client.cluster import Answers
from headgate.tools.tests.model_cluster import Clock, Log, ModelCluster

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
Ask = Callable[[Client, list[Any]], Answers[Any, Any]]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ModelCluster:
    cluster = ModelCluster(brokers=3)
    monkeypatch.setattr("headgate.tools.client.client.socket.create_connection", cluster.connect)
    cluster.topics = cluster.topics | {"t": [Log(leader=1), Log(leader=2)]}
    return cluster


@pytest.fixture
def connection(model: ModelCluster) -> Connection:
    clock = Clock()
    return Connection("127.0.0.1:9092", timeout_s=1.0, clock_s=clock, sleep=clock.sleep)


def script(answers: dict[Any, list[Any]], asked: Counter[Any] | None = None) -> Ask:
    """Answers by key, one for each question; an exception is raised."""

    def ask(client: Client, keys: list[Any]) -> Answers[Any, Any]:
        for key in keys:
            answer = answers[key].pop(0)
            if asked is not None:
                asked[key] += 1
            if isinstance(answer, Exception):
                raise answer
            yield key, answer

    return ask


def test_only_what_failed_is_asked_again(connection: Connection) -> None:
    lost, moved = ClientError("hung up"), Failure.of(ErrorCode.NOT_ENOUGH_REPLICAS)
    asked = Counter[Any]()
    with connection:
        assert connection.ask_leaders([A, B], script({A: [1], B: [lost, moved, 2]}, asked)) == {A: 1, B: 2}
    assert asked == {A: 1, B: 3}


def test_a_cluster_that_is_down_is_asked_until_the_deadline(model: ModelCluster, connection: Connection) -> None:
    assert connection.ask_leader(A, script({A: [ClientError("down"), 5]})) == 5
    with pytest.raises(SinkFailed, match="t-0: down"):
        connection.ask_leader(A, script({A: [ClientError("down")] * 100}))
    connection.close()
    model.dead = {0, 1, 2}
    with pytest.raises(SinkFailed, match="t-0: no broker answers"):
        connection.ask_leader(A, script({}))
    with pytest.raises(SinkFailed, match="t: no broker answers"):
        connection.partition_count("t")


def test_a_broker_that_comes_back_is_asked_on(model: ModelCluster) -> None:
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        model.dead = set() if clock() > 0.5 else {0, 1, 2}

    model.dead = {0, 1, 2}
    with Connection("127.0.0.1:9092", timeout_s=1.0, clock_s=clock, sleep=sleep) as connection:
        assert connection.partition_count("t") == 2
        assert connection.bounds(A) == (0, 0)


def test_a_lasting_error_is_told_at_once(connection: Connection) -> None:
    refused, passing = Failure.of(ErrorCode.TOPIC_AUTHORIZATION_FAILED), Failure.of(ErrorCode.NOT_ENOUGH_REPLICAS)
    asked = Counter[Any]()
    with pytest.raises(SinkFailed, match="TOPIC_AUTHORIZATION_FAILED") as error:
        connection.ask_leaders([A, B], script({A: [refused], B: [passing] * 100}, asked))
    assert error.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert asked == {A: 1, B: 1}


def test_coordinators_end_the_last_transaction_first(model: ModelCluster, connection: Connection) -> None:
    busy = Failure.of(ErrorCode.CONCURRENT_TRANSACTIONS)
    answers = [busy, busy, "yes"]
    assert connection.ask_coordinator("id", TRANSACTION, lambda client: answers.pop(0)) == "yes"
    assert {request.key_type for request in model.of(FindCoordinatorRequest)} == {TRANSACTION}


def test_a_topic_is_waited_for(model: ModelCluster) -> None:
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        model.topics["new"] = [Log()]

    with Connection("127.0.0.1:9092", timeout_s=1.0, clock_s=clock, sleep=sleep) as connection:
        assert connection.partition_count("new") == 0
        connection.wait_for_topic("new")
        assert connection.partition_count("new") == 1


def test_the_controller_is_followed(model: ModelCluster, connection: Connection) -> None:
    model.controller = 1

    def ask(client: Client) -> str | Failure:
        if model.controller == 2:
            return client.address
        model.controller = 2
        return Failure.of(ErrorCode.NOT_CONTROLLER)

    assert connection.ask_controller(ask) == "127.0.0.1:9094"
