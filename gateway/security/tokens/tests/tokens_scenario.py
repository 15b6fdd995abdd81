"""What is asked of a broker about delegation tokens; `test_tokens_like_kafka` compares with Kafka's answers.

    play(broker)        # any broker: `ask(who, request, version)` gives its response to one of `WHO`
    cd gateway/security/tokens/tests
    python -m headgate.gateway.security.tokens.tests.tokens_scenario PORT 1 > tokens_of_kafka41.txt
    python -m headgate.gateway.security.tokens.tests.tokens_scenario PORT 0 > tokens_of_kafka39.txt

The last lines record the answers of an Apache Kafka 4.1.2 and of a 3.9.1 with ZooKeeper, as they stand in these files.
The broker is new and has `SETTINGS`; its listeners are PLAINTEXT at PORT, and SASL at the next port. The last argument
is the lowest version of the requests. With the word `disabled` at the end, the broker has no secret key; these are the
files `tokens_disabled_of_kafka41.txt` and `tokens_disabled_of_kafka39.txt`.

Ids, secrets and times differ from run to run. A token's id stands as its number, its secret as a word if it is the HMAC
of the id, a time as hours after the question.
"""

from __future__ import annotations

import base64
import hmac
import re
import struct
import sys
import time
from collections.abc import Iterator
from typing import Any, Final, Protocol

from headgate.gateway.api.tests.like_kafka.admin_scenario import Remote
from headgate.gateway.security.sasl.tests.sasl_scenario import Client, ScramClient, SocketPeer, plain
from headgate.protocol import compiler
from headgate.protocol.errors import ErrorCode
from headgate.protocol.header import RequestHeader, read_response_header, write_request_header
from headgate.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from headgate.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headgate.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from headgate.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from headgate.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from headgate.protocol.schema import Message, Struct, fields_in

SECRET_KEY: Final = "a secret key"
USERS: Final = ("alice", "bob", "carol", "dora", "erik", "admin")
PASSWORD: Final = "secret"
NOBODY, BY_TOKEN = "nobody", "a token"
WHO: Final = (*USERS, NOBODY, BY_TOKEN)
"""Users that log in; a client of the listener PLAINTEXT; a client that logged in by a token of alice."""
HOUR_MS: Final = 3_600_000
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_USERS: Final = "".join(f' user_{name}="{PASSWORD}"' for name in USERS)
SETTINGS: Final = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl.plain.sasl.jaas.config": f"{_PLAIN}{_USERS};",
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.max.lifetime.ms": str(100 * HOUR_MS),
    "delegation.token.expiry.time.ms": str(10 * HOUR_MS),
    "delegation.token.secret.key": SECRET_KEY,
}
"""Those beside `listeners` and `authorizer.class.name`. CONTROLLER is a listener of Kafka alone."""

_LITERAL, _ALLOW, _DESCRIBE, _TOKEN, _USER, _CREATE_TOKENS, _DESCRIBE_TOKENS = 3, 3, 8, 6, 7, 13, 14
ACLS: Final = CreateAclsRequest(
    [
        AclCreation(_USER, "User:bob", _LITERAL, "User:alice", "*", _CREATE_TOKENS, _ALLOW),
        AclCreation(_USER, "Group:bob", _LITERAL, "User:alice", "*", _CREATE_TOKENS, _ALLOW),
        AclCreation(_USER, "User:alice", _LITERAL, "User:dora", "*", _DESCRIBE_TOKENS, _ALLOW),
        AclCreation(_TOKEN, "*", _LITERAL, "User:erik", "*", _DESCRIBE, _ALLOW),
    ]
)
RESPONSES: Final[dict[int, type[Message]]] = {
    38: CreateDelegationTokenResponse,
    39: RenewDelegationTokenResponse,
    40: ExpireDelegationTokenResponse,
    41: DescribeDelegationTokenResponse,
}


class TokenBroker(Protocol):
    """A broker with these settings and ACLs."""

    def ask(self, who: str, request: Message, version: int) -> Any:
        """The response to one of `WHO`."""

    def now_ms(self) -> int:
        """The time of the broker."""

    def wait(self, wait_ms: int) -> None:
        """Let time pass."""


