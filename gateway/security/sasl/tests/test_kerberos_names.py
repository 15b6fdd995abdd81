"""Rules for names of Kerberos: what is refused at the start, and any text. Kafka's answers: `test_text_like_kafka`."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.security.sasl.kerberos_names import (
    MAX_RULES,
    InvalidRule,
    KerberosName,
    NoShortName,
    ShortNamer,
    parse_rule,
)


@pytest.mark.parametrize(
    "rule, reason",
    [
        ("DEFALT", "Invalid rule: DEFALT"),
        ("DEFAULT,", "unmatched substring: `,`"),
        ("RULE:[:$1]", "a number of parts is missing"),
        ("RULE:[9999999999:$1]", "too large"),
        ("RULE:[1:$1](?=a)", r"the expression `\?=a` is not one of RE2"),
        ("RULE:[1:$1]s/(a/b/", r"the expression `\(a` is not one of RE2"),
        ("RULE:[1:$1]s/a/\\\\/", "ends with a backslash"),
        ("RULE:[1:$1]s/a/$1/", "refers to a group that does not exist"),
        ("RULE:[1:$1]s/a/${b}/", "refers to a group that does not exist"),
    ],
)
def test_a_rule_that_no_name_could_use_is_refused(rule: str, reason: str) -> None:
    if "backslash" in reason:
        rule = "RULE:[1:$1]s/a/\\/"
    with pytest.raises(InvalidRule, match=reason):
        parse_rule(rule)


def test_rules_are_bounded() -> None:
    with pytest.raises(InvalidRule, match="the limit is"):
        ShortNamer.parse(["DEFAULT"] * (MAX_RULES + 1), "R")


def test_a_hostile_name_takes_linear_time() -> None:
    rules, name = ShortNamer.parse(["RULE:[1:$1]s/(a*)*b/x/"], "R"), "a" * 30_000
    began = time.process_time()
    assert rules.short_name(f"{name}@R") == name
    assert time.process_time() - began < 1


@pytest.mark.parametrize("name", ["a/b@R", "a@R", "a", "/b@", "@"])
def test_a_name_is_its_parts(name: str) -> None:
    assert str(KerberosName.parse(name)) == name


@pytest.mark.slow
@given(
    st.from_regex(r"RULE:\[[12]:[$\w@.]*\](\([\w.*@$^]*\))?(s/[\w.*()]*/[\w$]*/g?)?[LU]?", fullmatch=True), st.text()
)
def test_any_rule_and_name_give_a_name_or_the_error(rule: str, name: str) -> None:
    with suppress(InvalidRule, NoShortName):
        found = ShortNamer.parse([rule, "DEFAULT"], "R").short_name(name)
        assert found == name or not set("/@") & set(found)
