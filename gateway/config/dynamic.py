"""Dynamic broker settings (KIP-226): which settings can change while brokers run, and the checks of a change.

A dynamic setting is set for one broker or for all brokers. The broker's own value wins over the value for all, and both
win over the value in its file.

A setting without effect in a file is accepted here too, as Kafka accepts it, and has no effect: the log and
DescribeConfigs say so. But a secret without effect is refused: the metadata would keep it in plain text for nothing.
A secret with an effect is stored as by Kafka 4.1, in plain text in the metadata log. It is refused with ZooKeeper:
others can read there, and Kafka encrypts secrets (`password.encoder.secret`); a variable of `config.providers` in its
place is stored as it is.
Refusals begin with the sentences of Apache Kafka 4.1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from headgate.gateway.config import broker_table, catalogue
from headgate.gateway.config.broker import BrokerConfig
from headgate.gateway.config.catalogue import Scope
from headgate.gateway.config.definition import MAX_VALUE_BYTES, Effect, Type
from headgate.gateway.config.providers.variables import ProviderProblem
from headgate.protocol.errors import ErrorCode, KafkaError


def check(
    config: BrokerConfig,
    changes: Mapping[str, str | None],
    of_all: Mapping[str, str],
    own: Mapping[str, str],
    *,
    is_own: bool = True,
) -> None:
    """Check `changes`, of this broker or (not `is_own`) of all brokers.

    `of_all` and `own` are the resulting dynamic settings of all brokers and of this one.

    An older value that does not fit this version counts as not set, as in `BrokerConfig.change`: it must not block
    other changes. Raises KafkaError: INVALID_CONFIG for an unknown setting, INVALID_REQUEST for a setting that cannot
    change, or an illegal value.
    """
    given = {name: text for name, text in changes.items() if text is not None}
    _check_scopes(given, is_own)
    for name, text in given.items():
        _check_one(config, name, text)
    for lesser, greater in broker_table.ORDERED:
        if lesser in changes or greater in changes:
            values = [_value(config, name, of_all, own) for name in (lesser, greater)]
            if values[0] > values[1]:
                _refuse(f"{lesser}={values[0]} must not exceed {greater}={values[1]}")


def _check_scopes(names: Iterable[str], is_own: bool) -> None:
    by_scope: dict[Scope, list[str]] = {}
    for name in names:
        if catalogue.find(name) is None:  # the value stays hidden: it may be a secret under a misspelt name
            sentence = f"unknown setting {name[:100]!r}: {catalogue.nearest_broker_setting(name)}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, sentence)
        by_scope.setdefault(catalogue.scope(name), []).append(name)
    for scope, refusal, advice in _REFUSALS:
        if scope in by_scope and not (scope is Scope.BROKER and is_own):
            _refuse(f"{refusal}: Set({', '.join(by_scope[scope])}){advice}")


_REFUSALS = (
    (
        Scope.NOTHING,
        "Cannot update these configs dynamically",
        ": set them in server.properties, and restart the broker",
    ),
    (
        Scope.LISTENER,
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        ": write listener.name.<listener>. before the name",
    ),
    (Scope.BROKER, "Cannot update these configs at default cluster level, broker id must be specified", ""),
)


def _check_one(config: BrokerConfig, name: str, text: str) -> None:
    definition = catalogue.find(name)
    assert definition is not None, "_check_scopes has found it"
    if definition.effect is Effect.REFUSED and text.strip() not in definition.harmless:
        _refuse(f"Invalid value {text[:100]} for configuration {name}: {definition.reason}")
    if definition.is_sensitive and definition.effect is not Effect.FULL:
        reason = f"it has no effect here, because {definition.reason}"
        _refuse(f"{name} is a secret, and not stored at run time: {reason}")
    try:
        resolved = config.providers.resolve(text)
    except ProviderProblem as error:
        _refuse(f"{name}: {error}")
    if definition.is_sensitive and config.zookeeper_connect is not None and not config.providers.is_variable(text):
        _refuse(f"{name} is a secret, and not stored in ZooKeeper, where it could be read: set it in server.properties")
    if len(text.encode()) > MAX_VALUE_BYTES:
        _refuse(f"{name}: the value is longer than {MAX_VALUE_BYTES} bytes")
    try:
        definition.parse(resolved)
    except ValueError:
        _refuse(definition.refusal(text))


def _value(config: BrokerConfig, name: str, *configs: Mapping[str, str]) -> Any:
    """The value of a setting in the last of `configs` that has it, or else the value at the start of the broker."""
    definition = catalogue.find(name)
    for texts in reversed(configs):
        if definition is not None and name in texts:
            with contextlib.suppress(ValueError):
                return definition.parse(config.providers.resolve(texts[name]))
    return config.at_start(name)


def items(config: BrokerConfig, name: str, configs: Mapping[str, str]) -> tuple[str, ...] | None:
    """The items of a list setting in these configs, or else at the start of the broker; None if it is no list."""
    definition = catalogue.find(name)
    if definition is None or definition.type is not Type.LIST or not catalogue.is_dynamic(name):
        return None
    value = _value(config, name, configs) or definition.default_value() or ()
    return value if isinstance(value, tuple) else None


def _refuse(sentence: str) -> NoReturn:
    raise KafkaError(ErrorCode.INVALID_REQUEST, sentence)
