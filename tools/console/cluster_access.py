"""How visitors reach the cluster: with the login that the console has, or each with the visitor's own.

The console's properties (`--command-config`) are lent to visitors on the loopback interface, and to no others. Where
these properties name SASL without `sasl.jaas.config`, the page asks each visitor for a login.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from headgate.protocol.security.client_security import ClientSecurity, InvalidClientSecurity
from headgate.protocol.security.sasl.jaas import MODULES_OF_MECHANISMS
from headgate.tools.client.client import ClientError
from headgate.tools.console.broker_http import BrokerHttp, ConsoleCluster

PROTOCOL, MECHANISM, JAAS_CONFIG = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
"""Those that a page can ask a visitor for."""
MOST_CHARACTERS: Final = 16_384
"""Of a user's name, a password, or a token."""
_TIMEOUT_S: Final = 10.0
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}


class VisitorLogin(NamedTuple):
    """The login of a visitor; `user` is what the page shows."""

    user: str
    security: ClientSecurity


class ClusterAccess:
    """Makes the connections of visitors."""

    def __init__(
        self, bootstrap: str, properties: Mapping[str, str], *, is_loopback: bool, http: BrokerHttp | None = None
    ) -> None:
        """`http`: the HTTP listeners of the brokers. Raises InvalidClientSecurity."""
        self.bootstrap = bootstrap
        self.http = http or BrokerHttp()
        self._properties = dict(properties)
        protocol = properties.get(PROTOCOL, "PLAINTEXT").upper()
        asks_visitors = protocol.startswith("SASL_") and JAAS_CONFIG not in properties
        security = None if asks_visitors else ClientSecurity.of_properties(self._properties)
        self.lent = security if is_loopback else None
        """For a visitor without a login; None: each visitor has to log in."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms that a visitor may choose from."""
        given = self._properties.get(MECHANISM)
        return (given,) if given in MECHANISMS else MECHANISMS

    def log_in(self, mechanism: str, user: str, password: str) -> VisitorLogin:
        """Try a login at a broker; of OAUTHBEARER the password is the token. Raises ClientError."""
        if mechanism not in self.mechanisms:
            raise ClientError(f"the mechanism is one of {', '.join(self.mechanisms)}")
        if len(user) > MOST_CHARACTERS or len(password) > MOST_CHARACTERS:
            raise ClientError(f"a user, a password or a token has at most {MOST_CHARACTERS} characters")
        properties = {
            **self._properties,
            PROTOCOL: sasl_protocol(self._properties),
            MECHANISM: mechanism,
            JAAS_CONFIG: jaas_line(mechanism, user, password),
        }
        try:
            security = ClientSecurity.of_properties(properties)
        except InvalidClientSecurity as error:
            raise ClientError(str(error)) from None
        with self.cluster(security) as cluster:
            cluster.refresh([])
        return VisitorLogin(user or "bearer of a token", security)

    def cluster(self, security: ClientSecurity) -> ConsoleCluster:
        """A cluster without connections yet."""
        return ConsoleCluster(self.bootstrap, _TIMEOUT_S, security, self.http)


def sasl_protocol(properties: Mapping[str, str]) -> str:
    """The protocol with a login, over TLS if the properties have TLS."""
    return "SASL_SSL" if properties.get(PROTOCOL, "").upper().endswith("SSL") else "SASL_PLAINTEXT"


def jaas_line(mechanism: str, user: str, password: str) -> str:
    """The line of `sasl.jaas.config`; whatever the texts are, they stay texts."""
    options = f"token={_quote(password)}"
    if mechanism != "OAUTHBEARER":
        options = f"username={_quote(user)} password={_quote(password)}"
    return f"{MODULES_OF_MECHANISMS[mechanism]} required {options};"


def _quote(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'
