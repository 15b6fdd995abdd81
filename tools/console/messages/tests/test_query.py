"""The address of a search: each wrong parameter is one sentence."""

from __future__ import annotations

import pytest

from headgate.tools.console.messages.query import MessageQuery, format_ranges, parse_query, parse_ranges
from headgate.tools.console.messages.scan import OffsetSpan
from headgate.tools.console.parameters import BadParameter, Parameters


def query(**parameters: str) -> MessageQuery:
    return parse_query(Parameters([("topic", "t"), *parameters.items()]))


def test_without_parameters_the_newest_are_asked_for() -> None:
    assert query() == MessageQuery("t")
    assert query().is_backward


def test_each_parameter_has_its_place() -> None:
    asked = query(
        start="time", time_ms="5", until_ms="9", partition="0-2, 7,7", limit="20", isolation="read_committed", key="k"
    )
    assert (asked.time_ms, asked.until_ms, asked.limit, asked.isolation) == (5, 9, 20, "read_committed")
    assert asked.partitions == (0, 1, 2, 7)
    assert asked.filters.key == "k"
    assert not asked.is_backward


def test_ranges_survive_an_address() -> None:
    ranges = {0: OffsetSpan(5, 9), 12: OffsetSpan(0, 1 << 60)}
    assert parse_ranges(format_ranges(ranges)) == ranges
    assert parse_ranges("") == {}


@pytest.mark.parametrize(
    "parameters, sentence",
    [
        ({"topic": ""}, "there 2 times"),
        ({"start": "middle"}, "not one of"),
        ({"start": "offset"}, "offset is missing"),
        ({"start": "time", "time_ms": "x"}, "no whole number"),
        ({"partition": "x"}, "write 0-3,7"),
        ({"partition": "5-"}, "write 0-3,7"),
        ({"partition": "0-300"}, "at most 256"),
        ({"partition": "0-200,300-500"}, "at most 256"),
        ({"partition": "0-99999999999999999999"}, "write 0-3,7"),
        ({"limit": "501"}, "from 1 to 500"),
        ({"limit": "0"}, "from 1 to 500"),
        ({"ranges": "0:1"}, "no range"),
        ({"ranges": ",".join(f"{n}:0-1" for n in range(300))}, "at most 256"),
        ({"value_format": "xml"}, "not one of"),
        ({"text": "/(/"}, "RE2"),
    ],
)
def test_wrong_parameters_are_sentences(parameters: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadParameter, match=sentence):
        query(**parameters)


def test_a_topic_has_a_name() -> None:
    for pairs in ([], [("topic", "")], [("topic", "x" * 250)]):
        with pytest.raises(BadParameter, match="topic"):
            parse_query(Parameters(pairs))
