"""Dynamic broker settings (KIP-226): which settings can change while brokers run, and the checks of a change.

A dynamic setting is set for one broker or for all brokers. The broker's own value wins over the value for all, and both
win over the value in its file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, NoReturn

from headgate.gateway.config import broker_table, catalogue
from headgate.gateway.config.broker import BrokerConfig
from headgate.gateway.config.definition import MAX_VALUE_BYTES
from headgate.protocol.errors import ErrorCode, KafkaError


def check(
    config: BrokerConfig, changes: Mapping[str, str | None], of_all: Mapping[str, str], own: Mapping[str, str]
) -> None:
    """Check `changes`; `of_all` and `own` are the resulting dynamic settings of all brokers and of this one.

    An older value that does not fit this version counts as not set, as in `BrokerConfig.change`: it must not block
    other changes. Raises KafkaError: INVALID_CONFIG for an unknown setting, INVALID_REQUEST for a setting that cannot
    change, or an illegal value.
    """
    for name, text in changes.items():
        if text is not None:
            _check_one(name, text)
    for lesser, greater in broker_table.ORDERED:
        if lesser in changes or greater in changes:
            values = [_value(config, name, of_all, own) for name in (lesser, greater)]
            if values[0] > values[1]:
                _refuse(f"{lesser}={values[0]} must not exceed {greater}={values[1]}")


def _check_one(name: str, text: str) -> None:
    definition = catalogue.find(name)
    if definition is None:  # the value stays hidden: it may be a secret under a misspelt name
        sentence = f"unknown setting {name[:100]!r}: {catalogue.nearest_broker_setting(name)}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, sentence)
    if not catalogue.is_dynamic(name):
        _refuse(f"{name} cannot be changed while the broker runs; set it in server.properties and restart the broker")
    if len(text.encode()) > MAX_VALUE_BYTES:
        _refuse(f"{name}: the value is longer than {MAX_VALUE_BYTES} bytes")
    try:
        definition.parse(text)
    except ValueError as error:
        _refuse(f"{name}={text[:100]}: allowed is {error}")


def _value(config: BrokerConfig, name: str, *configs: Mapping[str, str]) -> Any:
    """The value of a setting in the last of `configs` that has it, or else the value at the start of the broker."""
    for texts in reversed(configs):
        if name in texts:
            with contextlib.suppress(ValueError):
                return catalogue.BROKER[name].parse(texts[name])
    return config.at_start(name)


def items(config: BrokerConfig, name: str, configs: Mapping[str, str]) -> tuple[str, ...] | None:
    """The items of a list setting in these configs, or else at the start of the broker; None if it is no list."""
    if name not in catalogue.BROKER or not catalogue.is_dynamic(name):
        return None
    value = _value(config, name, configs)
    return value if isinstance(value, tuple) else None


def _refuse(sentence: str) -> NoReturn:
    raise KafkaError(ErrorCode.INVALID_REQUEST, sentence)
