"""What is sent to a SASL listener to see its states and errors; `test_sasl_like_kafka` compares with Kafka's answers.

    play(connect)       # any broker: `connect(listener)` gives a `Peer`, `listener` is a name of `LISTENERS`
    cd gateway/security/sasl/tests
    python -m headgate.gateway.security.sasl.tests.sasl_scenario PORT > sasl_of_kafka.txt

The last line records the answers of an Apache Kafka 4.1.2 on this machine, as they stand in that file. The broker has
the settings of `SETTINGS`, with its four listeners on PORT and the next three ports.

Nonces, salts, signatures and lifetimes differ from run to run: they stand as words in the answers.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

from headgate.protocol import compiler
from headgate.protocol.header import RequestHeader, read_response_header, write_request_header
from headgate.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from headgate.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.metadata import MetadataRequest
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headgate.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headgate.protocol.schema import Message

PLAINTEXT, SASL, RENEWED, SHORT = "PLAINTEXT", "SASL", "RENEWED", "SHORT"
LISTENERS = (PLAINTEXT, SASL, RENEWED, SHORT)
DELAY_MS = 300
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PLAIN_USERS = {"alice": "secret of alice", "bob": "secret of bob", "zo\u00eb": "p\u00e4ss"}
SCRAM_USERS = {"alice": "secret of alice", "a,b=c": "secret", "zo\u00eb": "secret"}
ITERATIONS = 4096
RENEWED_MS, SHORT_MS = 60_000, 700
SETTINGS = {
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "connection.failed.authentication.delay.ms": str(DELAY_MS),
    "listener.name.renewed.connections.max.reauth.ms": str(RENEWED_MS),
    "listener.name.short.connections.max.reauth.ms": str(SHORT_MS),
}
"""Those beside `listeners` and the JAAS lines, which `jaas_lines` has."""
NAME = "CLIENT"
NOTHING = "nothing"

RESPONSES: dict[int, type[Message]] = {
    17: SaslHandshakeResponse,
    18: ApiVersionsResponse,
    36: SaslAuthenticateResponse,
}


class Answer(NamedTuple):
    """What a frame led to. `is_late`: after the delay of failed authentication."""

    reply: bytes | None
    is_closed: bool
    is_late: bool


class Peer(Protocol):
    """A connection to a broker."""

    def send(self, data: bytes) -> Answer:
        """Send bytes, a size and a frame, and wait for what follows."""

    def wait(self, wait_ms: int) -> None:
        """Let time pass."""


Connect = Callable[[str], Peer]


def jaas_lines() -> Iterator[tuple[str, str]]:
    """The settings with JAAS lines of all listeners."""
    users = "".join(f' user_{name}="{password}"' for name, password in PLAIN_USERS.items())
    modules = {
        "plain": f"plain.PlainLoginModule required{users}",
        "scram-sha-256": "scram.ScramLoginModule required",
        "scram-sha-512": "scram.ScramLoginModule required",
        "oauthbearer": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker"',
    }
    for listener in LISTENERS[1:]:
        for mechanism, module in modules.items():
            name = f"listener.name.{listener.lower()}.{mechanism}.sasl.jaas.config"
            yield name, f"org.apache.kafka.common.security.{module};"


def scram_users() -> Iterator[AlterUserScramCredentialsRequest]:
    """The requests that make the users of `SCRAM_USERS`, alice for both mechanisms: a request names a user once."""
    for number, digest, users in ((1, "sha256", list(SCRAM_USERS)), (2, "sha512", ["alice"])):
        salted = {name: hashlib.pbkdf2_hmac(digest, SCRAM_USERS[name].encode(), b"salt", ITERATIONS) for name in users}
        made = [
            ScramCredentialUpsertion(name, number, ITERATIONS, b"salt", password) for name, password in salted.items()
        ]
        yield AlterUserScramCredentialsRequest([], made)


class Client:
    """A client of one connection: `frame`, `ask` and `token` give the broker's answer as a text."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.token_bytes = b""
        self._number = 0
        self.is_raw = False
        self._version = 1

    def frame(self, frame: bytes) -> str:
        """Send any bytes as a frame."""
        return self._text(self.peer.send(struct.pack(">i", len(frame)) + frame), _unframed)

    def size(self, size: int) -> str:
        """Send the size of a frame alone."""
        return self._text(self.peer.send(struct.pack(">i", size)), _unframed)

    def ask(self, request: Message, version: int, *, cut: int = 0, more: bytes = b"") -> str:
        """Send a request, of any version, without its last `cut` bytes and with `more`."""
        self._number += 1
        header = RequestHeader(request.api_key, version, self._number, NAME)
        out = bytearray()
        write_request_header(out, header)
        compiler.write(request, min(version, request.versions[-1]), out, [])
        frame = bytes(out[: len(out) - cut]) + more
        answer = self.peer.send(struct.pack(">i", len(frame)) + frame)
        return self._text(answer, lambda reply: self._decoded(reply, header))

    def handshake(self, mechanism: str, version: int = 1) -> str:
        self.is_raw = version == 0
        return self.ask(SaslHandshakeRequest(mechanism), version)

    def token(self, token: bytes, version: int | None = None) -> str:
        if not self.is_raw:
            return self.ask(SaslAuthenticateRequest(token), self._version if version is None else version)
        answer = self.peer.send(struct.pack(">i", len(token)) + token)
        return self._text(answer, lambda reply: self._noted(reply[4:]))

    def _text(self, answer: Answer, decoded: Callable[[bytes], str]) -> str:
        reply = NOTHING if answer.reply is None else decoded(answer.reply)
        closed = "" if not answer.is_closed else ", then the end" if not answer.is_late else ", then the end, late"
        return reply + closed

    def _decoded(self, reply: bytes, header: RequestHeader) -> str:
        view = memoryview(reply)[4:]
        number, position = read_response_header(view, header.api_key, header.api_version)
        assert number == self._number
        response_class = RESPONSES.get(header.api_key)
        if response_class is None:
            return "a response"
        is_unknown = header.api_key == 18 and header.api_version not in response_class.versions
        response, end = compiler.read(response_class, 0 if is_unknown else header.api_version, view, position)
        assert end == len(view)
        return self._described(response)

    def _described(self, response: Message) -> str:
        if isinstance(response, SaslHandshakeResponse):
            return f"SaslHandshake {response.error_code} {' '.join(sorted(response.mechanisms))}".rstrip()
        if isinstance(response, SaslAuthenticateResponse):
            token = self._noted(bytes(response.auth_bytes))
            lifetime = " with a lifetime" if response.session_lifetime_ms else ""
            return f"SaslAuthenticate {response.error_code} {response.error_message} {token}{lifetime}"
        assert isinstance(response, ApiVersionsResponse)
        return f"ApiVersions {response.error_code} {'with APIs' if response.api_keys else 'without APIs'}"

    def _noted(self, token: bytes) -> str:
        self.token_bytes = token
        text = token.decode(errors="backslashreplace")
        text = re.sub(r"^r=[^,]*,s=[^,]*,", "r=NONCE,s=SALT,", text)
        return repr(re.sub(r"^v=.*", "v=SIGNATURE", text))


