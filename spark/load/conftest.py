"""One Spark session for the tests of loads that need a real one; only `make soak` runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from headgate.spark.load.runners import SparkRunner


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRunner]:
    pytest.importorskip("pyspark")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--driver-memory 1g pyspark-shell"
    started = SparkRunner.start("local[2]", ["avro", "delta", "iceberg"])
    warehouse = tmp_path_factory.mktemp("warehouse")
    started.session.conf.set("spark.sql.catalog.iceberg.warehouse", str(warehouse))
    yield started
    started.close()