class Scenario:
    """The questions to one broker: the tokens that it has made so far, and its answers as lines."""

    def __init__(self, broker: TokenBroker) -> None:
        self.broker = broker
        self.hmacs: list[bytes] = []
        self.ids: list[str] = []

    def play(self, low: int) -> Iterator[tuple[str, str]]:
        """The name and the answer of each question. `low`: the lowest version."""
        for version in range(low, 4):
            for name, who, creation in _creations(version):
                yield f"create v{version}, {name}", self._ask(who, creation, version)
        for name, who, description in _descriptions():
            for version in range(low, 4):
                line = self._ask(who, description, version)
                yield f"describe v{version}, {name}", line if name == "all, admin" else _ids_in(line)
        for version in range(low, 3):
            yield from self._periods(version)
            yield from self._secrets(version)
            yield from self._expired(version)
        yield "describe v3, at the end", self._ask("admin", DescribeDelegationTokenRequest(None), 3)

    def _make(self) -> None:
        """A token of alice that bob may renew."""
        self._ask("alice", CreateDelegationTokenRequest("", "", _renewers("bob"), -1), 2)

    def _renew(self, who: str, version: int, period_ms: int, secret: bytes | None = None) -> str:
        return self._ask(who, RenewDelegationTokenRequest(self._last if secret is None else secret, period_ms), version)

    def _expire(self, who: str, version: int, period_ms: int, secret: bytes | None = None) -> str:
        secret = self._last if secret is None else secret
        return self._ask(who, ExpireDelegationTokenRequest(secret, period_ms), version)

    def _periods(self, version: int) -> Iterator[tuple[str, str]]:
        for name, who, period_ms in _periods():
            self._make()
            yield f"renew v{version}, {name}", self._renew(who, version, period_ms)
            yield f"expire v{version}, {name}", self._expire(who, version, period_ms)

    def _secrets(self, version: int) -> Iterator[tuple[str, str]]:
        for name, secret in (("an unknown secret", b"x" * 64), ("no secret", b""), ("half a secret", self._last[:32])):
            for who in ("alice", NOBODY, BY_TOKEN):
                yield f"renew v{version}, {name}, {who}", self._renew(who, version, 1, secret)
                yield f"expire v{version}, {name}, {who}", self._expire(who, version, 1, secret)
        self._ask("alice", CreateDelegationTokenRequest("User", "bob", [], -1), 3)
        for who in ("bob", "alice", "carol"):
            yield f"renew v{version}, of bob by {who}", self._renew(who, version, -1)
        yield f"expire v{version}, of bob by alice", self._expire("alice", version, -1)

    def _expired(self, version: int) -> Iterator[tuple[str, str]]:
        self._make()
        self._expire("alice", version, 1)
        self.broker.wait(50)
        for who in ("carol", "alice"):
            yield f"renew v{version}, expired, {who}", self._renew(who, version, -1)
            yield f"expire v{version}, expired, {who}", self._expire(who, version, 1)
        yield f"expire v{version}, expired, now", self._expire("alice", version, -1)
        yield f"renew v{version}, gone", self._renew("alice", version, -1)

    @property
    def _last(self) -> bytes:
        return self.hmacs[-1] if self.hmacs else b"no token"

    def _ask(self, who: str, request: Message, version: int) -> str:
        asked_ms = self.broker.now_ms()
        response = self.broker.ask(who, request, version)
        if isinstance(response, CreateDelegationTokenResponse) and response.token_id:
            self.ids.append(response.token_id)
            self.hmacs.append(bytes(response.hmac))
        return self._line(response, version, asked_ms)

    def _line(self, value: Any, version: int, asked_ms: int) -> str:
        if isinstance(value, Struct):
            fields = [field.name for field in fields_in(type(value), version) if field.name != "throttle_time_ms"]
            return f"({' '.join(f'{name}={self._field(name, value, version, asked_ms)}' for name in fields)})"
        if isinstance(value, list):
            return f"[{' '.join(sorted(self._line(each, version, asked_ms) for each in value))}]"
        return repr(value)

    def _field(self, name: str, row: Any, version: int, asked_ms: int) -> str:
        value = getattr(row, name)
        if name == "error_code":
            return ErrorCode(value).name
        if name == "token_id":
            return f"{self.ids.index(value):03d}" if value in self.ids else repr(value)
        if name == "hmac":
            expected = hmac.digest(SECRET_KEY.encode(), row.token_id.encode(), "sha512")
            return "HMAC" if value == expected else repr(bytes(value))
        if name.endswith(("timestamp_ms", "timestamp")) and value > 0:
            return f"{round((value - asked_ms) / HOUR_MS):+d}h"
        return self._line(value, version, asked_ms)


def _ids_in(line: str) -> str:
    """A description with the ids of its tokens alone."""
    return f"{line.partition(' ')[0]} {' '.join(sorted(re.findall(r'token_id=([0-9]+)', line)))})"


def _renewers(*names: str, kind: str = "User") -> list[CreatableRenewers]:
    return [CreatableRenewers(kind, name) for name in names]


def _owners(*names: str, kind: str = "User") -> DescribeDelegationTokenRequest:
    return DescribeDelegationTokenRequest([DescribeDelegationTokenOwner(kind, name) for name in names])


