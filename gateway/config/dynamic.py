"""Settings of brokers that are changed while they run (KIP-226): what can be, and what is checked before.

They are set for one broker, or for all of them; the one's own count before those of all, and both before its file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, NoReturn

from headgate.gateway.config import broker_table, catalogue
from headgate.gateway.config.broker import BrokerConfig
from headgate.gateway.config.definition import LONGEST_VALUE_BYTES
from headgate.protocol.errors import ErrorCode, KafkaError


def check(
    config: BrokerConfig, changes: Mapping[str, str | None], of_all: Mapping[str, str], own: Mapping[str, str]
) -> None:
    """What is to be changed, and what would then be set for all brokers and for this one.

    What was set before and does not fit this version counts as not set, as `BrokerConfig.change` has it: it must not
    keep others from being changed. Raises KafkaError: INVALID_CONFIG for no setting, INVALID_REQUEST for what cannot be
    changed, or not to that value.
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
    if definition is None:  # the value is not shown: it may be a secret under a misspelt name
        sentence = f"unknown setting {name[:100]!r}: {catalogue.nearest_broker_setting(name)}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, sentence)
    if not catalogue.is_dynamic(name):
        _refuse(f"{name} cannot be changed while the broker runs; set it in its server.properties, and start it again")
    if len(text.encode()) > LONGEST_VALUE_BYTES:
        _refuse(f"{name}: a value has {LONGEST_VALUE_BYTES} bytes at most")
    try:
        definition.parse(text)
    except ValueError as error:
        _refuse(f"{name}={text[:100]}: allowed is {error}")


def _value(config: BrokerConfig, name: str, *configs: Mapping[str, str]) -> Any:
    """What a setting would be: the last of `configs` that has it counts, or else what it was at the start."""
    for texts in reversed(configs):
        if name in texts:
            with contextlib.suppress(ValueError):
                return catalogue.BROKER[name].parse(texts[name])
    return config.at_start(name)


def items(config: BrokerConfig, name: str, configs: Mapping[str, str]) -> tuple[str, ...] | None:
    """What a list has among these settings, or else had when the broker started; None if it is no list."""
    if name not in catalogue.BROKER or not catalogue.is_dynamic(name):
        return None
    value = _value(config, name, configs)
    return value if isinstance(value, tuple) else None


def _refuse(sentence: str) -> NoReturn:
    raise KafkaError(ErrorCode.INVALID_REQUEST, sentence)
