"""Pushed filters: which partitions, offsets and times a query can need at most.

Spark evaluates every filter again, so a filter that is not understood here is safe; a filter here may only leave out
rows that surely do not match.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.reading.log_reader import OffsetRange

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_COLUMNS: Final = frozenset({"topic", "partition", "offset", "timestamp"})

_TESTS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "In": lambda value, values: value in values,
    "StringStartsWith": str.startswith,
    "StringEndsWith": str.endswith,
    "StringContains": operator.contains,
}


class Condition(NamedTuple):
    """A comparison of a column with a value. `kind`: the name of a filter class of PySpark, a key of `_TESTS`."""

    column: str
    kind: str
    value: Any
    is_negated: bool = False

    def holds(self, value: int | str) -> bool:
        """True unless a row with this value surely does not match."""
        return _TESTS[self.kind](value, self.value) != self.is_negated


class NumberRange(NamedTuple):
    """Whole numbers from `first` to `last`, both included; None: no limit."""

    first: int | None = None
    last: int | None = None

    def within(self, first: int | None, last: int | None) -> NumberRange:
        """The intersection."""
        firsts = [bound for bound in (self.first, first) if bound is not None]
        lasts = [bound for bound in (self.last, last) if bound is not None]
        return NumberRange(max(firsts, default=None), min(lasts, default=None))


class PushedFilters(NamedTuple):
    """Conditions that each row must meet. Empty: nothing is known."""

    conditions: Sequence[Condition] = ()

    def keeps(self, partition: TopicPartition) -> bool:
        """False if no row of this partition can match."""
        values: dict[str, int | str] = {"topic": partition.topic, "partition": partition.number}
        return all(
            condition.holds(values[condition.column]) for condition in self.conditions if condition.column in values
        )

    def narrow(self, wanted: OffsetRange) -> OffsetRange:
        """The part of a range whose offsets can match; perhaps empty."""
        limits = self._interval("offset", int)
        first, last = wanted.start_offset, wanted.end_offset
        if limits.first is not None:
            first = max(first, limits.first)
        if limits.last is not None:
            last = min(last, limits.last + 1)
        return wanted._replace(start_offset=first, end_offset=max(first, last))

    def times_ms(self) -> NumberRange:
        """The times in ms that can match."""
        found = self._interval("timestamp", _microseconds)
        # The first ms at or after a time, the last at or before another
        first = None if found.first is None else -(-found.first // 1000)
        return NumberRange(first, None if found.last is None else found.last // 1000)

    def _interval(self, column: str, number: Callable[[Any], int]) -> NumberRange:
        limits = NumberRange()
        for condition in self.conditions:
            if condition.column == column and not condition.is_negated:
                limits = limits.within(*_limits(condition, number))
        return limits


def _limits(condition: Condition, number: Callable[[Any], int]) -> NumberRange:
    if condition.kind == "In":
        values = [number(value) for value in condition.value]
        return NumberRange(min(values), max(values))
    value = number(condition.value)
    match condition.kind:
        case "EqualTo" | "EqualNullSafe":
            return NumberRange(value, value)
        case "GreaterThan":
            return NumberRange(value + 1, None)
        case "GreaterThanOrEqual":
            return NumberRange(value, None)
        case "LessThan":
            return NumberRange(None, value - 1)
        case "LessThanOrEqual":
            return NumberRange(None, value)
    return NumberRange()


def _microseconds(value: datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND


def from_spark(filters: Iterable[Any]) -> PushedFilters:
    """The filters that can be used, of those that Spark pushes (classes of `pyspark.sql.datasource`)."""
    return PushedFilters(tuple(condition for condition in map(_condition, filters) if condition is not None))


def _condition(pushed: Any) -> Condition | None:
    kind, is_negated = type(pushed).__name__, False
    if kind == "Not":
        pushed, is_negated = pushed.child, True
        kind = type(pushed).__name__
    if kind not in _TESTS or len(pushed.attribute) != 1:
        return None
    column, value = pushed.attribute[0].lower(), pushed.value
    values = value if kind == "In" else [value]
    if column not in _COLUMNS or not values or not all(_is_usable(column, item) for item in values):
        return None
    return Condition(column, kind, value, is_negated)


def _is_usable(column: str, value: object) -> bool:
    if column == "topic":
        return isinstance(value, str)
    if column == "timestamp":
        return isinstance(value, datetime) and value.tzinfo is not None
    return isinstance(value, int) and not isinstance(value, bool)
