"""Checks of the options of the formats `kafka` and `headgate`, their tuned values, and `headgate spark options`.

Spark ignores a misspelt option silently: `check_options` refuses it with the nearest name. `option_table.py` has the
options.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from headgate.protocol.security.client_properties import CLASSES, HONOURED
from headgate.protocol.security.client_properties import WITHOUT_EFFECT as SECURITY_WITHOUT_EFFECT
from headgate.spark.option_table import (
    ALL,
    CONSUMER_SETTINGS,
    HEADGATE_OPTIONS,
    KAFKA_OPTIONS,
    KAFKA_REFUSED,
    PRODUCER_SETTINGS,
    READ_REFUSED,
    READS,
    WITHOUT_EFFECT,
    Option,
    Use,
)
from headgate.spark.security_options import PREFIX
from headgate.tools.output import CommandResult, Row, add_format_options, format_table, print_result

KAFKA, HEADGATE = "kafka", "headgate"
FORMATS: Final = (KAFKA, HEADGATE)


_SECURITY: Final = frozenset(f"{PREFIX}{name}" for name in (*HONOURED, *SECURITY_WITHOUT_EFFECT, *CLASSES))
"""Kafka's client properties about security; what the format `headgate` cannot honour of them, it refuses by itself."""


class UnknownOption(ValueError):
    """An option that no format knows, or that this one does not honour; the text names the nearest."""


# A class of the user's own may read settings of any name
_OWN_CLASSES: Final = frozenset(
    f"kafka.{name}"
    for name in (
        "metric.reporters",
        "partitioner.class",
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "security.providers",
        "ssl.engine.factory.class",
    )
)


def format_options(format_name: str) -> Sequence[Option]:
    """The options of a format, in the order of its documentation."""
    return KAFKA_OPTIONS if format_name == KAFKA else HEADGATE_OPTIONS


def known_names(format_name: str, use: Use) -> dict[str, str]:
    """The options of a format for one use by their names in lower case: Spark takes names in any case."""
    names = {option.name for option in format_options(format_name) if use in option.uses}
    if format_name == HEADGATE:
        names |= _SECURITY | (WITHOUT_EFFECT if use in READS else frozenset())
    elif format_name == KAFKA:
        names |= PRODUCER_SETTINGS if use is Use.WRITE else CONSUMER_SETTINGS
    return {name.lower(): name for name in names}


def refusals(format_name: str, use: Use) -> dict[str, str]:
    """Refused options by their names in lower case, each with what to do instead."""
    if format_name == KAFKA:
        return {name.lower(): cure for name, cure in KAFKA_REFUSED.items()}
    if use is Use.WRITE:
        return {}
    return dict(READ_REFUSED)


def check_options(format_name: str, use: Use, names: Iterable[str]) -> None:
    """Raise UnknownOption for the first option that the format does not have for this use, or refuses."""
    given = {name.lower(): name for name in names}
    known, refused = known_names(format_name, use), refusals(format_name, use)
    has_own_class = format_name == KAFKA and not _OWN_CLASSES.isdisjoint(given)
    for lower, name in given.items():
        if lower in refused:
            raise UnknownOption(f"the format {format_name} refuses the option {name}: {refused[lower]}")
        if lower in known or (lower.startswith("kafka.") and has_own_class):
            continue
        raise UnknownOption(_unknown(format_name, use, name, known))


def _unknown(format_name: str, use: Use, name: str, known: Mapping[str, str]) -> str:
    near = get_close_matches(name.lower(), known, n=1)
    nearest = f"the nearest is {known[near[0]]}" if near else f"`headgate spark options {format_name}` lists all"
    others = sorted(other.value for other in Use if name.lower() in known_names(format_name, other))
    if others:
        return f"the option {name} is for {' and '.join(others)}, not for {use.value}; {nearest}"
    return f"the format {format_name} has no option {name}; {nearest}"


def tuned_options(format_name: str, use: Use) -> dict[str, str]:
    """The tuned values of a format for one use; 1.1 to 1.6 times as fast as the defaults for records of 100 bytes."""
    return {option.name: option.tuned for option in format_options(format_name) if option.tuned and use in option.uses}


# ------------------------------------------------------------------------------------------------------------- command


def main(arguments: Sequence[str]) -> int:
    """Run `headgate spark options <arguments>`; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="headgate spark options",
        description="The options of a format, with defaults and tuned values. Other settings of Kafka's consumer and "
        "producer 3.9 are options too, with kafka. before the name: --all lists them.",
    )
    parser.add_argument("format", nargs="?", choices=FORMATS, default=KAFKA, help="default: kafka")
    parser.add_argument("--use", choices=[use.value for use in Use], help="for one use only")
    parser.add_argument("--tuned", action="store_true", help="only those with a tuned value")
    parser.add_argument("--all", action="store_true", help="of kafka: every setting of Kafka's clients too")
    add_format_options(parser)
    options = parser.parse_args(arguments)
    rows = option_rows(options.format, options.use, is_tuned=options.tuned, is_all=options.all)
    result = CommandResult(rows)
    return print_result("spark options", result, options, format_table)


def option_rows(format_name: str, use: str | None, *, is_tuned: bool, is_all: bool) -> list[Row]:
    """One row for each option, in the order of the table; then the other settings of Kafka's clients by name."""
    uses = ALL if use is None else frozenset({Use(use)})
    rows = [
        _row(option.name, option.uses, option.default, option.tuned, option.summary)
        for option in format_options(format_name)
        if option.uses & uses and (option.tuned or not is_tuned)
    ]
    if is_all and not is_tuned and format_name == KAFKA:
        rows += _setting_rows(uses, {str(row["option"]) for row in rows})
    return rows


def _setting_rows(uses: frozenset[Use], shown: Iterable[str]) -> list[Row]:
    rows = []
    for name in sorted((CONSUMER_SETTINGS | PRODUCER_SETTINGS).difference(shown)):
        of = (READS if name in CONSUMER_SETTINGS else frozenset()) | (
            frozenset({Use.WRITE}) if name in PRODUCER_SETTINGS else frozenset()
        )
        if of & uses:
            refused = KAFKA_REFUSED.get(name)
            rows.append(_row(name, of, "", "", f"refused: {refused}" if refused else "as in Kafka's documentation"))
    return rows


def _row(name: str, uses: frozenset[Use], default: str, tuned: str, summary: str) -> Row:
    return {
        "option": name,
        "use": [use.value for use in Use if use in uses],
        "default": default or None,
        "tuned": tuned or None,
        "summary": summary,
    }
