"""OAUTHBEARER: the client's token, and refusals. Kafka's answers: `test_sasl_like_kafka`."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.security.sasl.exchange import Authenticated, AuthenticationFailed, Challenge, SaslComputation
from headgate.gateway.security.sasl.oauthbearer import (
    MAX_TOKEN_LENGTH,
    InvalidToken,
    OAuthBearerExchange,
    ValidatedToken,
    read_initial_response,
)
from headgate.gateway.security.sasl.tests.sasl_scenario import initial_response


class OneToken:
    """A validator that knows the token `good`."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.is_slow = is_slow

    def validate(self, token: str) -> ValidatedToken:
        if token != "good":
            raise InvalidToken("another token", status="insufficient_scope", scope='a "b"')
        return ValidatedToken("ann", 7)


def test_a_valid_token_logs_in_until_its_end() -> None:
    assert OAuthBearerExchange(OneToken()).step(initial_response("auth=Bearer good")) == Authenticated("ann", b"", 7)


def test_a_slow_check_is_a_computation() -> None:
    exchange = OAuthBearerExchange(OneToken(is_slow=True))
    step = exchange.step(initial_response("auth=bearer good", authzid="ann"))
    assert isinstance(step, SaslComputation)
    assert step.run() == Authenticated("ann", b"", 7)


def test_a_refusal_is_json_and_ends_with_its_acknowledgement() -> None:
    exchange = OAuthBearerExchange(OneToken(is_slow=True))
    challenge = exchange.step(initial_response("auth=Bearer bad")).run()  # type: ignore[union-attr]
    assert isinstance(challenge, Challenge)
    assert json.loads(challenge.token) == {"status": "insufficient_scope", "scope": 'a "b"'}
    with pytest.raises(AuthenticationFailed) as error:
        exchange.step(b"\x01")
    assert error.value.client_message == challenge.token.decode()
    with pytest.raises(AuthenticationFailed, match="Invalid OAUTHBEARER client first message"):
        exchange.step(b"\x01")


def test_an_id_of_another_is_refused() -> None:
    with pytest.raises(AuthenticationFailed, match=r"authorization id \(bob\) that is different"):
        OAuthBearerExchange(OneToken()).step(initial_response("auth=Bearer good", authzid="bob"))


def test_a_token_is_bounded() -> None:
    read_initial_response(initial_response(f"auth=Bearer {'x' * MAX_TOKEN_LENGTH}"))
    with pytest.raises(AuthenticationFailed, match="longer than"):
        read_initial_response(initial_response(f"auth=Bearer {'x' * (MAX_TOKEN_LENGTH + 1)}"))


def test_no_error_has_a_token() -> None:
    for message in (
        b"n,,\x01auth=Bearer secret\x01",
        initial_response("auth=Bearer sec ret"),
        initial_response("auth=secret"),
    ):
        with pytest.raises(AuthenticationFailed) as error:
            read_initial_response(message)
        assert "sec" not in str(error.value)


@pytest.mark.slow
@given(st.binary() | st.from_regex(rb"n,(a=[a-z]+)?,\x01([a-z]+=[ -~]+\x01)*\x01?", fullmatch=True))
def test_any_bytes_are_answered_or_refused(message: bytes) -> None:
    exchange = OAuthBearerExchange(OneToken())
    for token in (message, b"\x01"):
        try:
            assert isinstance(exchange.step(token), Challenge)
        except AuthenticationFailed:
            continue
