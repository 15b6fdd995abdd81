"""The tables of options: names in any case, the nearest for a misspelt one, one use is told from another."""

from __future__ import annotations

import json

import pytest

from headgate.spark.option_checks import (
    FORMATS,
    UnknownOption,
    check_options,
    format_options,
    known_names,
    main,
    tuned_options,
)
from headgate.spark.option_table import KAFKA_REFUSED, Use


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("use", Use)
def test_every_option_of_the_table_is_accepted(format_name: str, use: Use) -> None:
    names = [one.name for one in format_options(format_name) if use in one.uses]
    check_options(format_name, use, names)
    check_options(format_name, use, [name.upper() for name in names])


@pytest.mark.parametrize(
    "use, name, nearest",
    [
        (Use.BATCH, "startingOffset", "startingOffsets"),
        (Use.STREAM, "maxOffsetPerTriger", "maxOffsetsPerTrigger"),
        (Use.BATCH, "kafka.isolation.levl", "kafka.isolation.level"),
        (Use.WRITE, "kafka.compresion.type", "kafka.compression.type"),
        (Use.WRITE, "topics", "topic"),
        (Use.BATCH, "xyz", "`headgate spark options kafka` lists all"),
    ],
)
def test_the_error_for_a_misspelt_name_has_the_nearest(use: Use, name: str, nearest: str) -> None:
    with pytest.raises(UnknownOption, match=nearest):
        check_options("kafka", use, ["kafka.bootstrap.servers", name])


def test_an_option_of_another_use_says_so() -> None:
    with pytest.raises(UnknownOption, match="endingOffsets is for batch, not for stream"):
        check_options("kafka", Use.STREAM, ["endingOffsets"])
    with pytest.raises(UnknownOption, match=r"kafka\.acks is for write, not for batch"):
        check_options("kafka", Use.BATCH, ["kafka.acks"])


@pytest.mark.parametrize("name", KAFKA_REFUSED)
def test_what_the_connector_refuses_has_a_cure(name: str) -> None:
    with pytest.raises(UnknownOption, match="refuses the option"):
        check_options("kafka", Use.BATCH, [name])


def test_a_class_of_ones_own_reads_settings_of_any_name() -> None:
    with pytest.raises(UnknownOption):
        check_options("kafka", Use.WRITE, ["kafka.my.partitions"])
    check_options("kafka", Use.WRITE, ["kafka.my.partitions", "kafka.partitioner.class"])


def test_tuned_values_are_those_of_consumers() -> None:
    tuned = tuned_options("kafka", Use.BATCH)
    assert tuned["kafka.max.poll.records"] == "20000"
    assert len(tuned) == 3
    assert not tuned_options("kafka", Use.WRITE)
    check_options("kafka", Use.STREAM, tuned)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("use", Use)
def test_names_are_unique(format_name: str, use: Use) -> None:
    names = [one.name.lower() for one in format_options(format_name) if use in one.uses]
    assert len(set(names)) == len(names)
    assert set(names) <= set(known_names(format_name, use))


def test_what_the_format_headgate_refuses() -> None:
    check_options("headgate", Use.BATCH, ["kafka.SSL.keystore.location"])
    with pytest.raises(UnknownOption, match=r"the nearest is kafka\.ssl\.keystore\.location"):
        check_options("headgate", Use.WRITE, ["kafka.ssl.keystore.locatio"])
    with pytest.raises(UnknownOption, match="a read takes subscribe"):
        check_options("headgate", Use.STREAM, ["topic"])
    with pytest.raises(UnknownOption, match="the nearest is logDirs"):
        check_options("headgate", Use.BATCH, ["logDir"])
    with pytest.raises(UnknownOption, match="pushFilters is for batch, not for stream"):
        check_options("headgate", Use.STREAM, ["pushFilters"])
    check_options("headgate", Use.BATCH, ["kafka.max.poll.records"])  # of no effect, but a job may keep it


def test_the_command_prints_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kafka", "--tuned", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["tuned"] for row in rows] == ["20000", "16777216", "1048576"]
    assert main(["--use", "write", "--json", "--all"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"kafka.acks", "topic"} <= {row["option"] for row in rows}
    assert all("write" in row["use"] for row in rows)