def _creations(version: int) -> Iterator[tuple[str, str, CreateDelegationTokenRequest]]:
    def request(
        renewers: list[CreatableRenewers], lifetime_ms: int = -1, owner: tuple[str | None, str | None] = ("", "")
    ) -> CreateDelegationTokenRequest:
        return CreateDelegationTokenRequest(*owner, renewers, lifetime_ms)

    for hours in (0, 1, 20, 100, 101):
        yield f"for {hours} hours", "alice", request([], hours * HOUR_MS)
    yield "for -2 ms", "alice", request([], -2)
    for who in WHO:
        yield f"by {who}", who, request([])
    yield "two renewers", "bob", request(_renewers("alice", "carol"))
    yield "a renewer twice", "bob", request(_renewers("alice", "alice"))
    yield "itself as renewer", "bob", request(_renewers("bob"))
    yield "a renewer without a name", "bob", request(_renewers(""))
    yield "an odd renewer", "bob", request(_renewers("CN=a b,O=\u00e9:c/%"))
    for who in ("bob", NOBODY, BY_TOKEN):
        yield f"a renewer of another type, by {who}", who, request(_renewers("bob", kind="Group"))
    if version >= 3:
        for kind, name in (
            (None, None), ("User", ""), ("User", "alice"), ("User", "bob"), ("User", "carol"),
            ("User", "nobody at all"), ("Group", "alice"), ("Group", "bob"), ("", "bob"), ("user", "bob"),
        ):  # fmt: skip
            for who in ("alice", "admin", NOBODY):
                yield f"owner {kind}:{name}, by {who}", who, request(_renewers("erik"), owner=(kind, name))
        yield "for carol with a wrong renewer", "alice", request(_renewers("a", kind="Group"), owner=("User", "carol"))


def _descriptions() -> Iterator[tuple[str, str, DescribeDelegationTokenRequest]]:
    for who in WHO:
        yield f"all, {who}", who, DescribeDelegationTokenRequest(None)
    for who in ("alice", "carol", "dora", "erik", "admin", NOBODY):
        yield f"an empty list, {who}", who, _owners()
        yield f"of alice, {who}", who, _owners("alice")
        yield f"of bob and nobody, {who}", who, _owners("bob", "nobody")
        yield f"of another type, {who}", who, _owners("bob", "alice", kind="Group")


def _periods() -> Iterator[tuple[str, str, int]]:
    for hours in (1, 20, 200):
        yield f"{hours} hours", "alice", hours * HOUR_MS
    yield "-1 ms", "alice", -1
    yield "-2 ms", "alice", -2
    yield "0 ms", "alice", 0
    yield "5 hours and an overflow", "alice", 2**63 - 1
    for who in WHO[1:]:
        yield f"5 hours by {who}", who, 5 * HOUR_MS


class _Connection(Client):
    """A client of Kafka's that logs in, and then reads any response."""

    def __init__(self, port: int) -> None:
        self.socket_peer = SocketPeer(port)
        super().__init__(self.socket_peer)

    def log_in(self, user: str) -> None:
        self.handshake("PLAIN")
        said = self.token(plain(user, PASSWORD))
        assert said.startswith("SaslAuthenticate 0 "), said

    def log_in_by_token(self, token_id: str, secret: bytes) -> None:
        scram = ScramClient("sha256", token_id, base64.b64encode(secret).decode())
        self.handshake("SCRAM-SHA-256")
        self.token(scram.first(extensions=",tokenauth=true"))
        said = self.token(scram.final(self.token_bytes))
        assert said.startswith("SaslAuthenticate 0 "), said

    def request(self, request: Message, version: int) -> Message:
        out = bytearray()
        write_request_header(out, RequestHeader(request.api_key, version, 7, "test"))
        compiler.write(request, version, out, [])
        reply = self.socket_peer.send(struct.pack(">i", len(out)) + bytes(out)).reply
        assert reply is not None, request
        view = memoryview(reply)[4:]
        _, position = read_response_header(view, request.api_key, version)
        response, end = compiler.read(RESPONSES[request.api_key], version, view, position)
        assert end == len(view)
        return response


class Kafka:
    """An Apache Kafka on this machine."""

    def __init__(self, port: int, *, is_enabled: bool) -> None:
        response = Remote(port).ask(ACLS, 3)
        assert not any(result.error_code for result in response.results), response
        time.sleep(1)
        self._connections = {who: _Connection(port + 1) for who in (*USERS, BY_TOKEN)}
        self._connections[NOBODY] = _Connection(port)
        for user in USERS:
            self._connections[user].log_in(user)
        if not is_enabled:
            self._connections[BY_TOKEN].log_in("alice")
            return
        made = self._connections["alice"].request(CreateDelegationTokenRequest("", "", [], -1), 2)
        assert isinstance(made, CreateDelegationTokenResponse)
        time.sleep(1)
        self._connections[BY_TOKEN].log_in_by_token(made.token_id, bytes(made.hmac))
        expired = self._connections["alice"].request(ExpireDelegationTokenRequest(bytes(made.hmac), -1), 1)
        assert not expired.error_code, expired  # type: ignore[attr-defined]

    def ask(self, who: str, request: Message, version: int) -> Message:
        response = self._connections[who].request(request, version)
        if not isinstance(request, DescribeDelegationTokenRequest):
            time.sleep(0.1)  # until the change is in the broker's image
        return response

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def wait(self, wait_ms: int) -> None:
        time.sleep(wait_ms / 1000)


def main(port: int, low: int, *, is_enabled: bool) -> None:
    """Print the answers of an Apache Kafka."""
    for name, line in Scenario(Kafka(port, is_enabled=is_enabled)).play(low):
        sys.stdout.write(f"{name}\t{line}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), is_enabled=sys.argv[3:] != ["disabled"])
