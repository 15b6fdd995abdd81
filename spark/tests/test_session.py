"""Options are text and told apart from a session, which needs Java, PySpark and the jars: one slow test starts one."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

from headgate.spark.session import (
    JARS,
    TUNED_CONSUMER,
    JarsMissing,
    connector_jars,
    kafka_session,
    reading,
    session_options,
    writing,
)


def test_jars_are_joined_in_order(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar", "notes.txt"):
        (tmp_path / name).touch()
    assert connector_jars(tmp_path) == f"{tmp_path / 'a.jar'},{tmp_path / 'b.jar'}"


def test_no_jars_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(JarsMissing, match="make jars"):
        connector_jars(tmp_path / "nothing")


def test_a_session_stays_on_this_machine() -> None:
    options = session_options("a.jar", cores=3)
    assert options["spark.master"] == "local[3]"
    assert options["spark.jars"] == "a.jar"
    assert options["spark.driver.host"] == options["spark.driver.bindAddress"] == "127.0.0.1"


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


def test_writing_names_topic_and_codec() -> None:
    options = writing("h:1", "t", "zstd")
    assert (options["topic"], options["kafka.compression.type"]) == ("t", "zstd")


def test_tuned_names_go_to_the_consumer() -> None:
    assert all(name.startswith("kafka.") and value.isdigit() for name, value in TUNED_CONSUMER.items())


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # PySpark's, to its JVM
def test_the_jars_have_the_kafka_format() -> None:
    """Columns of the format are known without asking a broker."""
    if not any(JARS.glob("*.jar")) or importlib.util.find_spec("pyspark") is None:
        reason = f"PySpark or the jars in {JARS} are not here: run `make install`"
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    session = kafka_session()
    try:
        frame = session.read.format("kafka").options(**reading("127.0.0.1:1", "t"), **TUNED_CONSUMER).load()
        columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
        assert frame.columns == columns
        assert session.sparkContext.range(1).map(lambda _: sys.executable).collect() == [sys.executable]
    finally:
        session.stop()
