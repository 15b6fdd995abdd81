"""Levels of this program's loggers, changed while it runs (KIP-412). A restart forgets them, as in Kafka."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from headgate.gateway.config.definition import Type
from headgate.gateway.config.describe import ConfigEntry, Source
from headgate.protocol.errors import ErrorCode, KafkaError

ROOT = "root"
_OURS = "headgate"
_TRACE = 5

# Kafka's names (org.apache.kafka.common.config.LogLevelConfig), the gravest first
LEVELS: Mapping[str, int] = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": _TRACE,
}


def names() -> list[str]:
    """The loggers there are: `root`, which the others inherit from, and this program's own."""
    ours = (name for name in logging.root.manager.loggerDict if name.partition(".")[0] == _OURS)
    return [ROOT, *sorted(ours)]


def describe(wanted: Collection[str] | None = None) -> list[ConfigEntry]:
    """The level of every logger, be it its own or inherited; `wanted` limits them."""
    return [_entry(name) for name in names() if wanted is None or name in wanted]


def _entry(name: str) -> ConfigEntry:
    source = Source.DYNAMIC_BROKER_LOGGER_CONFIG
    return ConfigEntry(name, _level(name), source, Type.UNKNOWN, False, False, "", ())


def _level(name: str) -> str:
    effective = _logger(name).getEffectiveLevel()
    return next((text for text, level in LEVELS.items() if effective >= level), "TRACE")


def check(name: str, level: str | None) -> None:
    """Raises KafkaError: INVALID_CONFIG for no logger or no level, INVALID_REQUEST to take the root logger's away."""
    if name not in names():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no logger {name[:100]!r}; DescribeConfigs lists them")
    if level is not None and level not in LEVELS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name}={level[:100]}: allowed is one of: {', '.join(LEVELS)}")
    if level is None and name == ROOT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the root logger inherits from none; set another level instead")


def change(levels: Mapping[str, str | None]) -> None:
    """Give loggers these levels, which were checked; with None, those of the loggers above them."""
    for name, level in levels.items():
        _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)
