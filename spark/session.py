"""A Spark session for topics, and options of reading and writing that are checked.

    from headgate.spark.session import session, reading, writing

    spark = session()
    spark.read.format("kafka").options(**reading("127.0.0.1:9092", "greetings")).load().show()

A session takes its jars from a folder (`headgate spark jars`, or `make jars`), and asks no repository. Spark ignores a
misspelt option or setting; here each is an error that names the nearest. Names and defaults: Spark's "Structured
Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headgate.spark.jar_sets import CONNECTOR, Jar
from headgate.spark.jars import JarsMissing, default_folder, installed_pyspark, is_right, jar_set
from headgate.spark.option_checks import UnknownOption, check_options, tuned_options
from headgate.spark.option_table import Use
from headgate.spark.security_options import security_of
from headgate.tools.client.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REPOSITORY: Final = Path(__file__).resolve().parent.parent / "build" / "jars"

# Settings of a session that reads or writes a format
FORMAT_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.iceberg": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.iceberg.type": "hadoop",
        "spark.sql.catalog.iceberg.warehouse": "spark-warehouse/iceberg",
    },
}

# Names behind these are the user's own, or of another system
_OPEN_PREFIXES: Final = (
    "spark.connect.",
    "spark.databricks.",
    "spark.driverEnv.",
    "spark.executorEnv.",
    "spark.hadoop.",
    "spark.kafka.",
    "spark.kubernetes.",
    "spark.metrics.conf.",
    "spark.sql.catalog.",
    "spark.sql.hive.",
    "spark.yarn.",
)
# Spark reads these without registering them
_UNREGISTERED: Final = frozenset(
    {"spark.app.id", "spark.app.name", "spark.default.parallelism", "spark.home", "spark.master", "spark.remote"}
)
_NEARLY: Final = 0.85
_LOOPBACK: Final = ("spark.driver.host", "spark.driver.bindAddress")
_SECRETS: Final = r"(?i)secret|password|token|access[.]?key|jaas|keystore[.]key"
"""Spark's own default, with the JAAS line and a private key in an option: plans of streams show options."""

Positions = Mapping[int, int]


class TooFewTaskSlots(ValueError):
    """A trigger that needs a task slot for each partition, and a session with fewer."""


# ------------------------------------------------------------------------------------------------------------- session


def session(
    name: str = "headgate",
    *,
    formats: Iterable[str] = (CONNECTOR,),
    jars: Path | None = None,
    cores: int = 2,
    settings: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> SparkSession:
    """The running session, or a new one on this machine. Raises JarsMissing, UnknownOption.

    `formats`: those that need jars: kafka, avro, delta, iceberg; the format headgate needs none. `jars`: their folder;
    by default the one of `headgate spark jars`. `settings`: Spark's own, which replace ours. Workers run `python`, or
    `spark.pyspark.python` of the settings.
    """
    wanted = list(dict.fromkeys(formats))
    given = {**session_settings(wanted, find_jars(wanted, jars), cores), **(settings or {})}
    if not given["spark.master"].startswith("local"):  # executors dial the driver
        given = {name: value for name, value in given.items() if name not in _LOOPBACK or name in (settings or {})}
    worker = given.setdefault("spark.pyspark.python", python)
    # Spark looks for data sources, plans their reads, and runs their tasks by this variable, not by the setting
    os.environ.setdefault("PYSPARK_PYTHON", worker if Path(worker).exists() else python)
    from pyspark.sql import SparkSession

    started = SparkSession.builder.appName(name).config(map=given).getOrCreate()
    try:
        check_settings(started, settings or {})
    except UnknownOption:
        started.stop()
        raise
    started.sparkContext.pythonExec = worker
    return started


def session_settings(formats: Iterable[str], jars: str, cores: int = 2) -> dict[str, str]:
    """The settings of a session on this machine alone, which listens on the loopback address only."""
    settings = {
        "spark.master": f"local[{cores}]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.redaction.regex": _SECRETS,
    }
    if jars:
        settings["spark.jars"] = jars
    for name in formats:
        for setting, value in FORMAT_SETTINGS.get(name, {}).items():
            both = setting == "spark.sql.extensions" and setting in settings
            settings[setting] = f"{settings[setting]},{value}" if both else value
    return settings


def find_jars(formats: Iterable[str], folder: Path | None = None) -> str:
    """The value of `spark.jars` for these formats. Raises JarsMissing."""
    wanted = list(formats)
    if not wanted:
        return ""
    spark = installed_pyspark()
    if spark is None:
        raise JarsMissing("PySpark is not installed: pip install 'headgate[spark]'")
    known = jar_set(spark, [name for name in wanted if name != CONNECTOR])
    needed = known if CONNECTOR in wanted else known[len(jar_set(spark)) :]
    folders = (
        [folder] if folder else [default_folder(spark, os.environ), _REPOSITORY / "spark", _REPOSITORY / "sparkformats"]
    )
    return ",".join(str(_find_jar(jar, folders)) for jar in needed)


def _find_jar(jar: Jar, folders: Iterable[Path]) -> Path:
    for folder in folders:
        if is_right(jar, folder / jar.file):
            return folder / jar.file
    raise JarsMissing(
        f"there is no whole {jar.file}: run `headgate spark jars`, with its --with for avro, delta, iceberg"
    )


def check_settings(session: SparkSession, names: Iterable[str]) -> None:
    """Raise UnknownOption for a setting that this Spark has not registered, and that is nearly one that it has.

    Some modules register their settings when they are first used, so a name that is near to none may be right.
    """
    package = session.sparkContext._jvm.org.apache.spark.internal.config  # noqa: SLF001
    registry = getattr(getattr(package, "ConfigEntry$"), "MODULE$")
    for name in names:
        if name in _UNREGISTERED or name.startswith(_OPEN_PREFIXES) or registry.findEntry(name) is not None:
            continue
        known = [str(name) for name in registry.knownConfigs().keySet()]
        near = get_close_matches(name, known, n=1, cutoff=_NEARLY)
        if near:
            raise UnknownOption(f"Spark has no setting {name}; the nearest is {near[0]}")


# -------------------------------------------------------------------------------------------------- reading and writing


def reading(
    bootstrap: str,
    topic: str,
    *,
    start: Positions | None = None,
    end: Positions | None = None,
    start_ms: int | None = None,
    end_ms: int | None = None,
    options: Mapping[str, str] | None = None,
    format_name: str = CONNECTOR,
    is_stream: bool = False,
    is_tuned: bool = False,
) -> dict[str, str]:
    """Options for reading a topic with headers: by default all of it. Raises UnknownOption.

    `start`, `end`: partition -> first offset to read, first offset not to read. `start_ms`, `end_ms`: timestamps. If no
    record is so new as `start_ms`, reading starts at the end; Spark by itself would fail the query. `options`: further
    ones of the format, by Spark's names.
    """
    use = Use.STREAM if is_stream else Use.BATCH
    chosen = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}
    if is_tuned:
        chosen |= tuned_options(format_name, use)
    if start is not None:
        chosen["startingOffsets"] = positions(topic, start)
    if end is not None:
        chosen["endingOffsets"] = positions(topic, end)
    if start_ms is not None:
        chosen["startingTimestamp"] = str(start_ms)
        chosen["startingOffsetsByTimestampStrategy"] = "latest"
    if end_ms is not None:
        chosen["endingTimestamp"] = str(end_ms)
    return _checked(format_name, use, chosen, options)


