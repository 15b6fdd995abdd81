"""Requests of ACLs, quotas and logins, against kio; and a login against a server in the test."""

import base64
import hashlib
import hmac
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headgate.tools.bench.requests import frames, security_frames
from headgate.tools.bench.requests.client import BenchError
from headgate.tools.bench.requests.security_frames import ITERATIONS, PREFIXED, READ, SALT, Acl, ScramLogin
from headgate.tools.bench.requests.tests.test_frames import read_with_kio


def every_request() -> Iterator[frames.RequestWriter]:
    yield security_frames.create_acls([Acl("topic", PREFIXED, "User:a", READ)])
    yield security_frames.set_quotas_of_all_users({"producer_byte_rate": 1.5})
    yield security_frames.add_user("user", "password")


@pytest.mark.parametrize("writer", list(every_request()), ids=lambda writer: f"{writer.key} v{writer.version}")
def test_kio_reads_the_same(writer: frames.RequestWriter) -> None:
    header, _ = read_with_kio(writer.frame())
    assert (header.request_api_key, header.request_api_version) == (writer.key, writer.version)


def serve(connection: socket.socket, password: str) -> None:
    """A server of SCRAM-SHA-256 for one login, from the text of RFC 5802."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, ITERATIONS)

    def token(start: int) -> str:
        (size,) = struct.unpack(">i", connection.recv(4))
        return connection.recv(size, socket.MSG_WAITALL)[start:].decode()

    def answer(text: str) -> None:
        body = struct.pack(">ihhi", 0, 0, -1, len(text)) + text.encode()
        connection.sendall(struct.pack(">i", len(body)) + body)

    head = 10 + len(frames.CLIENT_ID)
    token(head)
    connection.sendall(struct.pack(">iihi", 10, 0, 0, 0))
    bare = token(head + 4).removeprefix("n,,")
    first = f"{bare.split(',')[1]}server,s={base64.b64encode(SALT).decode()},i={ITERATIONS}"
    answer(first)
    unsigned, _, proof = token(head + 4).rpartition(",p=")
    message = f"{bare},{first},{unsigned}".encode()
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    signature = hmac.digest(stored, message, "sha256")
    key = bytes(one ^ other for one, other in zip(base64.b64decode(proof), signature, strict=True))
    is_right = hashlib.sha256(key).digest() == stored
    verifier = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), message, "sha256")
    answer(f"v={base64.b64encode(verifier).decode()}" if is_right else "e=invalid-proof")


@pytest.mark.sockets
@pytest.mark.parametrize("password, is_known", [("secret", True), ("other", False)])
def test_a_login_proves_its_password(password: str, *, is_known: bool) -> None:
    client, server = socket.socketpair()
    with client, server, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve, server, "secret")
        login = ScramLogin("user", password)
        if is_known:
            login.log_in(client)
        else:
            with pytest.raises(BenchError, match="does not know the password"):
                login.log_in(client)
        served.result()
