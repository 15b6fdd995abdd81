"""A local Spark session with the `kafka` format, and the options of this format.

    from headgate.spark.session import kafka_session, reading, writing

    session = kafka_session()
    session.read.format("kafka").options(**reading("127.0.0.1:9092", "greetings")).load().show()

The connector consists of four jars, which `make jars` puts into build/jars/spark. Unlike `spark.jars.packages`, a
folder of jars needs no repository at run time. The jars match: connector and token provider of Spark 4.0.0, with the
Kafka client that the connector was built with.

Names and defaults: Spark's "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS: Final = Path(__file__).resolve().parent.parent / "build" / "jars" / "spark"

# Measured with records of 100 bytes: 1.1 to 1.6 times as fast as the defaults
TUNED_CONSUMER: Final = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": "16777216",
    "kafka.fetch.min.bytes": "1048576",
}

Positions = Mapping[int, int]


class JarsMissing(Exception):
    """The folder of the connector is empty or missing."""


def connector_jars(folder: Path = JARS) -> str:
    """The jars of the `kafka` format for `spark.jars`: paths separated by commas. Raises JarsMissing."""
    found = sorted(folder.glob("*.jar"))
    if not found:
        raise JarsMissing(f"no jars in {folder}: run `make jars`, or name the folder of Spark's Kafka connector")
    return ",".join(map(str, found))


def session_options(jars: str, cores: int = 2) -> dict[str, str]:
    """The settings of a session on this machine alone, which listens on the loopback address only."""
    return {
        "spark.master": f"local[{cores}]",
        "spark.jars": jars,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores),
    }


def kafka_session(
    name: str = "headgate", *, jars: Path = JARS, cores: int = 2, python: str = sys.executable
) -> SparkSession:
    """The running session, or a new one with the `kafka` format. Workers run `python`. Raises JarsMissing."""
    from pyspark.sql import SparkSession

    options = session_options(connector_jars(jars), cores)
    session = SparkSession.builder.appName(name).config(map=options).getOrCreate()
    # Spark's default is the python3 of the path, which may lack the packages of this interpreter
    session.sparkContext.pythonExec = python
    return session


def reading(
    bootstrap: str,
    topic: str,
    *,
    start: Positions | None = None,
    end: Positions | None = None,
    start_ms: int | None = None,
    end_ms: int | None = None,
) -> dict[str, str]:
    """Options for reading a topic with headers: by default all of it.

    `start`, `end`: partition -> first offset to read, first offset not to read. `start_ms`, `end_ms`: timestamps. If no
    record is so new as `start_ms`, reading starts at the end; Spark by itself would fail the query.
    """
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}
    if start is not None:
        options["startingOffsets"] = positions(topic, start)
    if end is not None:
        options["endingOffsets"] = positions(topic, end)
    if start_ms is not None:
        options["startingTimestamp"] = str(start_ms)
        options["startingOffsetsByTimestampStrategy"] = "latest"
    if end_ms is not None:
        options["endingTimestamp"] = str(end_ms)
    return options


def writing(bootstrap: str, topic: str, codec: str = "none") -> dict[str, str]:
    """Options for writing rows to a topic; columns: key, value, optionally partition and headers."""
    return {
        "kafka.bootstrap.servers": bootstrap,
        "topic": topic,
        "includeHeaders": "true",
        "kafka.compression.type": codec,
    }


def positions(topic: str, offsets: Positions) -> str:
    """The JSON for `startingOffsets` and `endingOffsets`; `offsets`: partition -> offset."""
    return json.dumps({topic: {str(partition): offset for partition, offset in offsets.items()}})
