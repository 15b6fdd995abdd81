"""Descriptions of configs for DescribeConfigs: values of brokers and topics, with their sources (KIP-226, KIP-569)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

from headgate.gateway.config import catalogue, topic_config
from headgate.gateway.config.broker import BrokerConfig
from headgate.gateway.config.definition import Definition, Type
from headgate.protocol.errors import ErrorCode, KafkaError


class ConfigSource(IntEnum):
    """The source of a value, by its number in DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_GROUP_CONFIG = 8


class Synonym(NamedTuple):
    """A setting that provides the value, or would without the synonyms before it."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One described setting. `value` is None if there is none, and always for a secret."""

    name: str
    value: str | None
    source: ConfigSource
    type: Type
    is_sensitive: bool
    read_only: bool
    documentation: str
    synonyms: tuple[Synonym, ...]

    @property
    def is_default(self) -> bool:
        """Versions before 1 of DescribeConfigs have this flag instead of the source."""
        return self.source is ConfigSource.DEFAULT_CONFIG


# A broker's setting -> its fallbacks, in other units
_FALLBACKS = {first: others for first, *others in catalogue.BROKER_SYNONYMS.values() if others}


def describe_broker(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The settings of a broker, in table order. `names` limits them; unknown names are skipped.

    Settings without effect that Kafka 4.1 does not show appear only if given, or asked for by name.
    """
    if names is None:
        wanted = [*catalogue.BROKER.values(), *catalogue.shown_unsupported(), *_foreign_given(config)]
    else:
        wanted = [definition for definition in map(catalogue.find, names) if definition is not None]
    return [_broker_entry(config, definition) for definition in wanted]


def _foreign_given(config: BrokerConfig) -> list[Definition]:
    names = dict.fromkeys((*config.given(), *(name for texts in config.dynamic() for name in texts)))
    shown_anyway = {definition.name for definition in catalogue.shown_unsupported()}
    given = (catalogue.find(name) for name in names if name not in catalogue.BROKER and name not in shown_anyway)
    return [definition for definition in given if definition is not None]


def _broker_entry(config: BrokerConfig, definition: Definition) -> ConfigEntry:
    synonyms = broker_synonyms(config, definition)
    if any(text is not None for text in config.texts(definition.name)):
        for other in _FALLBACKS.get(definition.name, ()):
            synonyms += broker_synonyms(config, catalogue.BROKER[other])
    first = synonyms[0] if synonyms else Synonym(definition.name, None, ConfigSource.DEFAULT_CONFIG)
    return _entry(definition, first, synonyms)


def _entry(definition: Definition, first: Synonym, synonyms: tuple[Synonym, ...]) -> ConfigEntry:
    return ConfigEntry(
        definition.name,
        None if definition.is_sensitive else first.value,
        first.source,
        definition.type,
        definition.is_sensitive,
        not catalogue.is_dynamic(definition.name),
        _documentation(definition),
        synonyms,
    )


def describe_all_brokers(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """Only the dynamic settings of all brokers."""
    rows = []
    _, of_all = config.dynamic()
    for name, text in of_all.items():
        definition = catalogue.find(name)
        if definition is not None and (names is None or name in names):
            synonym = Synonym(name, shown(definition, text), ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
            rows.append(_entry(definition, synonym, (synonym,)))
    return rows


def describe_client_metrics(subscription: str, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The defaults of a subscription to metrics of clients: there is none, and Kafka describes that in the same way.

    Raises KafkaError(INVALID_REQUEST) without a name.
    """
    if not subscription:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    source, documentation = ConfigSource.DEFAULT_CONFIG, "No client metrics are collected here."
    return [
        ConfigEntry(name, value, source, type_, False, True, documentation, ())
        for name, value, type_ in (
            ("interval.ms", "300000", Type.INT),
            ("match", "", Type.LIST),
            ("metrics", "", Type.LIST),
        )
        if names is None or name in names
    ]


def broker_synonyms(config: BrokerConfig, definition: Definition) -> tuple[Synonym, ...]:
    """The sources of a broker setting's value, in order: dynamic texts, the given text, the default."""
    synonyms = [
        Synonym(definition.name, shown(definition, text), source)
        for text, source in zip(config.texts(definition.name), _GIVEN, strict=True)
        if text is not None
    ]
    default = str(config.node_id) if definition.name == "node.id" and not synonyms else definition.default
    if default is not None:
        synonyms.append(Synonym(definition.name, default, ConfigSource.DEFAULT_CONFIG))
    return tuple(synonyms)


_GIVEN = (
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
)


def shown(definition: Definition, text: str) -> str | None:
    """A given text in the form of its value; None for a secret. A text with variables is shown as it is."""
    if definition.is_sensitive:
        return None
    try:
        return text_of(definition.parse(text))
    except ValueError:
        return text


def describe_topic(
    config: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The settings of a topic whose own configs are `overrides`.

    Settings without effect that Kafka 4.1 does not show appear only if overridden, or asked for by name.
    """
    wanted = [definition for name, definition in catalogue.TOPIC.items() if names is None or name in names]
    shown_anyway = catalogue.SHOWN_UNSUPPORTED_TOPIC if names is None else names
    others = [
        name
        for name in dict.fromkeys((*shown_anyway, *overrides))
        if name not in catalogue.TOPIC and (names is None or name in names)
    ]
    entries = (_foreign_entry(config, name, overrides.get(name)) for name in others)
    return [
        *(_topic_entry(config, overrides, definition) for definition in wanted),
        *(entry for entry in entries if entry is not None),
    ]


Row = TypeVar("Row")


class TopicRows(Generic[Row]):
    """The settings of many topics, each as a row of `make`; rows of settings that a topic does not override are shared.

    Valid for one request, while the broker's settings do not change.
    """

    def __init__(self, config: BrokerConfig, make: Callable[[ConfigEntry], Row]) -> None:
        self._config = config
        self._make = make
        self._plain: dict[tuple[str, ...] | None, dict[str, Row]] = {}

    def of(self, overrides: Mapping[str, str], names: Collection[str] | None = None) -> list[Row]:
        """The rows of a topic whose own configs are `overrides`, in the order of `describe_topic`."""
        key = None if names is None else tuple(names)
        plain = self._plain.get(key)
        if plain is None:
            plain = self._plain[key] = self._rows({}, names)
        if not overrides:
            return list(plain.values())
        affected = [
            name
            for name in (*overrides, *topic_config.settings_by_older_name(overrides))
            if names is None or name in names
        ]
        return list({**plain, **self._rows(overrides, affected)}.values())

    def _rows(self, overrides: Mapping[str, str], names: Collection[str] | None) -> dict[str, Row]:
        return {entry.name: self._make(entry) for entry in describe_topic(self._config, overrides, names)}


def _foreign_entry(config: BrokerConfig, name: str, value: str | None) -> ConfigEntry | None:
    """A setting without effect, or the older one for both bounds of a record's time; None if there is none."""
    definition = topic_config.other_definition(name)
    if definition is None:
        if value is None:
            return None
        definition = Definition(name, Type.STRING, None, "", "")  # another version has stored it
    synonyms = [] if value is None else [Synonym(name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG)]
    for broker_name in catalogue.unsupported_synonyms(name):
        synonyms += broker_synonyms(config, catalogue.known()[broker_name])
    first = synonyms[0] if synonyms else Synonym(name, definition.default, ConfigSource.DEFAULT_CONFIG)
    return ConfigEntry(
        name, first.value, first.source, definition.type, False, False, _documentation(definition), tuple(synonyms)
    )


def _topic_entry(config: BrokerConfig, overrides: Mapping[str, str], definition: Definition) -> ConfigEntry:
    name = definition.name
    synonyms: list[Synonym] = []
    own = topic_config.own_name(name, overrides)
    if own is not None:
        synonyms.append(Synonym(own, shown(definition, overrides[own]), ConfigSource.DYNAMIC_TOPIC_CONFIG))
    for synonym in catalogue.BROKER_SYNONYMS[name]:
        synonyms += broker_synonyms(config, catalogue.BROKER[synonym])
    given = next(
        (synonym.source for synonym in synonyms if synonym.source is not ConfigSource.DEFAULT_CONFIG),
        ConfigSource.DEFAULT_CONFIG,
    )
    value = text_of(config.topic_value(name, overrides))
    return ConfigEntry(name, value, given, definition.type, False, False, _documentation(definition), tuple(synonyms))


def text_of(value: object) -> str | None:
    """A value as text, in Kafka's form."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _java_text(value)
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _java_text(value: float) -> str:
    """A number as Java writes a double: 0.5, 1.0E7, 1.7976931348623157E308."""
    from decimal import Decimal  # imported only when needed, so that commands start fast

    if value == 0 or 1e-3 <= abs(value) < 1e7 or math.isinf(value):
        return str(value).replace("inf", "Infinity")
    sign, digits, _ = Decimal(repr(value)).normalize().as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{digits[0]}.{fraction}E{Decimal(repr(value)).adjusted()}"


def _documentation(definition: Definition) -> str:
    note = definition.note
    return f"{definition.documentation} {note[:1].upper()}{note[1:]}{'.' if note else ''}".strip()
