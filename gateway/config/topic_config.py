"""The configuration of topics: what may be set, and what it comes to together with the broker's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from headgate.gateway.config import catalogue, topic_table
from headgate.gateway.config.definition import LONGEST_VALUE_BYTES, Definition, Type, Value
from headgate.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from headgate.gateway.config.broker import BrokerConfig
    from headgate.storage.config import LogConfig

_DIFFERENCE = Definition(
    topic_table.TIMESTAMP_DIFFERENCE, Type.LONG, None, "0..", "Both bounds of a record's time (Kafka to 3.9)."
)
_LAGS = ("min.compaction.lag.ms", "max.compaction.lag.ms")
_BOUNDS = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")


def check(configs: Mapping[str, str | None]) -> None:
    """Raises KafkaError(INVALID_CONFIG) for an unknown name, a value that is not allowed, or a contradiction."""
    for name, text in configs.items():
        if text is None:
            _refuse(f"{name}: null is no value; give one, or leave the name out")
        _check_one(name, text)
    lag = [(name, int(text)) for name in _LAGS if (text := configs.get(name))]
    if len(lag) == len(_LAGS) and lag[0][1] > lag[1][1]:
        _refuse(f"{lag[0][0]}={lag[0][1]} exceeds {lag[1][0]}={lag[1][1]}")


def _check_one(name: str, text: str) -> None:
    if len(text.encode()) > LONGEST_VALUE_BYTES:
        _refuse(f"{name[:100]}: a value has {LONGEST_VALUE_BYTES} bytes at most")
    if name in topic_table.REFUSED:
        harmless, reason = topic_table.REFUSED[name]
        if text.strip() not in harmless:
            _refuse(f"{name}={text}: {reason}")
        return
    if name in topic_table.FOREIGN:
        return
    definition = _DIFFERENCE if name == _DIFFERENCE.name else catalogue.TOPIC.get(name)
    if definition is None:
        _refuse(f"unknown topic setting {name!r}: {catalogue.nearest_topic_setting(name)}")
    try:
        definition.parse(text)
    except ValueError as error:
        _refuse(f"{name}={text}: allowed is {error}")


def without_effect(name: str) -> str:
    """Why a setting that is accepted does nothing here; empty for one that does something."""
    return topic_table.REFUSED[name][1] if name in topic_table.REFUSED else topic_table.FOREIGN.get(name, "")


def _refuse(sentence: str) -> NoReturn:
    raise KafkaError(ErrorCode.INVALID_CONFIG, sentence)


def own_name(name: str, overrides: Mapping[str, str]) -> str | None:
    """The name under which a topic sets this itself: its own, or the older one for both bounds of a record's time."""
    if name in overrides:
        return name
    return _DIFFERENCE.name if name in _BOUNDS and _DIFFERENCE.name in overrides else None


def affected(overrides: Mapping[str, str]) -> tuple[str, ...]:
    """The settings that a topic sets under another's name."""
    return _BOUNDS if _DIFFERENCE.name in overrides else ()


def resolve(config: BrokerConfig, name: str, overrides: Mapping[str, str]) -> Value:
    """One topic setting: the topic's own, or the first of the broker's synonyms that was given, or the default."""
    definition = catalogue.TOPIC[name]
    own = own_name(name, overrides)
    if own is not None:
        return definition.parse(overrides[own])
    for synonym in catalogue.BROKER_SYNONYMS[name]:
        if any(text is not None for text in config.texts(synonym)):
            return _in_topic_unit(synonym, config[synonym])
    return definition.default_value()


def _in_topic_unit(synonym: str, value: Value) -> Value:
    factor = catalogue.unit_factor(synonym)
    if factor == 1 or not isinstance(value, int) or value < 0:
        return value
    return value * factor


def log_config(config: BrokerConfig) -> LogConfig:
    """The settings that storage needs, for a topic without own ones; fields have the names of settings."""
    from headgate.storage.config import LogConfig

    values: dict[str, Any] = {_field(name): resolve(config, name, {}) for name in catalogue.TOPIC}
    return LogConfig(**values)


def with_own(plain: LogConfig, config: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """The same for a topic with own ones: only these are looked at, as there may be many such topics."""
    names = [name for name in (*overrides, *affected(overrides)) if name in catalogue.TOPIC]
    values: dict[str, Any] = {_field(name): resolve(config, name, overrides) for name in names}
    return replace(plain, **values)


def _field(name: str) -> str:
    return name.replace(".", "_")