def writing(
    bootstrap: str,
    topic: str,
    codec: str = "none",
    *,
    options: Mapping[str, str] | None = None,
    format_name: str = CONNECTOR,
) -> dict[str, str]:
    """Options for writing rows with key, value, optionally partition and headers to a topic. Raises UnknownOption."""
    chosen = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": topic,
        "includeHeaders": "true",
        "kafka.compression.type": codec,
    }
    return _checked(format_name, Use.WRITE, chosen, options)


def _checked(format_name: str, use: Use, chosen: dict[str, str], options: Mapping[str, str] | None) -> dict[str, str]:
    """Ours and the user's options, which replace ours also where they are spelt in another case."""
    given = options or {}
    replaced = {name.lower() for name in given}
    if replaced & {"subscribepattern", "assign"}:
        replaced.add("subscribe")
    merged = {name: value for name, value in chosen.items() if name.lower() not in replaced} | dict(given)
    check_options(format_name, use, merged)
    return merged


def positions(topic: str, offsets: Positions) -> str:
    """The JSON for `startingOffsets` and `endingOffsets`; `offsets`: partition -> offset."""
    return json.dumps({topic: {str(partition): offset for partition, offset in offsets.items()}})


# ------------------------------------------------------------------------------------------------------------- triggers


def trigger(
    session: SparkSession,
    options: Mapping[str, str],
    *,
    slots: int | None = None,
    **trigger: Any,
) -> dict[str, Any]:
    """Arguments of `DataStreamWriter.trigger`, after a look at the task slots. Raises TooFewTaskSlots, ClientError.

    `continuous` and `realTime` run one task for each partition at the same time. With fewer slots Spark reads some
    partitions only, silently. `slots`: by default the session's; name them over Spark Connect.
    """
    if not {"continuous", "realTime"}.isdisjoint(trigger):
        there = int(session.sparkContext.defaultParallelism) if slots is None else slots
        needed = count_partitions(options)
        if there < needed:
            raise TooFewTaskSlots(
                f"the trigger {next(iter(trigger))} needs a task slot for each of {needed} partitions, the session has "
                f"{there}: Spark would read {there} of them only. Start it with more cores, or use processingTime"
            )
    return trigger


def count_partitions(options: Mapping[str, str]) -> int:
    """The number of partitions that these options of a reader name. Raises ClientError."""
    given = {name.lower(): value for name, value in options.items()}
    if "assign" in given:
        return sum(len(numbers) for numbers in json.loads(given["assign"]).values())
    with Cluster(given["kafka.bootstrap.servers"], security=security_of(given)) as cluster:
        topics = cluster.topics(None)
    if "subscribepattern" in given:
        pattern = re.compile(given["subscribepattern"])
        wanted = {name for name, topic in topics.items() if pattern.search(name) and not topic.is_internal}
    else:
        wanted = {name.strip() for name in given.get("subscribe", "").split(",")}
    return sum(len(topic.partitions) for name, topic in topics.items() if name in wanted)
