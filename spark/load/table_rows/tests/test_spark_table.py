"""Tables of Delta and Iceberg whose rows are lost, doubled and foreign; in one real Spark session, by `make soak`."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.spark.load.loading import LoadRequest, load
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.output.planning import LoadRefused
from headgate.spark.load.output.tables import TableName
from headgate.spark.load.runners import SparkRunner
from headgate.spark.load.table_rows.spark_table import SparkTableRows
from headgate.spark.load.tests.model_log import TOPIC, ModelLog
from headgate.spark.load.tests.test_loading import Listener
from headgate.spark.load.tests.test_tables import in_spark, request_for
from headgate.spark.load.verification import verify


def findings(output: OutputFolder, runner: SparkRunner) -> list[str]:
    return [one.text for one in verify(output, lambda name: SparkTableRows(name.open(runner.session).rows()))[1]]


def sql_name(request: LoadRequest) -> str:
    return f"delta.`{request.table}`" if request.into == "delta" else request.table


@pytest.mark.parametrize("kind", [pytest.param(one, marks=in_spark) for one in ("delta", "iceberg")])
def test_lost_doubled_and_foreign_rows_are_named(runner: SparkRunner, tmp_path: Path, kind: str) -> None:
    log, request = ModelLog.random(3), request_for(kind, tmp_path)
    output, table = OutputFolder(tmp_path / "state"), sql_name(request)
    load(request, log, output, runner, Listener())
    assert findings(output, runner) == []
    rows = runner.session.sql(f"SELECT * FROM {table}")
    first, last = sorted(log.partitions[0].committed)[2:4]
    whole = rows.localCheckpoint()
    doubled = max(log.partitions[1].committed)

    def append(condition: str, topic: str) -> None:
        from pyspark.sql.functions import lit

        runner.session.conf.unset("spark.wap.id")
        more = whole.where(condition).withColumn("topic", lit(topic))
        more.createOrReplaceTempView("more")
        runner.session.sql(f"INSERT INTO {table} SELECT * FROM more")

    runner.session.sql(f"DELETE FROM {table} WHERE partition = 0 AND offset IN ({first}, {last})")
    append(f"partition = 1 AND offset = {doubled}", TOPIC)
    append(f"partition = 1 AND offset = {doubled}", "foreign")
    lost, twice, other = findings(output, runner)
    assert f"{TOPIC}-0 from {first} to {last}: 2 rows are lost" in lost
    assert f"{TOPIC}-1 from {doubled} to {doubled}: 1 offsets have more than one row" in twice
    assert f"foreign-1 from {doubled} to {doubled}: 1 offsets have a row that no load has written" in other


@pytest.mark.parametrize("kind", [pytest.param(one, marks=in_spark) for one in ("delta", "iceberg")])
def test_a_table_that_is_gone_is_refused(runner: SparkRunner, tmp_path: Path, kind: str) -> None:
    with pytest.raises(LoadRefused, match="there is no table"):
        TableName(kind, request_for(kind, tmp_path).table, "1").open(runner.session).rows()
