"""The writers behind `write.format("headgate")` and `writeStream.format("headgate")`.

Spark gives a Python Data Source no say in the distribution of rows, so two tasks may have rows of one partition, and a
task may run twice. Therefore tasks only encode: a task's commit message holds its batches. Spark hands exactly one
message of each task to `commit` on the driver, and `commit` writes them all in one transaction. A larger write goes
through `Sink`, whose tasks write themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.sink import write_options
from headgate.spark.sink.marker import QueryBatch, SinkRefused
from headgate.spark.sink.query import read_query
from headgate.spark.sink.sink import Sink, once_batch
from headgate.spark.sink.tasks import RowEncoder, TaskIdentity, TaskWriter, WriteTarget, spark_task
from headgate.spark.sink.transaction import TransactionalProducer
from headgate.spark.zip_importers import forget_zip_importers

_MIB = 1 << 20
MAX_TASK_BYTES = 32 * _MIB
MAX_BYTES = 256 * _MIB
"""Of all tasks of equal size together. The driver holds all messages, the JVM several times over: 10 million records of
100 bytes took 4.7 GB in the JVM and 1.2 GB in Python. With 700 MB of messages a driver with the default 1 GB died."""
_SURELY_BYTES = 2 * _MIB


def task_bytes(task: int) -> int:
    """The limit of the task with this number. A task knows its number, and not how many others follow.

    With n tasks of equal size the last one has the smallest limit, MAX_BYTES / n. Small tasks are never refused.
    """
    return max(_SURELY_BYTES, min(MAX_TASK_BYTES, MAX_BYTES // (task + 1)))


@dataclass
class EncodedRows(WriterCommitMessage):
    """The batches of one task in order: their partitions, numbers of records, and bytes."""

    batches: Sequence[tuple[TopicPartition, int, bytes]]


def encode_task(target: WriteTarget, rows: Iterable[Any], max_bytes: int | None = None) -> EncodedRows:
    """The commit message of a task. Raises SinkRefused for more than `max_bytes`; default: the limit of this task."""
    forget_zip_importers()
    batches, size, task = [], 0, spark_task().number
    max_bytes = task_bytes(task) if max_bytes is None else max_bytes
    for partitions, encoded in RowEncoder(target, task).encode(rows):
        for batch in encoded:
            batches.append((partitions[batch.target], batch.records, bytes(batch.data)))
            size += len(batch.data)
        if size > max_bytes:
            raise SinkRefused(
                f"task {task} has more than {max_bytes / _MIB:.3g} MB for one transaction. The format `headgate` "
                f"writes through the driver, at most {MAX_TASK_BYTES // _MIB} MB of a task and {MAX_BYTES // _MIB} MB "
                "of all: write with headgate.spark.sink.sink.Sink"
            )
    return EncodedRows(batches)


def _commit(sink: Sink, messages: Sequence[EncodedRows | None], name: str, query_batch: QueryBatch | None) -> None:
    """Write the batches of all tasks in one transaction."""
    forget_zip_importers()

    def write(producer: TransactionalProducer) -> Mapping[TopicPartition, int]:
        with TaskWriter(sink.target(), producer, TaskIdentity(0, 0)) as writer:
            writer.put(_stampable(messages))
            return writer.finish()

    sink.transactions(name).write(write, query_batch)


def _stampable(messages: Sequence[EncodedRows | None]) -> Iterator[tuple[TopicPartition, int, bytearray]]:
    for message in messages:
        for partition, records, data in message.batches if message is not None else ():
            yield partition, records, bytearray(data)


class BatchWriter(DataSourceArrowWriter):
    """One transaction for all rows of a frame."""

    def __init__(self, sink: Sink, target: WriteTarget, once: str | None) -> None:
        self._sink, self._target, self._once = sink, target, once

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return encode_task(self._target, iterator)

    def commit(self, messages: list[EncodedRows | None]) -> None:
        """Write all rows. Raises SinkRefused, SinkFailed."""
        _commit(self._sink, messages, *once_batch(self._sink.name, self._once))

    def abort(self, messages: list[EncodedRows | None]) -> None:
        """Nothing was written."""


class StreamWriter(DataSourceStreamArrowWriter):
    """One transaction a batch, with its marker."""

    def __init__(self, sink: Sink, target: WriteTarget) -> None:
        self._sink, self._target = sink, target

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return encode_task(self._target, iterator)

    def commit(self, messages: list[EncodedRows | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Write the batch, unless its marker is there. Raises SinkRefused, SinkFailed."""
        assert self._sink.checkpoint is not None
        assert self._sink.name is not None
        query_batch = read_query(self._sink.checkpoint, batchId, None)
        _commit(self._sink, messages, self._sink.name, query_batch)

    def abort(self, messages: list[EncodedRows | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing was written."""


def batch_writer(options: Mapping[str, str], schema: Any) -> DataSourceArrowWriter:
    """The writer of `write.format("headgate")`. Raises SinkRefused, SinkFailed."""
    forget_zip_importers()
    sink = Sink(**write_options.parse(options))
    sink.check_columns(schema.fieldNames())
    once = next((value for name, value in options.items() if name.lower() == "once"), None)
    once_batch(sink.name, once)
    return BatchWriter(sink, sink.target(), once)


def stream_writer(options: Mapping[str, str], schema: Any) -> DataSourceStreamArrowWriter:
    """The writer of `writeStream.format("headgate")`. Raises SinkRefused, SinkFailed."""
    forget_zip_importers()
    sink = Sink(**write_options.parse(options))
    sink.check_columns(schema.fieldNames())
    if sink.name is None:
        raise SinkRefused("a sink of a query needs a name, the same at each start: queryName(...) or the option name")
    if sink.checkpoint is None:
        raise SinkRefused("the option checkpointLocation must be given to the query itself: the sink reads it")
    return StreamWriter(sink, sink.target())
