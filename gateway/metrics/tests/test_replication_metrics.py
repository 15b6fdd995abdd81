"""The metrics of replication: a leader with two followers, a follower, and a cluster without leaders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from headgate.gateway.metadata.image import Image
from headgate.gateway.metrics.partition_survey import PartitionSurveys
from headgate.gateway.metrics.replication_metrics import measure_replication
from headgate.gateway.replication.fetching.replica_fetchers import ReplicaFetchers
from headgate.gateway.replication.tests.test_in_sync_replicas import LedPartition
from headgate.gateway.runtime.metrics import Metrics
from headgate.protocol.errors import ErrorCode, KafkaError


@pytest.fixture
def led(tmp_path: Path) -> Iterator[LedPartition]:
    led = LedPartition(tmp_path, isr=(0, 1), min_insync_replicas="2", replica_lag_time_max_ms="1000")
    yield led
    led.node.close()


def values(led: LedPartition) -> dict[str, float]:
    return led.node.services.metrics.snapshot()


def test_partitions_are_counted_by_their_in_sync_sets(led: LedPartition) -> None:
    names = ("partitions", "partitions.led", "partitions.under.replicated", "partitions.at.min.isr")
    assert [values(led)[name] for name in names] == [1, 1, 1, 1]
    assert values(led)["partitions.under.min.isr"] == 0
    led.order(isr=(0,))
    found = values(led)
    assert (found["partitions.under.min.isr"], found["partitions.at.min.isr"]) == (1, 0)
    led.order(isr=(0, 1, 2))
    found = values(led)
    assert (found["partitions.under.replicated"], found["partitions.at.min.isr"]) == (0, 0)


def test_a_partition_of_one_replica_is_fully_replicated(led: LedPartition) -> None:
    led.order(isr=(0, 1), live=(0,))
    led.metadata.create_topic("one", 3)
    found = values(led)
    assert (found["partitions.led"], found["partitions.under.replicated"]) == (4, 1)


def test_a_replica_that_is_added_is_not_missed_yet(led: LedPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("partitions.reassigning", "partitions.under.replicated")
    assert [values(led)[name] for name in names] == [0, 1]
    for adding, removing, missed in ((2,), (), 0), ((), (1,), 1):
        image = led.metadata.image
        state = image.topics["t"].partitions[0]._replace(adding_replicas=adding, removing_replicas=removing)
        topic = image.topics["t"]._replace(partitions=(state,))
        monkeypatch.setattr(led.metadata, "image", image._replace(topics={**image.topics, "t": topic}))
        assert [values(led)[name] for name in names] == [1, missed]


def test_followers_lag_by_their_fetches(led: LedPartition) -> None:
    for _ in range(3):
        led.produce(1)
    led.row(1, 2)
    values(led)
    _, lags = led.node.services.metrics.read("follower.max.lag")
    assert list(lags) == [(("1",), 1), (("2",), 3)]


def test_a_partition_led_elsewhere_is_no_longer_counted(led: LedPartition) -> None:
    led.order(leader=1, epoch=1)
    found = values(led)
    assert (found["partitions.led"], found["partitions.under.replicated"]) == (0, 0)


def test_elections_and_changes_of_sets_are_counted(led: LedPartition) -> None:
    before = values(led)["leader.elections"]
    led.order(isr=(0, 1), epoch=1)
    led.order(isr=(0,))
    assert values(led)["leader.elections"] - before == 1
    led.row(2, 0)
    led.changes.answer(led.replica.partition_epoch + 1)
    led.row(1, 0)
    led.changes.answer(KafkaError(ErrorCode.INVALID_UPDATE_VERSION))
    found = values(led)
    assert [found[f"isr.{name}"] for name in ("expands", "shrinks", "refusals")] == [1, 0, 1]


def test_the_greatest_lag_of_a_followed_partition_is_measured(led: LedPartition) -> None:
    metrics, fetchers = Metrics(), cast("ReplicaFetchers", SimpleNamespace(lags=lambda: iter([0, 7, 3])))
    partitions = led.node.services.partitions
    surveys = PartitionSurveys(partitions, fetchers, 0, Image.empty)
    surveys.register(metrics)
    measure_replication(metrics, partitions, surveys)
    assert metrics.snapshot()["replica.max.lag"] == 7
