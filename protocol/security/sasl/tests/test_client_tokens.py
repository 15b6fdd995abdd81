"""Tokens of clients, beside an independent SCRAM server and any challenge of a hostile one."""

from __future__ import annotations

import hashlib

import pytest
import scramp
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.protocol.security.sasl import client_tokens, scram_keys
from headgate.protocol.security.sasl.client_tokens import (
    MAX_CLIENT_ITERATIONS,
    ClientTokens,
    LoginFailed,
    SaltedPasswords,
    bearer,
    plain,
    scram,
)
from headgate.protocol.security.sasl.scram_keys import SCRAM_MECHANISMS, ScramMechanism
from headgate.protocol.security.secret import Secret
from headgate.protocol.tests.examples import share

SHA_256 = ScramMechanism.SCRAM_SHA_256
NONCE = "abcdef"


def login(
    mechanism: str, user: str = "alice", password: str = "secret"
) -> tuple[ClientTokens, scramp.core.ScramServer]:
    maker = scramp.ScramMechanism(mechanism)
    known = maker.make_auth_info("secret", iteration_count=4096, salt=b"a salt of 20 letters")
    return scram(SCRAM_MECHANISMS[mechanism], user, SaltedPasswords(Secret(password)), NONCE), maker.make_server(
        lambda _name: known
    )


def a_login() -> ClientTokens:
    return scram(SHA_256, "alice", SaltedPasswords(Secret("secret")), NONCE)


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
def test_an_independent_server_is_content(mechanism: str) -> None:
    tokens, server = login(mechanism)
    server.set_client_first(next(tokens).decode())
    server.set_client_final(tokens.send(server.get_server_first().encode()).decode())
    with pytest.raises(StopIteration):
        tokens.send(server.get_server_final().encode())


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    tokens, server = login("SCRAM-SHA-256")
    server.set_client_first(next(tokens).decode())
    tokens.send(server.get_server_first().encode())
    with pytest.raises(LoginFailed, match="cannot prove that it knows the user's password"):
        tokens.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_users_are_escaped_and_tokens_marked() -> None:
    tokens = scram(SHA_256, "a,b=c", SaltedPasswords(Secret("x")), NONCE, is_token=True)
    assert next(tokens) == b"n,,n=a=2Cb=3Dc,r=abcdef,tokenauth=true"


@pytest.mark.parametrize(
    "challenge, sentence",
    [
        (b"", "does not follow SCRAM"),
        (b"r=abcdefX,s=c2FsdA==", "does not follow SCRAM"),
        (b"r=abcdefX,s=c2FsdA=,i=4096", "does not follow SCRAM"),
        (b"m=more,r=abcdefX,s=c2FsdA==,i=4096", "does not follow SCRAM"),
        (b"r=abcdef,s=c2FsdA==,i=4096", "its nonce is not the client's"),
        (b"r=Xabcdef,s=c2FsdA==,i=4096", "its nonce is not the client's"),
        (b"r=abcdefX,s=c2FsdA==,i=4095", "asks for 4095 iterations"),
        (b"r=abcdefX,s=c2FsdA==,i=%d" % (MAX_CLIENT_ITERATIONS + 1), "asks for 1000001 iterations"),
    ],
)
def test_a_challenge_against_the_rules_is_refused(challenge: bytes, sentence: str) -> None:
    tokens = a_login()
    next(tokens)
    with pytest.raises(LoginFailed, match=sentence):
        tokens.send(challenge)


@pytest.mark.slow
@given(st.lists(st.binary(max_size=80) | st.from_regex(rb"r=abcdef.{1,5},s=[a-zA-Z]{4},i=[0-9]{1,4}", fullmatch=True)))
@settings(max_examples=share(200))
def test_any_challenges_end_a_login_in_one_error(challenges: list[bytes]) -> None:
    for tokens in (a_login(), bearer(Secret("abc"), {})):
        next(tokens)
        try:
            for challenge in challenges:
                tokens.send(challenge)
        except (LoginFailed, StopIteration):
            continue


def test_a_second_login_computes_no_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []

    def counted(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
        computed.append(iterations)
        return scram_keys.salted_password(mechanism, password, salt, iterations)

    monkeypatch.setattr(client_tokens, "salted_password", counted)
    salted = SaltedPasswords(Secret("secret"))
    wanted = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 5000)
    assert [salted.of(SHA_256, b"salt", 5000) for _ in range(3)] == [wanted] * 3
    assert computed == [5000]
    for number in range(40):
        salted.of(SHA_256, b"%d" % number, 1)
    salted.of(SHA_256, b"salt", 5000)
    assert computed.count(5000) == 2  # a hostile broker cannot fill the memory with salts


def test_plain_sends_user_and_password() -> None:
    tokens = plain("zo\u00eb", Secret("p\u00e4ss"))
    assert next(tokens) == "\0zo\u00eb\0p\u00e4ss".encode()
    with pytest.raises(StopIteration):
        tokens.send(b"")


def test_a_bearer_token_has_its_extensions() -> None:
    tokens = bearer(Secret("abc.def."), {"tenant": "one"})
    assert next(tokens) == b"n,,\x01auth=Bearer abc.def.\x01tenant=one\x01\x01"
    assert tokens.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(LoginFailed, match="refuses the token: invalid_token"):
        tokens.send(b"")
