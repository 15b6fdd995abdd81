"""The calls of Spark 4.2, with stand-ins for its classes where an older Spark is installed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from headgate.spark.reading.log_reader import Bounds
from headgate.spark.reading.opening import Origin
from headgate.spark.source.tests.fake_log import T0, T1, FakeLog

pytest.importorskip("pyspark")
pytestmark = pytest.mark.slow  # the import of PySpark

CLASSES = "pyspark.sql.streaming.datasource"
MODULE = "headgate.spark.source.triggered_stream"
NEEDED = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "startingOffsets": "earliest"}


@dataclass
class Limit:
    rows: int = 0


@pytest.fixture
def classes(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    made: Any = ModuleType(CLASSES)
    for name in ("ReadAllAvailable", "ReadMaxRows", "ReadMinRows"):
        setattr(made, name, type(name, (Limit,), {}))
    made.SupportsTriggerAvailableNow = type("SupportsTriggerAvailableNow", (), {})
    monkeypatch.setitem(sys.modules, CLASSES, made)
    sys.modules.pop(MODULE, None)
    yield made
    sys.modules.pop(MODULE, None)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> FakeLog:
    fake = FakeLog({T0: (0, 40), T1: (0, 7)})
    monkeypatch.setattr(Origin, "open", lambda self: fake)
    return fake


def reader(**more: str) -> Any:
    from pyspark.sql.types import LongType, StructField, StructType

    source = importlib.import_module("headgate.spark.source.data_source").HeadgateDataSource
    return source(NEEDED | more).streamReader(StructType([StructField("offset", LongType())]))


def test_spark_4_1_gets_a_reader_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, CLASSES, None)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    assert type(reader()).__name__ == "StreamReader"


def test_a_run_of_available_now_has_batches_within_its_limit(classes: Any, log: FakeLog) -> None:
    stream = reader(maxOffsetsPerTrigger="20")
    limit = stream.getDefaultReadLimit()
    assert (type(limit).__name__, limit.rows) == ("ReadMaxRows", 20)
    stream.prepareForTriggerAvailableNow()
    log.bounds_now[T0] = Bounds(0, 1000)
    position, batches = stream.initialOffset(), 0
    while (end := stream.latestOffset(position, limit)) != position:
        stream.partitions(position, end)
        position, batches = end, batches + 1
    assert position == {"t": {"0": 40, "1": 7}}, "not what came after the start of the run"
    assert batches == 3
    stream.stop()


def test_a_restart_takes_its_position_from_spark(classes: Any, log: FakeLog) -> None:
    stream = reader(maxOffsetsPerTrigger="20")
    position = {"t": {"0": 30, "1": 7}}
    assert stream.latestOffset(position, stream.getDefaultReadLimit()) == {"t": {"0": 40, "1": 7}}


def test_trigger_once_takes_everything(classes: Any, log: FakeLog) -> None:
    stream = reader(maxOffsetsPerTrigger="20")
    stream.initialOffset()
    assert stream.latestOffset(stream.initialOffset(), classes.ReadAllAvailable())["t"] == {"0": 40, "1": 7}


def test_limits_of_the_options(classes: Any, log: FakeLog) -> None:
    assert type(reader(minOffsetsPerTrigger="5").getDefaultReadLimit()).__name__ == "ReadMinRows"
    assert type(reader().getDefaultReadLimit()).__name__ == "ReadAllAvailable"