def _unframed(reply: bytes) -> str:
    return f"{len(reply) - 4} bytes"


class ScramClient:
    """The client's side of RFC 5802, with faults on demand."""

    def __init__(self, digest: str, user: str = "alice", password: str = "secret of alice") -> None:
        self.digest, self.password = digest, password.encode()
        self.bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r=abcdef"

    def first(self, header: str = "n,,", extensions: str = "") -> bytes:
        self.bare += extensions
        return (header + self.bare).encode()

    def final(
        self, server_first: bytes, *, channel: str = "biws", before: str = "", cut: int = 0, other: str | None = None
    ) -> bytes:
        fields = dict(field.split("=", 1) for field in server_first.decode().split(","))
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        unsigned = f"c={channel},r={other or before + fields['r']}"
        salted = hashlib.pbkdf2_hmac(self.digest, self.password, salt, iterations)
        key = hmac.digest(salted, b"Client Key", self.digest)
        message = f"{self.bare},{server_first.decode()},{unsigned}".encode()
        signature = hmac.digest(hashlib.new(self.digest, key).digest(), message, self.digest)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        proof = proof[: len(proof) - cut]
        return f"{unsigned},p={base64.b64encode(proof).decode()}".encode()


def plain(user: str, password: str, authorization_id: str = "") -> bytes:
    return f"{authorization_id}\0{user}\0{password}".encode()


