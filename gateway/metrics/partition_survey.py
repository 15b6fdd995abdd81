"""The survey of partitions: one pass over the replicas of this broker before each reading of the metrics.

It has the numbers of replication, the traffic of all logs, and a row for each led partition and its topic. Numbers lie
in arrays, and labels are texts that stay from one survey to the next: so the garbage collector has nothing to do.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final

from headgate.gateway.metadata.image import Image
from headgate.gateway.metrics.label_texts import label_text
from headgate.gateway.replication.fetching.replica_fetchers import ReplicaFetchers
from headgate.gateway.replication.replica import Replica
from headgate.gateway.replication.replica_manager import ReplicaManager
from headgate.gateway.runtime.metrics import Metrics
from headgate.protocol.steps import Steps

AT_ONCE: Final = 32
"""The replicas of one step: some 0.3 ms."""
COUNTED_AT_ONCE: Final = 128
"""The partitions of a step that only counts."""
BY_PARTITION, BY_TOPIC, BY_BROKER = "partition", "topic", "broker"
DETAILS: Final = (BY_PARTITION, BY_TOPIC, BY_BROKER)
"""The values of `headgate.metrics.detail`."""

TRAFFIC: Final = ("bytes.in", "records.in", "batches.in", "bytes.out", "reads.out")
SUMS: Final = (*TRAFFIC, "replicated.bytes.in")
PARTITION_LABELS, TOPIC_LABELS = ("topic", "partition"), ("topic",)
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
_NOTHING: Final = (0,) * len(SUMS)

LogKey = tuple[str, int]


def missed_replicas(replica: Replica, image: Image) -> int:
    """How many replicas of a led partition are not in sync. One that is being added is not missed yet."""
    missed = len(replica.replicas) - len(replica.isr)
    if image.has_partition(replica.topic, replica.index):
        missed -= len(image.topics[replica.topic].partitions[replica.index].adding_replicas)
    return missed


class TopicSums:
    """The traffic of each topic of which this broker leads a partition, by column."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self.columns = [array("q") for _ in TRAFFIC]
        self.with_first = set[str]()
        """The topics whose partition 0 is led here."""

    def add(self, replica: Replica, traffic: tuple[int, ...]) -> None:
        """Add the traffic of a led partition."""
        place = self.places.get(replica.topic)
        if place is None:
            place = self.places[replica.topic] = len(self.places)
            for column in self.columns:
                column.append(0)
        for column, number in zip(self.columns, traffic, strict=False):
            column[place] += number
        if not replica.index:
            self.with_first.add(replica.topic)


class PartitionSurvey:
    """The numbers of one survey."""

    def __init__(self) -> None:
        self.replicas = self.led = self.under_replicated = self.under_min_isr = self.at_min_isr = 0
        self.reassigning = self.leaderless = self.max_lag = 0
        self.follower_lags: dict[int, int] = {}
        """The greatest lag of each follower in a partition that is led here, by node id."""
        self.texts: dict[LogKey, str] = {}
        """The labels of the led partitions."""
        self.columns = [array("q") for _ in PARTITION_COLUMNS]
        self.topics = TopicSums()

    def count_led(self, replica: Replica, image: Image) -> bool:
        """Count a partition that this broker leads. Returns whether it misses a replica."""
        log, progress, in_sync = replica.log, replica.progress, len(replica.isr)
        least = log.config.min_insync_replicas
        self.led += 1
        self.under_min_isr += in_sync < least
        self.at_min_isr += in_sync == least
        is_missing = missed_replicas(replica, image) > 0
        self.under_replicated += is_missing
        if progress is not None:
            if image.has_partition(replica.topic, replica.index):
                self.reassigning += image.topics[replica.topic].partitions[replica.index].is_reassigning
            for node_id, lag in progress.lags(log.start_offset, log.written_end):
                if lag >= self.follower_lags.get(node_id, 0):
                    self.follower_lags[node_id] = lag
        return is_missing

    def add_row(self, text: str, replica: Replica, node_id: int, *, is_missing: bool) -> None:
        """Add the row of a led partition."""
        log, replicas, in_sync = replica.log, replica.replicas, len(replica.isr)
        least = log.config.min_insync_replicas
        self.texts[log.key] = text
        numbers = (
            log.bytes_in,
            log.records_in,
            log.bytes_out,
            log.segments.size,
            len(log.segments),
            log.start_offset,
            replica.high_watermark,
            log.written_end,
            replica.high_watermark - replica.last_stable_offset,
            node_id,
            replicas[:1] == (node_id,),
            len(replicas),
            in_sync,
            is_missing,
            in_sync < least,
            in_sync == least,
        )
        for column, number in zip(self.columns, numbers, strict=True):
            column.append(number)


