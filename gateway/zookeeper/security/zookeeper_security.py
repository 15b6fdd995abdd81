"""How this broker reaches ZooKeeper: TLS, a login by SASL, and the ACLs of the nodes that it creates.

The settings of TLS are Kafka's, `zookeeper.ssl.*`. Kafka takes the user of a login from the section `Client` of the
file that the JVM is started with; here it is a line with the same words, `headgate.zookeeper.sasl.jaas.config`, as all
other JAAS lines of Kafka's settings are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.protocol.security.client_security import ClientSecurity, InvalidClientSecurity
from headgate.protocol.security.sasl import jaas
from headgate.protocol.security.sasl.jaas import InvalidJaasConfig
from headgate.protocol.security.secret import Secret
from headgate.protocol.security.tls.settings import TlsSettings

if TYPE_CHECKING:
    import ssl

DIGEST_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
JAAS_CONFIG: Final = "headgate.zookeeper.sasl.jaas.config"
_TYPES: Final = {".pem": "PEM", ".p12": "PKCS12", ".pfx": "PKCS12", ".jks": "JKS"}
CONSUMERS_PATH: Final = "/consumers"
SENSITIVE_PATHS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Nodes below these are for brokers alone. Source: Kafka's `ZkData.SensitiveRootPaths`."""


class NodeAccess(NamedTuple):
    """The ACL of a new node: all to the world, or all to its creator, and perhaps reading to the world."""

    is_open: bool
    is_readable: bool


OPEN: Final = NodeAccess(is_open=True, is_readable=True)


class ZooKeeperLogin(NamedTuple):
    """A user of SASL's DIGEST-MD5."""

    user: str
    password: Secret


class ZooKeeperSecurity(NamedTuple):
    """`new_context` gives the context of a new connection, with stores that were replaced; None: without TLS."""

    new_context: Callable[[], ssl.SSLContext] | None = None
    login: ZooKeeperLogin | None = None
    sets_acls: bool = False

    def access(self, path: str) -> NodeAccess:
        """The ACL of a new node, as Kafka's `ZkData.defaultAcls`: `path` is relative to the chroot.

        Clients of the 0.8 age write below `/consumers`, so everything there stays open; in Kafka `/consumers` alone.
        """
        if not self.sets_acls or path == CONSUMERS_PATH or path.startswith(f"{CONSUMERS_PATH}/"):
            return OPEN
        return NodeAccess(is_open=False, is_readable=not path.startswith(SENSITIVE_PATHS))


NO_SECURITY: Final = ZooKeeperSecurity()


def of_config(config: BrokerConfig) -> ZooKeeperSecurity:
    """The security of the connection to `zookeeper.connect`. Raises ConfigError."""
    try:
        login = _login(config)
        has_certificate = config.zookeeper_ssl_client_enable and config.zookeeper_ssl_keystore_location is not None
        if config.zookeeper_set_acl and login is None and not has_certificate:
            problem = (
                f"zookeeper.set.acl=true needs a name of this broker in ZooKeeper: set {JAAS_CONFIG}, or"
                " zookeeper.ssl.client.enable=true with zookeeper.ssl.keystore.location"
            )
            raise ConfigError([problem])
        return ZooKeeperSecurity(_new_context(config), login, config.zookeeper_set_acl)
    except InvalidClientSecurity as error:
        raise ConfigError([_of_zookeeper(str(error))]) from None


def _of_zookeeper(sentence: str) -> str:
    """A sentence about TLS with the names of these settings."""
    return re.sub(r"(?<![\w.])ssl\.", "zookeeper.ssl.", sentence)


def _new_context(config: BrokerConfig) -> Callable[[], ssl.SSLContext] | None:
    if not config.zookeeper_ssl_client_enable:
        return None
    security = ClientSecurity("SSL", tls_settings(config))
    security.ssl_context()
    return security.ssl_context


def tls_settings(config: BrokerConfig) -> TlsSettings:
    """The settings `zookeeper.ssl.*`. A store's default type follows from the ending of its name, as in ZooKeeper."""
    keystore, truststore = config.zookeeper_ssl_keystore_location, config.zookeeper_ssl_truststore_location
    return TlsSettings(
        keystore_type=config.zookeeper_ssl_keystore_type or _type_of(keystore),
        keystore_location=keystore,
        keystore_password=config.zookeeper_ssl_keystore_password,
        # One password for both, as in ZooKeeper
        key_password=config.zookeeper_ssl_keystore_password,
        truststore_type=config.zookeeper_ssl_truststore_type or _type_of(truststore),
        truststore_location=truststore,
        truststore_password=config.zookeeper_ssl_truststore_password,
        enabled_protocols=config.zookeeper_ssl_enabled_protocols or ("TLSv1.2", "TLSv1.3"),
        cipher_suites=config.zookeeper_ssl_cipher_suites or (),
        endpoint_identification_algorithm=config.zookeeper_ssl_endpoint_identification_algorithm,
    )


def _type_of(location: str | None) -> str:
    name = (location or "").lower()
    return next((kind for ending, kind in _TYPES.items() if name.endswith(ending)), "JKS")


def _login(config: BrokerConfig) -> ZooKeeperLogin | None:
    line = config.headgate_zookeeper_sasl_jaas_config
    if line is None or not line.text.strip():
        return None
    try:
        entry = jaas.parse(line.text)
    except InvalidJaasConfig as error:
        raise ConfigError([f"{JAAS_CONFIG}: {error}"]) from None
    user, password = (entry.options.get(name, "") for name in ("username", "password"))
    if entry.login_module != DIGEST_MODULE or not user or not password:
        raise ConfigError([f'{JAAS_CONFIG}: write {DIGEST_MODULE} required username="..." password="...";'])
    if find_spec("puresasl") is None:
        raise ConfigError([f"{JAAS_CONFIG} needs a library: pip install 'headgate[zookeeper-sasl]'"])
    return ZooKeeperLogin(user, Secret(password))
