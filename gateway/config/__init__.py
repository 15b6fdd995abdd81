"""The configuration: Kafka's names, types, defaults and checks."""

from gateway.config.broker import BrokerConfig
from gateway.config.listeners import Listener
from gateway.config.loading import Answer, ConfigError

__all__ = ["Answer", "BrokerConfig", "ConfigError", "Listener"]
