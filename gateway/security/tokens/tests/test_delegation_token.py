"""Tokens and their records."""

from __future__ import annotations

from headgate.gateway.security.tokens.delegation_token import DelegationToken, parts_of, record_of, token_of

TOKEN = DelegationToken("id", "User:a", "User:b", ("User:c",), 1, 3, 2)


def test_a_token_comes_back_from_its_record() -> None:
    assert token_of(record_of(TOKEN)) == TOKEN


def test_a_token_without_a_requester_is_its_owners() -> None:
    record = record_of(TOKEN)
    record.requester = ""
    assert token_of(record).requester == "User:a"


def test_a_principal_has_a_type_and_a_name() -> None:
    assert parts_of("User:CN=a:b") == ("User", "CN=a:b")


def test_owner_and_renewers_may_renew() -> None:
    assert [TOKEN.is_owned_or_renewed_by(f"User:{name}") for name in "abc"] == [True, False, True]
