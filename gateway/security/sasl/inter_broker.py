"""How this broker logs in to other brokers: as a client of the listener between them.

The mechanism is `sasl.mechanism.inter.broker.protocol`. User and password are in the JAAS line that the listener has
for that mechanism, as in Kafka: one line serves both sides. A change at run time counts for the next login; one that
cannot be used is logged, and changes nothing.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.security.sasl.settings import JAAS_CONFIG, bearer_setting
from headgate.protocol.client.connection import ClientConnection, Exchange
from headgate.protocol.security.client_properties import SERVICE_NAME
from headgate.protocol.security.sasl import login
from headgate.protocol.security.sasl.client_login import ClientLogin, InvalidLogin, make_login
from headgate.protocol.security.sasl.client_seams import ClientSeams, system
from headgate.protocol.security.sasl.login import LoginSession
from headgate.protocol.security.secret import Secret

logger = logging.getLogger("headgate.sasl")

MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_ENABLED: Final = "sasl.enabled.mechanisms"
_OF_CLIENTS: Final = (
    SERVICE_NAME,
    *map(
        bearer_setting,
        ("token_endpoint_url", "client_credentials_client_id", "client_credentials_client_secret", "scope"),
    ),
)


class InterBrokerLogin:
    """The login of links. The constructor raises ConfigError for settings that no login can be made of."""

    def __init__(self, config: BrokerConfig, seams: ClientSeams | None = None) -> None:
        self._config = config
        self._listener = config.inter_broker_listener
        self._seams = seams or system()
        self._made_of = self._settings()
        try:
            self._login = self._make()
        except InvalidLogin as error:
            raise ConfigError([str(error)]) from None

    def new_login(self, peer: ClientConnection, host: str) -> Exchange[LoginSession]:
        """A login at a broker, which has not begun. Its steps may block. It raises LoginFailed."""
        self._refresh()
        return _log_in(self._login, peer, host)

    def _refresh(self) -> None:
        settings = self._settings()
        if settings == self._made_of:
            return
        before, self._made_of = self._made_of, settings
        try:
            self._login = self._make()
        except InvalidLogin as error:
            self._made_of = before
            logger.error("logins to other brokers keep their settings: %s", error)

    def _settings(self) -> tuple[str, Secret, dict[str, str]]:
        """The mechanism, its JAAS line, and the settings of clients."""
        mechanism = str(self._config.present_value(MECHANISM))
        line = self._config.listener_value(self._listener, f"{mechanism.lower()}.{JAAS_CONFIG}")
        found = {name: self._value(name, mechanism) for name in _OF_CLIENTS}
        return mechanism, line or Secret(""), {name: text for name, text in found.items() if text is not None}

    def _value(self, name: str, mechanism: str) -> str | None:
        own = (self._config.listener_value(self._listener, each) for each in (f"{mechanism.lower()}.{name}", name))
        found: Any = next((each for each in own if each is not None), None)
        found = self._config.present_value(name) if found is None else found
        return found.text if isinstance(found, Secret) else found

    def _make(self) -> ClientLogin:
        mechanism, line, settings = self._made_of
        enabled: Any = self._config.listener_value(self._listener, _ENABLED)
        enabled = self._config.present_value(_ENABLED) if enabled is None else enabled
        if mechanism not in enabled:
            raise InvalidLogin(
                f"{MECHANISM}={mechanism[:100]} must be included in {_ENABLED} of the listener {self._listener}, by"
                f" which brokers reach each other; it has {', '.join(enabled)[:200] or 'none'}"
            )
        try:
            return make_login(mechanism, line, settings, self._seams)
        except InvalidLogin as error:
            prefix = f"listener.name.{self._listener.lower()}.{mechanism.lower()}."
            raise InvalidLogin(f"{prefix}{error}" if str(error).startswith(JAAS_CONFIG) else str(error)) from None


def _log_in(made: ClientLogin, peer: ClientConnection, host: str) -> Exchange[LoginSession]:
    return (yield from login.log_in(peer, made.mechanism, made.begin(host)))
