"""Descriptions of configs for DescribeConfigs: values of brokers and topics, with their sources (KIP-226, KIP-569)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

from headgate.gateway.config import catalogue, topic_config
from headgate.gateway.config.broker import BrokerConfig
from headgate.gateway.config.definition import Definition, Effect, Type


class Source(IntEnum):
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
    source: Source


class ConfigEntry(NamedTuple):
    """One described setting. `value` is None if there is none, and always for a secret."""

    name: str
    value: str | None
    source: Source
    type: Type
    is_sensitive: bool
    read_only: bool
    documentation: str
    synonyms: tuple[Synonym, ...]

    @property
    def is_default(self) -> bool:
        """Versions before 1 of DescribeConfigs have this flag instead of the source."""
        return self.source is Source.DEFAULT_CONFIG


# A broker's setting -> its fallbacks, in other units
_FALLBACKS = {first: others for first, *others in catalogue.BROKER_SYNONYMS.values() if others}


def describe_broker(config: BrokerConfig, names: Collection[str] | None = None) -> list[ConfigEntry]:
    """The settings of a broker, in table order. `names` limits them; unknown names are skipped.

    Settings without effect appear only if given, or asked for by name.
    """
    if names is None:
        wanted = [*catalogue.BROKER.values(), *_foreign_given(config)]
    else:
        wanted = [definition for definition in map(catalogue.find, names) if definition is not None]
    return [_broker_entry(config, definition) for definition in wanted]


def _foreign_given(config: BrokerConfig) -> list[Definition]:
    names = dict.fromkeys((*config.given(), *(name for texts in config.dynamic() for name in texts)))
    given = (catalogue.find(name) for name in names if name not in catalogue.BROKER)
    return [definition for definition in given if definition is not None]


def _broker_entry(config: BrokerConfig, definition: Definition) -> ConfigEntry:
    synonyms = broker_synonyms(config, definition)
    if any(text is not None for text in config.texts(definition.name)):
        for other in _FALLBACKS.get(definition.name, ()):
            synonyms += broker_synonyms(config, catalogue.BROKER[other])
    first = synonyms[0] if synonyms else Synonym(definition.name, None, Source.DEFAULT_CONFIG)
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
            synonym = Synonym(name, shown(definition, text), Source.DYNAMIC_DEFAULT_BROKER_CONFIG)
            rows.append(_entry(definition, synonym, (synonym,)))
    return rows


def broker_synonyms(config: BrokerConfig, definition: Definition) -> tuple[Synonym, ...]:
    """The sources of a broker setting's value, in order: dynamic texts, the given text, the default."""
    synonyms = [
        Synonym(definition.name, shown(definition, text), source)
        for text, source in zip(config.texts(definition.name), _GIVEN, strict=True)
        if text is not None
    ]
    default = str(config.node_id) if definition.name == "node.id" and not synonyms else definition.default
    if default is not None:
        synonyms.append(Synonym(definition.name, default, Source.DEFAULT_CONFIG))
    return tuple(synonyms)


_GIVEN = (Source.DYNAMIC_BROKER_CONFIG, Source.DYNAMIC_DEFAULT_BROKER_CONFIG, Source.STATIC_BROKER_CONFIG)


def shown(definition: Definition, text: str) -> str | None:
    """A given text in the form of its value; None for a secret."""
    return None if definition.is_sensitive else text_of(definition.parse(text))


def describe_topic(
    config: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The settings of a topic whose own configs are `overrides`; settings without effect appear only if overridden."""
    wanted = [definition for name, definition in catalogue.TOPIC.items() if names is None or name in names]
    others = [name for name in overrides if name not in catalogue.TOPIC and (names is None or name in names)]
    return [
        *(_topic_entry(config, overrides, definition) for definition in wanted),
        *(_foreign_entry(name, overrides[name]) for name in others),
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


def _foreign_entry(name: str, value: str) -> ConfigEntry:
    source = Source.DYNAMIC_TOPIC_CONFIG
    reason = topic_config.reason_without_effect(name)
    documentation = f"Accepted, no effect here, because {reason}." if reason else "Both bounds of a record's time."
    return ConfigEntry(name, value, source, Type.STRING, False, False, documentation, (Synonym(name, value, source),))


def _topic_entry(config: BrokerConfig, overrides: Mapping[str, str], definition: Definition) -> ConfigEntry:
    name = definition.name
    synonyms: list[Synonym] = []
    own = topic_config.own_name(name, overrides)
    if own is not None:
        synonyms.append(Synonym(own, shown(definition, overrides[own]), Source.DYNAMIC_TOPIC_CONFIG))
    for synonym in catalogue.BROKER_SYNONYMS[name]:
        synonyms += broker_synonyms(config, catalogue.BROKER[synonym])
    given = next(
        (synonym.source for synonym in synonyms if synonym.source is not Source.DEFAULT_CONFIG), Source.DEFAULT_CONFIG
    )
    value = text_of(config.topic_value(name, overrides))
    return ConfigEntry(name, value, given, definition.type, False, False, _documentation(definition), tuple(synonyms))


def text_of(value: object) -> str | None:
    """A value as text, in Kafka's form."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _documentation(definition: Definition) -> str:
    if definition.effect is Effect.FULL:
        return definition.documentation
    wording = "no effect yet" if definition.effect is Effect.PENDING else "no effect here"
    return f"{definition.documentation} Accepted, {wording}, because {definition.reason}.".strip()
