"""Levels of this program's loggers, changed while the broker runs (KIP-412). A restart forgets them, as in Kafka."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from headgate.gateway.config.definition import Type
from headgate.gateway.config.describe import ConfigEntry, ConfigSource
from headgate.protocol.errors import ErrorCode, KafkaError

ROOT = "root"
_OURS = "headgate"
_ROOT_REMOVED = "Removing the log level of the root logger is not allowed: it inherits none; set another level"
_TRACE = 5

# Kafka's names (org.apache.kafka.common.config.LogLevelConfig), the most severe first
LEVELS: Mapping[str, int] = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": _TRACE,
}


def names() -> list[str]:
    """The existing loggers: `root`, from which the others inherit, and this program's own."""
    ours = (name for name in logging.root.manager.loggerDict if name.partition(".")[0] == _OURS)
    return [ROOT, *sorted(ours)]


def describe(wanted: Collection[str] | None = None) -> list[ConfigEntry]:
    """The level of every logger, own or inherited; `wanted` limits the loggers."""
    return [_entry(name) for name in names() if wanted is None or name in wanted]


def _entry(name: str) -> ConfigEntry:
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return ConfigEntry(name, _level(name), source, Type.UNKNOWN, False, False, "", ())


def _level(name: str) -> str:
    effective = _logger(name).getEffectiveLevel()
    return next((text for text, level in LEVELS.items() if effective >= level), "TRACE")


def check(name: str, level: str | None) -> None:
    """Check a change of a level. None inherits the level of the parent.

    Raises KafkaError: INVALID_CONFIG for an unknown logger or level, INVALID_REQUEST for None on the root logger.
    """
    if name not in names():
        message = f"Logger {name[:100]} does not exist! DescribeConfigs lists the loggers"
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    if level is not None and level not in LEVELS:
        refusal = f"Cannot set the log level of {name} to {level[:100]} as it is not a supported log level."
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{refusal} Valid log levels are {', '.join(sorted(LEVELS))}")
    if level is None and name == ROOT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _ROOT_REMOVED)


def change(levels: Mapping[str, str | None]) -> None:
    """Set these checked levels; None makes a logger inherit its level."""
    for name, level in levels.items():
        _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)
