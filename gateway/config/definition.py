"""The definition of a setting: name, type, default, allowed values, meaning, and the parser of its text."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from headgate.protocol.security.secret import Secret

INT_MAX = 0x7FFF_FFFF
LONG_MAX = 0x7FFF_FFFF_FFFF_FFFF
MAX_VALUE_BYTES = 32_767
"""The limit of strings in older versions of the protocol, which must be able to describe every value."""


class Type(IntEnum):
    """Types of settings, numbered as DescribeConfigs sends them (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Effect(IntEnum):
    """The effect of a setting here."""

    FULL = 0
    PENDING = 1  # read and checked; the feature of the setting does not exist yet
    NONE = 2  # accepted because a Kafka server.properties may have it
    REFUSED = 3  # ignoring the setting would do harm: any value but a harmless one is an error
    RENAMED = 4  # an older name of another setting, with that one's effect


def note(effect: Effect, reason: str) -> str:
    """The note about a setting with this effect, for this reason; empty for a setting that works as in Kafka."""
    if effect is Effect.FULL:
        return ""
    if effect is Effect.RENAMED:
        return reason
    if effect is Effect.REFUSED:
        return f"other values than the default are refused: {reason}"
    return f"accepted, no effect {'yet' if effect is Effect.PENDING else 'here'}, because {reason}"


Value = bool | int | float | str | tuple[str, ...] | Secret | None


class TextForm(NamedTuple):
    """A form of texts. `check(text)` raises ValueError for another one; `description` ends 'allowed is ...'."""

    check: Callable[[str], object]
    description: str


class Definition(NamedTuple):
    """One setting. `default` is text as in a file.

    `allowed` is a range (`1..`, `-1 or 1..`), a choice (`a|b`; `a|b|` for a list that may be empty), or empty for any
    value. `harmless` are the values of a REFUSED setting that are accepted.
    """

    name: str
    type: Type
    default: str | None
    allowed: str
    documentation: str
    effect: Effect = Effect.FULL
    reason: str = ""
    harmless: tuple[str, ...] = ()
    form: TextForm | None = None

    @property
    def is_sensitive(self) -> bool:
        """Whether the value must stay hidden."""
        return self.type is Type.PASSWORD

    @property
    def note(self) -> str:
        """The note about an accepted setting; empty if the setting works as in Kafka."""
        return note(self.effect, self.reason)

    def parse(self, text: str) -> Value:
        """The value of `text`. Raises ValueError with a description of the allowed values."""
        try:
            value: Value = _PARSERS[self.type](text.strip())
            if self.form is not None:
                self.form.check(text.strip())
        except (ValueError, KeyError):
            raise ValueError(self.describe_allowed()) from None
        if not self._allows(value):
            raise ValueError(self.describe_allowed())
        return value

    def refusal(self, text: str) -> str:
        """The sentence about an illegal value: Kafka's, which scripts look for, then the allowed numbers."""
        item, complaint = self._complaint(text)
        sentence = f"Invalid value {item[:100]} for configuration {self.name}: {complaint}"
        return f"{sentence}; allowed is {self.describe_allowed()}" if self.type in _BOUNDS else sentence

    def _complaint(self, text: str) -> tuple[str, str]:
        """The illegal part of a text, and what Kafka says about it."""
        if self.type is Type.BOOLEAN:
            return text, "Expected value to be either true or false"
        if self.form is not None:
            return text, f"allowed is {self.form.description}"
        if self.type in _BOUNDS:
            return text, self._complain_of_number(text)
        choices = list(filter(None, self.allowed.split("|")))
        items = split_list(text) if self.type is Type.LIST else (text,)
        return next(
            (item for item in items if item not in choices), text
        ), f"String must be one of: {', '.join(choices)}"

    def _complain_of_number(self, text: str) -> str:
        try:
            value = _PARSERS[self.type](text.strip())
        except ValueError:
            return f"Not a number of type {self.type.name}"
        bottom, top = _BOUNDS[self.type]
        if not bottom <= value <= top:
            return f"Not a number of type {self.type.name}"
        *singles, span = self.allowed.split(" or ")
        low, _, high = span.partition("..")
        if singles:
            bounds = f"between {low} and {high}" if high else f"at least {low}"
            return f"Value must be {bounds} or equal to {singles[0]}"
        return f"Value must be at least {low}" if low and value < float(low) else f"Value must be no more than {high}"

    def default_value(self) -> Value:
        """The default as a value; None if there is no default."""
        return _parse_default(self)

    def _allows(self, value: Value) -> bool:
        if isinstance(value, tuple):
            choices = self.allowed.split("|")
            return not self.allowed or (
                (bool(value) or "" in choices)
                and len(set(value)) == len(value)
                and all(item in choices for item in value)
            )
        if isinstance(value, int | float) and not isinstance(value, bool):
            low, high = _BOUNDS[self.type]
            return low <= value <= high and (
                not self.allowed or any(_within(part, value) for part in self.allowed.split(" or "))
            )
        return not self.allowed or value in self.allowed.split("|")

    def describe_allowed(self) -> str:
        """The allowed values in words, as the end of the sentence 'allowed is ...'."""
        if self.form is not None:
            return self.form.description
        if self.type is Type.BOOLEAN:
            return "true or false"
        if self.type is Type.LIST:
            choices = ", ".join(filter(None, self.allowed.split("|")))
            return f"a list of: {choices}" if choices else "a list, separated by commas"
        if self.type in _BOUNDS:
            kind = "a number" if self.type is Type.DOUBLE else "a whole number"
            return f"{kind} {_describe_range(self.allowed or '..', self.type)}"
        return f"one of: {self.allowed.replace('|', ', ')}" if self.allowed else "text"


@functools.cache
def _parse_default(definition: Definition) -> Value:
    return None if definition.default is None else definition.parse(definition.default)


_BOUNDS: dict[Type, tuple[float, float]] = {
    Type.SHORT: (-0x8000, 0x7FFF),
    Type.INT: (-INT_MAX - 1, INT_MAX),
    Type.LONG: (-LONG_MAX - 1, LONG_MAX),
    Type.DOUBLE: (float("-inf"), float("inf")),
}


def _whole_number(text: str) -> int:
    if not text.lstrip("+-").isascii() or "_" in text:  # int() accepts more than Java does
        raise ValueError(text)
    return int(text)


def _decimal(text: str) -> float:
    value = float(text)
    if math.isnan(value) or "_" in text:
        raise ValueError(text)
    return value


def split_list(text: str) -> tuple[str, ...]:
    """The items between commas; none for an empty text."""
    return tuple(item.strip() for item in text.split(",")) if text.strip() else ()


_PARSERS: dict[Type, Callable[[str], Any]] = {
    Type.BOOLEAN: lambda text: {"true": True, "false": False}[text.lower()],
    Type.STRING: str,
    Type.INT: _whole_number,
    Type.SHORT: _whole_number,
    Type.LONG: _whole_number,
    Type.DOUBLE: _decimal,
    Type.LIST: split_list,
    Type.CLASS: str,
    Type.PASSWORD: Secret,
}


def _within(part: str, value: float) -> bool:
    low, dots, high = part.partition("..")
    if not dots:
        return value == float(low)
    return (not low or value >= float(low)) and (not high or value <= float(high))


def _describe_range(allowed: str, type_: Type) -> str:
    return " or ".join(_describe_part(part, type_) for part in allowed.split(" or "))


def _describe_part(part: str, type_: Type) -> str:
    low, dots, high = part.partition("..")
    if not dots:
        return low
    bottom, top = _BOUNDS[type_]
    if type_ is Type.DOUBLE:
        return f"from {low} to {high}" if high else f"from {low} up" if low else "of any size"
    return f"from {low or int(bottom)} to {high or int(top)}"
