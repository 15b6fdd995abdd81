"""`Sink`: rows of Spark into topics of Kafka, each batch exactly once.

    from headgate.spark.sink.sink import Sink

    sink = Sink("127.0.0.1:9092", topic="orders_by_day", name="orders")
    frame.writeStream.foreachBatch(sink).option("checkpointLocation", path).start()

    Sink("127.0.0.1:9092", topic="report").write(report)

Columns are as in Spark's `kafka` format: key, value, optionally topic, partition, headers; and `timestamp`, which
the `kafka` format does not write. Others are left out.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from headgate.protocol.records import compression
from headgate.protocol.security.client_security import ClientSecurity
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.sink import tasks
from headgate.spark.sink.connection import DELIVERY_TIMEOUT_S, Connection
from headgate.spark.sink.exactly_once import ExactlyOnce, WriteOutcome
from headgate.spark.sink.marker import ONE_WRITE, QueryBatch, SinkRefused
from headgate.spark.sink.query import find_checkpoint, read_query
from headgate.spark.sink.transaction import TransactionalProducer
from headgate.tools.arguments import now_ms
from headgate.tools.client.client import PLAINTEXT

COLUMNS = ("topic", "key", "value", "partition", "headers", "timestamp")
DEFAULT_TIMEOUT_MS = 600_000
DEFAULT_BATCH_BYTES = 900_000
"""Below Kafka's default of message.max.bytes, with room for a record that does not compress."""
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass
class Sink:
    """Writes frames to `topic`, or to the topics in the column `topic`.

    `name`: of the sink, one for each query and stays the same for the life of its checkpoint; lag tools see the query
    as the group `group` (default: the name). `checkpoint`: the query's; only Spark Connect needs it. `keep_partitions`:
    each task has whole partitions of the target, by the column `partition`, so nothing is shuffled. `compression`:
    none, gzip, snappy, lz4 or zstd. `transaction_timeout_ms`: the longest time of a batch. `tries`: of one batch.
    `accept_gap`: go on although batches were written elsewhere. `security`: TLS and login of driver and tasks.
    """

    bootstrap: str
    topic: str | None = None
    name: str | None = None
    checkpoint: str | None = None
    group: str | None = None
    keep_partitions: bool = False
    compression: str = "none"
    transaction_timeout_ms: int = DEFAULT_TIMEOUT_MS
    max_batch_bytes: int = DEFAULT_BATCH_BYTES
    tries: int = 3
    accept_gap: bool = False
    delivery_timeout_s: float = DELIVERY_TIMEOUT_S
    security: ClientSecurity = PLAINTEXT
    _open: dict[str, ExactlyOnce] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.compression not in compression.CODEC_NAMES:
            names = ", ".join(compression.CODEC_NAMES)
            raise SinkRefused(f"compression={self.compression!r} is unknown: write one of {names}")
        if not 0 < self.transaction_timeout_ms < 1 << 31:
            raise SinkRefused(f"transaction_timeout_ms={self.transaction_timeout_ms} is no number of milliseconds")
        if self.tries < 1 or self.max_batch_bytes < 1:
            raise SinkRefused("tries and max_batch_bytes are at least 1")

    def __getstate__(self) -> dict[str, Any]:
        """Connections stay here when a copy goes to another process."""
        return {**self.__dict__, "_open": {}}

    def __call__(self, frame: Any, batch_id: int) -> WriteOutcome:
        """Write a batch of a query: the function for `foreachBatch`. Raises SinkRefused, SinkFailed."""
        if self.name is None:
            raise SinkRefused("a sink of a query needs a name, the same at each start: Sink(..., name=...)")
        checkpoint = self.checkpoint or find_checkpoint(frame)
        return self._write(frame, self.name, read_query(checkpoint, batch_id, frame.sparkSession))

    def write(self, frame: Any, *, once: str | None = None) -> WriteOutcome:
        """Write all rows of a frame in one transaction.

        `once`: an id of this write; a second write with the id of the last one under the name writes nothing.
        """
        return self._write(frame, *once_batch(self.name, once))

    def write_batch(
        self, frame: Any, query_batch: QueryBatch, beside: Callable[[TransactionalProducer], None] | None = None
    ) -> WriteOutcome:
        """Write a batch whose number and positions the caller keeps. `beside`: writes more in the same transaction."""
        if self.name is None:
            raise SinkRefused("numbered batches need a name, the same at each start: Sink(..., name=...)")
        return self._write(frame, self.name, query_batch, beside)

    def _write(
        self,
        frame: Any,
        name: str,
        query_batch: QueryBatch | None,
        beside: Callable[[TransactionalProducer], None] | None = None,
    ) -> WriteOutcome:
        rows = frame.select(*self.check_columns(frame.columns))

        def run(producer: TransactionalProducer) -> Mapping[TopicPartition, int]:
            if beside is not None:
                beside(producer)
            return self._run(rows, producer)

        return self.transactions(name).write(run, query_batch)

    def transactions(self, name: str) -> ExactlyOnce:
        """The transactions under a name; connections and known markers stay for the next batch."""
        if name not in self._open:
            self._open[name] = ExactlyOnce(
                Connection(self.bootstrap, self.delivery_timeout_s, security=self.security),
                name,
                group=self.group or self.name,
                timeout_ms=self.transaction_timeout_ms,
                tries=self.tries,
                accept_gap=self.accept_gap,
                clock_s=time.monotonic,
                now_ms=now_ms,
            )
        return self._open[name]

    def check_columns(self, columns: Iterable[str]) -> list[str]:
        """The columns that the sink writes. Raises SinkRefused for a missing one."""
        present = set(columns)
        if "value" not in present:
            raise SinkRefused(f"the frame has no column `value`; it has {', '.join(sorted(present))}")
        if self.topic is None and "topic" not in present:
            raise SinkRefused("the frame has no column `topic`, and the sink has no topic: name one of them")
        if self.keep_partitions and "partition" not in present:
            raise SinkRefused("keep_partitions needs the column `partition`")
        return [name for name in COLUMNS if name in present and (name != "topic" or self.topic is None)]

    def target(self) -> tasks.WriteTarget:
        """The plan for tasks. Raises SinkRefused, SinkFailed."""
        partitions = {}
        if self.topic is not None:
            with Connection(self.bootstrap, self.delivery_timeout_s, security=self.security) as connection:
                partitions[self.topic] = connection.partition_count(self.topic)
            if not partitions[self.topic]:
                raise SinkRefused(f"there is no topic {self.topic}: create it, or correct the name")
        return tasks.WriteTarget(
            self.bootstrap,
            self.topic,
            partitions,
            compression.CODEC_NAMES.index(self.compression),
            self.max_batch_bytes,
            now_ms(),
            self.delivery_timeout_s,
            self.security,
        )

    def _run(self, rows: Any, producer: TransactionalProducer) -> Mapping[TopicPartition, int]:
        """Write with Spark's tasks; the number of records by partition."""
        target = self.target()
        if self.keep_partitions:
            named = rows.selectExpr(*tasks.WITH_THREAD)
            written = named.mapInArrow(partial(tasks.write_rows, target, producer), tasks.WRITTEN)
        else:
            encoded = rows.mapInArrow(partial(tasks.encode_rows, target), tasks.ENCODED)
            limit = int(rows.sparkSession.conf.get(_SHUFFLE_PARTITIONS))
            count = min(target.partitions[self.topic], limit) if self.topic is not None else limit
            routed = encoded.repartitionById(count, "route").selectExpr(*tasks.WITH_THREAD)
            written = routed.mapInArrow(partial(tasks.write_batches, target, producer), tasks.WRITTEN)
        return sum_reports((row.topic, row.partition, row.records) for row in written.collect())


def once_batch(name: str | None, once: str | None) -> tuple[str, QueryBatch | None]:
    """Name and batch of a write that is no query's. Raises SinkRefused."""
    if once is None:
        return name or f"write-{uuid.uuid4()}", None
    if name is None:
        raise SinkRefused("`once` needs a name under which the sink finds the last write: give name too")
    return name, QueryBatch(ONE_WRITE + once, 0, {})


def sum_reports(rows: Any) -> dict[TopicPartition, int]:
    """The reports of all tasks. Raises SinkRefused if two tasks wrote one partition."""
    written: dict[TopicPartition, int] = {}
    for topic, number, records in rows:
        partition = TopicPartition(topic, number)
        if partition in written:
            raise SinkRefused(
                f"two tasks have rows of {partition}, so their order would be lost: leave keep_partitions out"
            )
        written[partition] = records
    return written
