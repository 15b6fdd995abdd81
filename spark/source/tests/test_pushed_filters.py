"""Classes of the names that PySpark's filters have: these tests need no PySpark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import OffsetRange
from headgate.spark.source.pushed_filters import NumberRange, PushedFilters, from_spark
from headgate.spark.source.tests.fake_log import T0, T1


def pushed(kind: str, column: str, value: Any) -> Any:
    return type(kind, (), {"attribute": (column,), "value": value})()


def negated(child: Any) -> Any:
    return type("Not", (), {"child": child})()


def filters(*each: tuple[str, str, Any]) -> PushedFilters:
    return from_spark([pushed(*one) for one in each])


def kept(*each: tuple[str, str, Any]) -> list[TopicPartition]:
    return [one for one in (T0, T1, TopicPartition("u", 0)) if filters(*each).keeps(one)]


def test_partitions_and_topics_that_cannot_match_are_left_out() -> None:
    assert kept(("EqualTo", "partition", 1)) == [T1]
    assert kept(("In", "PARTITION", (1, 5))) == [T1]
    assert kept(("GreaterThan", "partition", 0), ("EqualTo", "topic", "t")) == [T1]
    assert kept(("StringStartsWith", "topic", "u")) == [TopicPartition("u", 0)]
    assert kept(("LessThanOrEqual", "topic", "t")) == [T0, T1]
    assert from_spark([negated(pushed("EqualTo", "partition", 0))]).keeps(T1)
    assert not from_spark([negated(pushed("EqualTo", "partition", 0))]).keeps(T0)


def test_offsets_narrow_a_range() -> None:
    whole = OffsetRange(T0, 10, 90)
    assert filters(("GreaterThan", "offset", 20), ("LessThanOrEqual", "offset", 50)).narrow(whole)[1:] == (21, 51)
    assert filters(("In", "offset", (40, 30))).narrow(whole)[1:] == (30, 41)
    assert filters(("EqualTo", "offset", 5)).narrow(whole)[1:] == (10, 10)
    assert filters(("LessThan", "offset", 10), ("GreaterThan", "offset", 90)).narrow(whole)[1:] == (91, 91)
    assert from_spark([negated(pushed("LessThan", "offset", 50))]).narrow(whole) == whole


def at(milliseconds: float) -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


MS = 1_704_067_200_000


def test_times_between_milliseconds() -> None:
    limits = filters(("GreaterThan", "timestamp", at(0.5)), ("LessThan", "timestamp", at(9))).times_ms()
    assert limits == NumberRange(MS + 1, MS + 8)
    zone = timezone(timedelta(hours=5))
    assert filters(("EqualTo", "timestamp", at(3).astimezone(zone))).times_ms() == NumberRange(MS + 3, MS + 3)
    assert filters(
        ("GreaterThanOrEqual", "timestamp", at(3)), ("LessThanOrEqual", "timestamp", at(4.5))
    ).times_ms() == (NumberRange(MS + 3, MS + 4))


@pytest.mark.parametrize(
    "one",
    [
        ("EqualTo", "value", b"x"),
        ("EqualTo", "timestamp", datetime(2024, 1, 1)),  # noqa: DTZ001 - a time without a zone
        ("EqualTo", "partition", "0"),
        ("EqualTo", "offset", True),
        ("EqualTo", "topic", None),
        ("In", "partition", ()),
        ("IsNotNull", "partition", None),
    ],
)
def test_what_is_not_understood_leaves_nothing_out(one: tuple[str, str, Any]) -> None:
    assert filters(one) == PushedFilters()


KINDS = ["EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual", "In"]
TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": lambda a, b: a == b,
    "EqualNullSafe": lambda a, b: a == b,
    "GreaterThan": lambda a, b: a > b,
    "GreaterThanOrEqual": lambda a, b: a >= b,
    "LessThan": lambda a, b: a < b,
    "LessThanOrEqual": lambda a, b: a <= b,
    "In": lambda a, b: a in b,
}


@given(st.data(), st.lists(st.tuples(st.sampled_from(KINDS), st.booleans()), max_size=3))
def test_no_row_that_matches_is_left_out(data: st.DataObject, kinds: list[tuple[str, bool]]) -> None:
    """Every column in turn, filters with `not` too, against what Spark evaluates."""
    numbers = st.integers(0, 6)
    each: list[tuple[str, Any, bool]] = [
        (kind, data.draw(st.lists(numbers, min_size=1).map(tuple) if kind == "In" else numbers), is_not)
        for kind, is_not in kinds
    ]
    found = {}
    columns: dict[str, Callable[[int], Any]] = {"offset": int, "partition": int, "timestamp": at}
    for column, value_of in columns.items():
        made = []
        for kind, value, is_not in each:
            filled: Any = tuple(map(value_of, value)) if isinstance(value, tuple) else value_of(value)
            one = pushed(kind, column, filled)
            made.append(negated(one) if is_not else one)
        found[column] = from_spark(made)
    narrowed = found["offset"].narrow(OffsetRange(T0, 0, 7))
    times = found["timestamp"].times_ms()
    for number in range(7):
        if all(TESTS[kind](number, value) != is_not for kind, value, is_not in each):
            assert narrowed.start_offset <= number < narrowed.end_offset
            assert found["partition"].keeps(TopicPartition("t", number))
            assert (times.first or 0) <= MS + number <= (MS + 9 if times.last is None else times.last)
