"""The metrics of replication. A survey counts partitions before each reading of the metrics, and nothing in between.

Source: the metrics of Apache Kafka's `ReplicaManager`, `Partition` and `KafkaController`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headgate.gateway.metadata.image import Image
from headgate.gateway.replication.fetching.replica_fetchers import ReplicaFetchers
from headgate.gateway.replication.replica import Replica
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.metrics import Metrics
from headgate.protocol.steps import Steps

AT_ONCE: Final = 128
"""The partitions that one step of a survey counts: about half a millisecond."""


def missed_replicas(replica: Replica, image: Image) -> int:
    """How many replicas of a led partition are not in sync. One that is being added is not missed yet."""
    missed = len(replica.replicas) - len(replica.isr)
    if image.has_partition(replica.topic, replica.index):
        missed -= len(image.topics[replica.topic].partitions[replica.index].adding_replicas)
    return missed


class ReplicationSurvey:
    """The numbers of one survey."""

    def __init__(self) -> None:
        self.replicas = self.led = self.under_replicated = self.under_min_isr = self.at_min_isr = 0
        self.reassigning = self.leaderless = self.max_lag = 0
        self.follower_lags: dict[int, int] = {}
        """The greatest lag of each follower in a partition that is led here, by node id."""

    def count_led(self, replica: Replica, image: Image) -> None:
        """Count a partition that this broker leads."""
        log, progress, in_sync = replica.log, replica.progress, len(replica.isr)
        least = log.config.min_insync_replicas
        self.led += 1
        self.under_min_isr += in_sync < least
        self.at_min_isr += in_sync == least
        if progress is not None:
            if image.has_partition(replica.topic, replica.index):
                self.reassigning += image.topics[replica.topic].partitions[replica.index].is_reassigning
            self.under_replicated += missed_replicas(replica, image) > 0
            for node_id, lag in progress.lags(log.start_offset, log.written_end):
                if lag >= self.follower_lags.get(node_id, 0):
                    self.follower_lags[node_id] = lag


class ReplicationMetrics:
    """Registers the metrics of replication."""

    def __init__(
        self,
        metrics: Metrics,
        partitions: ReplicaManager,
        fetchers: ReplicaFetchers,
        node_id: int,
        image: Callable[[], Image],
    ) -> None:
        self._partitions = partitions
        self._fetchers = fetchers
        self._node_id = node_id
        self._image = image
        self._last = ReplicationSurvey()
        metrics.surveys.append(self.survey)
        metrics.gauge("partitions", lambda: self._last.replicas)
        metrics.gauge("partitions.led", lambda: self._last.led)
        metrics.gauge("partitions.under.replicated", lambda: self._last.under_replicated)
        metrics.gauge("partitions.reassigning", lambda: self._last.reassigning)
        metrics.gauge("partitions.under.min.isr", lambda: self._last.under_min_isr)
        metrics.gauge("partitions.at.min.isr", lambda: self._last.at_min_isr)
        metrics.gauge("partitions.offline", lambda: self._last.leaderless)
        metrics.gauge("replicas.offline", lambda: len(partitions.failed))
        metrics.gauge("replica.max.lag", lambda: self._last.max_lag)
        metrics.labelled(
            "follower.max.lag",
            ("follower",),
            lambda: [((str(key),), lag) for key, lag in sorted(self._last.follower_lags.items())],
        )
        leadership, in_sync_replicas = partitions.leadership, partitions.leadership.in_sync_replicas
        metrics.gauge("leader.elections", lambda: leadership.elections)
        metrics.gauge("isr.shrinks", lambda: in_sync_replicas.shrinks)
        metrics.gauge("isr.expands", lambda: in_sync_replicas.expands)
        metrics.gauge("isr.refusals", lambda: in_sync_replicas.refusals)

    def survey(self) -> Steps[None]:
        """Count all partitions. The gauges have the numbers of the last survey that has ended."""
        found = ReplicationSurvey()
        image = self._image()
        for number, replica in enumerate(list(self._partitions.led)):
            found.count_led(replica, image)
            if number % AT_ONCE == AT_ONCE - 1:
                yield
        found.replicas = sum(1 for _ in self._partitions)
        for number, lag in enumerate(self._fetchers.lags()):
            found.max_lag = max(lag, found.max_lag)
            if number % AT_ONCE == AT_ONCE - 1:
                yield
        if image.controller_id == self._node_id:
            found.leaderless = yield from count_leaderless(image)
        self._last = found


def count_leaderless(image: Image) -> Steps[int]:
    """The number of partitions of a cluster that have no leader."""
    count = number = 0
    for topic in image.topics.values():
        for state in topic.partitions:
            count += state.leader < 0
            number += 1
            if number % AT_ONCE == 0:
                yield
    return count
