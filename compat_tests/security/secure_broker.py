"""A broker with a listener for each use of TLS, and one without."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from compat_tests.harness.broker import HeadgateBroker
from compat_tests.security.client_security import PASSWORD, make_certificates

# By the setting that differs; the certificates of clients are asked for by `MUTUAL` alone
PLAIN, TLS, MUTUAL, OPTIONAL = "PLAINTEXT", "SSL", "MUTUAL", "OPTIONAL"
HOST: Final = "localhost"
CERTIFICATES: Final = ("broker", "client", "elsewhere@elsewhere.example")


class SecureBroker(HeadgateBroker):
    """`certificates` is a directory with `ca`, and the certificates that it signs (`CERTIFICATES`).

    The stores of the broker have the type `stores`: PKCS12 or PEM.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        stores: str = "PEM",
        certificates: Path | None = None,
    ) -> None:
        super().__init__(directory)
        self.certificates = certificates or make_certificates(directory / "certificates", *CERTIFICATES)
        more = {**self.store_settings(stores), **(settings or {})}
        self.settings = {**self.listener_settings(), **more}

    def store_settings(self, kind: str) -> dict[str, str]:
        suffix = {"PEM": "pem", "PKCS12": "p12"}[kind]
        passwords = {f"ssl.{store}.password": PASSWORD for store in ("keystore", "truststore")}
        return {
            "ssl.keystore.type": kind,
            "ssl.keystore.location": str(self.certificates / f"broker.{suffix}"),
            "ssl.truststore.type": kind,
            "ssl.truststore.location": str(self.certificates / f"ca.{suffix}"),
            **(passwords if kind == "PKCS12" else {}),
        }

    def listener_settings(self) -> dict[str, str]:
        names = (TLS, MUTUAL, OPTIONAL)
        return {
            "listeners": ",".join((f"{PLAIN}://127.0.0.1:0", *(f"{name}://127.0.0.1:0" for name in names))),
            # A port of 0 is the one that a client has connected to
            "advertised.listeners": ",".join(f"{name}://{HOST}:0" for name in (PLAIN, *names)),
            "listener.security.protocol.map": ",".join((f"{PLAIN}:{PLAIN}", *(f"{name}:SSL" for name in names))),
            "inter.broker.listener.name": PLAIN,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.optional.headgate.ssl.optional": "true",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }

    def address(self, listener: str) -> str:
        """host:port for bootstrap.servers, with the host name of the certificates."""
        return f"{HOST}:{self.ports()[listener]}"
