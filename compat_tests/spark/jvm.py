"""The JVMs of Spark in these tests: a start and a small job take 9 s of CPU time in place of 31.

A JVM that lives for a minute does without the second compiler and the verifier (`QUICK_START`: 17 s). An archive of
Spark's classes (JEP 350) spares the JVM reading and parsing them from 300 jars. The first session of a checkout makes
the archive; a JVM ignores an archive of other jars or of another JVM.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Final

from compat_tests.harness.apache_kafka import QUICK_START, ROOT

ARCHIVES: Final = ROOT / "build" / "jvm"
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
    archive = ARCHIVES / f"spark-{metadata.version('pyspark')}.jsa"
    if not archive.exists():
        make(archive)
    return " ".join((*QUICK_START, f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"))


def make(archive: Path) -> None:
    """Make the archive, unless another process does: that one's is for later sessions."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock, contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
            made = Path(scratch) / archive.name
            dumping = " ".join((*QUICK_START, f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable"))
            own = {**os.environ, **LOCAL, "SPARK_SUBMIT_OPTS": dumping}
            subprocess.run([sys.executable, "-c", PROGRAM, scratch], env=own, check=True, timeout=LIMIT_S)
            made.replace(archive)
