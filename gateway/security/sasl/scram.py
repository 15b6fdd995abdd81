"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the server's side, as Kafka's `ScramSaslServer`.

    client-first   n,[a=USER],n=USER,r=CLIENT_NONCE[,tokenauth=true]
    server-first   r=CLIENT_NONCE SERVER_NONCE,s=SALT,i=ITERATIONS
    client-final   c=biws,r=NONCE,p=PROOF
    server-final   v=SIGNATURE

As in Kafka, `tokenauth=true` makes the user a delegation token's id (KIP-48), and user names are ASCII, which SASLprep
leaves as they are.

Unlike in Kafka, an unknown user gets a challenge from a decoy and fails at the proof, as with a wrong password. And
librdkafka before 2.6.1 may log in, which repeats its own nonce in client-final (Kafka 4.1 refuses it, 3.9.1 does not).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from headgate.gateway.security.sasl.exchange import (
    Authenticated,
    AuthenticationFailed,
    Challenge,
    SaslComputation,
    refused,
)
from headgate.gateway.security.sasl.scram_credentials import ScramCredentials, TokenCredential
from headgate.protocol.security.sasl.scram_keys import MIN_ITERATIONS, ScramCredential, ScramMechanism

MAX_NONCE_LENGTH: Final = 1024
_NAME: Final = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE: Final = rb"[\x01-\x2b\x2d-\x7f]+"
_NONCE: Final = rb"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = rb"(?:[a-zA-Z0-9/+]{4})*+(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rb"(?:,[A-Za-z]+=" + _VALUE + rb")*"
_CLIENT_FIRST: Final = re.compile(
    rb"n,(?:a=(?P<authzid>" + _NAME + rb"))?,"
    rb"(?P<bare>n=(?P<name>" + _NAME + rb"),r=(?P<nonce>" + _NONCE + rb")(?P<extensions>" + _EXTENSIONS + rb"))"
)
_CLIENT_FINAL: Final = re.compile(
    rb"(?P<unsigned>c="
    + _BASE64
    + rb",r=(?P<nonce>"
    + _NONCE
    + rb")"
    + _EXTENSIONS
    + rb"),p=(?P<proof>"
    + _BASE64
    + rb")"
)


TokenLookup: TypeAlias = Callable[[ScramMechanism, str, bytes], Callable[[], TokenCredential]]
"""The delegation tokens of a cluster.

A mechanism, a token's id and a salt in; the computation of the credential out, for a thread.
"""


class ClientFirst(NamedTuple):
    """The first message of a client. `bare`: the part that the proof covers."""

    authorization_id: str
    user: str
    nonce: bytes
    is_token: bool
    bare: bytes


class ScramExchange:
    """One login by SCRAM. The step that salts the secret of a delegation token is for a thread; no other takes long."""

    __slots__ = ("_challenge", "_credentials", "_find_token", "_is_over", "_mechanism", "_new_nonce")

    def __init__(
        self,
        mechanism: ScramMechanism,
        credentials: ScramCredentials,
        new_nonce: Callable[[], str],
        find_token: TokenLookup | None = None,
    ) -> None:
        """`new_nonce` gives a random text of printable ASCII without commas, at least 128 bits.

        `find_token`: None without delegation tokens.
        """
        self._mechanism = mechanism
        self._credentials = credentials
        self._new_nonce = new_nonce
        self._find_token = find_token
        self._challenge: _Issued | None = None
        self._is_over = False

    def step(self, token: bytes) -> Challenge | Authenticated | SaslComputation:
        """Take a message of the client. Raises AuthenticationFailed."""
        if self._is_over:
            raise AuthenticationFailed("a SCRAM message follows the end of its exchange")
        issued, self._challenge = self._challenge, None
        if issued is None:
            self._is_over = True  # unless the message is valid
            return self._begin(read_client_first(token))
        self._is_over = True
        return self._finish(issued, token)

    def _begin(self, first: ClientFirst) -> Challenge | SaslComputation:
        if first.authorization_id not in {"", first.user}:
            raise refused("Authentication failed: Client requested an authorization id that is different from username")
        decoy = self._credentials.decoy(self._mechanism, first.user)
        if not first.is_token:
            found = self._credentials.find(self._mechanism, first.user)
            return self._issue(first, None, found or decoy, is_known=found is not None)
        if self._find_token is None:
            return self._issue(first, None, decoy, is_known=False)
        compute = self._find_token(self._mechanism, first.user, decoy.salt)

        def issue() -> Challenge:
            token = compute()
            return self._issue(first, token, token.credential, is_known=token.owner is not None)

        return SaslComputation(issue)

    def _issue(
        self, first: ClientFirst, token: TokenCredential | None, credential: ScramCredential, *, is_known: bool
    ) -> Challenge:
        if credential.iterations < MIN_ITERATIONS:
            raise AuthenticationFailed(f"the credential has {credential.iterations} iterations, below {MIN_ITERATIONS}")
        nonce = first.nonce + self._new_nonce().encode()
        salt = base64.b64encode(credential.salt)
        server_first = b"r=%b,s=%b,i=%d" % (nonce, salt, credential.iterations)
        self._challenge = _Issued(first, token, credential, is_known, nonce, server_first)
        self._is_over = False
        return Challenge(server_first)

    def _finish(self, issued: _Issued, token: bytes) -> Authenticated:
        match = _CLIENT_FINAL.fullmatch(token)
        if match is None:
            raise AuthenticationFailed("Invalid SCRAM client final message format")
        if match["nonce"] not in {issued.nonce, issued.first.nonce + issued.nonce}:
            raise AuthenticationFailed("Invalid client nonce in the final client message.")
        auth_message = b",".join((issued.first.bare, issued.server_first, match["unsigned"]))
        is_proven = self._is_proven(issued.credential, auth_message, _from_base64(match["proof"]))
        if not (is_proven and issued.is_known):
            raise AuthenticationFailed("Invalid client credentials", user=issued.first.user)
        signature = hmac.digest(issued.credential.server_key, auth_message, self._mechanism.hash_name)
        reply = b"v=" + base64.b64encode(signature)
        if issued.token is not None and issued.token.owner is not None:
            return Authenticated(issued.token.owner, reply, issued.token.expires_at_ms, is_by_delegation_token=True)
        return Authenticated(issued.first.user, reply)

    def _is_proven(self, credential: ScramCredential, auth_message: bytes, proof: bytes) -> bool:
        signature = hmac.digest(credential.stored_key, auth_message, self._mechanism.hash_name)
        if len(proof) != len(signature):
            return False
        key = (int.from_bytes(signature, "big") ^ int.from_bytes(proof, "big")).to_bytes(len(proof), "big")
        return hmac.compare_digest(hashlib.new(self._mechanism.hash_name, key).digest(), credential.stored_key)


class _Issued(NamedTuple):
    """A challenge that was sent, and the values that it needs for its answer."""

    first: ClientFirst
    token: TokenCredential | None
    credential: ScramCredential
    is_known: bool
    nonce: bytes
    server_first: bytes


def read_client_first(message: bytes) -> ClientFirst:
    """Read the first message of a client. Raises AuthenticationFailed."""
    match = _CLIENT_FIRST.fullmatch(message)
    if match is None:
        raise AuthenticationFailed("Invalid SCRAM client first message format")
    if len(match["nonce"]) > MAX_NONCE_LENGTH:
        raise AuthenticationFailed(f"the nonce of a SCRAM client is longer than {MAX_NONCE_LENGTH} characters")
    extensions = dict(pair.split(b"=", 1) for pair in match["extensions"].split(b",")[1:])
    is_token = extensions.get(b"tokenauth", b"").lower() == b"true"
    user = user_of(match["name"].decode())
    return ClientFirst((match["authzid"] or b"").decode(), user, match["nonce"], is_token, match["bare"])


def user_of(name: str) -> str:
    """The user of a `saslname`, in which `=2C` is a comma and `=3D` an equals sign."""
    return name.replace("=2C", ",").replace("=3D", "=")


def _from_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:  # unreachable by the pattern
        raise AuthenticationFailed("Invalid SCRAM client final message format") from error
