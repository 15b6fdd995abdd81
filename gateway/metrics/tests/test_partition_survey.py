"""The survey of partitions: what it counts once, and in steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

from headgate.gateway.metadata.image import Image, PartitionState, Topic
from headgate.gateway.metrics.partition_survey import AT_ONCE, COUNTED_AT_ONCE, count_leaderless
from headgate.gateway.replication.tests.test_in_sync_replicas import LedPartition
from headgate.protocol.steps import finish


@pytest.fixture
def led(tmp_path: Path) -> Iterator[LedPartition]:
    led = LedPartition(tmp_path)
    yield led
    led.node.close()


def sums(led: LedPartition) -> dict[str, float]:
    return led.node.services.metrics.snapshot()


def test_two_readings_at_once_count_once(led: LedPartition) -> None:
    led.produce(1)
    before = sums(led)["records.in"]
    led.produce(1)
    metrics = led.node.services.metrics
    for first, second in [(survey(), survey()) for survey in metrics.surveys]:
        for _ in zip_longest(first, second):
            pass
    assert sums(led)["records.in"] == before + 1


def test_a_new_log_of_a_name_counts_from_its_beginning(led: LedPartition) -> None:
    led.order(live=(0,))
    for count in (3, 1):
        led.metadata.create_topic("again", 1)
        replica = led.node.services.partitions.online["again", 0]
        replica.log.bytes_in = count
        assert sums(led)["bytes.in"] == (3 if count == 3 else 4)
        led.metadata.delete_topic("again")


def test_a_survey_takes_steps(led: LedPartition) -> None:
    led.order(live=(0,))
    led.metadata.create_topic("wide", 3 * AT_ONCE)
    assert sum(1 for survey in led.node.services.metrics.surveys for _ in survey()) >= 3


def test_the_controller_counts_partitions_without_a_leader() -> None:
    states = [PartitionState(leader, 0, (0, 1), (0,), 0) for leader in (0, -1, 1, -1)] * COUNTED_AT_ONCE
    topic = Topic("t", bytes(16), tuple(states), {})
    image = Image.empty()._replace(topics={"t": topic})
    steps = count_leaderless(image)
    assert sum(1 for _ in steps) == 4, "other work has its turn"
    assert finish(count_leaderless(image)) == 2 * COUNTED_AT_ONCE
