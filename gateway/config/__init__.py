"""The configuration: Kafka's names, types, defaults and checks."""

from headgate.gateway.config.broker import BrokerConfig
from headgate.gateway.config.listeners import Listener
from headgate.gateway.config.loading import ConfigError, SettingOutcome

__all__ = ["BrokerConfig", "ConfigError", "Listener", "SettingOutcome"]
