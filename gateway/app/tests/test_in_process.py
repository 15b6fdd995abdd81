"""A broker in a thread, whose clock the test moves."""

import time

import pytest

from headgate import Headgate
from headgate.gateway.app.child_process import HeadgateError
from headgate.gateway.app.in_process import MovableClock
from headgate.gateway.app.topic_client import create_topic

pytestmark = [pytest.mark.sockets, pytest.mark.slow]


def test_it_serves_and_comes_back_on_its_port() -> None:
    with Headgate(in_process=True) as broker:
        bootstrap = broker.bootstrap
        name = broker.topic()
        broker.restart()
        assert broker.bootstrap == bootstrap
        with pytest.raises(HeadgateError, match=f"topic {name} was not created: Topic '{name}' already exists"):
            create_topic(bootstrap, name, 1, {})
    assert not broker.is_running


def test_time_passes_at_once() -> None:
    with Headgate(in_process=True, connections_max_idle_ms=600_000) as broker:
        began = time.monotonic()
        broker.advance(3_600_000)
        assert time.monotonic() - began < 5
        assert broker.topic()


def test_it_cannot_be_killed_alone() -> None:
    with Headgate(in_process=True) as broker, pytest.raises(HeadgateError, match="cannot be killed alone"):
        broker.kill()


def test_what_keeps_it_from_starting_is_told() -> None:
    with pytest.raises(HeadgateError, match=r"unknown setting 'num\.partitons'"):
        Headgate(in_process=True, num_partitons=1).start()
    with Headgate(in_process=True) as broker, pytest.raises(HeadgateError, match="did not start"):
        Headgate(in_process=True, listeners=f"PLAINTEXT://{broker.bootstrap}").start()


def test_a_clock_must_run_to_be_moved() -> None:
    with pytest.raises(HeadgateError, match="start it before"):
        Headgate(in_process=True).advance(1)


def test_the_clock_is_real_time_and_more() -> None:
    clock = MovableClock()
    before = clock.current_time()
    clock.advance(100)
    assert 100 <= clock.current_time() - before < 160
    assert 9.9 < clock.deadline_to_sleep_time(clock.current_time() + 10) <= 10
