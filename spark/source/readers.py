"""The readers of the format `headgate`, as Spark calls them: of a batch, with or without pushed filters; of a stream.

Spark imports this module in Python processes on the driver and in tasks: other modules of ours are imported where they
are used.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from headgate.spark.zip_importers import forget_zip_importers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from headgate.spark.reading.opening import Origin
    from headgate.spark.source.options import ReadOptions
    from headgate.spark.source.planning import RangeTask
    from headgate.spark.source.pushed_filters import NumberRange
    from headgate.spark.source.stream_planning import StreamPlan

LOG: Final = logging.getLogger(__name__)

COLUMN_TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}


def parse(values: Mapping[str, str]) -> ReadOptions:
    """The options of a read. Raises UsageError."""
    from headgate.spark.source import options

    return options.parse(values)


def usage_error(text: str) -> Exception:
    from headgate.tools.output import UsageError

    return UsageError(text)


def column_names(schema: StructType) -> list[tuple[str, str]]:
    """(our column, the name in the schema) for each column of a schema. Raises UsageError for another column or type.

    A schema given by the user selects columns: Spark 4.1 does not give a Python source the columns that a query needs.
    """
    ours = {name.lower(): name for name in COLUMN_TYPES}
    found = []
    for field in schema.fields:
        name = ours.get(field.name.lower())
        if name is None:
            from difflib import get_close_matches

            near = get_close_matches(field.name.lower(), ours, n=1, cutoff=0.0)
            raise usage_error(f"the schema has a column {field.name}; the nearest column is {ours[near[0]]}")
        kind = field.dataType.simpleString()
        if kind != COLUMN_TYPES[name]:
            raise usage_error(f"the schema has {field.name} {kind}; it is {COLUMN_TYPES[name]}: cast it in the query")
        found.append((name, field.name))
    if not found:
        raise usage_error(f"the schema has no column; there are {', '.join(COLUMN_TYPES)}")
    return found


class RangePartition(InputPartition):
    """One task as Spark carries it to a worker."""

    def __init__(self, task: RangeTask) -> None:
        self.task = task


class _RangeReader:
    """What readers of batches and of streams share: the options, the columns, and a task's rows."""

    def __init__(self, values: Mapping[str, str], schema: StructType) -> None:
        forget_zip_importers()
        self.options = parse(values)
        self._columns = column_names(schema)
        self._times: NumberRange | None = None

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one task. Spark gives None if the plan has no task."""
        from contextlib import closing

        from headgate.spark.source.range_reading import read_range

        forget_zip_importers()
        if not isinstance(partition, RangePartition):
            return
        task, names = partition.task, [name for name, _ in self._columns]
        ids = {task.wanted.partition.topic: task.topic_id} if task.topic_id else {}
        with closing(origin(self.options, self.options.task_timeout_ms, ids).open_in_task()) as reader:
            for rows in read_range(reader, task, names, self.options.isolation, self._report, self._times):
                yield rows.rename_columns([name for _, name in self._columns])

    def _report(self, text: str) -> None:
        """Fail the query for lost records, or log them."""
        from headgate.spark.source.planning import DataLost

        if self.options.fails_on_data_loss:
            raise DataLost(text)
        LOG.warning("%s", text)


class BatchReader(_RangeReader, DataSourceReader):
    """The reader of a batch: Spark pickles it after `partitions` and calls `read` in tasks."""

    def partitions(self) -> list[RangePartition]:
        from contextlib import closing

        from headgate.spark.source.options import check_batch
        from headgate.spark.source.planning import plan_batch
        from headgate.spark.source.pushed_filters import PushedFilters

        check_batch(self.options)
        filters = getattr(self, "_filters", PushedFilters())
        with closing(origin(self.options, self.options.driver_timeout_ms).open()) as reader:
            return [RangePartition(task) for task in plan_batch(reader, self.options, filters, self._report)]


class FilteringBatchReader(BatchReader):
    """The reader of a batch where Spark pushes filters (`spark.sql.python.filterPushdown.enabled`)."""

    def pushFilters(self, filters: Sequence[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Note which partitions, offsets and times can match. Spark evaluates all filters again."""
        from headgate.spark.source.pushed_filters import from_spark

        self._filters = from_spark(filters)
        self._times = self._filters.times_ms()
        return filters


class StreamReader(_RangeReader, DataSourceStreamReader):
    """The reader of a stream: one process on the driver plans batches until the query stops; tasks read ranges."""

    def __init__(self, values: Mapping[str, str], schema: StructType) -> None:
        from headgate.spark.source.options import check_stream

        super().__init__(values, schema)
        check_stream(values)
        self._plan: StreamPlan | None = None
        self._has_warned = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self.planned().initial()

    def latestOffset(self) -> Mapping[str, Any]:  # noqa: N802 - Spark's name
        """The end of the next batch. Warns once of a limit: Spark 4.1 may ask for no other batch."""
        end = self.planned().latest()
        if self.planned().is_cut_short and not self._has_warned:
            self._has_warned = True
            LOG.warning(
                "maxOffsetsPerTrigger leaves records for a second batch; with the trigger AvailableNow, Spark 4.1 ends "
                "the run after the first: headgate.spark.source.available_now.run() repeats runs until nothing is left"
            )
        return end

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[RangePartition]:
        return [RangePartition(task) for task in self.planned().plan(start, end)]

    def stop(self) -> None:
        """Close connections. Spark 4.1 may end the process instead."""
        if self._plan is not None:
            self._plan.close()
            self._plan = None

    def planned(self) -> StreamPlan:
        """The plan, made at the first question."""
        if self._plan is None:
            from headgate.spark.source.stream_planning import StreamPlan

            reader = origin(self.options, self.options.driver_timeout_ms).open()
            self._plan = StreamPlan(reader, self.options, self._report, time.monotonic, time.sleep)
        return self._plan


def origin(options: ReadOptions, timeout_ms: int, topic_ids: Mapping[str, bytes] | None = None) -> Origin:
    """Where the topics of a query are, and how long to wait for them."""
    from headgate.spark.reading.opening import Origin

    return Origin(
        bootstrap=options.bootstrap,
        log_directories=tuple(options.log_directories),
        topic_ids=topic_ids or {},
        wire_settings={
            "timeout_s": timeout_ms / 1000,
            "partition_bytes": options.partition_bytes,
            "max_wait_ms": options.max_wait_ms,
        },
        security=options.security,
    )
