"""A broker with every mechanism on one port of SASL_SSL, certificates of clients on another, and ACLs.

Users have topics and groups whose names begin with their own. Tokens come from an issuer whose keys are fetched by
https, Kerberos' tickets from a KDC; where there is none, GSSAPI is left out.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from compat_tests.security.client_security import GSSAPI, Login, Security, make_certificates
from compat_tests.security.kdc import REALM, Kdc
from compat_tests.security.secure_broker import CERTIFICATES, HOST, PLAIN, SecureBroker
from compat_tests.security.token_issuer import AUDIENCE, ISSUER, TokenIssuer

LOGINS, MUTUAL, RULES = "LOGINS", "MUTUAL", "RULES"
MTLS: Final = "mTLS"
ALICE, BOB = "alice", "bob"
USERS: Final = {ALICE: "secret of alice", BOB: "secret of bob"}
PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SERVICE_PRINCIPAL: Final = "kafka/localhost"
# Groups of clients that ask for one where they need none
SHARED_GROUPS: Final = ("unused", "read-")
_MODULES: Final = "org.apache.kafka.common.security"
_SCRAM: Final = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}


class MechanismsBroker(SecureBroker):
    """`LOGINS` has all mechanisms, `MUTUAL` clients with certificates; the administrator comes without security.

    `RULES` has GSSAPI alone: NAME/admin is bob, and no other name is anyone.
    """

    def __init__(self, directory: Path, kdc: Kdc | None, reauthentication_ms: int = 0) -> None:
        certificates = make_certificates(directory / "certificates", *CERTIFICATES, *USERS)
        self.kdc = kdc
        self.issuer = TokenIssuer(certificates)
        self.reauthentication_ms = reauthentication_ms
        self.names = itertools.count()
        super().__init__(directory, certificates=certificates)

    def listener_settings(self) -> dict[str, str]:
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        mechanisms = [*PASSWORD_MECHANISMS, "OAUTHBEARER", *([GSSAPI] if self.kdc else [])]
        protocols = {PLAIN: PLAIN, LOGINS: "SASL_SSL", MUTUAL: "SSL", **({RULES: "SASL_SSL"} if self.kdc else {})}
        return {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in protocols),
            "advertised.listeners": ",".join(f"{name}://{HOST}:0" for name in protocols),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "inter.broker.listener.name": PLAIN,
            "listener.name.mutual.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/",
            "listener.name.logins.sasl.enabled.mechanisms": ",".join(mechanisms),
            "listener.name.logins.connections.max.reauth.ms": str(self.reauthentication_ms),
            "listener.name.logins.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {users};",
            "listener.name.logins.sasl.oauthbearer.jwks.endpoint.url": self.issuer.url,
            "listener.name.logins.sasl.oauthbearer.expected.audience": AUDIENCE,
            "listener.name.logins.sasl.oauthbearer.expected.issuer": ISSUER,
            **(self.kerberos_settings(self.kdc) if self.kdc else {}),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }

    def kerberos_settings(self, kdc: Kdc) -> dict[str, str]:
        keys, principal = kdc.key_table(SERVICE_PRINCIPAL), f"{SERVICE_PRINCIPAL}@{REALM}"
        options = f'useKeyTab=true storeKey=true keyTab="{keys}" principal="{principal}"'
        module = "com.sun.security.auth.module.Krb5LoginModule"
        line = f"{module} required {options};"
        return {
            **{f"listener.name.{name.lower()}.gssapi.sasl.jaas.config": line for name in (LOGINS, RULES)},
            "listener.name.rules.sasl.enabled.mechanisms": GSSAPI,
            "listener.name.rules.sasl.kerberos.principal.to.local.rules": "RULE:[2:$2](admin)s/admin/bob/",
        }

    def environment(self) -> dict[str, str]:
        trusted = {"SSL_CERT_FILE": str(self.certificates / "ca.pem")}
        return {**os.environ, **trusted, **(self.kdc.broker_environment() if self.kdc else {})}

    def start(self) -> float:
        self.issuer.start()
        took_s = super().start()
        self.port = self.ports()[PLAIN]
        admin = self.admin()
        for user in USERS:
            for future in admin.create_acls(list(acls_of(user))).values():
                future.result(30)
            for mechanism in _SCRAM.values():
                info = ScramCredentialInfo(mechanism, 4096)
                change = UserScramCredentialUpsertion(user, info, USERS[user].encode())
                for answer in admin.alter_user_scram_credentials([change]).values():
                    answer.result(30)
        return took_s

    def stop(self) -> None:
        super().stop()
        self.issuer.stop()

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def new_topic(self, user: str = ALICE, partitions: int = 1) -> str:
        """A topic of a user."""
        name, admin = f"{user}-{next(self.names)}", self.admin()
        for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
            future.result(30)
        return name

    def security(self, mechanism: str, user: str = ALICE, password: str = "") -> tuple[str, Security]:
        """The address for a mechanism, `mTLS` among them, and the settings of a client."""
        if mechanism == MTLS:
            return self.address(MUTUAL), Security(self.certificates, certificate=user)
        return self.address(LOGINS), Security(self.certificates, login=self.login(mechanism, user, password))

    def login(self, mechanism: str, user: str = ALICE, password: str = "") -> Login:
        kerberos = "" if self.kdc is None else str(self.kdc.directory / "krb5.conf")
        if mechanism == "OAUTHBEARER":
            return Login(mechanism, user, token=self.issuer.token(user), kerberos=kerberos)
        if mechanism == GSSAPI:
            assert self.kdc is not None
            return Login(mechanism, f"{user}@{REALM}", key_table=str(self.kdc.key_table(user)), kerberos=kerberos)
        return Login(mechanism, user, password or USERS[user], kerberos=kerberos)


def acls_of(user: str) -> Iterator[AclBinding]:
    """A user may read and write the topics, and be in the groups, that begin with the user's name."""
    for operation in (AclOperation.READ, AclOperation.WRITE):
        yield allow(user, ResourceType.TOPIC, f"{user}-", operation)
    for prefix in (f"{user}-", *SHARED_GROUPS):
        yield allow(user, ResourceType.GROUP, prefix, AclOperation.READ)


def allow(user: str, kind: ResourceType, prefix: str, operation: AclOperation) -> AclBinding:
    allowed = AclPermissionType.ALLOW
    return AclBinding(kind, prefix, ResourcePatternType.PREFIXED, f"User:{user}", "*", operation, allowed)
