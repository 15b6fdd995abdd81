"""A ZooKeeper that asks for certificates on a port of its own, and lets users log in by SASL; and a broker of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from compat_tests.harness.broker import HeadgateBroker
from compat_tests.harness.ports import reserve
from compat_tests.harness.zookeeper import ZooKeeper
from compat_tests.security.client_security import PASSWORD, make_certificates

USER, USER_PASSWORD = "broker", "secret of the brokers"
_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
LOGIN: Final = f'{_MODULE} required username="{USER}" password="{USER_PASSWORD}";'
_PROVIDERS: Final = {
    "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
    "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
    "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
}


class SecureZooKeeper(ZooKeeper):
    """`certificates`: the files of `make_certificates`. `connect` is the plain port, `secure` the one with TLS."""

    def __init__(self, directory: Path) -> None:
        self.certificates = make_certificates(directory / "certificates", "broker", "zookeeper")
        self.strange_certificates = make_certificates(directory / "elsewhere", "broker")
        login = directory / "server.jaas"
        login.write_text(f'Server {{ {_MODULE} required user_{USER}="{USER_PASSWORD}"; }};\n')
        self.secure_port = reserve(self)
        stores = {
            "ssl.keyStore.location": str(self.certificates / "zookeeper.p12"),
            "ssl.keyStore.password": PASSWORD,
            "ssl.trustStore.location": str(self.certificates / "ca.p12"),
            "ssl.trustStore.password": PASSWORD,
            "ssl.clientAuth": "need",
        }
        (directory / "zookeeper").mkdir(exist_ok=True)
        super().__init__(
            directory=directory / "zookeeper",
            is_synced=False,
            settings={**_PROVIDERS, **stores, "secureClientPort": str(self.secure_port)},
            options=(f"-Djava.security.auth.login.config={login}",),
        )

    @property
    def secure(self) -> str:
        """host:port of TLS for zookeeper.connect."""
        return f"localhost:{self.secure_port}"

    def tls(self, certificates: Path | None = None) -> dict[str, str]:
        """The settings of TLS of a broker."""
        files = certificates or self.certificates
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": str(files / "broker.p12"),
            "zookeeper.ssl.keystore.password": PASSWORD,
            "zookeeper.ssl.truststore.location": str(files / "ca.pem"),
        }

    def broker(self, directory: Path, settings: Mapping[str, str], connect: str = "") -> HeadgateBroker:
        base = {
            "zookeeper.connect": connect or self.secure,
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        return HeadgateBroker(directory, {**base, **settings})