def bearer(claims: dict[str, object], header: dict[str, object] | None = None, authzid: str = "", **more: str) -> bytes:
    """The initial response of OAUTHBEARER with an unsecured token."""
    parts = [json.dumps(part).encode() for part in (header or {"alg": "none"}, claims)]
    token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."
    return initial_response(
        f"auth=Bearer {token}", *[f"{name}={value}" for name, value in more.items()], authzid=authzid
    )


def initial_response(*pairs: str, authzid: str = "") -> bytes:
    identity = f"a={authzid}" if authzid else ""
    return f"n,{identity},\x01{''.join(f'{pair}{chr(1)}' for pair in pairs)}\x01".encode()


Steps = Iterator[str]
Case = Callable[[Client], Steps]


def play(connect: Connect, now_s: int) -> dict[str, str]:
    """The answers of a broker by the name of each step."""
    answers = {}
    for name, (listener, case) in cases(now_s).items():
        for number, text in enumerate(case(Client(connect(listener)))):
            answers[f"{name}: {number}"] = text
    return answers


def cases(now_s: int) -> dict[str, tuple[str, Case]]:
    """By name: the listener and the frames of one connection each."""
    found: dict[str, tuple[str, Case]] = {}
    for listener, group in (
        (SASL, _first_frames()),
        (SASL, _api_versions()),
        (SASL, _handshakes()),
        (SASL, _plain()),
        (SASL, _tokens_out_of_order()),
        (SASL, _scram()),
        (SASL, _oauthbearer(now_s)),
        (SASL, _after()),
        (RENEWED, _renewals(now_s)),
        (SHORT, _expiries()),
    ):
        for name, case in group.items():
            assert name not in found
            found[name] = listener, case
    return found


def frames(*frames: bytes) -> Case:
    return lambda client: (client.frame(frame) for frame in frames)


def asked(*requests: tuple[Message, int]) -> Case:
    return lambda client: (client.ask(request, version) for request, version in requests)


def _first_frames() -> dict[str, Case]:
    def sized(size: int) -> Case:
        return lambda client: iter([client.size(size)])

    return {
        "first, an empty frame": frames(b""),
        "first, one byte": frames(b"\x60"),
        "first, a GSSAPI token": frames(b"\x60\x82\x02\x3a\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01\x00\x6e"),
        "first, an unknown API": frames(struct.pack(">hhih", 999, 0, 1, -1)),
        "first, a negative API": frames(struct.pack(">hhih", -1, 0, 1, -1)),
        "first, Metadata": asked((MetadataRequest(), 1)),
        "first, Metadata of an unknown version": frames(struct.pack(">hhih", 3, 99, 1, -1)),
        "first, SaslAuthenticate": asked((SaslAuthenticateRequest(plain("alice", "secret of alice")), 1)),
        "first, a header that is cut": frames(struct.pack(">hhih", 17, 1, 1, 9) + b"cut"),
        "first, a frame of 524289 bytes": sized(524289),
        "first, a frame of -1 bytes": sized(-1),
    }


