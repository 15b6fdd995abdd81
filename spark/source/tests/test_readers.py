"""Spark's classes without Spark's JVM: what Spark calls on the driver and in tasks, with a topic in memory."""

from __future__ import annotations

import importlib
import pickle
import sys
from types import ModuleType
from typing import Any

import pytest

from headgate.spark.reading.opening import Origin
from headgate.spark.source.tests.fake_log import T0, T1, FakeLog
from headgate.spark.source.tests.test_pushed_filters import pushed
from headgate.tools.output import UsageError

pytest.importorskip("pyspark")
pytestmark = pytest.mark.slow  # the import of PySpark

NEEDED = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> FakeLog:
    """A topic that every reader of this test reads."""
    fake = FakeLog({T0: (0, 40), T1: (0, 7)})
    monkeypatch.setattr(Origin, "open", lambda self: fake)
    monkeypatch.setattr(Origin, "open_in_task", lambda self: fake)
    return fake


def source(**more: str) -> Any:
    """The data source as Spark makes it: found by its package, with names in lower case, and pickled."""
    from pyspark.sql.datasource import CaseInsensitiveDict

    found = importlib.import_module("pyspark_headgate").DefaultSource
    assert found.name() == "headgate"
    return pickle.loads(pickle.dumps(found(options=CaseInsensitiveDict(NEEDED | more))))


def schema(text: str) -> Any:
    from pyspark.sql.types import StructField, StructType, _parse_datatype_json_string

    fields = [part.split() for part in text.split(", ")]
    made = [StructField(name, _parse_datatype_json_string(f'"{kind}"')) for name, kind in fields]
    return StructType(made)


def rows(reader: Any, partitions: Any) -> list[dict[str, Any]]:
    again = pickle.loads(pickle.dumps(reader))
    return [row for partition in partitions for batch in again.read(partition) for row in batch.to_pylist()]


def test_a_batch(log: FakeLog) -> None:
    reader = source(maxRecordsPerPartition="25").reader(schema("partition integer, OFFSET long"))
    partitions = pickle.loads(pickle.dumps(reader.partitions()))
    assert len(partitions) == 3
    expected = [{"partition": number, "OFFSET": n} for number, count in ((0, 40), (1, 7)) for n in range(count)]
    assert rows(reader, partitions) == expected
    assert log.is_closed
    assert list(reader.read(None)) == [], "Spark's partition of a plan without tasks"


def test_a_schema_of_other_columns_or_types_is_refused() -> None:
    with pytest.raises(UsageError, match="the nearest column is offset"):
        source().reader(schema("offsets long"))
    with pytest.raises(UsageError, match="value string; it is binary"):
        source().reader(schema("value string"))
    with pytest.raises(UsageError, match="no column"):
        source().reader(type("Empty", (), {"fields": []})())


def test_a_batch_has_a_start(log: FakeLog) -> None:
    with pytest.raises(UsageError, match="cannot start at latest"):
        source(startingOffsets="latest").reader(schema("offset long")).partitions()


@pytest.fixture
def pushing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that Spark starts for pushed filters, and only then."""
    monkeypatch.setitem(sys.modules, WORKER, ModuleType(WORKER))


@pytest.mark.usefixtures("pushing")
def test_pushed_filters_narrow_the_plan_and_are_evaluated_again(log: FakeLog) -> None:
    reader = source(pushFilters="true").reader(schema("offset long"))
    filters = [pushed("EqualTo", "partition", 0), pushed("GreaterThan", "offset", 35), pushed("EqualTo", "value", b"x")]
    assert reader.pushFilters(filters) == filters
    assert rows(reader, reader.partitions()) == [{"offset": n} for n in range(36, 40)]


def test_a_stream(log: FakeLog) -> None:
    reader = source(maxOffsetsPerTrigger="10", startingOffsets="earliest").streamReader(schema("offset long"))
    end = reader.latestOffset()
    tasks = source().streamReader(schema("offset long"))
    found = rows(tasks, reader.partitions(reader.initialOffset(), end))
    assert [one["offset"] for one in found] == [*range(8), 0]
    reader.stop()
    reader.stop()
    assert log.is_closed


def test_a_stream_has_no_end() -> None:
    with pytest.raises(UsageError, match="endingOffsets is not valid in a stream"):
        source(endingOffsets="latest").streamReader(schema("offset long"))


def test_a_run_that_may_end_early_is_told_once(log: FakeLog, caplog: pytest.LogCaptureFixture) -> None:
    reader = source(maxOffsetsPerTrigger="10", startingOffsets="earliest").streamReader(schema("offset long"))
    for _ in range(2):
        reader.partitions(reader.initialOffset(), reader.latestOffset())
    assert caplog.text.count("available_now") == 1


def test_lost_records_are_logged_where_the_option_allows_them(log: FakeLog, caplog: pytest.LogCaptureFixture) -> None:
    reader = source(startingOffsets='{"t":{"0":50,"1":0}}', failOnDataLoss="false").reader(schema("offset long"))
    assert len(rows(reader, reader.partitions())) == 7
    assert "t-0" in caplog.text
