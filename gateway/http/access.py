"""Who may ask over HTTP. Beyond the loopback interface: a user who may Describe the cluster.

A client's certificate names the user, or HTTP's Basic authentication (RFC 7617) with the password of a user: of the
JAAS line `listener.name.http.plain.sasl.jaas.config`, or else of SCRAM.

On the loopback interface every program of this machine may ask, a page in a browser may not
(`protocol/security/host_header.py`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headgate.gateway.api.context import Client
from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.config.http.http_addresses import HTTP
from headgate.gateway.security.sasl.plain import JaasUsers, PasswordStore, ScramPasswords
from headgate.gateway.security.sasl.scram_credentials import ScramCredentials
from headgate.protocol.acls import CLUSTER_NAME, AclOperation, AclResource
from headgate.protocol.security.sasl import jaas

if TYPE_CHECKING:
    from headgate.gateway.api.authorization import Authorizer
    from headgate.gateway.security.tls.listener_tls import ListenerTls

JAAS_CONFIG: Final = "plain.sasl.jaas.config"
AUTHORIZATION: Final = b"authorization"
HOST: Final = b"host"
_BASIC: Final = b"basic"

Identity = str | Callable[[], str | None] | None
"""The principal, None without one, or the computation of it, which a thread has to run."""


class HttpAccess:
    """Names the users, and decides."""

    def __init__(
        self, tls: ListenerTls, passwords: PasswordStore, authorizer: Authorizer | None, delay_ms: int
    ) -> None:
        """`delay_ms`: how long a refused user waits for the answer."""
        self.tls = tls
        self.delay_ms = delay_ms
        self._passwords = passwords
        self._authorizer = authorizer

    def identify(self, authorization: bytes | None, certificate: bytes | None) -> Identity:
        """The user of a request, by the client's certificate in DER or the header `Authorization`."""
        if certificate is not None:
            return self.tls.principal_of(certificate)
        given = read_password(authorization or b"")
        if given is None:
            return None
        user, password = given
        answer = self._passwords.check(user, password)
        principal = f"User:{user}"
        if isinstance(answer, bool):
            return principal if answer else None
        return lambda: principal if answer() else None

    def allows(self, client: Client) -> bool:
        """Whether a known user may ask."""
        if self._authorizer is None:
            return True
        return self._authorizer.allows(client, AclOperation.DESCRIBE, AclResource.CLUSTER, CLUSTER_NAME)


def read_password(authorization: bytes) -> tuple[str, str] | None:
    """The user and the password in the value of the header `Authorization`; None without them."""
    scheme, _, token = authorization.strip().partition(b" ")
    if scheme.lower() != _BASIC:
        return None
    try:
        user, colon, password = base64.b64decode(token.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (user, password) if colon and user and password else None


def configured_users(config: BrokerConfig) -> PasswordStore | None:
    """The users of the listener's JAAS line; None without the line. Raises ConfigError."""
    line = config.listener_value(HTTP, JAAS_CONFIG)
    if line is None:
        return None
    try:
        return JaasUsers(jaas.parse_for("PLAIN", line.text).users)
    except jaas.InvalidJaasConfig as error:
        raise ConfigError([f"listener.name.http.{JAAS_CONFIG}: {error}"]) from None


def make_access(
    config: BrokerConfig, tls: ListenerTls, credentials: ScramCredentials, authorizer: Authorizer | None
) -> HttpAccess:
    """The access by the settings. Raises ConfigError."""
    passwords = configured_users(config) or ScramPasswords(credentials)
    return HttpAccess(tls, passwords, authorizer, config.connection_failed_authentication_delay_ms)
