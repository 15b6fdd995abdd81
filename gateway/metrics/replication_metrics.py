"""The metrics of replication, of the last survey of partitions.

Source: the metrics of Apache Kafka's `ReplicaManager`, `Partition` and `KafkaController`.
"""

from __future__ import annotations

from headgate.gateway.metrics.partition_survey import PartitionSurveys
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.metrics import Metrics


def measure_replication(metrics: Metrics, partitions: ReplicaManager, surveys: PartitionSurveys) -> None:
    """Register the metrics of replication."""
    metrics.gauge("partitions", lambda: surveys.last.replicas)
    metrics.gauge("partitions.led", lambda: surveys.last.led)
    metrics.gauge("partitions.under.replicated", lambda: surveys.last.under_replicated)
    metrics.gauge("partitions.reassigning", lambda: surveys.last.reassigning)
    metrics.gauge("partitions.under.min.isr", lambda: surveys.last.under_min_isr)
    metrics.gauge("partitions.at.min.isr", lambda: surveys.last.at_min_isr)
    metrics.gauge("partitions.offline", lambda: surveys.last.leaderless)
    metrics.gauge("replicas.offline", lambda: len(partitions.failed))
    metrics.gauge("replica.max.lag", lambda: surveys.last.max_lag)
    metrics.labelled(
        "follower.max.lag",
        ("follower",),
        lambda: [((str(key),), lag) for key, lag in sorted(surveys.last.follower_lags.items())],
    )
    leadership, in_sync_replicas = partitions.leadership, partitions.leadership.in_sync_replicas
    metrics.gauge("leader.elections", lambda: leadership.elections)
    metrics.gauge("isr.shrinks", lambda: in_sync_replicas.shrinks)
    metrics.gauge("isr.expands", lambda: in_sync_replicas.expands)
    metrics.gauge("isr.refusals", lambda: in_sync_replicas.refusals)
