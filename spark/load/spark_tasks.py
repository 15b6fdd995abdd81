"""The functions that run in Spark's Python workers: a row with a number -> the range with this number.

Where Spark decodes the values, a task has two halves: one reads rows, the other writes decoded rows. Beside the rows
goes a control column: a row with the number of the range before its first row, and one with its gaps after the last.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headgate.spark.load.formats.decoding import BYTES, ERROR, NO_KEY
from headgate.spark.load.formats.protobuf_values import python_decoder
from headgate.spark.load.task import Attempt, LoadJob, load_range, new_finder, read_range
from headgate.spark.reading.log_reader import OffsetRange
from headgate.spark.records.columns import SCHEMA
from headgate.spark.zip_importers import forget_zip_importers
from headgate.tools.log.offset_gaps import Gap

CONTROL = "_control"
ROWS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    f"headers array<struct<key: string, value: binary>>, {CONTROL} string"
)
_CONTROL_FIELD = pa.field(CONTROL, pa.string())
_NO_ROWS = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in SCHEMA], schema=SCHEMA)
_TIME = pa.timestamp("us", tz="UTC")

Function: TypeAlias = Callable[[Iterator[Any]], Iterator[Any]]
NumberedRanges: TypeAlias = Sequence[tuple[int, OffsetRange]]


def loading_function(job: LoadJob, ranges: NumberedRanges) -> Function:
    """Load whole ranges."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        forget_zip_importers()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                load_range(job, *ranges[number])
            yield batch

    return run


def row_schema(job: LoadJob) -> Any:
    """The rows of the first half for Spark: as DDL, or as a type where the task itself decodes the values."""
    decode = _in_task(job)
    if decode is None:
        return ROWS
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(decode(_NO_ROWS).schema.append(_CONTROL_FIELD))


def reading_function(job: LoadJob, ranges: NumberedRanges) -> Function:
    """The first half: numbers of ranges -> rows with control rows around them."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        forget_zip_importers()
        decode = _in_task(job)
        schema = (_NO_ROWS if decode is None else decode(_NO_ROWS)).schema.append(_CONTROL_FIELD)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                wanted = ranges[number][1]
                finder = new_finder(job, wanted)
                yield _control_row(schema, {"number": number})
                for read in read_range(job, wanted, finder):
                    rows = read if decode is None else decode(read)
                    nothing = pa.nulls(rows.num_rows, pa.string())
                    yield pa.RecordBatch.from_arrays([*rows.columns, nothing], schema=schema)
                yield _control_row(schema, {"rows": finder.rows, "gaps": finder.gaps})

    return run


def _in_task(job: LoadJob) -> Callable[[Any], Any] | None:
    """Decodes rows in the task. Only Protobuf is decoded here; None for raw values, and if Spark decodes."""
    decode = None if job.decoding.needs_spark else python_decoder(job.decoding)
    if decode is None or not job.needs_key:
        return decode
    return lambda rows: mark_keyless(decode(rows), rows.column("value"))


def mark_keyless(rows: Any, contents: Any) -> Any:
    """Decoded rows; those without a key have an error. `contents`: the bytes of the values."""
    is_keyless = pc.is_null(rows.column("key"))
    for name, new in ((ERROR, pa.scalar(NO_KEY)), (BYTES, contents)):
        place = rows.schema.get_field_index(name)
        marked = pc.if_else(is_keyless, new, rows.column(place))
        rows = rows.set_column(place, rows.schema.field(place), marked)
    return rows


def writing_function(job: LoadJob, ranges: NumberedRanges) -> Function:
    """The second half: rows -> files and results; a row with its number for each range."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for number, rows in _attempts(job, ranges, batches, keeps_rows=True):
            if rows is None:
                yield number_row(number)

    return run


def passing_function(job: LoadJob, ranges: NumberedRanges) -> Function:
    """The second half for tables: rows -> rows that decoded, and results without files."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for _, rows in _attempts(job, ranges, batches, keeps_rows=False):
            if rows is not None:
                yield rows

    return run


def _attempts(
    job: LoadJob, ranges: NumberedRanges, batches: Iterator[Any], *, keeps_rows: bool
) -> Iterator[tuple[int, Any]]:
    """The number of a range with rows of it; with None when its result is recorded."""
    forget_zip_importers()
    attempt: Attempt | None = None
    number = -1
    try:
        for part in _parts(batches):
            if isinstance(part, dict) and "number" in part:
                number = part["number"]
                attempt = Attempt(job, *ranges[number], keeps_rows=keeps_rows)
                continue
            assert attempt is not None, "a control row comes before the rows of a range"
            if isinstance(part, dict):
                attempt.finish(part["rows"], [Gap(*gap) for gap in part["gaps"]])
                yield number, None
            else:
                yield number, attempt.write(part)
    except Exception:
        if attempt is not None:
            attempt.abandon()
        raise


def _control_row(schema: Any, content: dict[str, Any]) -> Any:
    columns = [pa.nulls(1, field.type) for field in schema][:-1]
    text = json.dumps(content).encode()
    buffers = [None, pa.py_buffer(struct.pack("=ii", 0, len(text))), pa.py_buffer(text)]
    return pa.RecordBatch.from_arrays([*columns, pa.Array.from_buffers(pa.string(), 1, buffers)], schema=schema)


def number_row(number: int) -> Any:
    """A row with one number. `pa.array` imports pandas, for a second, so the arrays of a task are made of buffers."""
    column = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(struct.pack("=q", number))])
    return pa.RecordBatch.from_arrays([column], ["id"])


def _parts(batches: Iterator[Any]) -> Iterator[Any]:
    """Rows without the control column, and the contents of control rows, in order."""
    for batch in batches:
        control = batch.column(CONTROL)
        rows = _with_utc(batch.drop_columns([CONTROL]))
        start = 0
        for place in pc.indices_nonzero(control.is_valid()).to_pylist():
            if place > start:
                yield rows.slice(start, place - start)
            yield json.loads(control[place].as_py())
            start = place + 1
        if start < batch.num_rows:
            yield rows.slice(start)


def _with_utc(batch: Any) -> Any:
    """Spark hands out times in the session's time zone; the files have all of them in UTC."""
    place = batch.schema.get_field_index("timestamp")
    return batch.set_column(place, pa.field("timestamp", _TIME), batch.column(place).cast(_TIME))