def _api_versions() -> dict[str, Case]:
    ask, named = ApiVersionsRequest(), ApiVersionsRequest("client", "1.0")
    handshake = SaslHandshakeRequest("PLAIN"), 1
    return {
        "ApiVersions 0": asked((ask, 0), handshake),
        "ApiVersions 3": asked((named, 3), handshake),
        "ApiVersions 99, then 0": asked((named, 99), (ask, 0), handshake),
        "ApiVersions 99 twice": asked((named, 99), (named, 99), handshake),
        "ApiVersions with an invalid name": asked((ApiVersionsRequest("-", "1.0"), 3), (named, 3), handshake),
        "ApiVersions twice": asked((ask, 0), (ask, 0)),
        "ApiVersions that is cut": lambda client: iter([client.ask(named, 3, cut=3)]),
        "ApiVersions, then garbage": lambda client: iter([client.ask(ask, 0), client.frame(b"\x60\x82")]),
        "ApiVersions, then Metadata": asked((ask, 0), (MetadataRequest(), 1)),
        "ApiVersions, then a bare token": lambda client: iter([client.ask(ask, 0), client.frame(plain("alice", "x"))]),
    }


def _handshakes() -> dict[str, Case]:
    found: dict[str, Case] = {
        f"handshake {version} for {mechanism or 'nothing'}": asked((SaslHandshakeRequest(mechanism), version))
        for version in (0, 1)
        for mechanism in (*MECHANISMS, "GSSAPI", "plain", "")
    }
    return found | {
        "handshake 2": asked((SaslHandshakeRequest("PLAIN"), 2)),
        "handshake that is cut": lambda client: iter([client.ask(SaslHandshakeRequest("PLAIN"), 1, cut=2)]),
        "handshake with more bytes": lambda client: iter([client.ask(SaslHandshakeRequest("PLAIN"), 1, more=b"x")]),
        "handshake after a refused one": asked((SaslHandshakeRequest("x"), 1), (SaslHandshakeRequest("PLAIN"), 1)),
    }


def logged_in(mechanism: str, *tokens: bytes, version: int = 1, **more: int) -> Case:
    return lambda client: iter(
        [client.handshake(mechanism, version), *(client.token(token, **more) for token in tokens)]
    )


def _plain() -> dict[str, Case]:
    tokens = {
        "right": plain("alice", "secret of alice"),
        "wrong": plain("alice", "secret of bob"),
        "unknown user": plain("carol", "secret of alice"),
        "no user": plain("", "secret of alice"),
        "no password": plain("alice", ""),
        "same id": plain("alice", "secret of alice", "alice"),
        "other id": plain("alice", "secret of alice", "bob"),
        "other id, wrong": plain("alice", "x", "bob"),
        "not ASCII": plain("zo\u00eb", "p\u00e4ss"),
        "nothing": b"",
        "two parts": b"alice\0secret of alice",
        "four parts": b"\0alice\0secret of alice\0",
        "six parts": b"\0\0\0\0\0",
        "invalid UTF-8": b"\0\xff\xfe\0\xff",
    }
    found = {f"PLAIN {version}, {name}": logged_in("PLAIN", token, version=version)
             for version in (0, 1) for name, token in tokens.items()}  # fmt: skip
    for version in (0, 2, 3):
        for name in ("right", "wrong"):
            found[f"PLAIN by SaslAuthenticate {version}, {name}"] = partial(_by_authenticate, tokens[name], version)
    return found


def _by_authenticate(token: bytes, version: int, client: Client) -> Steps:
    yield client.handshake("PLAIN")
    yield client.token(token, version)


