"""The rules of delegation tokens that Kafka has not, and the edges of those that it has."""

from __future__ import annotations

import pytest

from headgate.gateway.security.tokens import rules
from headgate.gateway.security.tokens.delegation_token import DelegationToken
from headgate.gateway.security.tokens.rules import NewToken, TokenLifetimes
from headgate.protocol.errors import ErrorCode, KafkaError

LIFETIMES = TokenLifetimes(max_ms=100, expiry_ms=10)
TOKEN = DelegationToken("id", "User:a", "User:b", ("User:c",), 1_000, 1_100, 1_010)


def new(owner: str = "User:a", renewers: tuple[str, ...] = ()) -> NewToken:
    return NewToken(owner, "User:b", renewers, -1)


def tokens(count: int, owner: str = "User:a") -> dict[str, DelegationToken]:
    return {f"{owner} {number}": TOKEN._replace(owner=owner) for number in range(count)}


def refusal(call: object, *arguments: object) -> ErrorCode:
    assert callable(call)
    with pytest.raises(KafkaError) as refused:
        call(*arguments)
    return refused.value.code


def test_a_token_is_valid_up_to_its_last_millisecond() -> None:
    assert not TOKEN.is_expired(1_010)
    assert TOKEN.is_expired(1_011)
    assert TOKEN._replace(expiry_ms=2_000).is_expired(1_101)


def test_a_renewal_ends_with_the_longest_lifetime() -> None:
    renewed = rules.renew(TOKEN._replace(expiry_ms=1_099), "User:c", -1, LIFETIMES, 1_095)
    assert renewed.expiry_ms == 1_100


def test_the_longest_lifetime_of_the_settings_fits_a_record() -> None:
    longest = (1 << 63) - 1
    token = rules.create({}, new(), "id", TokenLifetimes(longest, longest), 1_000)
    assert (token.max_ms, token.expiry_ms) == (longest, longest)
    assert rules.renew(token, "User:a", longest, TokenLifetimes(longest, longest), 2_000).expiry_ms == longest


def test_the_requester_for_another_may_see_the_token_alone() -> None:
    assert refusal(rules.renew, TOKEN, "User:b", -1, LIFETIMES, 1_000) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert refusal(rules.expire, TOKEN, "User:b", -1, 1_000) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert rules.is_described(TOKEN, "User:b", None, lambda _: False)


@pytest.mark.slow
def test_an_owner_has_a_limit_of_tokens() -> None:
    full = tokens(rules.MAX_TOKENS_PER_OWNER)
    assert refusal(rules.create, full, new(), "id", LIFETIMES, 0) is ErrorCode.POLICY_VIOLATION
    assert rules.create(full, new("User:z"), "id", LIFETIMES, 0).owner == "User:z"
    full.popitem()
    assert rules.create(full, new(), "id", LIFETIMES, 0).owner == "User:a"


@pytest.mark.slow
def test_all_owners_together_have_a_limit() -> None:
    owners = rules.MAX_TOKENS // 1_000
    full = {name: token for number in range(owners) for name, token in tokens(1_000, f"User:{number}").items()}
    assert refusal(rules.create, full, new("User:z"), "id", LIFETIMES, 0) is ErrorCode.POLICY_VIOLATION


def test_the_principals_of_a_token_have_a_limit() -> None:
    room = rules.MAX_NAMES_BYTES - len("User:aUser:b")
    assert rules.create({}, new(renewers=("r" * room,)), "id", LIFETIMES, 0)
    for renewers in (("r" * room, "r"), ("\u00e9" * room,), ("\ud800" * room,)):
        assert refusal(rules.create, {}, new(renewers=renewers), "id", LIFETIMES, 0) is ErrorCode.POLICY_VIOLATION


def test_expired_tokens_are_found() -> None:
    assert [*rules.expired({"id": TOKEN, "other": TOKEN._replace(token_id="other", expiry_ms=5)}, 1_010)] == ["other"]