class _Traffic:
    """The traffic of each log at one survey, and the sums over all logs, those that are gone included."""

    def __init__(self, sums: list[int]) -> None:
        """`sums`: those of the survey before."""
        self.sums = sums
        self.places: dict[LogKey, int] = {}
        self._numbers = array("q")

    def add(self, replica: Replica, before: _Traffic) -> tuple[int, ...]:
        """Add what the log of a replica has got since the survey before; the traffic of the log."""
        log = replica.log
        numbers = log.bytes_in, log.records_in, log.batches_in, log.bytes_out, log.reads_out, log.bytes_replicated
        self.places[log.key] = len(self._numbers)
        self._numbers.extend(numbers)
        then = before.of(log.key)
        if then != numbers:
            if any(map(int.__lt__, numbers, then)):
                then = _NOTHING  # another log of that name
            for place, number in enumerate(numbers):
                self.sums[place] += number - then[place]
        return numbers

    def of(self, key: LogKey) -> tuple[int, ...]:
        """The traffic of a log."""
        place = self.places.get(key)
        return _NOTHING if place is None else tuple(self._numbers[place : place + len(SUMS)])


class PartitionSurveys:
    """Makes a survey before each reading. `last`: the one that has ended last."""

    def __init__(
        self,
        partitions: ReplicaManager,
        fetchers: ReplicaFetchers,
        node_id: int,
        image: Callable[[], Image],
        detail: str = BY_PARTITION,
    ) -> None:
        self.last = PartitionSurvey()
        self._traffic = _Traffic([0] * len(SUMS))
        self._partitions = partitions
        self._fetchers = fetchers
        self._node_id = node_id
        self.image = image
        self.detail = detail

    @property
    def sums(self) -> list[int]:
        """The traffic of all logs since the start. A deleted log keeps what it had at the reading before its end."""
        return self._traffic.sums

    def register(self, metrics: Metrics) -> None:
        """Have a survey before each reading."""
        metrics.surveys.append(self.survey)

    def survey(self) -> Steps[None]:
        """Count all partitions."""
        found, image, led, traffic = PartitionSurvey(), self.image(), self._partitions.online, self._traffic
        after = _Traffic(list(traffic.sums))
        for number, replica in enumerate(list(self._partitions), 1):
            numbers = after.add(replica, traffic)
            if led.get(replica.log.key) is replica:
                self._note_led(found, replica, image, numbers)
            if number % AT_ONCE == 0:
                yield
        found.replicas = len(after.places)
        for number, lag in enumerate(self._fetchers.lags(), 1):
            found.max_lag = max(lag, found.max_lag)
            if number % COUNTED_AT_ONCE == 0:
                yield
        if image.controller_id == self._node_id:
            found.leaderless = yield from count_leaderless(image)
        self.last = found
        if self._traffic is traffic:  # no other reading has counted the same traffic meanwhile
            self._traffic = after

    def _note_led(self, found: PartitionSurvey, replica: Replica, image: Image, traffic: tuple[int, ...]) -> None:
        is_missing = found.count_led(replica, image)
        if self.detail != BY_BROKER:
            found.topics.add(replica, traffic)
        if self.detail == BY_PARTITION:
            text = self.last.texts.get(replica.log.key)
            if text is None:
                text = label_text(PARTITION_LABELS, (replica.topic, str(replica.index)))
            found.add_row(text, replica, self._node_id, is_missing=is_missing)


def count_leaderless(image: Image) -> Steps[int]:
    """The number of partitions of a cluster that have no leader."""
    count = number = 0
    for topic in image.topics.values():
        for state in topic.partitions:
            count += state.leader < 0
            number += 1
            if number % COUNTED_AT_ONCE == 0:
                yield
    return count
