"""The exchange of a login: its requests, and a sentence for each refusal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headgate.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headgate.protocol.schema import Message, Versions
from headgate.protocol.security.sasl.client_tokens import MAX_CHALLENGE_BYTES, ClientTokens, LoginFailed, plain
from headgate.protocol.security.sasl.login import LoginSession, log_in
from headgate.protocol.security.secret import Secret


def peer(last: int = 2) -> ClientConnection:
    connection = ClientConnection()
    connection.served_versions = {17: Versions(0, 1), 36: Versions(0, last)}
    return connection


def play(answers: list[Message], tokens: ClientTokens | None = None, last: int = 2) -> tuple[LoginSession, list[Any]]:
    exchange = log_in(peer(last), "PLAIN", tokens or plain("alice", Secret("secret")))
    sent = [next(exchange)]
    try:
        for answer in answers:
            sent.append(exchange.send(answer))  # noqa: PERF401  the last one raises
    except StopIteration as end:
        return end.value, sent
    raise AssertionError("the login goes on")


def endless() -> Iterator[bytes]:
    while True:
        yield b"more"


def test_a_login_is_a_handshake_and_its_tokens() -> None:
    session, sent = play([SaslHandshakeResponse(), SaslAuthenticateResponse(session_lifetime_ms=10_000)])
    assert sent == [
        (SaslHandshakeRequest("PLAIN"), 1),
        (SaslAuthenticateRequest(b"\0alice\0secret"), 2),
    ]
    assert (session.lifetime_ms, session.renew_after_ms) == (10_000, 8_500)
    assert "secret" not in repr(sent)


def test_an_older_broker_is_asked_in_its_version() -> None:
    session, sent = play([SaslHandshakeResponse(), SaslAuthenticateResponse()], last=0)
    assert sent[1][1] == 0
    assert session.renew_after_ms is None


@pytest.mark.parametrize(
    "answer, sentence",
    [
        (
            SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["SCRAM-SHA-512", "GSSAPI"]),
            "the broker offers GSSAPI, SCRAM-SHA-512, not PLAIN; set sasl.mechanism",
        ),
        (SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE), "asks for no login on this port; set security.protocol"),
        (SaslHandshakeResponse(-5), "refuses SaslHandshake: error -5"),
        (SaslHandshakeResponse(ErrorCode.UNKNOWN_SERVER_ERROR), "refuses SaslHandshake: UNKNOWN_SERVER_ERROR"),
    ],
)
def test_a_refused_handshake_names_its_cure(answer: Message, sentence: str) -> None:
    with pytest.raises(LoginFailed, match=sentence):
        play([answer])


def test_a_refused_login_has_the_brokers_own_sentence() -> None:
    refusal = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "Invalid username or password")
    with pytest.raises(LoginFailed, match=r"refuses the login by PLAIN: Invalid username or password$"):
        play([SaslHandshakeResponse(), refusal])
    with pytest.raises(LoginFailed, match="by PLAIN: SASL_AUTHENTICATION_FAILED"):
        play([SaslHandshakeResponse(), SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED)])


def test_a_broker_before_1_0_is_named() -> None:
    connection = peer()
    del connection.served_versions[36]
    with pytest.raises(LoginFailed, match=r"does not know SaslAuthenticate, which Kafka has since 1\.0"):
        next(log_in(connection, "PLAIN", plain("a", Secret("b"))))


def test_a_broker_cannot_keep_a_client_for_ever() -> None:
    with pytest.raises(LoginFailed, match="the login by PLAIN does not end"):
        play([SaslHandshakeResponse()] + [SaslAuthenticateResponse()] * 40, endless())  # type: ignore[arg-type]
    large = SaslAuthenticateResponse(auth_bytes=bytes(MAX_CHALLENGE_BYTES + 1))
    with pytest.raises(LoginFailed, match="the limit is 65536"):
        play([SaslHandshakeResponse(), large], endless())  # type: ignore[arg-type]
