"""The metrics by partition and topic: a leader with two followers, its consumers, and topics that go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.metadata.image import Image
from headgate.gateway.metrics.partition_metrics import PartitionMetrics
from headgate.gateway.metrics.partition_survey import BY_BROKER, BY_TOPIC, PartitionSurveys
from headgate.gateway.replication.tests.test_in_sync_replicas import LedPartition
from headgate.gateway.runtime.metrics import Metrics
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.steps import finish


@pytest.fixture
def led(tmp_path: Path) -> Iterator[LedPartition]:
    led = LedPartition(tmp_path)
    yield led
    led.node.close()


def rows(led: LedPartition, labels: tuple[str, ...]) -> dict[tuple[str, ...], dict[str, float | None]]:
    """The rows of the table with these labels, each by column."""
    metrics = led.node.services.metrics
    metrics.snapshot()  # makes a survey
    (table,) = [table for table in metrics.tables if table.labels == labels]
    texts, columns = finish(table.read())
    numbers = zip(*columns, strict=True)
    return {
        tuple(re.findall(r'="(.*?)"', text)): dict(zip(table.columns, row, strict=True))
        for text, row in zip(texts, numbers, strict=True)
    }


def of_partition(led: LedPartition, index: str = "0") -> dict[str, float | None]:
    return rows(led, ("topic", "partition"))["t", index]


def sums(led: LedPartition) -> dict[str, float]:
    return led.node.services.metrics.snapshot()


def test_an_append_counts_for_its_partition_topic_and_sum(led: LedPartition) -> None:
    led.produce(1)
    led.produce(1)
    found, size = of_partition(led), led.replica.log.segments.size
    assert size > 0
    assert (found["partition.bytes.in"], found["partition.size.bytes"]) == (size, size)
    assert found["partition.records.in"] == 2
    assert (found["partition.log.end.offset"], found["partition.end.offset"]) == (2, 0)
    topic = rows(led, ("topic",))["t",]
    assert (topic["topic.records.in"], topic["topic.batches.in"]) == (2, 2)
    assert (sums(led)["bytes.in"], sums(led)["records.in"]) == (size, 2)


def test_consumers_and_followers_count_apart(led: LedPartition) -> None:
    led.produce(1)
    size = led.replica.log.segments.size
    led.row(1, 0)
    assert (of_partition(led)["partition.bytes.out"], sums(led)["replicated.bytes.out"]) == (0, size)
    for node_id in (1, 2):
        led.row(node_id, 1)
    led.row(-1, 0)
    found = of_partition(led)
    assert (found["partition.end.offset"], found["partition.bytes.out"]) == (1, size)
    led.row(-1, 1)  # nothing to read
    assert rows(led, ("topic",))["t",]["topic.reads.out"] == 1
    assert sums(led)["replicated.bytes.out"] == size


def test_replicas_are_those_of_the_stored_state(led: LedPartition) -> None:
    found = of_partition(led)
    names = ("replicas", "in.sync.replicas", "under.replicated", "under.min.isr", "at.min.isr", "leader.is.preferred")
    assert [found[f"partition.{name}"] for name in names] == [3, 3, 0, 0, 0, 1]
    led.order(isr=(0,))
    found = of_partition(led)
    assert [found[f"partition.{name}"] for name in names] == [3, 1, 1, 0, 1, 1]


def test_a_replica_that_is_added_is_not_missed_yet(led: LedPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    led.order(isr=(0, 1))
    assert of_partition(led)["partition.under.replicated"] == 1
    image = led.metadata.image
    state = image.topics["t"].partitions[0]._replace(adding_replicas=(2,))
    topics = {**image.topics, "t": image.topics["t"]._replace(partitions=(state,))}
    monkeypatch.setattr(led.metadata, "image", image._replace(topics=topics))
    assert (of_partition(led)["partition.under.replicated"], sums(led)["partitions.under.replicated"]) == (0, 0)


def test_a_topic_is_shown_whole_by_one_broker(led: LedPartition) -> None:
    assert rows(led, ("topic",))["t",]["topic.partitions"] == 1
    led.order(live=(0,))
    led.metadata.create_topic("two", 2)
    assert rows(led, ("topic",))["two",]["topic.partitions"] == 2
    led.order(leader=1, epoch=1)
    assert ("t",) not in rows(led, ("topic",))


def test_refused_rows_count_for_topics_that_exist(led: LedPartition) -> None:
    led.order(isr=(0,))
    unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    led.node.services.note_failure(led.node.client, "Fetch", "no such topic", unknown)
    assert led.row(-1, 99).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (sums(led)["failed.fetches"], sums(led)["failed.produces"]) == (1, 0)
    assert rows(led, ("topic",))["t",]["topic.failed.fetches"] == 1


def test_sums_keep_what_a_deleted_topic_had(led: LedPartition) -> None:
    led.produce(1)
    before = sums(led)["bytes.in"]
    assert before > 0
    led.metadata.delete_topic("t")
    assert rows(led, ("topic", "partition")) == {}
    assert sums(led)["bytes.in"] == before


def test_the_setting_decides_how_fine_the_metrics_are(led: LedPartition) -> None:
    services, labels = led.node.services, []
    for detail in (BY_TOPIC, BY_BROKER):
        metrics = Metrics()
        surveys = PartitionSurveys(services.partitions, led.node.parts.fetchers, 0, Image.empty, detail)
        surveys.register(metrics)
        PartitionMetrics(surveys, services.failures).register(metrics, services.partitions)
        labels.append([table.labels for table in metrics.tables])
        assert "bytes.in" in metrics.snapshot()
    assert labels == [[("topic",)], []]
