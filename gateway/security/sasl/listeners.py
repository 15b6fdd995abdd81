"""The SASL settings of all listeners, as they are at present."""

from __future__ import annotations

import logging
import secrets

from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.config.listeners import SASL_PROTOCOLS
from headgate.gateway.security.sasl.mechanisms import InvalidSaslSettings, SaslParts, make_listener
from headgate.gateway.security.sasl.server_exchange import SaslListener
from headgate.gateway.security.sasl.settings import SaslSettings, of_listener

logger = logging.getLogger("headgate.sasl")


def new_nonce() -> str:
    """A random text for SCRAM: 192 bits, printable, without a comma."""
    return secrets.token_urlsafe(24)


class SaslListeners(dict[str, SaslListener]):
    """By name. The constructor raises ConfigError with a sentence for each listener that no client could use."""

    def __init__(self, config: BrokerConfig, parts: SaslParts) -> None:
        super().__init__()
        self._config = config
        self._parts = parts
        self._settings: dict[str, SaslSettings] = {}
        problems = []
        for listener in config.listeners:
            if config.listener_security_protocol_map[listener.name] in SASL_PROTOCOLS:
                try:
                    self._take(of_listener(config, listener.name))
                except InvalidSaslSettings as error:
                    problems.append(str(error))
        if problems:
            raise ConfigError(problems)

    def refresh(self) -> None:
        """Take over settings that were changed at run time. An unusable change is logged, and changes nothing."""
        for name, known in self._settings.items():
            settings = of_listener(self._config, name)
            if settings != known:
                try:
                    self._take(settings)
                except InvalidSaslSettings as error:
                    logger.error("the listener %s keeps its settings of logins: %s", name, error)

    def _take(self, settings: SaslSettings) -> None:
        self[settings.listener] = make_listener(settings, self._parts)
        self._settings[settings.listener] = settings
