"""The configuration of single groups (resource type GROUP, KIP-848): checks and descriptions.

Source: org.apache.kafka.coordinator.group.GroupConfig. Its settings for share and streams groups are unknown here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NoReturn

from headgate.gateway.config import catalogue
from headgate.gateway.config.describe import ConfigEntry, Source, Synonym, broker_synonyms
from headgate.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from headgate.gateway.config.broker import BrokerConfig

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
# The broker has each setting with its bounds: group.consumer.session.timeout.ms, group.consumer.min.session.timeout.ms
_NAMES = (SESSION_TIMEOUT, HEARTBEAT_INTERVAL)


def check(config: BrokerConfig, configs: Mapping[str, str]) -> None:
    """Check a group's configs. Raises KafkaError(INVALID_CONFIG): unknown name, illegal value, or contradiction."""
    values = {name: _check_one(config, name, text) for name, text in configs.items()}
    session = values.get(SESSION_TIMEOUT, config.group_consumer_session_timeout_ms)
    interval = values.get(HEARTBEAT_INTERVAL, config.group_consumer_heartbeat_interval_ms)
    if values and session <= interval:
        _refuse(f"{SESSION_TIMEOUT}={session} must exceed {HEARTBEAT_INTERVAL}={interval}")


def _check_one(config: BrokerConfig, name: str, text: str) -> int:
    if name not in _NAMES:
        _refuse(f"unknown group setting {name[:100]!r}: groups have {' and '.join(_NAMES)}")
    low, high = _bound(config, name, "min"), _bound(config, name, "max")
    try:
        value = int(text)
    except ValueError:
        _refuse(f"{name}={text[:100]}: allowed is a whole number")
    if not low <= value <= high:
        _refuse(f"{name}={value}: the broker allows {low} to {high}, by group.{_bound_name(name, 'min')} and ...max...")
    return value


def _bound(config: BrokerConfig, name: str, which: str) -> int:
    value: int = config[f"group.{_bound_name(name, which)}"]
    return value


def _bound_name(name: str, which: str) -> str:
    return name.replace("consumer.", f"consumer.{which}.", 1)


def _refuse(sentence: str) -> NoReturn:
    raise KafkaError(ErrorCode.INVALID_CONFIG, sentence)


def describe(
    config: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The settings of a group whose own configs are `overrides`. A group with configs need not exist."""
    return [_entry(config, overrides, name) for name in _NAMES if names is None or name in names]


def _entry(config: BrokerConfig, overrides: Mapping[str, str], name: str) -> ConfigEntry:
    definition = catalogue.BROKER[f"group.{name}"]
    own = [Synonym(name, overrides[name], Source.DYNAMIC_GROUP_CONFIG)] if name in overrides else []
    synonyms = (*own, *broker_synonyms(config, definition))
    first = synonyms[0]
    return ConfigEntry(
        name, first.value, first.source, definition.type, False, False, definition.documentation, synonyms
    )
