"""The data source as Spark finds it: its columns, its readers and its writers."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.spark.source.tests.test_readers import pushing, schema, source
from headgate.tools.output import UsageError

__all__ = ["pushing"]

pytest.importorskip("pyspark")
pytestmark = pytest.mark.slow  # the import of PySpark


def test_columns_are_those_of_kafka() -> None:
    assert [one.split()[0] for one in source().schema().split(", ")] == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]
    assert source(includeHeaders="true").schema().endswith("headers array<struct<key:string,value:binary>>")


def test_wrong_options_fail_the_schema_already() -> None:
    with pytest.raises(UsageError, match="nearest name is minPartitions"):
        source(minPartition="3").schema()


def takes_filters(reader: Any) -> bool:
    """What Spark asks: it refuses a reader with a method of its own where push-down is off."""
    from pyspark.sql.datasource import DataSourceReader

    return reader.pushFilters.__func__ is not DataSourceReader.pushFilters


def test_a_stock_session_gets_a_reader_without_filters() -> None:
    assert not takes_filters(source(pushFilters="true").reader(schema("offset long")))


@pytest.mark.usefixtures("pushing")
def test_filters_are_taken_only_where_the_option_says_so() -> None:
    """Spark 4.1 loses rows of other queries over the same load."""
    assert not takes_filters(source().reader(schema("offset long")))
    assert takes_filters(source(pushFilters="true").reader(schema("offset long")))


def test_a_topic_is_only_appended_to() -> None:
    for write in (source().writer, source().streamWriter):
        with pytest.raises(UsageError, match="append"):
            write(schema("value binary"), overwrite=True)
