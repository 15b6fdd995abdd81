"""Metrics by partition and by topic: traffic, sizes, ends, replicas.

A broker shows the partitions that it leads. So the sum over all brokers of a cluster counts each partition once; for
the same reason the leader of partition 0 alone shows what a topic has as a whole. Counters begin at 0 with the opening
of a log. The sums keep what a deleted log had at the reading before its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from headgate.gateway.metadata.image import Image
from headgate.gateway.metrics.replication_metrics import missed_replicas
from headgate.gateway.replication.replica import Replica
from headgate.gateway.runtime.metrics import Metrics, TableRow
from headgate.protocol.steps import Steps

if TYPE_CHECKING:
    from headgate.gateway.replication.replica_manager import ReplicaManager

AT_ONCE: Final = 64
"""The partitions of one step: some 0.3 ms."""
BY_PARTITION, BY_TOPIC, BY_BROKER = "partition", "topic", "broker"
DETAILS: Final = (BY_PARTITION, BY_TOPIC, BY_BROKER)
"""The values of `headgate.metrics.detail`."""
PRODUCE, FETCH = "Produce", "Fetch"

TRAFFIC: Final = ("bytes.in", "records.in", "batches.in", "bytes.out", "reads.out")
SUMS: Final = (*TRAFFIC, "replicated.bytes.in")
_NOTHING: Final = (0,) * len(SUMS)
PARTITION_COLUMNS: Final = (
    "partition.bytes.in",
    "partition.records.in",
    "partition.bytes.out",
    "partition.size.bytes",
    "partition.segments",
    "partition.start.offset",
    "partition.end.offset",
    "partition.log.end.offset",
    "partition.unstable.records",
    "partition.leader",
    "partition.leader.is.preferred",
    "partition.replicas",
    "partition.in.sync.replicas",
    "partition.under.replicated",
    "partition.under.min.isr",
    "partition.at.min.isr",
)
TOPIC_COLUMNS: Final = (
    *(f"topic.{name}" for name in TRAFFIC),
    "topic.failed.produces",
    "topic.failed.fetches",
    "topic.partitions",
)


class PartitionMetrics:
    """Registers the metrics by partition, by topic, and their sums."""

    def __init__(
        self,
        metrics: Metrics,
        partitions: ReplicaManager,
        failures: Counter[tuple[str, str]],
        node_id: int,
        image: Callable[[], Image],
        detail: str = BY_PARTITION,
    ) -> None:
        """`failures`: the refused rows by API and topic."""
        self._partitions = partitions
        self._failures = failures
        self._node_id = node_id
        self._image = image
        self._totals = [0] * len(SUMS)
        self._seen: dict[tuple[str, int], tuple[int, ...]] = {}
        if detail == BY_PARTITION:
            metrics.table(("topic", "partition"), PARTITION_COLUMNS, self.by_partition)
        if detail != BY_BROKER:
            metrics.table(("topic",), TOPIC_COLUMNS, self.by_topic)
        metrics.surveys.append(self._sum_up)
        for place, name in enumerate(SUMS):
            metrics.gauge(name, partial(self._totals.__getitem__, place))
        metrics.gauge("failed.produces", lambda: self._failed(PRODUCE))
        metrics.gauge("failed.fetches", lambda: self._failed(FETCH))
        metrics.gauge("replicated.bytes.out", lambda: partitions.replicated_bytes_out)

    def by_partition(self) -> Steps[Sequence[TableRow]]:
        """The rows of all partitions that this broker leads."""
        rows: list[TableRow] = []
        image = self._image()
        for number, replica in enumerate(list(self._partitions.led), 1):
            rows.append(((replica.topic, str(replica.index)), self._numbers(replica, image)))
            if number % AT_ONCE == 0:
                yield
        return rows

    def _numbers(self, replica: Replica, image: Image) -> tuple[int, ...]:
        log, replicas, in_sync = replica.log, replica.replicas, len(replica.isr)
        least = log.config.min_insync_replicas
        return (
            log.bytes_in,
            log.records_in,
            log.bytes_out,
            log.segments.size,
            len(log.segments),
            log.start_offset,
            replica.high_watermark,
            log.written_end,
            replica.high_watermark - replica.last_stable_offset,
            self._node_id,
            +(replicas[:1] == (self._node_id,)),
            len(replicas),
            in_sync,
            +(missed_replicas(replica, image) > 0),
            +(in_sync < least),
            +(in_sync == least),
        )

    def by_topic(self) -> Steps[Sequence[TableRow]]:
        """The rows of all topics of which this broker leads a partition."""
        sums: dict[str, list[int]] = {}
        firsts = set()
        for number, replica in enumerate(list(self._partitions.led), 1):
            known = sums.get(replica.topic)
            traffic = _traffic(replica)
            sums[replica.topic] = list(map(sum, zip(known or _NOTHING, traffic, strict=False)))
            if not replica.index:
                firsts.add(replica.topic)
            if number % AT_ONCE == 0:
                yield
        topics, failures = self._image().topics, self._failures
        return [
            (
                (name,),
                (
                    *traffic,
                    failures[PRODUCE, name],
                    failures[FETCH, name],
                    len(topics[name].partitions) if name in firsts and name in topics else None,
                ),
            )
            for name, traffic in sums.items()
        ]

    def _sum_up(self) -> Steps[None]:
        """Add to the sums what each log has got since the last reading. A deleted log keeps its part."""
        totals, seen, before = self._totals, dict[tuple[str, int], tuple[int, ...]](), self._seen
        for number, replica in enumerate(list(self._partitions), 1):
            traffic = (*_traffic(replica), replica.log.bytes_replicated)
            last = before.get(replica.log.key, _NOTHING)
            if any(now < then for now, then in zip(traffic, last, strict=True)):
                last = _NOTHING  # another log of that name
            seen[replica.log.key] = traffic
            for place, now in enumerate(traffic):
                totals[place] += now - last[place]
            if number % AT_ONCE == 0:
                yield
        self._seen = seen

    def _failed(self, api: str) -> int:
        return sum(count for (failed, _), count in self._failures.items() if failed == api)


def _traffic(replica: Replica) -> tuple[int, int, int, int, int]:
    log = replica.log
    return log.bytes_in, log.records_in, log.batches_in, log.bytes_out, log.reads_out
