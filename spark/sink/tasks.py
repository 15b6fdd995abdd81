"""The work of tasks: rows to encoded batches, and encoded batches to brokers.

Two ways from one to the other. Without a shuffle (`write_rows`), if each task has whole partitions of the target. Else
`encode_rows` makes few large rows, one for a batch of Kafka, Spark carries these to one task for each target partition,
and `write_batches` writes them: the records themselves are not shuffled, only their encoded batches.

Everything here runs in Python workers, so arguments and results are picklable.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.protocol.records.batch import NO_TIMESTAMP
from headgate.protocol.security.client_security import ClientSecurity
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.sink import partitioner
from headgate.spark.sink.connection import Connection
from headgate.spark.sink.encoding import (
    EncodedBatch,
    Rows,
    as_binary,
    binary_parts,
    byte_strings,
    encode,
    integers,
    numbers,
    valid,
)
from headgate.spark.sink.marker import SinkRefused
from headgate.spark.sink.transaction import TransactionalProducer, TransactionWriter
from headgate.spark.zip_importers import forget_zip_importers
from headgate.tools.client.client import PLAINTEXT

ENCODED = "topic string, partition int, route int, task long, number int, records int, data binary"
"""The rows between the two halves, as Spark's DDL. `number`: of the batch, for its task and partition, from 0 on."""
WRITTEN = "topic string, partition int, records long"
"""The report of a task, as Spark's DDL."""
THREAD = "thread"
_IS_FIRST_ROW = f"monotonically_increasing_id() & {(1 << 33) - 1} = 0"
WITH_THREAD = ("*", f"CASE WHEN {_IS_FIRST_ROW} THEN reflect('java.lang.Thread', 'currentThread') END AS {THREAD}")
"""Spark's columns for tasks that write: all, and in the first row of each task the name of its thread.

Only from that name a Python worker knows that the stage runs again (PySpark's TaskContext has no such number). Attempts
of its tasks count from 0 again, beside tasks of the first run that are still at work.
"""

_STAGE_ATTEMPT = re.compile(r" in stage \d+\.(\d+) ")
_CHUNK_BYTES = 8 * 1024 * 1024
_REQUEST_BYTES = 8 * 1024 * 1024
_ENCODED_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("route", pa.int32()),
        ("task", pa.int64()),
        ("number", pa.int32()),
        ("records", pa.int32()),
        ("data", pa.binary()),
    ]
)
_WRITTEN_SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("records", pa.int64())])


class WriteTarget(NamedTuple):
    """Where and how rows are written. `topic`: of all rows; None: the column `topic` has it.

    `partitions`: the number of partitions by topic, as far as the driver knows. `now_ms`: the time of rows without one.
    `max_batch_bytes`: before compression.
    """

    bootstrap: str
    topic: str | None
    partitions: Mapping[str, int]
    codec: int
    max_batch_bytes: int
    now_ms: int
    delivery_timeout_s: float
    security: ClientSecurity = PLAINTEXT


def _connection(target: WriteTarget) -> Connection:
    return Connection(target.bootstrap, target.delivery_timeout_s, security=target.security)


class TaskIdentity(NamedTuple):
    """The running task: its number in the stage, and its attempt."""

    number: int
    attempt: int


class SecondAttempt(Exception):
    """A task that writes was started twice; the batch ends, and the next try fences both attempts."""


