"""The JVMs of Spark in these tests: a start and a small job take 9 s of CPU time in place of 31.

A JVM that lives for a minute does without the second compiler and the verifier (`QUICK_START`: 17 s). An archive of
Spark's classes spares the JVM reading and parsing them from 300 jars.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

from compat_tests.harness import class_archive
from compat_tests.harness.apache_kafka import QUICK_START

LIMIT_S: Final = 300
LOCAL: Final = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
# Grouping, Parquet, rows of Python and a stream: most classes that a session needs
PROGRAM: Final = """
import sys
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
session.sparkContext.setLogLevel("OFF")
rows = session.range(1000).selectExpr("id % 7 as key", "cast(id as string) as value")
rows.groupBy("key").count().write.parquet(sys.argv[1] + "/rows")
session.createDataFrame([(1, b"a")], "key long, value binary").join(rows, "key").collect()
stream = session.readStream.schema("key long, count long").parquet(sys.argv[1] + "/rows")
query = stream.writeStream.format("parquet").option("checkpointLocation", sys.argv[1] + "/checkpoint")
query.trigger(availableNow=True).start(sys.argv[1] + "/copy").awaitTermination()
jvm = session.sparkContext._gateway.proc
session.stop()
jvm.stdin.close()
jvm.wait()
"""


def environment() -> dict[str, str]:
    """The environment of a process that starts Spark."""
    quick = " ".join(QUICK_START)
    return {**os.environ, **LOCAL, "SPARK_LAUNCHER_OPTS": quick, "SPARK_SUBMIT_OPTS": options()}


def options() -> str:
    """The options of a driver or an executor."""
    archive = class_archive.options(f"spark-{metadata.version('pyspark')}", work)
    return " ".join((*QUICK_START, *archive))


def work(option: str, scratch: Path) -> None:
    own = {**os.environ, **LOCAL, "SPARK_SUBMIT_OPTS": " ".join((*QUICK_START, option, "-Xlog:disable"))}
    subprocess.run([sys.executable, "-c", PROGRAM, str(scratch)], env=own, check=True, timeout=LIMIT_S)