def _tokens_out_of_order() -> dict[str, Case]:
    def then(send: Callable[[Client], str], version: int = 1) -> Case:
        return lambda client: iter([client.handshake("PLAIN", version), send(client)])

    right = SaslAuthenticateRequest(plain("alice", "secret of alice"))
    return {
        "a token due, ApiVersions 0": then(lambda client: client.ask(ApiVersionsRequest(), 0)),
        "a token due, ApiVersions 3": then(lambda client: client.ask(ApiVersionsRequest("a", "1"), 3)),
        "a token due, a handshake": then(lambda client: client.ask(SaslHandshakeRequest("PLAIN"), 1)),
        "a token due, Metadata": then(lambda client: client.ask(MetadataRequest(), 1)),
        "a token due, an empty frame": then(lambda client: client.frame(b"")),
        "a token due, garbage": then(lambda client: client.frame(b"\xff" * 20)),
        "a token due, a bare token": then(lambda client: client.frame(plain("alice", "secret of alice"))),
        "a token due, a cut request": then(lambda client: client.ask(right, 1, cut=3)),
        "a token due, more bytes": then(lambda client: client.ask(right, 1, more=b"x")),
        "a bare token due, a request": then(lambda client: client.ask(right, 1), 0),
        "a bare token due, an empty frame": then(lambda client: client.frame(b""), 0),
    }


def _scram() -> dict[str, Case]:
    def proof(digest: str = "sha256", version: int = 1, user: str = "alice", password: str = "secret of alice",
              header: str = "n,,", extensions: str = "", **final: object) -> Case:  # fmt: skip
        def case(client: Client) -> Steps:
            scram = ScramClient(digest, user, password)
            yield client.handshake(f"SCRAM-SHA-{digest[3:]}", version)
            yield client.token(scram.first(header, extensions))
            if client.token_bytes.startswith(b"r="):
                yield client.token(scram.final(client.token_bytes, **final))  # type: ignore[arg-type]

        return case

    def first(token: bytes, version: int = 1) -> Case:
        return logged_in("SCRAM-SHA-256", token, version=version)

    def later(client: Client) -> Steps:
        scram = ScramClient("sha256")
        yield client.handshake("SCRAM-SHA-256")
        yield client.token(scram.first())
        yield client.token(b"garbage")

    return {
        "SCRAM-256": proof(),
        "SCRAM-512": proof("sha512"),
        "SCRAM, raw": proof(version=0),
        "SCRAM, unknown user": proof(user="carol"),
        "SCRAM, unknown token": proof(user="carol", extensions=",tokenauth=true"),
        "SCRAM, wrong": proof(password="x"),
        "SCRAM, wrong, raw": proof(password="x", version=0),
        "SCRAM, escaped name": proof(user="a,b=c", password="secret"),
        "SCRAM, same id": proof(header="n,a=alice,"),
        "SCRAM, other id": proof(header="n,a=bob,"),
        "SCRAM, other id, raw": proof(header="n,a=bob,", version=0),
        "SCRAM, an extension": proof(extensions=",foo=bar"),
        "SCRAM, tokenauth=false": proof(extensions=",tokenauth=false"),
        "SCRAM, a doubled nonce": proof(before="abcdef"),
        "SCRAM, another nonce": proof(other="abcdefghijkl"),
        "SCRAM, a short proof": proof(cut=3),
        "SCRAM, no proof": proof(cut=32),
        "SCRAM, other channel": proof(channel="eSws"),
        "SCRAM, not ASCII": proof(user="zo\u00eb", password="secret"),
        "SCRAM, channel binding": first(b"p=tls-unique,,n=alice,r=abc"),
        "SCRAM, no header": first(b"n=alice,r=abc"),
        "SCRAM, y": first(b"y,,n=alice,r=abc"),
        "SCRAM, no name": first(b"n,,n=,r=abc"),
        "SCRAM, an invalid escape": first(b"n,,n=a=2,r=abc"),
        "SCRAM, nothing": first(b""),
        "SCRAM, nothing, raw": first(b"", 0),
        "SCRAM, garbage": first(b"\xff\x00"),
        "SCRAM, garbage at last": later,
    }


