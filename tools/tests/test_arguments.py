"""Offsets, partitions of topics, durations: accepted texts, and the sentences about others."""

import argparse

import pytest

from headgate.tools.arguments import (
    LARGEST_OFFSET,
    TopicsAction,
    WordsAction,
    duration_ms,
    offset,
    parse_duration_ms,
    parse_topics,
)
from headgate.tools.output import UsageError


@pytest.mark.parametrize(
    "texts, expected",
    [
        (["a"], {"a": None}),
        (["a:0"], {"a": [0]}),
        (["a:4-6,0,2"], {"a": [0, 2, 4, 5, 6]}),
        (["a:0", "b", "a:2,0"], {"a": [0, 2], "b": None}),
        (["a:0", "a"], {"a": None}),
        (["a", "a:0"], {"a": None}),
    ],
)
def test_topics_and_partitions_are_parsed(texts: list[str], expected: dict[str, list[int] | None]) -> None:
    assert parse_topics(texts) == expected


@pytest.mark.parametrize("text", ["", ":0", "a:", "a:x", "a:-1", "a:1-", "a:3-2", "a:1,,2", "a:99999999999"])
def test_wrong_topics_and_partitions_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"names no topic|is no partition; write topic:0,2,4-6"):
        parse_topics([text])


def test_ranges_name_no_more_partitions_than_a_cluster_has() -> None:
    with pytest.raises(UsageError, match=r"more than 200000 partitions are named"):
        parse_topics(["a:0-99999,0-99999", "b:0-999999999"])
    assert parse_topics(["a:199999"]) == {"a": [199_999]}


@pytest.mark.parametrize(
    "text, expected_ms",
    [("250ms", 250), ("90s", 90_000), ("1.5h", 5_400_000), ("P1DT2H", 93_600_000), ("PT0.5S", 500), ("0s", 0)],
)
def test_a_duration_is_parsed(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms
    assert duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "5", "-5s", "5 s", "s", "P", "PT", "1y"])
def test_a_wrong_duration_is_refused(text: str) -> None:
    assert parse_duration_ms(text) is None
    with pytest.raises(argparse.ArgumentTypeError, match="is no duration; write 90s, 15m, 2h, 7d or PT1H30M"):
        duration_ms(text)


def test_an_offset_is_parsed() -> None:
    assert (offset("0"), offset(str(LARGEST_OFFSET))) == (0, LARGEST_OFFSET)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", str(LARGEST_OFFSET + 1), "9" * 5000])
def test_a_wrong_offset_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no whole number from 0 on"):
        offset(text)


def test_repeated_options_are_collected() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--topic", action=TopicsAction, default={})
    parser.add_argument("--state", action=WordsAction, default=[])
    options = parser.parse_args(["--topic", "a:0", "--state", "Empty, ongoing", "--topic", "a:1,2", "--state", "dead"])
    assert options.topic == {"a": [0, 1, 2]}
    assert options.state == ["empty", "ongoing", "dead"]


def test_a_wrong_topic_ends_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--topic", action=TopicsAction, default={})
    with pytest.raises(SystemExit):
        parser.parse_args(["--topic", "a:x"])
    assert "is no partition; write topic:0,2,4-6" in capsys.readouterr().err
