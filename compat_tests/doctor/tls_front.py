"""TLS before a plain port, with whatever certificate: also one that no broker would start with."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_DAY: Final = dt.timedelta(days=1)


def write_certificate(path: Path, days: int) -> tuple[Path, Path]:
    """A certificate for localhost that ends so many days from now, with its key, and its authority: two PEM files."""
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(_key_pem(key) + _certificate("localhost", key, "authority", authority, days))
    trusted = path.with_suffix(".ca.pem")
    trusted.write_bytes(_certificate("authority", authority, "authority", authority, 1000))
    return path, trusted


def write_chain(path: Path, days: int, *, is_whole: bool = True) -> tuple[Path, Path]:
    """As `write_certificate`, signed by an intermediate that ends so many days from now; without `is_whole`, alone."""
    root, middle, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    intermediate = _certificate("intermediate", middle, "root", root, days)
    content = _key_pem(key) + _certificate("localhost", key, "intermediate", middle, 900)
    path.write_bytes(content + (intermediate if is_whole else b""))
    trusted = path.with_suffix(".ca.pem")
    trusted.write_bytes(_certificate("root", root, "root", root, 1000))
    return path, trusted


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, signer: ec.EllipticCurvePrivateKey, days: int
) -> bytes:
    now = dt.datetime.now(dt.UTC)
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in (issuer, name)]
    made = x509.CertificateBuilder(names[0], names[1], key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - 1000 * _DAY).not_valid_after(now + days * _DAY)
    if name == "localhost":
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    else:
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class TlsFront:
    """For the length of a with-block: `address` speaks TLS, and passes on to the port behind it."""

    def __init__(self, certificate: Path, port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = port
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def address(self) -> str:
        return f"localhost:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            with suppress(OSError), self._context.wrap_socket(plain, server_side=True) as secure:
                self._pass_on(secure)

    def _pass_on(self, secure: ssl.SSLSocket) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as behind:
            while data := secure.recv(1 << 16):
                behind.sendall(data)
                secure.sendall(behind.recv(1 << 16))
