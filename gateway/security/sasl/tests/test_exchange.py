"""Steps of an exchange: no text of theirs has a token."""

from __future__ import annotations

from headgate.gateway.security.sasl.exchange import (
    Authenticated,
    AuthenticationFailed,
    Challenge,
    SaslComputation,
    refused,
)


def test_no_text_of_a_step_has_a_token() -> None:
    steps = Challenge(b"secret"), Authenticated("ann", b"secret"), SaslComputation(lambda: Challenge(b"secret"))
    assert "secret" not in f"{steps}"
    assert "ann" in f"{steps}"


def test_a_refusal_for_the_client_is_one_for_the_log() -> None:
    failure = refused("the sentence")
    assert (str(failure), failure.client_message, failure.is_retriable) == ("the sentence", "the sentence", False)


def test_a_reason_is_not_for_the_client() -> None:
    assert AuthenticationFailed("the reason").client_message is None
