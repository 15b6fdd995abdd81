"""A cluster whose brokers log in to each other by any mechanism; Kerberos by a KDC, bearer tokens from an issuer.

    with LoginCluster(tmp_path, "OAUTHBEARER", tokens=tokens) as cluster: ...

`BearerTokens` is the program beside the brokers that has a new token in their file before the last one ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from compat_tests.cluster.cluster import HEADGATE
from compat_tests.cluster.secure import PASSWORD, USER, SecureCluster
from compat_tests.harness.broker import Broker, HeadgateBroker
from compat_tests.security.client_security import GSSAPI, make_certificates
from compat_tests.security.kdc import REALM, Kdc
from compat_tests.security.mechanisms_broker import SERVICE_PRINCIPAL
from compat_tests.security.token_issuer import AUDIENCE, ISSUER, TokenIssuer

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
_MODULES: Final = "org.apache.kafka.common.security"
_ON_LISTENER: Final = "listener.name.secure"


class BearerTokens:
    """For the length of a with-block, a file with a token of `life_s` that is replaced every third of its life."""

    def __init__(self, directory: Path, life_s: float) -> None:
        certificates = make_certificates(directory / "issuer", "broker")
        self.issuer = TokenIssuer(certificates)
        self.authority = certificates / "ca.pem"
        self.file = directory / "token"
        self.life_s = life_s
        self.is_renewing = True
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tokens", daemon=True)

    def __enter__(self) -> Self:
        self.issuer.start()
        self.renew()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_ending.set()
        self._thread.join(10)
        self.issuer.stop()

    def renew(self) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(self.issuer.token(USER, self.life_s))
        new.replace(self.file)

    def _run(self) -> None:
        while not self._is_ending.wait(self.life_s / 3):
            if self.is_renewing:
                self.renew()

    def settings(self) -> dict[str, str]:
        return {
            "sasl.oauthbearer.token.endpoint.url": self.file.as_uri(),
            "sasl.oauthbearer.jwks.endpoint.url": self.issuer.url,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.clock.skew.seconds": "0",
        }


class LoginCluster(SecureCluster):
    """Brokers over SASL_SSL by `mechanism`. Their principal is the only super user; others have no CLUSTER_ACTION."""

    def __init__(
        self,
        directory: Path,
        mechanism: str,
        settings: Mapping[str, str] | None = None,
        *,
        kdc: Kdc | None = None,
        tokens: BearerTokens | None = None,
        **more: Any,
    ) -> None:
        self.mechanism, self.kdc, self.tokens = mechanism, kdc, tokens
        principal = SERVICE_PRINCIPAL.partition("/")[0] if mechanism == GSSAPI else USER
        authorizer = {
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": f"User:{principal}",
        }
        super().__init__(directory, HEADGATE, "SASL_SSL", {**authorizer, **(settings or {})}, **more)

    def prepare(self) -> None:
        """No user in ZooKeeper: these mechanisms have theirs elsewhere."""

    def settings_of(self, broker_id: int) -> Mapping[str, str]:
        own = {
            "sasl.mechanism.inter.broker.protocol": self.mechanism,
            f"{_ON_LISTENER}.sasl.enabled.mechanisms": self.mechanism,
            f"{_ON_LISTENER}.{self.mechanism.lower()}.sasl.jaas.config": self._jaas_line(),
        }
        if self.kdc is not None:
            own["sasl.kerberos.service.name"] = SERVICE_PRINCIPAL.partition("/")[0]
        if self.tokens is not None:
            own |= self.tokens.settings()
        scram = f"{_ON_LISTENER}.scram-"
        given = super().settings_of(broker_id).items()
        return {**{name: value for name, value in given if not name.startswith(scram)}, **own}

    def _jaas_line(self) -> str:
        if self.kdc is not None:
            principal = f"{SERVICE_PRINCIPAL}@{REALM}"
            keys = f'keyTab="{self.kdc.key_table(SERVICE_PRINCIPAL)}" principal="{principal}"'
            return f"com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true {keys};"
        if self.tokens is not None:
            return f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;"
        words = f'username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}"'
        return f"{_MODULES}.plain.PlainLoginModule required {words};"

    def make_broker(self, directory: Path, broker_id: int, connect: str, settings: Mapping[str, str]) -> Broker:
        whole = {"zookeeper.connect": connect, "broker.id": str(broker_id), **settings}
        trusted = {"SSL_CERT_FILE": str(self.tokens.authority)} if self.tokens else {}
        broker = _LoginBroker(directory, whole, port=self.ports[broker_id]["CLIENTS"])
        broker.variables = {**os.environ, **trusted, **(self.kdc.broker_environment() if self.kdc else {})}
        broker.has_reserved = True
        return broker


class _LoginBroker(HeadgateBroker):
    variables: dict[str, str] | None = None

    def environment(self) -> dict[str, str] | None:
        return self.variables
