"""GSSAPI over a scripted context: the tokens of Kerberos, the security layer, and the name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.security.sasl.exchange import Authenticated, AuthenticationFailed, Challenge
from headgate.gateway.security.sasl.gssapi import GssapiExchange
from headgate.gateway.security.sasl.kerberos_names import ShortNamer
from headgate.protocol.security.sasl.gssapi_library import GssError

RULES = ShortNamer.parse(["DEFAULT"], "REALM")
WRAPPED = b"wrapped:"
NO_LAYER = WRAPPED + b"\x01\0\0\0"


class ScriptedContext:
    """A context that knows the client after as many tokens as it has answers; `bad` is no token."""

    def __init__(self, *answers: bytes | None, name: str = "ann@REALM") -> None:
        self.answers = list(answers)
        self.initiator_name = name

    @property
    def is_complete(self) -> bool:
        return not self.answers

    def step(self, token: bytes) -> bytes | None:
        if token == b"bad":
            raise GssError("Kerberos: no")
        if token == b"again":
            raise GssError("Kerberos: a repeated token", is_retriable=True)
        return self.answers.pop(0)

    def wrap(self, message: bytes) -> bytes:
        return WRAPPED + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(WRAPPED):
            raise GssError("Kerberos: not protected")
        return message.removeprefix(WRAPPED)


def exchange(*answers: bytes | None, name: str = "ann@REALM") -> Callable[[bytes], Challenge | Authenticated]:
    context = ScriptedContext(*answers, name=name)
    made = GssapiExchange(lambda: context, RULES)
    return lambda token: made.step(token).run()


def test_a_client_logs_in() -> None:
    step = exchange(b"one", b"two")
    assert [step(b"1"), step(b"2"), step(b"")] == [Challenge(b"one"), Challenge(b"two"), Challenge(NO_LAYER)]
    assert step(WRAPPED + b"\x01\0\0\0somebody") == Authenticated("ann")


def test_a_context_without_a_last_token_offers_at_once() -> None:
    step = exchange(None)
    assert step(b"1") == Challenge(NO_LAYER)
    assert step(NO_LAYER) == Authenticated("ann")


@pytest.mark.parametrize(
    "token, reason",
    [
        (b"", "Kerberos: not protected"),
        (WRAPPED + b"\x01\0\0", "too short"),
        (WRAPPED + b"\x02\0\0\0", "not offered"),
        (WRAPPED + b"\0\0\0\0", "not offered"),
    ],
)
def test_another_choice_of_a_layer_is_refused(token: bytes, reason: str) -> None:
    step = exchange(None)
    step(b"1")
    with pytest.raises(AuthenticationFailed, match=reason):
        step(token)


def test_data_where_the_offer_is_due_are_refused() -> None:
    step = exchange(b"one")
    step(b"1")
    with pytest.raises(AuthenticationFailed, match="where the offer"):
        step(b"2")


@pytest.mark.parametrize("token, is_retriable", [(b"bad", False), (b"again", True)])
def test_an_error_of_kerberos_is_a_failure(token: bytes, is_retriable: bool) -> None:
    with pytest.raises(AuthenticationFailed, match="Kerberos") as error:
        exchange(b"one")(token)
    assert (error.value.is_retriable, error.value.client_message) == (is_retriable, None)


def test_a_name_without_a_rule_is_refused() -> None:
    step = exchange(None, name="ann@OTHER")
    step(b"1")
    with pytest.raises(AuthenticationFailed, match=r"No rules apply to ann@OTHER.*principal\.to\.local\.rules"):
        step(NO_LAYER)


def test_without_a_key_every_login_fails() -> None:
    def no_key() -> ScriptedContext:
        raise GssError("Kerberos: no key table")

    with pytest.raises(AuthenticationFailed, match="no key table"):
        GssapiExchange(no_key, RULES).step(b"").run()


@given(st.lists(st.binary() | st.binary().map(WRAPPED.__add__), max_size=4))
def test_any_tokens_are_answered_or_refused(tokens: list[bytes]) -> None:
    step = exchange(b"one", None)
    for token in tokens:
        try:
            step(token)
        except AuthenticationFailed:
            return
