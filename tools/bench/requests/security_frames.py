"""Requests of the rows of security, by hand: ACLs, quotas, users of SCRAM, and the login of such a user."""

import base64
import hashlib
import hmac
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headgate.tools.bench.requests import frames
from headgate.tools.bench.requests.client import BenchError, Reader, exchange

TOPIC, ALLOW, LITERAL, PREFIXED = 2, 3, 3, 4
READ, WRITE, CREATE, DELETE, DESCRIBE = 3, 4, 5, 6, 8
SCRAM_SHA_256: Final = 1
ITERATIONS: Final = 4096
SALT: Final = b"salt of the bench"


class Acl(NamedTuple):
    """A permission of a user on topics. `pattern_type`: LITERAL or PREFIXED."""

    name: str
    pattern_type: int
    principal: str
    operation: int


def create_acls(acls: Iterable[Acl]) -> frames.RequestWriter:
    """CreateAcls v1."""
    out = frames.RequestWriter(frames.CREATE_ACLS, 1)

    def write(acl: Acl) -> None:
        out.int8(TOPIC)
        out.string(acl.name)
        out.int8(acl.pattern_type)
        out.string(acl.principal)
        out.string("*")
        out.int8(acl.operation)
        out.int8(ALLOW)

    out.array(acls, write)
    return out


def set_quotas_of_all_users(bounds: dict[str, float]) -> frames.RequestWriter:
    """AlterClientQuotas v0: quotas of the default user."""
    out = frames.RequestWriter(frames.ALTER_CLIENT_QUOTAS, 0)

    def write_entity(_: object) -> None:
        out.string("user")
        out.string(None)

    def write_bound(bound: tuple[str, float]) -> None:
        out.string(bound[0])
        out.float64(bound[1])
        out.int8(0)  # set, not removed

    def write(_: object) -> None:
        out.array([None], write_entity)
        out.array(bounds.items(), write_bound)

    out.array([None], write)
    out.int8(0)  # not only to check
    return out


def add_user(name: str, password: str) -> frames.RequestWriter:
    """AlterUserScramCredentials v0: a user of SCRAM-SHA-256."""
    out = frames.RequestWriter(frames.ALTER_USER_SCRAM_CREDENTIALS, 0)
    out.array([], lambda _: None)

    def write(_: object) -> None:
        out.string(name)
        out.int8(SCRAM_SHA_256)
        out.int32(ITERATIONS)
        out.blob(SALT)
        out.blob(salted(password))
        out.tags()

    out.array([None], write)
    out.tags()
    return out


def salted(password: str) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, ITERATIONS)


@dataclass(slots=True)
class ScramLogin:
    """Logins of one user by SCRAM-SHA-256 (RFC 5802). The salted password is computed once, as a client may."""

    user: str
    password: str
    _salted: bytes = field(init=False)
    _count: int = 0

    def __post_init__(self) -> None:
        self._salted = salted(self.password)

    def log_in(self, connection: socket.socket) -> None:
        """Log in on a new connection: three requests. Raises BenchError, OSError."""
        handshake = frames.RequestWriter(frames.SASL_HANDSHAKE, 1)
        handshake.string("SCRAM-SHA-256")
        if Reader(exchange(connection, handshake)[4:], flexible=False).number("h"):
            raise BenchError("SCRAM-SHA-256 is refused")
        self._count += 1
        nonce = f"bench{self._count:020d}"
        bare = f"n={self.user},r={nonce}"
        first = self._step(connection, f"n,,{bare}")
        fields = dict(part.split("=", 1) for part in first.split(","))
        if not fields["r"].startswith(nonce) or base64.b64decode(fields["s"]) != SALT:
            raise BenchError(f"no answer to this login: {first}")
        unsigned = f"c=biws,r={fields['r']}"
        message = f"{bare},{first},{unsigned}".encode()
        key = hmac.digest(self._salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(key).digest(), message, "sha256")
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        last = self._step(connection, f"{unsigned},p={base64.b64encode(proof).decode()}")
        expected = hmac.digest(hmac.digest(self._salted, b"Server Key", "sha256"), message, "sha256")
        if last != f"v={base64.b64encode(expected).decode()}":
            raise BenchError(f"the broker does not know the password: {last}")

    def _step(self, connection: socket.socket, token: str) -> str:
        request = frames.RequestWriter(frames.SASL_AUTHENTICATE, 0)
        request.blob(token.encode())
        reader = Reader(exchange(connection, request)[4:], flexible=False)
        error, reason = reader.number("h"), reader.string()
        if error:
            raise BenchError(f"the login is refused with error code {error}: {reason}")
        return reader.raw(reader.number("i")).decode()
