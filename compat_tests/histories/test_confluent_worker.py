"""A worker gives up a call of librdkafka that hangs, and no other one."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from compat_tests.histories import confluent_worker
from compat_tests.histories.confluent_worker import Hung, within


def test_a_call_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent_worker, "HUNG_S", 0.01)
    is_over = threading.Event()

    def call() -> None:
        is_over.wait(60)

    with pytest.raises(Hung):
        within(call)
    is_over.set()


def test_the_failure_of_a_call_is_raised_to_its_caller() -> None:
    def call() -> None:
        raise KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE))

    with pytest.raises(KafkaException):
        within(call)


def test_a_call_that_returns_is_waited_for() -> None:
    done: list[int] = []
    within(lambda: done.append(1))
    assert done == [1]
