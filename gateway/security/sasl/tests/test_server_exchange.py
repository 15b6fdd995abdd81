"""The exchange of a connection: any bytes in any state, sessions, computations, and planted mistakes.

Kafka's answers to single frames: `test_sasl_like_kafka`.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.gateway.security.sasl.exchange import (
    Authenticated,
    AuthenticationFailed,
    Challenge,
    SaslComputation,
    SaslExchange,
    SaslStep,
)
from headgate.gateway.security.sasl.gssapi import GssapiExchange
from headgate.gateway.security.sasl.plain import ScramPasswords
from headgate.gateway.security.sasl.server_exchange import (
    Close,
    LoggedIn,
    RunComputation,
    SaslServerExchange,
    SaslState,
    SendReply,
)
from headgate.gateway.security.sasl.tests.exchanges import (
    CREDENTIALS,
    NOW_S,
    Connected,
    FakeClock,
    api_versions,
    listener,
)
from headgate.gateway.security.sasl.tests.sasl_scenario import (
    PLAIN_USERS,
    RENEWED,
    SASL,
    SHORT,
    SHORT_MS,
    Client,
    bearer,
    plain,
)
from headgate.gateway.security.sasl.tests.test_gssapi import NO_LAYER, RULES, ScriptedContext
from headgate.protocol.header import RequestHeader, write_request_header
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.metadata import MetadataRequest
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from headgate.protocol.messages.sasl_handshake import SaslHandshakeRequest
from headgate.protocol.tests.examples import share

ROOM = "headgate.gateway.security.sasl"
HANDSHAKE = "SaslHandshake 0 OAUTHBEARER PLAIN SCRAM-SHA-256 SCRAM-SHA-512"


class Scripted:
    """A mechanism whose steps a test gives, in order."""

    def __init__(self, *steps: SaslStep | Exception) -> None:
        self.steps = list(steps)
        self.tokens: list[bytes] = []

    def step(self, token: bytes) -> SaslStep:
        self.tokens.append(token)
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


def connected(name: str = SASL, **more: Callable[[], SaslExchange]) -> tuple[Client, Connected]:
    clock = FakeClock()
    peer = Connected(listener(clock, name, more=more), clock)
    return Client(peer), peer


def scripted(*steps: SaslStep | Exception, name: str = SASL, version: int = 1) -> tuple[Client, Connected]:
    """A connection that has chosen a mechanism of these steps."""
    client, peer = connected(name, PLAIN=lambda: Scripted(*steps))
    assert client.handshake("PLAIN", version) == HANDSHAKE
    return client, peer


def login(client: Client, user: str = "alice") -> str:
    client.handshake("PLAIN")
    return client.token(plain(user, PLAIN_USERS[user]))


def test_a_login_names_the_principal_once() -> None:
    client, peer = connected()
    login(client)
    assert peer.logins == [LoggedIn("User:alice", "PLAIN")]
    assert peer.exchange.state is SaslState.COMPLETE


def test_a_frame_is_bounded_until_the_login_ends() -> None:
    client, peer = connected()
    assert peer.exchange.max_frame_bytes == 524288
    login(client)
    assert peer.exchange.max_frame_bytes is None


@pytest.mark.parametrize("size", [-1, 524289, 0x7FFFFFFF])
def test_a_frame_above_the_limit_ends_the_connection(size: int) -> None:
    _, peer = connected()
    (close,) = peer.exchange.refuse_size(size)
    assert isinstance(close, Close)
    assert (close.delay_ms, close.last_reply) == (300, b"")
    assert f"a frame of {size} bytes" in close.reason


def test_a_computation_is_run_between_two_frames() -> None:
    client, peer = connected()
    peer.exchange = SaslServerExchange(
        listener(peer.clock, passwords=ScramPasswords(CREDENTIALS)), api_versions, peer.clock
    )
    assert login(client) == "SaslAuthenticate 0  ''"
    assert peer.logins == [LoggedIn("User:alice", "PLAIN")]


def test_no_frame_may_come_while_a_thread_computes() -> None:
    _, peer = scripted(SaslComputation(lambda: Challenge(b"x")), version=0)
    (event,) = peer.exchange.receive(memoryview(b"token"))
    assert isinstance(event, RunComputation)
    assert peer.exchange.state is SaslState.COMPUTING
    with pytest.raises(AssertionError, match="no frame is due"):
        peer.exchange.receive(memoryview(b"token"))


def test_a_fault_of_a_computation_closes_and_shows_no_reply() -> None:
    _, peer = scripted(SaslComputation(lambda: Challenge(b"x")), version=0)
    peer.exchange.receive(memoryview(b"token"))
    (close,) = peer.exchange.resume(OSError(5, "the disk"))
    assert isinstance(close, Close)
    assert (close.last_reply, close.delay_ms) == (b"", 0)


def test_a_retriable_failure_closes_without_an_answer() -> None:
    client, peer = scripted(AuthenticationFailed("a repeated token", is_retriable=True))
    assert client.token(b"x") == "nothing, then the end"
    assert peer.closes[0].reason == "a repeated token"


def test_a_general_sentence_hides_the_reason() -> None:
    client, peer = scripted(AuthenticationFailed("the user has no credential"))
    answer = client.token(b"x")
    assert "invalid credentials with SASL mechanism PLAIN" in answer
    assert "no credential" not in answer
    assert peer.closes[0].reason == "PLAIN: the user has no credential"


def test_a_token_is_copied_from_the_frame() -> None:
    exchange = Scripted(Challenge(b"1"), Challenge(b"2"))
    client, _ = connected(PLAIN=lambda: exchange)
    client.handshake("PLAIN")
    assert [client.token(b"first"), client.token(b"second")] == ["SaslAuthenticate 0  '1'", "SaslAuthenticate 0  '2'"]
    assert exchange.tokens == [b"first", b"second"]


@pytest.mark.parametrize("is_bare", [True, False])
def test_a_client_logs_in_by_gssapi(is_bare: bool) -> None:
    """Bare: a client of Kafka 0.9 sends no handshake, and gets no last frame."""
    client, peer = connected(GSSAPI=lambda: GssapiExchange(lambda: ScriptedContext(b"one"), RULES))
    client.is_raw = is_bare
    answers = [] if is_bare else [client.handshake("GSSAPI")]
    answers += [client.token(b"\x60\x82"), client.token(b""), client.token(NO_LAYER)]
    assert answers[-1] == ("nothing" if is_bare else "SaslAuthenticate 0  ''")
    assert peer.logins == [LoggedIn("User:ann", "GSSAPI")]


def test_a_first_token_is_for_gssapi_alone() -> None:
    client, peer = connected()
    assert client.frame(b"\x60\x82") == "nothing, then the end"
    assert "GSSAPI is not enabled" in peer.closes[0].reason


# Sessions


def lifetime(answer: str) -> bool:
    return answer.endswith("with a lifetime")


@pytest.mark.parametrize(
    "name, expires_at_s, lifetime_ms",
    [(SASL, 30, 30_000), (RENEWED, 30, 30_000), (RENEWED, 3600, 60_000), (RENEWED, None, 60_000), (SASL, -5, 0)],
)
def test_a_session_has_the_shorter_life(name: str, expires_at_s: int | None, lifetime_ms: int) -> None:
    end = None if expires_at_s is None else (NOW_S + expires_at_s) * 1000
    client, peer = scripted(Authenticated("ann", expires_at_ms=end), name=name)
    client.token(b"x")
    assert peer.exchange.session_expires_ms == lifetime_ms
    assert peer.logins[0].session_expires_ms == lifetime_ms


def test_a_session_without_an_end_takes_no_frame() -> None:
    client, peer = connected()
    login(client)
    peer.wait(10**9)
    assert not peer.exchange.takes(memoryview(b"\0\x11"))
    assert client.ask(MetadataRequest(), 1) == "a response"


def test_a_session_ends_at_its_next_request() -> None:
    client, peer = connected(SHORT)
    assert lifetime(login(client))
    peer.wait(SHORT_MS)
    assert client.ask(MetadataRequest(), 1) == "a response"
    peer.wait(1)
    assert client.ask(MetadataRequest(), 1) == "nothing, then the end"
    assert peer.closes[0].reason == "the session of User:alice has expired"


def test_a_renewal_begins_a_new_session() -> None:
    client, peer = connected(SHORT)
    login(client)
    peer.wait(SHORT_MS - 1)
    login(client)
    assert [event.is_renewal for event in peer.logins] == [False, True]
    assert peer.exchange.session_expires_ms == 2 * SHORT_MS - 1


def test_a_renewal_without_an_end_ends_the_expiry() -> None:
    client, peer = connected()
    client.handshake("OAUTHBEARER")
    client.token(bearer({"sub": "alice", "exp": NOW_S + 5}))
    peer.wait(2000)
    client.handshake("OAUTHBEARER")
    client.token(bearer({"sub": "alice", "exp": NOW_S + 500}))
    assert peer.exchange.session_expires_ms == 500_000


def test_a_renewal_as_another_ends_the_connection() -> None:
    client, peer = connected(RENEWED)
    login(client)
    assert "Cannot change principals during re-authentication from User.alice: User.bob" in login(client, "bob")
    assert [event.principal for event in peer.logins] == ["User:alice"]


# Any bytes

_FRAMES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([plain("alice", "secret of alice"), b"n,,n=alice,r=x", b"\x01", b"\x60\x82"]),
    st.just(bearer({"sub": "a", "exp": NOW_S + 9})),
    st.builds(
        lambda key, version, rest: struct.pack(">hhih", key, version, 1, -1) + rest,
        st.sampled_from([17, 18, 36, 3, 0, -1]), st.integers(-1, 4), st.binary(max_size=30),
    ),
)  # fmt: skip
_REQUESTS = st.sampled_from(
    [
        lambda client: client.ask(ApiVersionsRequest("a", "1"), 3),
        lambda client: client.handshake("PLAIN"),
        lambda client: client.handshake("PLAIN", 0),
        lambda client: client.handshake("SCRAM-SHA-256"),
        lambda client: client.handshake("OAUTHBEARER"),
        lambda client: client.handshake("GSSAPI"),
        lambda client: client.token(plain("alice", "secret of alice")),
        lambda client: client.token(plain("alice", "wrong")),
        lambda client: client.token(b"n,,n=alice,r=x"),
        lambda client: client.token(bearer({"sub": "alice", "exp": NOW_S + 9})),
        lambda client: client.ask(MetadataRequest(), 1),
        lambda client: client.peer.wait(1500),
    ]
)


def play(actions: list[Any], name: str) -> Connected:
    """A connection after these frames and requests; the exchange must take each, and reply in whole frames."""
    client, peer = connected(name, GSSAPI=lambda: GssapiExchange(lambda: ScriptedContext(b"one"), RULES))
    for action in actions:
        if peer.closes:
            break
        if isinstance(action, bytes):
            peer.send(struct.pack(">i", len(action)) + action)
        else:
            action(client)
    return peer


def check(peer: Connected) -> None:
    """No principal without its password, and no other after it."""
    assert {event.principal for event in peer.logins} <= {"User:alice", "User:a", "User:ann"}
    assert len({(event.principal, event.mechanism) for event in peer.logins}) <= 1
    assert bool(peer.logins) or peer.exchange.state is not SaslState.COMPLETE
    assert (peer.exchange.state is SaslState.FAILED) == bool(peer.closes)


@pytest.mark.slow
@settings(max_examples=share(300))
@given(st.lists(_FRAMES | _REQUESTS, max_size=8), st.sampled_from([SASL, RENEWED, SHORT]))
def test_any_bytes_in_any_state_are_answered(actions: list[Any], name: str) -> None:
    check(play(actions, name))


class Everyone(str):
    """A principal that is no other than any other."""

    __slots__ = ()

    def __ne__(self, _other: object) -> bool:
        return False


def forgetful(principal: str, mechanism: str) -> SimpleNamespace:
    """A session of everyone."""
    return SimpleNamespace(principal=Everyone(principal), mechanism=mechanism)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda patch: patch.setattr(f"{ROOM}.server_exchange.SaslSession", forgetful),
        lambda patch: patch.setattr(f"{ROOM}.plain.hmac.compare_digest", lambda *_: True),
    ],
    ids=["a session is forgotten", "every password is right"],
)
def test_planted_mistakes_are_found(monkeypatch: pytest.MonkeyPatch, mistake: Any) -> None:
    mistake(monkeypatch)
    as_other: list[Any] = [login, lambda client: login(client, "bob")]
    wrong: list[Any] = [lambda client: client.handshake("PLAIN"), lambda client: client.token(plain("bob", "wrong"))]
    connections = [play(actions, RENEWED) for actions in (as_other, wrong)]
    with pytest.raises(AssertionError):
        deque(map(check, connections), maxlen=0)


def test_replies_carry_the_number_of_their_request() -> None:
    _, peer = connected()
    out = bytearray()
    write_request_header(out, RequestHeader(SaslHandshakeRequest.api_key, 1, 0x01020304, None))
    out += b"\0\x05PLAIN"
    (reply,) = peer.exchange.receive(memoryview(out))
    assert isinstance(reply, SendReply)
    assert struct.unpack_from(">ii", reply.data) == (len(reply.data) - 4, 0x01020304)


def test_no_text_of_an_event_has_a_token() -> None:
    assert "secret" not in repr(
        [SendReply(b"secret"), Close("x", b"secret"), RunComputation(lambda: Challenge(b"secret"))]
    )


def test_no_text_of_a_request_has_a_token() -> None:
    assert repr(SaslAuthenticateRequest(b"secret")) == "SaslAuthenticateRequest(<6 bytes>)"
