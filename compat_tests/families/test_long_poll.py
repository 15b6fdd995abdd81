"""A consumer sits at the end of an empty topic; a record that comes later reaches it at once.

Measured from before the record is handed to its producer to when the consumer's user has it: for the tools that is a
line on their standard output. A long poll is 500 ms by default: one that is answered only at its end cannot pass.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

import pytest

from compat_tests.families import Family
from compat_tests.families.family import Tail
from compat_tests.harness.broker import Broker
from compat_tests.harness.noise import Noise
from compat_tests.harness.soak import SOAK

pytestmark = pytest.mark.alone

COUNT = 20 if SOAK else 12
MEDIAN_LIMIT_S = 0.050
EACH_LIMIT_S = 0.500
START_LIMIT_S = 30.0


def test_a_record_reaches_a_waiting_consumer(
    broker: Broker, topic: Callable[..., str], reader: Family, figure: Callable[[str], None]
) -> None:
    name = topic(1)
    tail = reader.tail(broker.bootstrap, name)
    try:
        with Noise(broker.bootstrap, topic(1), 0) as warm:
            warm.send(b"a producer id")
        with Noise(broker.bootstrap, name, 0) as writer:
            park(reader, tail, writer)
            took_s = [one_arrival(tail, writer, b"record %d" % number) for number in range(COUNT)]
    finally:
        tail.close()
    median_s = statistics.median(took_s)
    figure(f"long poll, {reader.name}: median {median_s * 1000:.1f} ms, slowest {max(took_s) * 1000:.1f} ms")
    shown = ", ".join(f"{one * 1000:.1f}" for one in took_s)
    assert median_s <= MEDIAN_LIMIT_S, f"{reader.name}: median {median_s * 1000:.1f} ms of {shown}"
    assert max(took_s) <= EACH_LIMIT_S, f"{reader.name}: {shown}"


def park(family: Family, tail: Tail, writer: Noise) -> None:
    """Wait until the consumer waits; where it cannot tell, a first record that is not measured shows that it reads."""
    if family.knows_when_parked:
        assert tail.is_parked.wait(START_LIMIT_S), f"{family.name} did not come to the end of an empty topic"
    else:
        writer.send(b"first")
        assert tail.next(START_LIMIT_S).value == b"first"


def one_arrival(tail: Tail, writer: Noise, value: bytes) -> float:
    """Send one record while the consumer's long poll is open; the seconds until it arrived."""
    time.sleep(random.uniform(0.02, 0.15))
    began_s = time.perf_counter()
    writer.send(value)
    arrival = tail.next(10)
    assert arrival.value == value
    return arrival.at_s - began_s
