"""The format `headgate` as a Python Data Source of Spark: the classes that Spark finds and calls.

Spark imports this module in each of its Python processes on the driver, of every session on this machine, to find out
that there is a format of this name. So other modules of ours are imported where they are used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from headgate.spark.source.readers import (
    COLUMN_TYPES,
    BatchReader,
    FilteringBatchReader,
    StreamReader,
    parse,
    usage_error,
)
from headgate.spark.zip_importers import forget_zip_importers

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT: Final = "headgate"
_PUSH_DOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class HeadgateDataSource(DataSource):
    """The format `headgate`. Spark makes it with the options of the query, names in any case."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        forget_zip_importers()

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        """The columns of the `kafka` format. Raises UsageError for wrong options, so `load()` fails with them."""
        has_headers = parse(self.options).has_headers
        return ", ".join(f"{name} {kind}" for name, kind in COLUMN_TYPES.items() if has_headers or name != "headers")

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch. It takes filters only where Spark pushes them: elsewhere Spark would refuse it.

        Only with the option `pushFilters`: Spark 4.1 keeps the plan of the last pushed filter for all queries over the
        same `load()`, and these lose rows.
        """
        is_filtering = parse(self.options).takes_filters and _PUSH_DOWN_WORKER in sys.modules
        return (FilteringBatchReader if is_filtering else BatchReader)(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """The reader of a stream; since Spark 4.2 one that knows the trigger."""
        try:
            from headgate.spark.source.triggered_stream import TriggeredStreamReader
        except ImportError:  # Spark 4.1
            return StreamReader(self.options, schema)
        return TriggeredStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """The writer of a batch: one transaction."""
        from headgate.spark.sink.writer import batch_writer

        _refuse_overwrite(overwrite)
        return batch_writer(dict(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        """The writer of a stream: one transaction a batch."""
        from headgate.spark.sink.writer import stream_writer

        _refuse_overwrite(overwrite)
        return stream_writer(dict(self.options), schema)


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise usage_error('a topic is only appended to: use mode("append")')
