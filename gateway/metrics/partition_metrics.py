"""Metrics by partition and by topic, and their sums: traffic, sizes, ends, replicas.

A broker shows the partitions that it leads. So the sum over all brokers of a cluster counts each partition once; for
the same reason the leader of partition 0 alone shows what a topic has as a whole. Counters begin at 0 with the opening
of a log.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

from headgate.gateway.metrics.label_texts import label_text
from headgate.gateway.metrics.partition_survey import (
    BY_BROKER,
    BY_PARTITION,
    PARTITION_COLUMNS,
    PARTITION_LABELS,
    SUMS,
    TOPIC_LABELS,
    TRAFFIC,
    PartitionSurveys,
)
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.metrics import MetricRows, Metrics
from headgate.protocol.steps import Steps

TOPICS_AT_ONCE: Final = 128
"""The topics of one step: some 0.2 ms."""
PRODUCE, FETCH = "Produce", "Fetch"
TOPIC_COLUMNS: Final = (
    *(f"topic.{name}" for name in TRAFFIC),
    "topic.failed.produces",
    "topic.failed.fetches",
    "topic.partitions",
)


class PartitionMetrics:
    """The tables by partition and by topic, of the last survey."""

    def __init__(self, surveys: PartitionSurveys, failures: Counter[tuple[str, str]]) -> None:
        """`failures`: the refused rows by API and topic."""
        self._surveys = surveys
        self._failures = failures

    def register(self, metrics: Metrics, partitions: ReplicaManager) -> None:
        """Register the metrics, as fine as the setting of the surveys says."""
        if self._surveys.detail == BY_PARTITION:
            metrics.table(PARTITION_LABELS, PARTITION_COLUMNS, self.by_partition)
        if self._surveys.detail != BY_BROKER:
            metrics.table(TOPIC_LABELS, TOPIC_COLUMNS, self.by_topic)
        for place, name in enumerate(SUMS):
            metrics.gauge(name, partial(self._sum, place))
        metrics.gauge("failed.produces", lambda: self._failed(PRODUCE))
        metrics.gauge("failed.fetches", lambda: self._failed(FETCH))
        metrics.gauge("replicated.bytes.out", lambda: partitions.replicated_bytes_out)

    def by_partition(self) -> Steps[MetricRows]:
        """The rows of all partitions that this broker leads."""
        survey = self._surveys.last
        yield
        return MetricRows(list(survey.texts.values()), survey.columns)

    def by_topic(self) -> Steps[MetricRows]:
        """The rows of all topics of which this broker leads a partition."""
        found, topics, failures = self._surveys.last.topics, self._surveys.image().topics, self._failures
        texts = list[str]()
        produces, fetches, partitions = list[int](), list[int](), list[int | None]()
        for number, name in enumerate(found.places, 1):
            texts.append(label_text(TOPIC_LABELS, (name,)))
            produces.append(failures[PRODUCE, name])
            fetches.append(failures[FETCH, name])
            is_whole = name in found.with_first and name in topics
            partitions.append(len(topics[name].partitions) if is_whole else None)
            if number % TOPICS_AT_ONCE == 0:
                yield
        return MetricRows(texts, (*found.columns, produces, fetches, partitions))

    def _sum(self, place: int) -> int:
        return self._surveys.sums[place]

    def _failed(self, api: str) -> int:
        return sum(count for (failed, _), count in self._failures.items() if failed == api)