def _oauthbearer(now_s: int) -> dict[str, Case]:
    claims: dict[str, object] = {"sub": "alice", "iat": now_s - 10, "exp": now_s + 3600}

    def refused(token: bytes, version: int = 1, last: bytes = b"\x01") -> Case:
        return lambda client: iter([client.handshake("OAUTHBEARER", version), client.token(token), client.token(last)])

    one = "OAUTHBEARER"
    return {
        "bearer": logged_in(one, bearer(claims)),
        "bearer, raw": logged_in(one, bearer(claims), version=0),
        "bearer, same id": logged_in(one, bearer(claims, authzid="alice")),
        "bearer, other id": logged_in(one, bearer(claims, authzid="bob")),
        "bearer, an extension": logged_in(one, bearer(claims, logicalCluster="x")),
        "bearer, expired": refused(bearer({**claims, "exp": now_s - 5})),
        "bearer, expired, raw": refused(bearer({**claims, "exp": now_s - 5}), 0),
        "bearer, expired, then valid": refused(bearer({**claims, "exp": now_s - 5}), last=bearer(claims)),
        "bearer, expired, then garbage": refused(bearer({**claims, "exp": now_s - 5}), last=b"garbage"),
        "bearer, no end": refused(bearer({"sub": "alice"})),
        "bearer, no start": logged_in(one, bearer({"sub": "alice", "exp": now_s + 3600})),
        "bearer, no name": refused(bearer({"exp": now_s + 3600})),
        "bearer, from the future": refused(bearer({**claims, "iat": now_s + 600})),
        "bearer, an algorithm": refused(bearer(claims, {"alg": "RS256"})),
        "bearer, no JWT": refused(initial_response("auth=Bearer abc")),
        "bearer, two parts": refused(initial_response("auth=Bearer abc.def")),
        "bearer, no auth": logged_in(one, initial_response("foo=bar")),
        "bearer, no pairs": logged_in(one, initial_response()),
        "bearer, another scheme": logged_in(one, initial_response("auth=Basic abc")),
        "bearer, no scheme": logged_in(one, initial_response("auth=abc")),
        "bearer, garbage": logged_in(one, b"garbage"),
        "bearer, garbage, raw": logged_in(one, b"garbage", version=0),
        "bearer, acknowledged at first": logged_in(one, b"\x01"),
    }


def _login(client: Client, user: str = "alice", version: int = 1) -> str:
    return client.handshake("PLAIN") + " | " + client.token(plain(user, PLAIN_USERS.get(user, "x")), version)


def _after() -> dict[str, Case]:
    def then(*requests: tuple[Message, int]) -> Case:
        return lambda client: iter([_login(client), *(client.ask(*request) for request in requests)])

    token = SaslAuthenticateRequest(plain("alice", "secret of alice"))
    return {
        "logged in, handshake 0": then((SaslHandshakeRequest("PLAIN"), 0), (MetadataRequest(), 1)),
        "logged in, handshake 1": then((SaslHandshakeRequest("PLAIN"), 1), (MetadataRequest(), 1)),
        "logged in, SaslAuthenticate 0": then((token, 0)),
        "logged in, SaslAuthenticate 2": then((token, 2), (MetadataRequest(), 1)),
        "logged in, ApiVersions": then((ApiVersionsRequest(), 0)),
    }


