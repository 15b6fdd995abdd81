"""A streaming query of Spark as a group: while it runs, after it was killed, and after its checkpoint is gone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compat_tests.harness import apache_kafka, toolchain
from compat_tests.harness.broker import TARGET, Broker, running
from compat_tests.harness.topics import create_topics
from compat_tests.harness.waiting import until
from compat_tests.harness.writing import send
from compat_tests.lag.views import SETTINGS, by_endpoint, document
from compat_tests.spark import jvm
from compat_tests.spark.spark_format import JAR_SETS
from compat_tests.spark.test_positions import command

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.soak,
    pytest.mark.skipif(TARGET != "headgate", reason="the endpoint is Headgate's own"),
]

TOPIC, NAME = "streamed", "orders"
GROUP = f"spark:{NAME}"
SOME = 200
LIMIT_S = 180.0
PROGRAM = """
import sys
from pyspark.sql import SparkSession
bootstrap, topic, checkpoint, jars = sys.argv[1:]
session = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
stream = session.getOrCreate().readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
rows = stream.option("subscribe", topic).option("startingOffsets", "earliest").load()
writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
writer.trigger(processingTime="500 milliseconds").start().awaitTermination()
"""


@contextmanager
def query(broker: Broker, checkpoint: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A query in a process group of its own, killed at the end at the latest."""
    from importlib import metadata

    jar_set = JAR_SETS[metadata.version("pyspark")]
    toolchain.jars(jar_set)
    jars = ",".join(map(str, (apache_kafka.JARS / jar_set).glob("*.jar")))
    typed = [sys.executable, "-c", PROGRAM, broker.bootstrap, TOPIC, str(checkpoint), jars]
    process = subprocess.Popen(typed, env=jvm.environment(), start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def shown(broker: Broker) -> Mapping[str, Any]:
    return next(group for group in document(broker)["groups"] if group["group"] == GROUP)


def is_read(broker: Broker, count: int) -> bool:
    rows = by_endpoint([broker])
    found = [rows.get((GROUP, TOPIC, index)) for index in range(2)]
    ends = sum(row.committed or 0 for row in found if row is not None)
    return ends == count and all(row is not None and row.records == 0 for row in found)


def lag_by_command(broker: Broker, checkpoint: Path) -> dict[int, tuple[int, int]]:
    """The offset and the lag of each partition, by `headgate spark lag`."""
    said = command(broker, "spark", "lag", f"checkpoint:{checkpoint}")
    return {row["partition"]: (row["committed"], row["lag"]) for row in said.rows}


def test_a_query_that_runs_and_is_killed(tmp_path: Path) -> None:
    toolchain.module("pyspark", "pip install pyspark==4.1.1")
    checkpoint = tmp_path / "checkpoint"
    settings = {**SETTINGS, "headgate.spark.checkpoints": f"{NAME}:{checkpoint}"}
    with running(tmp_path / "broker", settings) as broker:
        create_topics(broker.bootstrap, {TOPIC: {}}, 2)
        send(broker.bootstrap, TOPIC, [b"v"] * SOME)
        assert (shown(broker)["lag_records"], shown(broker)["verdict"]) == (None, None), "it has not begun"
        until(lambda: "no checkpoint" in shown(broker)["error"], "the first survey")
        with query(broker, checkpoint) as process:
            until(lambda: is_read(broker, SOME), "the first batch", timeout_s=LIMIT_S)
            send(broker.bootstrap, TOPIC, [b"v"] * SOME)
            until(lambda: is_read(broker, 2 * SOME), "the second batch", timeout_s=LIMIT_S)
            assert (shown(broker)["verdict"], shown(broker)["error"]) == ("OK", None)
            kill(process)
        send(broker.bootstrap, TOPIC, [b"v"] * SOME)
        until(lambda: shown(broker)["lag_records"] == SOME, "the lag of the killed query")
        until(lambda: shown(broker)["verdict"] == "STOP", "the verdict on the killed query")
        rows = by_endpoint([broker])
        found = {index: (rows[GROUP, TOPIC, index].committed, rows[GROUP, TOPIC, index].records) for index in range(2)}
        assert found == lag_by_command(broker, checkpoint)
        assert all((row.seconds or 0) > 0 for place, row in rows.items() if place[0] == GROUP and row.records)
        with query(broker, checkpoint):
            until(lambda: is_read(broker, 3 * SOME), "the query that goes on", timeout_s=LIMIT_S)
        shutil.rmtree(checkpoint)
        until(lambda: shown(broker)["error"] is not None, "the end of the checkpoint")
        assert (shown(broker)["lag_records"], shown(broker)["partitions"]) == (None, [])
