"""One batch after another from one cluster into another, or into another topic, each exactly once.

Spark's tasks read ranges with the format `headgate` and write them with the sink. The progress of
a copy is in the marker of the sink alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.protocol.security.client_security import ClientSecurity
from headgate.spark.pipelines.copy_plan import CopyState, to_topics
from headgate.spark.reading.log_reader import OffsetRange
from headgate.spark.security_options import options_of
from headgate.spark.sink import transaction
from headgate.spark.sink.batch_log import BatchLog, ensure_topic
from headgate.spark.sink.connection import Connection
from headgate.spark.sink.exactly_once import TRANSACTIONAL_ID_PREFIX, WriteOutcome
from headgate.spark.sink.marker import QueryBatch, SinkMarker
from headgate.spark.sink.sink import Sink
from headgate.spark.sink.transaction import TransactionalProducer
from headgate.tools.client.client import PLAINTEXT

Beside = Callable[[TransactionalProducer], None]
"""Writes something else within the transaction of a batch, before its records."""


def last_marker(sink: Sink) -> SinkMarker | None:
    """The marker of the last batch under the sink's name. A copy that still runs elsewhere is fenced by that."""
    assert sink.name is not None, "a copy has a name"
    with Connection(sink.bootstrap, sink.delivery_timeout_s, security=sink.security) as connection:
        ensure_topic(connection)
        transaction.begin(connection, TRANSACTIONAL_ID_PREFIX + sink.name, sink.transaction_timeout_ms)
        return BatchLog(connection, sink.name).last(is_fenced=True)


@dataclass
class Copier:
    """Copies ranges.

    `log_dirs`: the source's files, if they can be read here. `names`: the target topic of each source topic.
    """

    session: Any
    bootstrap: str | None
    log_dirs: Sequence[str]
    sink: Sink
    names: Mapping[str, str]
    security: ClientSecurity = PLAINTEXT
    """Of the source."""

    def copy(self, ranges: Sequence[OffsetRange], batch: QueryBatch, beside: Beside | None = None) -> WriteOutcome:
        """Copy one batch. Raises SinkRefused, SinkFailed, and what Spark raises."""
        return self.sink.write_batch(self.frame(ranges), batch, beside)

    def frame(self, ranges: Sequence[OffsetRange]) -> Any:
        """The committed records of ranges, with the columns of the sink; their topic is the target's."""
        from pyspark.sql import functions

        options = read_options(self.bootstrap, self.log_dirs, ranges) | options_of(self.security)
        reader = self.session.read.format("headgate").options(**options)
        rows = reader.load().select("topic", "partition", "key", "value", "headers", "timestamp")
        rows = rows if self.sink.keep_partitions else rows.drop("partition")
        renamed = [(name, self.names[name]) for name in sorted({wanted.partition.topic for wanted in ranges})]
        if all(name == target for name, target in renamed):
            return rows
        pairs = [functions.lit(text) for both in renamed for text in both]
        return rows.withColumn("topic", functions.create_map(*pairs)[functions.col("topic")])


def read_options(bootstrap: str | None, log_dirs: Sequence[str], ranges: Iterable[OffsetRange]) -> dict[str, str]:
    """Options of the format `headgate` for exactly these ranges, one for each partition."""
    wanted = list(ranges)
    starts = to_topics({piece.partition: piece.start_offset for piece in wanted})
    ends = to_topics({piece.partition: piece.end_offset for piece in wanted})
    options = {
        "assign": json.dumps({topic: sorted(row) for topic, row in starts.items()}),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }
    if bootstrap:
        options["kafka.bootstrap.servers"] = bootstrap
    if log_dirs:
        options["logDirs"] = ",".join(log_dirs)
    return options


def describe(state: CopyState, outcome: WriteOutcome) -> dict[str, object]:
    """The row of one copied batch."""
    return {
        "batch": state.next_batch,
        "records": outcome.records,
        "seconds": round(outcome.seconds, 1),
        "tries": outcome.tries,
        "written": outcome.is_written,
    }
