"""Hostile clients that are not known yet: `python -m compat_tests.hostile.strangers SETTINGS`, until killed.

SETTINGS is a file of JSON (`Target`). A thread for each kind, each from an address of its own. Every password and token
that a kind uses is a line of the file `secrets`: no log of the broker may have one.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import itertools
import json
import os
import random
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from compat_tests.harness.wire import frame, request_header

Acts = Iterator[None]
NICENESS: Final = 19
TIMEOUT_S: Final = 10.0
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PROXY_SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
HUGE_BYTES: Final = 500_000
IDLE: Final = 100
TRUSTED: Final = "127.9.99.1"
"""The address of the kind that is a trusted proxy."""


class Target(NamedTuple):
    """Ports of listeners of a broker, and what a kind may use."""

    every: int
    signed: int
    user: str
    password: str
    public_key: str
    """PEM of the key that signs tokens."""
    token: str
    """A valid token of `signed`."""
    key_server: int
    """A port where nobody may ever ask for keys."""
    secrets: str
    host: str = ""

    def connect(self, port: int) -> socket.socket:
        stream = socket.socket()
        stream.settimeout(TIMEOUT_S)
        stream.bind((self.host, 0))
        stream.connect(("127.0.0.1", port))
        return stream

    def secure(self, port: int) -> ssl.SSLSocket:
        return context().wrap_socket(self.connect(port))

    def note_secret(self, secret: str) -> str:
        """Write a secret down before it is used."""
        with Path(self.secrets).open("a") as file:
            file.write(f"{secret}\n")
        return secret


def context() -> ssl.SSLContext:
    """Trusts everyone."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


def hello() -> bytes:
    """A ClientHello."""
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context().wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


def handshake(mechanism: str, version: int = 1) -> bytes:
    name = mechanism.encode()
    return frame(request_header(SASL_HANDSHAKE, version) + struct.pack(">h", len(name)) + name)


def authenticate(token: bytes) -> bytes:
    return frame(request_header(SASL_AUTHENTICATE, 0) + struct.pack(">i", len(token)) + token)


