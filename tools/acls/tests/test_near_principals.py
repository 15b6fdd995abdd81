"""The principal that is meant: names that differ in spelling alone, and near names of refused principals."""

from __future__ import annotations

import pytest

from headgate.tools.acls.near_principals import near_principal

KNOWN = "User:CN=app,OU=data,O=Acme\\, Inc"


def hint(principal: str, *known: str, is_allowed: bool = False) -> list[str]:
    return [*near_principal(principal, dict.fromkeys(known, "an ACL"), is_allowed=is_allowed)]


@pytest.mark.parametrize(
    "principal, difference",
    [
        ("User:CN=app, OU=data, O=Acme\\, Inc", "spaces"),
        ("User:CN=app,OU=data,O=Acme\\,Inc", "spaces"),
        ("User:cn=app,ou=data,o=Acme\\, Inc", "upper and lower case"),
        ("user:CN=app,OU=data,O=Acme\\, Inc", "upper and lower case"),
        ("User:O=Acme\\, Inc,OU=data,CN=app", "the order of its parts"),
        ("User:O=Acme\\, Inc, OU=data, CN=app", "spaces and the order of its parts"),
        ("User:o=Acme\\, Inc, ou=data, cn=app", "spaces, upper and lower case, the order of its parts"),
    ],
)
def test_a_name_that_is_spelt_otherwise_is_named(principal: str, difference: str) -> None:
    sentence = f"an ACL names {KNOWN!r}, which differs in {difference}; every letter counts"
    for is_allowed in (True, False):
        assert hint(principal, "User:CN=other", KNOWN, is_allowed=is_allowed) == [sentence]


def test_a_known_principal_has_no_hint() -> None:
    assert hint("User:alice", "User:Alice", "User:alice") == []


def test_a_refused_principal_has_the_nearest_name() -> None:
    sentence = "no ACL names this principal; the nearest known one is 'User:billing', in an ACL"
    assert hint("User:biling", "User:billing", "Group:biling") == [sentence]
    assert hint("User:biling", "User:billing", is_allowed=True) == []
    assert hint("User:bob", "User:rob", "User:alice") == []


def test_a_comma_in_a_part_does_not_split_the_part() -> None:
    assert hint("User:CN=a\\,O=b", "User:O=b,CN=a", is_allowed=True) == []


def test_very_long_names_and_many_names_are_not_searched() -> None:
    assert hint("User:" + "x" * 10_000, "User:" + "x" * 9_999) == []
    assert hint("User:u0000", *(f"User:v{number:04}" for number in range(1_001))) == []
