"""`headgate spark mirror`: topics of one cluster in another: partitions, keys, headers and times are kept.

Each batch is one transaction of the target: records, marker, sync point. A mirror that was stopped goes on at its
marker. `translation.py` moves groups by the sync points.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headgate.protocol.records import batch
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.pipelines import sync_points
from headgate.spark.pipelines.copy_plan import (
    CopiedOffsets,
    CopyIdentity,
    CopyState,
    ends_of,
    next_batch,
    next_ranges,
    resume,
    starts,
)
from headgate.spark.pipelines.copying import Beside, Copier, describe
from headgate.spark.pipelines.replay import advance, bounds_end
from headgate.spark.pipelines.sync_points import OFFSETS_TOPIC, SyncPoint
from headgate.spark.reading.log_reader import IsolationLevel, TopicDescription, TopicReader
from headgate.spark.sink.batch_log import CONFIGS, create_topic
from headgate.spark.sink.connection import Connection
from headgate.spark.sink.marker import BATCHES_TOPIC, SinkMarker
from headgate.spark.sink.transaction import TransactionalProducer, TransactionWriter
from headgate.spark.source.planning import INTERNAL_TOPICS
from headgate.tools.client.cluster import shorten_list
from headgate.tools.output import Row, UsageError

OWN_TOPICS = INTERNAL_TOPICS | {BATCHES_TOPIC, OFFSETS_TOPIC}
_POINTS = TopicPartition(OFFSETS_TOPIC, 0)


@dataclass(frozen=True)
class Mirror:
    """The topics to mirror. `topics`: names; `pattern`: a regular expression for whole names. `cluster_id`: source."""

    name: str
    cluster_id: str | None
    topics: Sequence[str]
    pattern: str | None
    prefix: str
    most_offsets: int
    skips_lost: bool

    def identity(self) -> CopyIdentity:
        """Topics may be added to a mirror; another source or another prefix is another mirror."""
        return CopyIdentity("mirror", {"cluster_id": self.cluster_id, "prefix": self.prefix})

    def wanted(self, topics: Mapping[str, TopicDescription]) -> dict[str, TopicDescription]:
        """The source's topics to mirror. Raises UsageError for a missing one."""
        if self.pattern is not None:
            matches = re.compile(self.pattern).fullmatch
            return {name: topic for name, topic in topics.items() if name not in OWN_TOPICS and matches(name)}
        missing = [name for name in self.topics if name not in topics]
        if missing:
            raise UsageError(f"the source has no topic {shorten_list(missing)}; `headgate topics list` shows all")
        return {name: topics[name] for name in self.topics}


class MirrorTarget:
    """The target's side: missing topics, ends of partitions, sync points."""

    def __init__(self, connection: Connection, reader: TopicReader, name: str) -> None:
        self._connection, self._reader, self._name = connection, reader, name

    def prepare(
        self, wanted: Mapping[str, TopicDescription], names: Mapping[str, str], configs: Callable[[str], dict[str, str]]
    ) -> None:
        """Create what is missing. Raises UsageError for a topic with fewer partitions than in the source."""
        if not self._connection.partition_count(OFFSETS_TOPIC):
            self._create(OFFSETS_TOPIC, 1, CONFIGS)
        for name, topic in wanted.items():
            count, target = max(topic.partitions) + 1, names[name]
            present = self._connection.partition_count(target)
            if not present:
                self._create(target, count, configs(name))
            elif present < count:
                raise UsageError(
                    f"{target} has {present} partitions, and {name} in the source has {count}: a mirror keeps "
                    f"partitions; add some to {target}"
                )

    def _create(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        code, problem = create_topic(self._connection, name, partitions, configs)
        if code:
            raise UsageError(f"{name} cannot be created in the target: {problem}; create the topic by hand")
        self._connection.wait_for_topic(name)

    def note_point(self, state: CopyState, positions: CopiedOffsets, names: Mapping[str, str]) -> Beside:
        """The function that writes a sync point within the transaction of a batch, before its records."""

        def write(producer: TransactionalProducer) -> None:
            targets = [TopicPartition(names[partition.topic], partition.number) for partition in positions]
            ends = bounds_end(self._reader.bounds(targets, IsolationLevel.READ_UNCOMMITTED))
            point = SyncPoint(state.next_batch, positions, ends, names)
            record = batch.Record(
                timestamp=-1, key=sync_points.key(self._name, state.next_batch), value=sync_points.encode(point)
            )
            built = batch.build([record], is_transactional=True)
            TransactionWriter(self._connection, producer).write({_POINTS: (1, built)})

        return write


def run(
    mirror: Mirror,
    reader: TopicReader,
    target: MirrorTarget,
    marker: SinkMarker | None,
    copier: Copier,
    configs: Callable[[str], dict[str, str]],
    wait: Callable[[], bool],
) -> Iterator[Row]:
    """A row for each batch. `wait`: called when nothing is left to copy; False ends the mirror.

    Raises UsageError, SinkRefused, SinkFailed, LogUnavailable.
    """
    identity = mirror.identity()
    if marker is not None:
        ends_of(mirror.name, identity, marker)
    state, prepared = resume(marker), set[TopicPartition]()
    while True:
        wanted = mirror.wanted(reader.topics())
        partitions = [TopicPartition(name, number) for name, topic in wanted.items() for number in topic.partitions]
        names = {name: f"{mirror.prefix}{name}" for name in wanted}
        if not prepared.issuperset(partitions):
            target.prepare(wanted, names, configs)
            copier.names = names
            prepared = set(partitions)
        bounds = reader.bounds(partitions, IsolationLevel.READ_COMMITTED)
        positions = starts(state.positions, bounds, skips_lost=mirror.skips_lost)
        # A topic that is no longer mirrored keeps its position
        state = CopyState(state.next_batch, {**state.positions, **positions})
        ranges = next_ranges(positions, bounds_end(bounds), mirror.most_offsets)
        if not ranges:
            if not wait():
                return
            continue
        beside = target.note_point(state, positions, names)
        outcome = copier.copy(ranges, next_batch(identity, state, ranges), beside)
        yield describe(state, outcome)
        state = advance(state, ranges)


def read_points(reader: TopicReader, name: str) -> list[SyncPoint]:
    """The sync points of a mirror, from the target. Raises UsageError without any."""
    from headgate.spark.reading.log_reader import OffsetRange
    from headgate.spark.records.columns import columns

    if OFFSETS_TOPIC not in reader.topics():
        raise UsageError(f"the target has no topic {OFFSETS_TOPIC}: no mirror has written here")
    level = IsolationLevel.READ_COMMITTED
    wanted = OffsetRange(_POINTS, *reader.bounds([_POINTS], level)[_POINTS])

    def records() -> Iterable[tuple[bytes | None, bytes | None]]:
        for rows in columns(reader.read(wanted, level), wanted, ("key", "value")):
            yield from zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True)

    points = sync_points.decode(name, records())
    if not points:
        raise UsageError(f"there is no mirror {name!r} in the target; its --name is that of `headgate spark mirror`")
    return points
