"""Options are text and told apart from a session, which needs Java, PySpark and the jars: one slow test starts one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from headgate.protocol.security.client_security import ClientSecurity
from headgate.spark import session as module
from headgate.spark.jars import JarsMissing
from headgate.spark.option_checks import UnknownOption
from headgate.spark.session import (
    TooFewTaskSlots,
    count_partitions,
    find_jars,
    reading,
    session,
    session_settings,
    trigger,
    writing,
)

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


def test_no_jars_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "installed_pyspark", lambda: "4.1.1")
    with pytest.raises(JarsMissing, match="run `headgate spark jars`"):
        find_jars(["kafka"], tmp_path)
    assert find_jars([], tmp_path) == ""
    monkeypatch.setattr(module, "installed_pyspark", lambda: None)
    with pytest.raises(JarsMissing, match="PySpark is not installed"):
        find_jars(["kafka"])


def test_a_session_stays_on_this_machine() -> None:
    settings = session_settings(["kafka"], "a.jar", cores=3)
    assert settings["spark.master"] == "local[3]"
    assert settings["spark.jars"] == "a.jar"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"


def test_formats_of_tables_have_extensions_and_catalogs() -> None:
    settings = session_settings(["delta", "iceberg"], "")
    assert "spark.jars" not in settings
    assert settings["spark.sql.extensions"].count(",") == 1
    assert settings["spark.sql.catalog.spark_catalog"].endswith("DeltaCatalog")


def test_reading_all_of_a_topic_sets_no_limits() -> None:
    assert reading("h:1", "t") == {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "includeHeaders": "true"}


def test_reading_between_offsets() -> None:
    options = reading("h:1", "t", start={0: 5, 1: -2}, end={0: 9, 1: -1})
    assert json.loads(options["startingOffsets"]) == {"t": {"0": 5, "1": -2}}
    assert json.loads(options["endingOffsets"]) == {"t": {"0": 9, "1": -1}}


def test_reading_between_times() -> None:
    options = reading("h:1", "t", start_ms=1_700_000_000_000, end_ms=1_700_000_000_001)
    assert options["startingTimestamp"] == "1700000000000"
    assert options["endingTimestamp"] == "1700000000001"
    assert options["startingOffsetsByTimestampStrategy"] == "latest"


def test_own_options_replace_ours_in_any_case() -> None:
    assert reading("h:1", "t", options={"INCLUDEHEADERS": "false"})["INCLUDEHEADERS"] == "false"
    assert "includeHeaders" not in reading("h:1", "t", options={"INCLUDEHEADERS": "false"})
    assert "subscribe" not in reading("h:1", "", options={"subscribePattern": "t.*"})


def test_a_misspelt_option_is_refused() -> None:
    with pytest.raises(UnknownOption, match="the nearest is startingOffsets"):
        reading("h:1", "t", options={"startingOffset": "earliest"})
    with pytest.raises(UnknownOption, match="endingTimestamp is for batch, not for stream"):
        reading("h:1", "t", end_ms=5, is_stream=True)
    with pytest.raises(UnknownOption, match=r"the nearest is kafka\.acks"):
        writing("h:1", "t", options={"kafka.ack": "all"})


def test_tuned_values_are_set_on_demand() -> None:
    assert reading("h:1", "t", is_tuned=True)["kafka.max.poll.records"] == "20000"


def test_writing_names_topic_and_codec() -> None:
    options = writing("h:1", "t", "zstd")
    assert (options["topic"], options["kafka.compression.type"]) == ("t", "zstd")


class FakeCluster:
    """Three topics; a context manager as Cluster is."""

    def __init__(self, bootstrap: str, security: ClientSecurity) -> None:
        assert (bootstrap, security.protocol) == ("h:1", "PLAINTEXT")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def topics(self, names: None) -> dict[str, Any]:
        counts = {"orders": 4, "order-lines": 2, "__orders": 50}
        return {
            name: SimpleNamespace(partitions=[None] * count, is_internal=name.startswith("__"))
            for name, count in counts.items()
        }


@pytest.mark.parametrize(
    "options, count",
    [
        ({"subscribe": "orders, order-lines"}, 6),
        ({"SUBSCRIBE": "orders"}, 4),
        ({"subscribePattern": "rder"}, 6),
        ({"assign": '{"orders":[0,1]}'}, 2),
        ({"subscribe": "missing"}, 0),
    ],
)
def test_partitions_of_options(options: dict[str, str], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Cluster", FakeCluster)
    assert count_partitions({"kafka.bootstrap.servers": "h:1", **options}) == count


@pytest.mark.parametrize("name", ["continuous", "realTime"])
def test_such_triggers_need_a_slot_for_each_partition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Cluster", FakeCluster)
    two: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    options = reading("h:1", "orders", is_stream=True)
    wanted: dict[str, Any] = {name: "1 second"}
    with pytest.raises(TooFewTaskSlots, match=rf"{name} needs a task slot for each of 4 partitions, the session has 2"):
        trigger(two, options, **wanted)
    assert trigger(two, options, slots=4, **wanted) == wanted
    assert trigger(two, options, availableNow=True) == {"availableNow": True}


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # PySpark's, to its JVM
def test_the_jars_have_the_kafka_format() -> None:
    """Columns of the format are known without asking a broker. A misspelt setting is refused."""
    try:
        find_jars(["kafka"])
    except JarsMissing as error:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail(f"{error}; or run `make install`", pytrace=False)
        pytest.skip(str(error))
    spark = session(settings={"spark.driver.memory": "1g"})
    try:
        frame = spark.read.format("kafka").options(**reading("127.0.0.1:1", "t", is_tuned=True)).load()
        assert frame.columns == COLUMNS
        assert spark.sparkContext.range(1).map(lambda _: sys.executable).collect() == [sys.executable]
        module.check_settings(spark, ["spark.executor.memory", "spark.hadoop.fs.s3a.endpoint", "spark.master"])
        with pytest.raises(UnknownOption, match=r"the nearest is spark\.executor\.memory$"):
            module.check_settings(spark, ["spark.executor.memmory"])
        with pytest.raises(UnknownOption, match=r"the nearest is spark\.sql\.shuffle\.partitions$"):
            module.check_settings(spark, ["spark.sql.shuffle.partition"])
    finally:
        spark.stop()