def spark_task() -> TaskIdentity:
    """The task of this worker; (0, 0) outside of Spark."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return TaskIdentity(0, 0) if context is None else TaskIdentity(context.partitionId(), context.attemptNumber())


# ---------------------------------------------------------------------------------------------------------- to batches


class RowEncoder:
    """Encodes the rows of one task, chunk by chunk."""

    def __init__(self, target: WriteTarget, task: int = 0) -> None:
        self._target, self._task = target, task
        self._counts = dict(target.partitions)

    def encode(self, batches: Iterable[Any]) -> Iterator[tuple[dict[int, TopicPartition], list[EncodedBatch]]]:
        """For each chunk: the partitions by number of the target, and the encoded batches."""
        for chunk in _chunks(batches):
            topics = self._topics(chunk)
            for topic, rows in topics:
                yield self._encode_topic(topic, rows)

    def _topics(self, chunk: Any) -> list[tuple[str, Any]]:
        """The rows of each topic."""
        if self._target.topic is not None:
            return [(self._target.topic, chunk)]
        if "topic" not in chunk.schema.names:
            raise SinkRefused("the rows have no column `topic`, and the sink has no topic: name one of them")
        names = chunk.column("topic").cast(pa.string())
        if names.null_count:
            raise SinkRefused(f"the column `topic` is null in {names.null_count} rows: each row needs a topic")
        return [(name, chunk.filter(pc.equal(names, name))) for name in names.unique().to_pylist()]

    def _encode_topic(self, topic: str, rows: Any) -> tuple[dict[int, TopicPartition], list[EncodedBatch]]:
        keys, values = (as_binary(_column(rows, name, pa.binary())) for name in ("key", "value"))
        chosen = self._choose(topic, rows, keys)
        times = self._times(rows)
        headers = rows.column("headers") if "headers" in rows.schema.names else None
        target = self._target
        encoded = list(encode(Rows(keys, values, headers, times), chosen, target.max_batch_bytes, target.codec))
        return {batch.target: TopicPartition(topic, batch.target) for batch in encoded}, encoded

    def _choose(self, topic: str, rows: Any, keys: Any) -> Any:
        """The partition of each row: from the column `partition`, else by the key."""
        count = self._partition_count(topic)
        given = rows.column("partition").cast(pa.int32()) if "partition" in rows.schema.names else None
        if given is not None and not given.null_count:
            chosen = numbers(given)
        else:
            data, starts, lengths = binary_parts(keys)
            hashes = partitioner.murmur2(data, starts, np.maximum(lengths, 0))
            chosen = partitioner.choose(hashes, lengths >= 0, count, self._task)
            if given is not None:
                chosen = np.where(valid(given), numbers(given), chosen)
        if len(chosen) and (chosen.min() < 0 or chosen.max() >= count):
            wrong = int(chosen.min()) if chosen.min() < 0 else int(chosen.max())
            raise SinkRefused(f"a row has partition {wrong}, but {topic} has the partitions 0 to {count - 1}")
        return chosen

    def _partition_count(self, topic: str) -> int:
        if topic not in self._counts:
            with _connection(self._target) as connection:
                self._counts[topic] = connection.partition_count(topic)
        if not self._counts[topic]:
            raise SinkRefused(f"there is no topic {topic}: create it, or correct the name")
        return self._counts[topic]

    def _times(self, rows: Any) -> Any:
        """The time of each row in ms; the sink's time where the column is null.

        A record of a producer before Kafka 0.10 has no time: -1, and the column a ms before 1970. The copy has -1 too.
        """
        now_ms = self._target.now_ms
        if "timestamp" not in rows.schema.names:
            return np.full(rows.num_rows, now_ms, np.int64)
        times = rows.column("timestamp")
        if not pa.types.is_timestamp(times.type):
            raise SinkRefused(f"the column `timestamp` is {times.type}: cast it to timestamp, or leave it out")
        micros = times.cast(pa.timestamp("us", tz=times.type.tz)).cast(pa.int64())
        # A whole number of ms before or at the time: what Spark's own `kafka` format reads back
        millis = numbers(micros) // 1000
        if micros.null_count:
            millis = np.where(valid(micros), millis, now_ms)
        if len(millis) and millis.min() < NO_TIMESTAMP:
            raise SinkRefused(
                f"a row has the timestamp {int(millis.min())} ms, before 1970, which Kafka's producers and its log "
                "cleaner refuse: correct the column `timestamp`"
            )
        return millis


def _column(rows: Any, name: str, kind: Any) -> Any:
    if name in rows.schema.names:
        return rows.column(name)
    return pa.nulls(rows.num_rows, kind)


def _chunks(batches: Iterable[Any]) -> Iterator[Any]:
    """Arrow batches joined or cut to a size that fills batches of Kafka, and bounds memory."""
    waiting: list[Any] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = max(1, batch.num_rows * 4 * _CHUNK_BYTES // max(batch.nbytes, 1))
        for start in range(0, batch.num_rows, rows):
            piece = batch.slice(start, rows)
            waiting.append(piece)
            size += piece.nbytes
            if size >= _CHUNK_BYTES:
                yield _joined(waiting)
                waiting, size = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    [joined] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def encode_rows(
    target: WriteTarget, batches: Iterable[Any], identity: Callable[[], TaskIdentity] = spark_task
) -> Iterator[Any]:
    """Rows as Arrow batches to rows of `ENCODED`. A second attempt may run: the rows of one attempt are used."""
    forget_zip_importers()
    task = identity().number
    numbers: defaultdict[TopicPartition, int] = defaultdict(int)
    for partitions, encoded in RowEncoder(target, task).encode(batches):
        rows = []
        for batch in encoded:
            partition = partitions[batch.target]
            rows.append((*partition, route(partition), task, numbers[partition], batch.records, batch.data))
            numbers[partition] += 1
        yield _record_batch(rows, _ENCODED_SCHEMA)


def route(partition: TopicPartition) -> int:
    """A number that brings all batches of a partition to one task; beside each other for the partitions of a topic."""
    return (zlib.crc32(partition.topic.encode()) + partition.number) & 0x7FFF_FFFF


# ---------------------------------------------------------------------------------------------------------- to brokers


def write_rows(
    target: WriteTarget,
    producer: TransactionalProducer,
    batches: Iterable[Any],
    identity: Callable[[], TaskIdentity] = spark_task,
) -> Iterator[Any]:
    """Rows as Arrow batches to the brokers, then the report. No other task has rows of the same target partition."""
    forget_zip_importers()
    task = identity()
    with TaskWriter(target, producer, task) as writer:
        for partitions, encoded in RowEncoder(target, task.number).encode(check_stage(batches)):
            writer.put((partitions[batch.target], batch.records, batch.data) for batch in encoded)
        yield _report(writer.finish())


def write_batches(
    target: WriteTarget,
    producer: TransactionalProducer,
    batches: Iterable[Any],
    identity: Callable[[], TaskIdentity] = spark_task,
) -> Iterator[Any]:
    """Rows of `ENCODED` to the brokers, then the report. Batches of one encoding task keep their order."""
    forget_zip_importers()
    with TaskWriter(target, producer, identity()) as writer:
        order = _Order()
        for batch in check_stage(batches):
            writer.put(order.arrange(_encoded(batch)))
        order.check_complete()
        yield _report(writer.finish())


def check_stage(batches: Iterable[Any]) -> Iterator[Any]:
    """The rows of a task, whose first row has `THREAD`. Raises SecondAttempt in a stage that runs again."""
    for batch in batches:
        # Each task has the name once, but its place in the first rows is Spark's affair
        for name in batch.column(THREAD).drop_null().to_pylist() if THREAD in batch.schema.names else ():
            found = _STAGE_ATTEMPT.search(name)
            if found is not None and int(found[1]) > 0:
                raise SecondAttempt(
                    f"the stage was started again ({name}): tasks of its first run may still write, so this try of "
                    "the batch ends, and the next try begins with a new epoch"
                )
        yield batch


class _Encoded(NamedTuple):
    partition: TopicPartition
    task: int
    number: int
    records: int
    data: Any


def _encoded(batch: Any) -> Iterator[_Encoded]:
    names = ("topic", "partition", "task", "number", "records")
    columns = [batch.column(name).to_pylist() for name in names]
    data = batch.column("data")
    for index, (topic, partition, task, number, records) in enumerate(zip(*columns, strict=True)):
        yield _Encoded(TopicPartition(topic, partition), task, number, records, data[index].as_buffer())


class _Order:
    """Puts the batches of one encoding task for one partition into order; a shuffle promises none, but keeps it."""

    def __init__(self) -> None:
        self._next: defaultdict[tuple[TopicPartition, int], int] = defaultdict(int)
        self._early: dict[tuple[TopicPartition, int, int], tuple[int, bytearray]] = {}

    def arrange(self, found: Iterable[_Encoded]) -> Iterator[tuple[TopicPartition, int, bytearray]]:
        for batch in found:
            source = (batch.partition, batch.task)
            self._early[*source, batch.number] = (batch.records, bytearray(batch.data))
            while (early := self._early.pop((*source, self._next[source]), None)) is not None:
                self._next[source] += 1
                yield (batch.partition, *early)

    def check_complete(self) -> None:
        for partition, task, number in self._early:
            raise SecondAttempt(f"{partition}: batch {number} of task {task} came without the one before")


class TaskWriter:
    """Collects batches to requests, each with at most one batch for a partition, and writes them."""

    def __init__(self, target: WriteTarget, producer: TransactionalProducer, task: TaskIdentity) -> None:
        if task.attempt > 0:
            raise SecondAttempt(
                f"task {task.number} was started again (attempt {task.attempt}): the first attempt may have written, "
                "so this try of the batch ends, and the next try begins with a new epoch"
            )
        self._connection = _connection(target)
        self._writer = TransactionWriter(self._connection, producer)
        self._waiting: dict[TopicPartition, tuple[int, bytearray]] = {}
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def put(self, batches: Iterable[tuple[TopicPartition, int, bytearray]]) -> None:
        """Write partition, number of records and bytes of each batch. Raises SinkFailed, SinkRefused."""
        for partition, records, data in batches:
            if partition in self._waiting or self._size + len(data) > _REQUEST_BYTES:
                self._flush()
            self._waiting[partition] = (records, data)
            self._size += len(data)

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write(self._waiting)
            self._waiting, self._size = {}, 0

    def finish(self) -> Mapping[TopicPartition, int]:
        """Write what is waiting; the number of all records by partition. Raises SinkFailed, SinkRefused."""
        self._flush()
        return self._writer.records


def _report(written: Mapping[TopicPartition, int]) -> Any:
    return _record_batch([(*partition, count) for partition, count in written.items()], _WRITTEN_SCHEMA)


def _record_batch(rows: Sequence[tuple[Any, ...]], schema: Any) -> Any:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = []
    for field, values in zip(schema, columns, strict=True):
        if pa.types.is_integer(field.type):
            arrays.append(integers(np.array(values, f"i{field.type.bit_width // 8}"), field.type))
        else:
            items = [value.encode() if isinstance(value, str) else value for value in values]
            arrays.append(byte_strings(items, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
