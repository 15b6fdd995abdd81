"""PLAIN: users of a JAAS line, and passwords behind SCRAM credentials. Kafka's sentences: `test_sasl_like_kafka`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.security.sasl.exchange import Authenticated, AuthenticationFailed, SaslComputation
from headgate.gateway.security.sasl.plain import JaasUsers, PlainExchange, ScramPasswords
from headgate.gateway.security.sasl.tests.exchanges import CREDENTIALS, GUESSED
from headgate.gateway.security.sasl.tests.sasl_scenario import plain


def computed(token: bytes) -> SaslComputation:
    """The computation for a token, over SCRAM credentials."""
    step = PlainExchange(ScramPasswords(CREDENTIALS)).step(token)
    assert isinstance(step, SaslComputation)
    return step


USERS = JaasUsers({"alice": "secret", "empty": ""})


def test_a_user_of_the_jaas_line_logs_in_at_once() -> None:
    assert PlainExchange(USERS).step(plain("alice", "secret")) == Authenticated("alice")


@pytest.mark.parametrize("password", ["secre", "secrets", "SECRET", ""])
def test_another_password_is_refused(password: str) -> None:
    with pytest.raises(AuthenticationFailed):
        PlainExchange(USERS).step(plain("alice", password))


@pytest.mark.parametrize("user, password", [("carol", ""), ("carol", "secret"), ("", "secret"), ("empty", "")])
def test_no_user_logs_in_without_a_password_of_its_own(user: str, password: str) -> None:
    with pytest.raises(AuthenticationFailed):
        PlainExchange(USERS).step(plain(user, password))
    assert not JaasUsers({}).check(user, password)


def test_a_password_behind_scram_is_a_computation() -> None:
    step = computed(plain("alice", "secret of alice"))
    assert step.run() == Authenticated("alice")


def test_a_user_with_one_scram_mechanism_logs_in() -> None:
    assert computed(plain("a,b=c", "secret")).run() == Authenticated("a,b=c")


@pytest.mark.parametrize("user", ["alice", "carol"])
def test_a_wrong_password_and_an_unknown_user_are_one(user: str) -> None:
    step = computed(plain(user, "wrong"))
    with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
        step.run()


def test_no_password_of_a_decoy_logs_in() -> None:
    step = PlainExchange(ScramPasswords(GUESSED)).step(plain("carol", "guessed"))
    assert isinstance(step, SaslComputation)
    with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
        step.run()


def test_an_id_of_another_is_refused_after_the_password() -> None:
    step = computed(plain("alice", "secret of alice", "bob"))
    with pytest.raises(AuthenticationFailed, match="authorization id that is different"):
        step.run()


def test_no_text_has_a_password() -> None:
    step = computed(plain("alice", "hunter2"))
    with pytest.raises(AuthenticationFailed) as error:
        step.run()
    assert "hunter2" not in f"{step!r}{error.value!r}"


@given(st.binary())
def test_any_bytes_are_refused(token: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        PlainExchange(USERS).step(token)
