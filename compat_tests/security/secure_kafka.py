"""An Apache Kafka with TLS and logins, on the ports that Headgate's tests use by name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from compat_tests.harness.apache_kafka import ApacheKafka
from compat_tests.harness.ports import reserve
from compat_tests.security.client_security import PASSWORD as STORE_PASSWORD
from compat_tests.security.client_security import make_certificates
from compat_tests.security.login_broker import EVERY, PASSWORD, USER
from compat_tests.security.secure_broker import CERTIFICATES, MUTUAL, PLAIN

_MODULES: Final = "org.apache.kafka.common.security"
_LINES: Final = {
    "plain": f'plain.PlainLoginModule required user_{USER}="{PASSWORD}"',
    "scram-sha-256": "scram.ScramLoginModule required",
    "scram-sha-512": "scram.ScramLoginModule required",
    "oauthbearer": f'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}"',
}


class SecureKafka(ApacheKafka):
    """`EVERY` has a login by each mechanism over TLS, `MUTUAL` asks for certificates, `PLAIN` for nothing."""

    def __init__(self, directory: Path, jar_set: str) -> None:
        super().__init__(jar_set=jar_set, directory=directory)
        self.certificates = make_certificates(directory / "certificates", *CERTIFICATES)
        self.ports: dict[str, int] = {}

    def address(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def _format(self) -> None:
        super()._format()
        lines = self.properties.read_text()
        controller = next(part for part in lines.split(",") if part.startswith("CONTROLLER://")).split()[0]
        self.ports = {PLAIN: self.port, EVERY: reserve(self), MUTUAL: reserve(self)}
        listeners = ",".join(f"{name}://localhost:{port}" for name, port in self.ports.items())
        settings = {
            "listeners": f"{listeners},{controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": f"{PLAIN}:PLAINTEXT,CONTROLLER:PLAINTEXT,{EVERY}:SASL_SSL,{MUTUAL}:SSL",
            "inter.broker.listener.name": PLAIN,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.certificates / "broker.p12"),
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(self.certificates / "ca.p12"),
            "ssl.truststore.password": STORE_PASSWORD,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.every.sasl.enabled.mechanisms": ",".join(name.upper() for name in _LINES),
            **{f"listener.name.every.{name}.sasl.jaas.config": f"{_MODULES}.{line};" for name, line in _LINES.items()},
        }
        # Of two lines with a name, Java takes the later one
        self.properties.write_text(lines + "".join(f"{name}={value}\n" for name, value in settings.items()))
