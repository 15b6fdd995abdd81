"""A broker whose listeners ask for a login by SASL over TLS, and one for its administrator."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

import jwt
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from compat_tests.security.client_security import Login, Security
from compat_tests.security.secure_broker import HOST, PLAIN, SecureBroker

EVERY, SIGNED, NARROW = "EVERY", "SIGNED", "NARROW"
USER, PASSWORD = "alice", "secret of alice"
SCRAM: Final = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
TOKEN_KEY: Final = "the key of delegation tokens"  # noqa: S105  of these tests
_MODULES: Final = "org.apache.kafka.common.security"


class LoginBroker(SecureBroker):
    """`EVERY` has all mechanisms, `SIGNED` takes tokens that its key has signed, `NARROW` has SCRAM-SHA-256 alone."""

    def __init__(self, directory: Path) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.keys = directory / "keys.json"
        super().__init__(directory)
        jwk: dict[str, Any] = RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        self.keys.write_text(json.dumps({"keys": [{**jwk, "kid": "one", "alg": "RS256", "use": "sig"}]}))

    def listener_settings(self) -> dict[str, str]:
        names = (EVERY, SIGNED, NARROW)
        plain = f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        return {
            **{
                name: value
                for name, value in super().listener_settings().items()
                if not name.startswith("listener.name.")
            },
            "listeners": ",".join((f"{PLAIN}://127.0.0.1:0", *(f"{name}://127.0.0.1:0" for name in names))),
            "advertised.listeners": ",".join(f"{name}://{HOST}:0" for name in (PLAIN, *names)),
            "listener.security.protocol.map": ",".join((f"{PLAIN}:{PLAIN}", *(f"{name}:SASL_SSL" for name in names))),
            "listener.name.every.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.every.plain.sasl.jaas.config": plain,
            "listener.name.every.headgate.sasl.oauthbearer.unsecured": "true",
            "listener.name.signed.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.signed.sasl.oauthbearer.jwks.endpoint.url": self.keys.as_uri(),
            "listener.name.signed.sasl.oauthbearer.expected.audience": "kafka",
            "delegation.token.secret.key": TOKEN_KEY,
            "listener.name.narrow.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        }

    def start(self) -> float:
        took_s = super().start()
        self.port = self.ports()[PLAIN]
        changes = [
            UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            for mechanism in SCRAM.values()
        ]
        # A request names a user once
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for change in changes:
            for answer in admin.alter_user_scram_credentials([change]).values():
                answer.result(30)
        return took_s

    def token(self, user: str = USER, audience: str = "kafka") -> str:
        """A token of an hour."""
        claims = {"sub": user, "aud": audience, "iat": int(time.time()), "exp": int(time.time()) + 3600}
        return jwt.encode(claims, self.key, "RS256", {"kid": "one"})

    def security(self, mechanism: str, user: str = USER, password: str = PASSWORD) -> tuple[str, Security]:
        """The address for a login, and the client's settings. `SIGNED` is OAUTHBEARER with a signature."""
        if mechanism == SIGNED:
            login = Login("OAUTHBEARER", user, token=self.token(user))
            return self.address(SIGNED), Security(self.certificates, login=login)
        return self.address(EVERY), Security(self.certificates, login=Login(mechanism, user, password))
