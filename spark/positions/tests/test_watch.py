"""Bars that follow readers: rates between looks, one scale, JSON lines without a terminal."""

from __future__ import annotations

import argparse
import json

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.positions.lag import ReaderLag, summarize
from headgate.spark.positions.locations import OffsetLocation
from headgate.spark.positions.watch import MEASUREMENTS, LagMeasurement, draw, run, to_measurement, with_measured_rates
from headgate.tools.groups.lag import PartitionLag
from headgate.tools.groups.offsets import OffsetAndMetadata
from headgate.tools.tests.model_cluster import Clock, ModelCluster, ModelGroup, opened

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def lag(partition: TopicPartition, offset: int, end: int | None, status: str = "ok") -> ReaderLag:
    records = None if end is None else end - offset
    row = PartitionLag("g", partition, OffsetAndMetadata(offset), 0, end, records, 1.5, status, 0, None)
    return ReaderLag(row, None, None)


def test_rates_between_looks() -> None:
    rows = [lag(T0, 60, 100), lag(T1, 10, 10)]
    looks = [LagMeasurement(10.0, {("g", T0): 20}, {T0: 80}), to_measurement(rows, 12.0)]
    rated = with_measured_rates(rows, looks)
    assert [(one.rate, one.seconds_left) for one in rated] == [(20.0, 4.0), (None, 0.0)]
    assert with_measured_rates(rows, looks[1:]) == rows


def test_a_reader_that_stands_still_has_no_end_in_sight() -> None:
    rows = [lag(T0, 60, 100)._replace(rate=20.0, seconds_left=2.0), lag(T1, 10, 10)._replace(rate=20.0)]
    looks = [to_measurement(rows, 2.0 * number) for number in range(MEASUREMENTS)]
    (waiting, _) = with_measured_rates(rows, looks[:-1])
    assert (waiting.rate, waiting.seconds_left) == (20.0, 2.0), "its batch may be long"
    still = with_measured_rates(rows, looks)
    assert [(one.rate, one.seconds_left) for one in still] == [(0.0, None), (0.0, 0.0)]
    assert "0 records/s, no end in sight" in summarize(still)[0]
    assert "40 records, 1.5 s, 0/s" in draw(still, {})[0]


def test_bars_have_one_scale() -> None:
    rows = [lag(T1, 75, 100)._replace(rate=5.0, seconds_left=5.0), lag(T0, 0, 100), lag(T1, 5, None, "unknown")]
    assert draw(rows, {("g", T0): 100}) == [
        "g t-0  [########################]           100 records, 1.5 s",
        "g t-1  [######..................]            25 records, 1.5 s, 5/s, 5 s left",
        "g t-1  [????????????????????????] unknown",
    ]
    assert draw([lag(T0, 1, 1, "below the start")], {}) == [
        f"g t-0  [{'.' * 24}]             0 records, 1.5 s, below the start"
    ]
    assert draw([], {}) == []
    assert draw([lag(TopicPartition("t", one), 0, 1) for one in range(30)], {})[-1] == "and 6 partitions with less"


@pytest.mark.parametrize("form", ["json", "table"])
def test_a_watch_until_it_is_interrupted(model: ModelCluster, capsys: pytest.CaptureFixture[str], form: str) -> None:
    model.groups["g"] = ModelGroup(offsets={("t", 0): (2, 0, "")})
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        offset, _, _ = model.groups["g"].offsets["t", 0]
        if offset == 6:
            raise KeyboardInterrupt
        model.groups["g"].offsets["t", 0] = (offset + 2, 0, "")

    options = argparse.Namespace(
        places=[OffsetLocation("group", "g")],
        topic={},
        group="",
        isolation_level=0,
        watch=2.0,
        json=form == "json",
        table=form == "table",
        fail_above=3,
        fail_above_seconds=None,
    )
    with opened() as cluster:
        result = run(lambda: cluster, options, clock, sleep)
    assert result.is_alarm, "the limits of the last look"
    out = capsys.readouterr().out
    if form == "json":
        rows = [json.loads(line) for line in out.splitlines()]
        assert [(row["lag"], row["rate"]) for row in rows] == [(8, None), (6, 1.0), (4, 1.0)]
    else:
        assert out.count("\x1b[2A") == 2, "one bar and one sentence are drawn over"
        assert "4 s left" in out
