"""Questions are repeated over new connections until they are answered, refused, or too late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.find_coordinator import TRANSACTION
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.sink import connection as module
from headgate.spark.sink.connection import Connection, SinkFailed
from headgate.tools.client.client import ClientError

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeCluster:
    """Answers by script: for each partition or key a list of answers, one for each question."""

    script: dict[Any, list[Any]]
    opened = 0

    def __init__(self, bootstrap: str, timeout_s: float) -> None:
        type(self).opened += 1

    def __exit__(self, *_: object) -> None: ...

    def ask_leaders(self, keys: list[Any], ask: Callable[..., Any]) -> tuple[dict[Any, Any], dict[Any, Failure]]:
        found: dict[Any, Any] = {}
        failed: dict[Any, Failure] = {}
        for key in keys:
            answer = self.script[key].pop(0)
            if isinstance(answer, ClientError):
                raise answer
            (failed if isinstance(answer, Failure) else found)[key] = answer
        return found, failed

    def ask_coordinators(self, keys: list[str], ask: Any, key_type: int) -> Any:
        assert key_type == TRANSACTION
        return self.ask_leaders(keys, ask)


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[Any, list[Any]]], Connection]:
    def start(script: dict[Any, list[Any]]) -> Connection:
        FakeCluster.script, FakeCluster.opened = script, 0
        monkeypatch.setattr(module, "Cluster", FakeCluster)
        now_s = [0.0]

        def sleep(seconds: float) -> None:
            now_s[0] += seconds

        return Connection("b", timeout_s=1.0, clock_s=lambda: now_s[0], sleep=sleep)

    return start


def ask(client: Any, keys: Any) -> Any:
    return ()


def test_only_what_failed_is_asked_again(connect: Any) -> None:
    lost, moved = Failure(ErrorCode.NONE, "hung up"), Failure.of(ErrorCode.NOT_ENOUGH_REPLICAS)
    retries: list[int] = []
    with connect({A: [1], B: [lost, moved, 2]}) as connection:
        assert connection.ask_leaders([A, B], ask, lambda: retries.append(1)) == {A: 1, B: 2}
    assert (len(retries), FakeCluster.opened) == (2, 3)


def test_a_cluster_that_is_down_is_asked_until_the_deadline(connect: Any) -> None:
    assert connect({A: [ClientError("down"), 5]}).ask_leader(A, ask) == 5
    with pytest.raises(SinkFailed, match="t-0: down"):
        connect({A: [ClientError("down")] * 100}).ask_leader(A, ask)


def test_a_lasting_error_is_told_at_once(connect: Any) -> None:
    with pytest.raises(SinkFailed, match="TOPIC_AUTHORIZATION_FAILED") as error:
        connect({A: [Failure.of(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]}).ask_leader(A, ask)
    assert error.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_coordinators_end_the_last_transaction_first(connect: Any) -> None:
    busy = Failure.of(ErrorCode.CONCURRENT_TRANSACTIONS)
    connection = connect({"id": [busy, busy, "yes"]})
    assert connection.ask_coordinator("id", TRANSACTION, lambda client: None) == "yes"
