"""A broker with a listener for each kind of security, and ACLs that only its administrator passes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from compat_tests.security.client_security import Login, Security, make_certificates
from compat_tests.security.secure_broker import HOST, MUTUAL, PLAIN, TLS, SecureBroker

LOGIN: Final = "LOGIN"
ELSEWHERE: Final = "ELSEWHERE"
ADMIN: Final = ("admin", "admin-secret")
NOBODY: Final = ("nobody", "nobody-secret")


class SecuredBroker(SecureBroker):
    """`LOGIN` takes PLAIN over TLS, `ELSEWHERE` has the certificate of another host, `PLAIN` is between brokers."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.other = make_certificates(directory / "other", "client")

    def listener_settings(self) -> dict[str, str]:
        names = (TLS, MUTUAL, LOGIN, ELSEWHERE)
        users = " ".join(f'user_{user}="{password}"' for user, password in (ADMIN, NOBODY))
        return {
            "listeners": ",".join((f"{PLAIN}://127.0.0.1:0", *(f"{name}://127.0.0.1:0" for name in names))),
            "advertised.listeners": ",".join(f"{name}://{HOST}:0" for name in (PLAIN, *names)),
            "listener.security.protocol.map": ",".join(
                (f"{PLAIN}:{PLAIN}", f"{LOGIN}:SASL_SSL", *(f"{name}:SSL" for name in (TLS, MUTUAL, ELSEWHERE)))
            ),
            "inter.broker.listener.name": PLAIN,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.elsewhere.ssl.keystore.type": "PEM",
            "listener.name.elsewhere.ssl.keystore.location": str(self.certificates / "elsewhere.pem"),
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN[0]};User:ANONYMOUS;User:CN=client",
            "offsets.topic.num.partitions": "1",
        }

    def config(self, certificate: str = "", login: tuple[str, str] | None = None, mechanism: str = "PLAIN") -> str:
        """The path of a file for --command-config."""
        made = None if login is None else Login(mechanism, *login)
        return Security(self.certificates, certificate, login=made).java_file()

    def foreign_config(self) -> str:
        """The path of a file with the trust store of another authority."""
        return Security(self.other).java_file()