def _renewals(now_s: int) -> dict[str, Case]:
    def renewed(*sends: Callable[[Client], str]) -> Case:
        return lambda client: iter([_login(client), *(send(client) for send in sends)])

    def metadata(client: Client) -> str:
        return client.ask(MetadataRequest(), 1)

    early = {"sub": "alice", "iat": now_s - 10, "exp": now_s + 300}

    def after_a_second(client: Client) -> Steps:
        yield _login(client)
        yield _login(client)
        client.peer.wait(1200)
        yield _login(client)

    return {
        "renewed": renewed(_login, metadata),
        "renewed twice in a second": renewed(_login, lambda client: client.handshake("PLAIN"), metadata),
        "renewed after a second": after_a_second,
        "renewed by SaslAuthenticate 0": renewed(lambda client: _login(client, version=0), metadata),
        "renewed by raw tokens": renewed(
            lambda client: client.handshake("PLAIN", 0),
            lambda client: client.token(plain("alice", "secret of alice")),
            metadata,
        ),
        "renewed as another": renewed(lambda client: _login(client, "bob")),
        "renewed as another, raw": renewed(
            lambda client: client.handshake("PLAIN", 0), lambda client: client.token(plain("bob", "secret of bob"))
        ),
        "renewed wrongly": renewed(
            lambda client: client.handshake("PLAIN"), lambda client: client.token(plain("alice", "x"))
        ),
        "renewed by another mechanism": renewed(
            lambda client: client.handshake("SCRAM-SHA-256"),
            lambda client: client.token(ScramClient("sha256").first()),
        ),
        "renewed by an unknown mechanism": renewed(lambda client: client.handshake("x")),
        "renewal, then Metadata": renewed(lambda client: client.handshake("PLAIN"), metadata),
        "renewal, handshake 2": renewed(lambda client: client.ask(SaslHandshakeRequest("PLAIN"), 2)),
        "renewal, ApiVersions first": renewed(
            lambda client: client.ask(ApiVersionsRequest(), 0), lambda client: client.handshake("PLAIN")
        ),
        "session of a bearer": logged_in("OAUTHBEARER", bearer(early)),
        "session of a bearer, raw": logged_in("OAUTHBEARER", bearer(early), version=0),
    }


def _expiries() -> dict[str, Case]:
    def late(*sends: Callable[[Client], str]) -> Case:
        def case(client: Client) -> Steps:
            yield _login(client)
            client.peer.wait(SHORT_MS + 300)
            for send in sends:
                yield send(client)

        return case

    return {
        "expired, Metadata": late(lambda client: client.ask(MetadataRequest(), 1)),
        "expired, ApiVersions": late(lambda client: client.ask(ApiVersionsRequest(), 0)),
        "expired, a renewal": late(_login, lambda client: client.ask(MetadataRequest(), 1)),
        "expired, SaslAuthenticate": late(lambda client: client.ask(SaslAuthenticateRequest(b""), 1)),
    }


class SocketPeer:
    """A connection to a broker on this machine."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))

    def wait(self, wait_ms: int) -> None:
        time.sleep(wait_ms / 1000)

    def send(self, data: bytes) -> Answer:
        began = time.monotonic()
        try:
            self.socket.sendall(data)
            reply, is_closed = self._receive(5 * DELAY_MS / 1000)
        except OSError:
            reply, is_closed = None, True
        is_late = time.monotonic() - began >= 0.8 * DELAY_MS / 1000
        if reply is not None and not is_closed:
            is_closed = self._is_closed_soon()
        return Answer(reply, is_closed, is_late and is_closed)

    def _receive(self, timeout_s: float) -> tuple[bytes | None, bool]:
        self.socket.settimeout(timeout_s)
        data = b""
        try:
            while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
                received = self.socket.recv(1 << 16)
                if not received:
                    return None, True
                data += received
        except TimeoutError:
            return None, False
        return data, False

    def _is_closed_soon(self) -> bool:
        self.socket.settimeout(0.1)
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except TimeoutError:
            return False
        except OSError:
            return True


def main(port: int) -> None:
    """Print the answers of an Apache Kafka."""
    client = Client(SocketPeer(port))
    for request in scram_users():
        client.ask(request, 0)
    ports = {listener: port + number for number, listener in enumerate(LISTENERS)}
    for name, text in play(lambda listener: SocketPeer(ports[listener]), int(time.time())).items():
        sys.stdout.write(f"{name}\t{text}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
