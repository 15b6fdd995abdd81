"""JAAS lines and names of Kerberos are read as Kafka's classes read them (`text_scenario` has the questions)."""

from __future__ import annotations

import json
from pathlib import Path

from headgate.gateway.security.sasl.kerberos_names import InvalidRule, NoShortName, ShortNamer
from headgate.gateway.security.sasl.tests.text_scenario import LINES, NAMES, REALM, RULES
from headgate.protocol.security.sasl.jaas import InvalidJaasConfig, parse

_ANSWERS = [json.loads(line) for line in (Path(__file__).parent / "text_of_kafka.jsonl").read_text().splitlines()]
_REFUSED_EARLY = ("RULE:[1:$1]s/a/$1/", "RULE:[1:$1]s/a/\\/", "RULE:[1:$1]s/a/$11/")
"""Rules that fail in Kafka at the login of some clients only, and here at the start."""


def _short_name(name: str, rules: list[str]) -> str | None:
    try:
        return ShortNamer.parse(rules, REALM).short_name(name)
    except (InvalidRule, NoShortName):
        return None


def _entry(line: str) -> list[object] | None:
    try:
        entry = parse(line)
    except InvalidJaasConfig:
        return None
    return [entry.login_module, entry.control_flag, entry.options]


def test_everything_was_asked() -> None:
    assert len(_ANSWERS) == len(RULES) * len(NAMES) + len(LINES)


def test_short_names_are_kafkas() -> None:
    for name, rules, answer in (line for line in _ANSWERS if len(line) == 3):
        expected = None if rules[0] in _REFUSED_EARLY else answer
        assert _short_name(name, rules) == expected, (name, rules)


def test_jaas_lines_are_read_as_by_kafka() -> None:
    for line, answer in (line for line in _ANSWERS if len(line) == 2):
        if "JndiLoginModule" not in line:  # Kafka forbids this class by a system property; here no such class is known
            assert _entry(line) == answer, line
