"""Rules for names of principals; `principals_of_kafka.txt` has the answers of Kafka's SslPrincipalMapper."""

from __future__ import annotations

import re

import pytest

from headgate.gateway.security.tls.principal_mapping import MAX_NAME_BYTES, MappingRuleProblem, PrincipalProblem, parse
from headgate.gateway.security.tls.tests.principals_scenario import RULES, SERVICE, recorded

ANSWERS = recorded("map")

# Rules that Kafka accepts and that are refused here: RE2 lacks the syntax, or reads it in another way
REFUSED_HERE = ("RULE:a++", "RULE:(?i)", "RULE:(a)\\1", "RULE:(?=a)", "RULE:[a-c&&", "RULE:[a[b]]", "RULE:\\Qaa")
# Logins fail in Kafka, which escapes the second of two references to missing groups at a wrong place
LEGAL_HERE = {"$1@$5@$6": "kafka1@$5@$6", "$2147483648": "$2147483648", "$1\\$9": "a$9"}


def answer(rules: str, of: str) -> str:
    try:
        return "=" + parse(rules).name_of(of)
    except (MappingRuleProblem, PrincipalProblem):
        return "!"


@pytest.mark.parametrize("rules, of, recorded", ANSWERS)
def test_a_rule_gives_the_name_that_kafka_gives(rules: str, of: str, recorded: str) -> None:
    legal_here = [name for replacement, name in LEGAL_HERE.items() if f"/{replacement}/" in rules]
    if legal_here:
        assert recorded[0] == "!"
        assert answer(rules, of) == f"={legal_here[0].lower() if rules[-1] == 'L' else legal_here[0]}"
    elif rules.startswith(REFUSED_HERE):
        assert answer(rules, of) == "!"
    else:
        assert answer(rules, of) == (recorded if recorded[0] == "=" else "!")


def test_the_record_has_every_case() -> None:
    assert [(rules, of) for rules, of, _ in ANSWERS] == list(RULES)


@pytest.mark.parametrize(
    "rules, sentence",
    [
        ("RULE:x", "'RULE:x': a rule is RULE:pattern/replacement/, with L or U behind it, or DEFAULT"),
        ("DEFAULT,default", "'default': a rule is RULE:pattern/replacement/"),
        ("RULE:(/x/", "'(': RE2: missing ): ("),
        ("RULE:(?i)a/x/", "'(?i)a': RE2 has groups (?:...) and (?<name>...) only"),
        ("RULE:(a)\\1/x/", "\\1 is not supported"),
        ("RULE:[a&&b]/x/", "RE2 has no classes within classes"),
        ("RULE:a{,2}/x/", "a repetition is {2}, {2,} or {2,3}; else write \\{"),
        ("RULE:a/$1/", "'$1': $1 names a group, and the pattern has none; write \\$ for the sign"),
        ("RULE:(a)/$x/", "'$x': $ is followed by the number or the {name} of a group; else write \\$"),
        (f"RULE:{'a' * 20_000}/x/", "the pattern has more than 16384 bytes"),
        ("RULE:((a{100}){100}){100}/x/", "RE2: "),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused(rules: str, sentence: str) -> None:
    with pytest.raises(MappingRuleProblem, match=re.escape(sentence)) as refused:
        parse(rules)
    assert len(str(refused.value)) < 400


def test_a_name_without_a_rule_is_shown_with_the_cure() -> None:
    with pytest.raises(PrincipalProblem, match=r"no rule of ssl\.principal\.mapping\.rules matches 'CN=kafka1"):
        parse("RULE:x/y/").name_of(SERVICE)
    with pytest.raises(PrincipalProblem, match="is longer than 32767 bytes") as refused:
        parse("DEFAULT").name_of("é" * (MAX_NAME_BYTES // 2 + 1))
    assert len(str(refused.value)) < 400


def test_a_long_name_takes_linear_time() -> None:
    assert parse("RULE:(a|aa)+$/x/,DEFAULT").name_of("a" * 2000 + "b") == "a" * 2000 + "b"