def answer(stream: socket.socket) -> bytes:
    """One frame; b"" at the end."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        piece = stream.recv(1 << 16)
        if not piece:
            return b""
        data += piece
    return data[4:]


def drain(stream: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while stream.recv(1 << 16):
            pass


def offend(stream: socket.socket, data: bytes) -> None:
    """Send, and wait until the broker closes."""
    with contextlib.suppress(OSError), stream:
        stream.sendall(data)
        drain(stream)


# Kinds


def garbage_for_tls(target: Target) -> Acts:
    chance = random.Random(1)
    beginnings = (b"\x16\x03\x01", b"\x16\x03\x03\x00\x40\x01", b"\x16", b"\x15\x03\x03\x00\x02\x02\x28", hello()[:60])
    for beginning in itertools.cycle(beginnings):
        offend(target.connect(target.every), beginning + chance.randbytes(300))
        yield


def half_handshakes(target: Target) -> Acts:
    """Connections that say hello and nothing more."""
    greeting = hello()
    streams: list[socket.socket] = []
    while True:
        with contextlib.suppress(OSError):
            streams.append(target.connect(target.every))
            streams[-1].sendall(greeting)
        if len(streams) > IDLE:
            streams.pop(0).close()
        yield


def half_open(target: Target) -> Acts:
    """Connections that say nothing."""
    streams: list[socket.socket] = []
    while True:
        with contextlib.suppress(OSError):
            streams.append(target.connect(target.every))
        if len(streams) > IDLE:
            streams.pop(0).close()
        yield


def slow_handshakes(target: Target) -> Acts:
    """A hello, a byte at a time."""
    greeting = hello()
    streams = [target.connect(target.every) for _ in range(20)]
    for place in itertools.cycle(range(len(greeting))):
        for number, stream in enumerate(streams):
            try:
                stream.send(greeting[place : place + 1])
            except OSError:
                stream.close()
                with contextlib.suppress(OSError):
                    streams[number] = target.connect(target.every)
        yield


def garbage_in_every_state(target: Target) -> Acts:
    """Frames without sense: before the handshake of SASL, after it, and in place of a second token."""
    chance = random.Random(2)
    for number in itertools.count():
        with contextlib.suppress(OSError), target.secure(target.every) as stream:
            if number % 3:
                mechanism = MECHANISMS[number % 4]
                stream.sendall(handshake(mechanism, chance.randrange(2)))
                answer(stream)
            if number % 3 == 2:
                stream.sendall(authenticate(b"n,,n=alice,r=nonce"))
                answer(stream)
            body = chance.randbytes(chance.randrange(60))
            data = (frame(body), authenticate(body), frame(request_header(number % 60, 1) + body), body)[number % 4]
            stream.sendall(data)
            stream.settimeout(0.2)
            drain(stream)
        yield


def wrong_logins(target: Target) -> Acts:
    """A flood of guesses."""
    for number in itertools.count():
        password = target.note_secret(f"guess-of-a-stranger-{number}")
        user = ("alice", "nobody", f"user{number}")[number % 3]
        with contextlib.suppress(OSError), target.secure(target.every) as stream:
            if number % 2:
                stream.sendall(handshake("PLAIN"))
                answer(stream)
                stream.sendall(authenticate(f"\0{user}\0{password}".encode()))
            else:
                guess_by_scram(stream, user, password)
            drain(stream)
        yield


def guess_by_scram(stream: socket.socket, user: str, password: str) -> None:
    stream.sendall(handshake("SCRAM-SHA-256"))
    answer(stream)
    first = f"n={user},r=nonce"
    stream.sendall(authenticate(f"n,,{first}".encode()))
    challenge = answer(stream)
    text = challenge[challenge.index(b"r=") :].decode()
    fields = dict(part.split("=", 1) for part in text.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    last = f"c=biws,r={fields['r']}"
    signature = hmac.digest(hashlib.sha256(key).digest(), f"{first},{text},{last}".encode(), "sha256")
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    stream.sendall(authenticate(f"{last},p={base64.b64encode(proof).decode()}".encode()))


def huge_tokens(target: Target) -> Acts:
    """Tokens near the limit, above the limit, and announced alone."""
    for number in itertools.count():
        secret = target.note_secret(f"huge-token-of-a-stranger-{number}")
        token = secret.encode() * (HUGE_BYTES // len(secret) * (1 + number % 3 // 2))
        mechanism = MECHANISMS[number % 4]
        with contextlib.suppress(OSError), target.secure(target.every) as stream:
            stream.sendall(handshake(mechanism))
            answer(stream)
            stream.sendall(authenticate(token) if number % 5 else struct.pack(">i", 524_000) + token[:1000])
            stream.settimeout(0.5)
            drain(stream)
        yield


def encoded(data: bytes | dict[str, Any]) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def forgeries(target: Target, number: int) -> list[str]:
    """Tokens that a broker with one key of RSA must refuse: no signature, HMAC with the public key, keys by URL."""
    claims = encoded({"sub": target.user, "aud": "kafka", "iat": 1, "exp": int(time.time()) + 600, "jti": number})
    url = f"http://127.0.0.1:{target.key_server}/keys"
    body = target.token.split(".")
    pems = (target.public_key, target.public_key.strip(), "")
    by_secret = []
    for pem in pems:
        signed = f"{encoded({'alg': 'HS256', 'kid': 'one'})}.{claims}"
        by_secret.append(f"{signed}.{encoded(hmac.digest(pem.encode(), signed.encode(), 'sha256'))}")
    headers: list[dict[str, Any]] = [
        {"alg": "RS256", "jku": url, "kid": "other"},
        {"alg": "RS256", "x5u": url, "kid": "one"},
        {"alg": "RS256", "jwk": {"kty": "oct", "k": "YQ"}, "kid": "one"},
        {"alg": "RS256", "kid": "../../../../etc/passwd"},
    ]
    return [
        f"{encoded({'alg': 'none'})}.{claims}.",
        f"{encoded({'alg': 'None', 'kid': 'one'})}.{claims}.{body[2]}",
        f"{encoded({'kid': 'one'})}.{claims}.{body[2]}",
        *by_secret,
        *(f"{encoded(header)}.{claims}.{body[2]}" for header in headers),
        f"{body[0]}.{claims}.{body[2]}",
        f"{body[0]}.{body[1]}.",
        f"{body[0]}.{body[1]}.{body[2][:-4]}AAAA",
    ]


def forged_tokens(target: Target) -> Acts:
    for number in itertools.count():
        for token in forgeries(target, number):
            target.note_secret(token)
            with contextlib.suppress(OSError), target.secure(target.signed) as stream:
                stream.sendall(handshake("OAUTHBEARER"))
                answer(stream)
                stream.sendall(authenticate(b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"))
                answer(stream)
                stream.sendall(authenticate(b"\x01"))
                if answer(stream)[4:6] == b"\0\0":
                    Path(f"{target.secrets}.broken").write_text(token)
            yield


def renewals_as_others(target: Target) -> Acts:
    """A known user who becomes another one, or sends nonsense, at the renewal of the session."""
    chance = random.Random(3)
    for number in itertools.count():
        with contextlib.suppress(OSError), target.secure(target.every) as stream:
            for request in (handshake("PLAIN"), authenticate(f"\0{target.user}\0{target.password}".encode())):
                stream.sendall(request)
                answer(stream)
            secret = target.note_secret(f"renewal-of-a-stranger-{number}")
            stream.sendall(handshake(MECHANISMS[number % 4]))
            answer(stream)
            stream.sendall(authenticate((f"\0admin\0{secret}".encode(), chance.randbytes(40))[number % 2]))
            stream.settimeout(0.5)
            drain(stream)
        yield


def forged_headers(target: Target) -> Acts:
    """PROXY headers of a stranger."""
    lines = (
        b"PROXY TCP4 127.0.0.1 127.0.0.1 1 9092\r\n",
        PROXY_SIGNATURE + b"\x21\x11\x00\x0c" + bytes(12),
        PROXY_SIGNATURE + b"\x20\x00\x00\x00",
    )
    for line in itertools.cycle(lines):
        offend(target.connect(target.every), line + hello())
        yield


def malformed_headers(target: Target) -> Acts:
    """PROXY headers of a trusted proxy that are none: garbage, huge, truncated, slow, none at all."""
    chance = random.Random(4)
    lines = (
        b"PROXY TCP4 999.0.0.1 127.0.0.1 1 9092\r\n",
        b"PROXY UNKNOWN " + b"x" * 1000,
        PROXY_SIGNATURE + b"\x21\x11\xff\xff" + bytes(1000),
        PROXY_SIGNATURE + b"\x2f\x11\x00\x0c" + bytes(12),
        hello(),
    )
    slow: list[socket.socket] = []
    for number in itertools.count():
        offend(target.connect(target.every), lines[number % len(lines)] + chance.randbytes(number % 50))
        with contextlib.suppress(OSError):
            slow.append(target.connect(target.every))
            for stream in slow:
                stream.send(b"PROXY TCP4 1"[number % 12 : number % 12 + 1])
        if len(slow) > 20:
            slow.pop(0).close()
        yield


class Kind(NamedTuple):
    """`says`: what the log has to say of the kind, as a pattern; None where nothing is to be said."""

    act: Callable[[Target], Acts]
    every_s: float
    says: str | None


KINDS: Final = {
    "garbage for TLS": Kind(garbage_for_tls, 0.05, "the TLS handshake failed|does not begin with TLS"),
    "half handshakes": Kind(half_handshakes, 0.03, None),
    "half-open": Kind(half_open, 0.03, None),
    "slow handshakes": Kind(slow_handshakes, 0.05, "within headgate.authentication.timeout.ms|does not begin with TLS"),
    "garbage in every state": Kind(garbage_in_every_state, 0.05, "closing the connection"),
    "wrong logins": Kind(wrong_logins, 0.03, "closing the connection"),
    "huge tokens": Kind(huge_tokens, 0.3, "closing the connection"),
    "forged tokens": Kind(forged_tokens, 0.05, "closing the connection"),
    "renewals as others": Kind(renewals_as_others, 0.1, "closing the connection"),
    "forged headers": Kind(forged_headers, 0.05, "sent a PROXY header"),
    "malformed headers": Kind(malformed_headers, 0.1, "PROXY header"),
}


def address_of(name: str) -> str:
    """Where a kind comes from."""
    return TRUSTED if name == "malformed headers" else f"127.9.{list(KINDS).index(name) + 50}.1"


def run(kind: Kind, target: Target) -> None:
    while True:
        with contextlib.suppress(OSError, ValueError):  # cut off: begin again
            for _ in kind.act(target):
                time.sleep(kind.every_s)
        time.sleep(kind.every_s)


def main(settings: str) -> None:
    os.nice(NICENESS)
    target = Target(**json.loads(Path(settings).read_text()))
    threads = [
        threading.Thread(target=run, args=(kind, target._replace(host=address_of(name))), daemon=True)
        for name, kind in KINDS.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1])
