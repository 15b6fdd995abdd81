"""The configuration of single groups (resource type GROUP, KIP-848): checks and descriptions.

Source: org.apache.kafka.coordinator.group.GroupConfig of Kafka 4.1. Its settings of share and streams
groups are accepted without effect. Refusals begin with the sentences of Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NoReturn

from headgate.gateway.config import catalogue, offset_store
from headgate.gateway.config.definition import Type
from headgate.gateway.config.describe import ConfigEntry, ConfigSource, Synonym, broker_synonyms
from headgate.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from headgate.gateway.config.broker import BrokerConfig

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
# The broker has each setting with its bounds: group.consumer.session.timeout.ms, group.consumer.min.session.timeout.ms
_NAMES = (SESSION_TIMEOUT, HEARTBEAT_INTERVAL)
_STORE_TEXTS = {
    offset_store.STORE: (
        offset_store.SEPARATE,
        (
            "Where the offsets are: separate (OffsetCommit 0 in ZooKeeper, later versions in the coordinator),"
            " dual (both have every commit), or kafka (the coordinator alone)."
        ),
    ),
    offset_store.SOURCE: (
        "",
        "The side that leads when the group becomes dual: zookeeper or kafka. Named anew each time.",
    ),
}
"""With ZooKeeper alone: the name, the default and the meaning."""
_UNSUPPORTED_ROWS = """
share.session.timeout.ms:int:1..=45000
share.heartbeat.interval.ms:int:1..=5000
share.record.lock.duration.ms:int:1000..=30000
share.auto.offset.reset=latest
share.isolation.level:string:read_committed|read_uncommitted=read_uncommitted
streams.session.timeout.ms:int:1..=45000
streams.heartbeat.interval.ms:int:1..=5000
streams.num.standby.replicas:int:0..=0
"""
UNSUPPORTED = {
    definition.name: definition
    for row in _UNSUPPORTED_ROWS.split()
    for definition, _ in [catalogue.parse_row(row, f"{row.partition('.')[0]} groups are not served")]
}
"""Settings of Kafka 4.1 without effect here."""
_STORE_VALUES = {offset_store.STORE: offset_store.STORES, offset_store.SOURCE: offset_store.SOURCES}


def check(config: BrokerConfig, configs: Mapping[str, str]) -> None:
    """Check a group's configs. Raises KafkaError(INVALID_CONFIG): unknown name, illegal value, or contradiction."""
    for name in _STORE_TEXTS:
        if name in configs:
            _check_store(config, name, configs[name])
    values = {
        name: _check_one(config, name, text)
        for name, text in configs.items()
        if name not in _STORE_TEXTS and not _check_unsupported(name, text)
    }
    session = values.get(SESSION_TIMEOUT, config.group_consumer_session_timeout_ms)
    interval = values.get(HEARTBEAT_INTERVAL, config.group_consumer_heartbeat_interval_ms)
    if values and session <= interval:
        _refuse(f"{SESSION_TIMEOUT}={session} must exceed {HEARTBEAT_INTERVAL}={interval}")


def check_change(group_id: str, present: Mapping[str, str], changes: Mapping[str, str | None]) -> None:
    """Check a change of a group's configs: which side leads is a question of the moment. Raises KafkaError."""
    if offset_store.DUAL not in (changes.get(offset_store.STORE), present.get(offset_store.STORE)):
        return
    if changes.get(offset_store.STORE) == offset_store.DUAL:
        if "/" in group_id or group_id in {"", ".", ".."}:
            _refuse(f"group {group_id[:100]!r} cannot be in ZooKeeper: its id is not the name of a node")
        if present.get(offset_store.STORE) != offset_store.DUAL and not changes.get(offset_store.SOURCE):
            _refuse(
                f"{offset_store.STORE}=dual needs the side that leads in the same change:"
                f" {offset_store.SOURCE}=zookeeper or {offset_store.SOURCE}=kafka"
            )


def _check_store(config: BrokerConfig, name: str, text: str) -> None:
    if config.zookeeper_connect is None:
        _refuse(f"{name} needs zookeeper.connect: without it, groups have one store")
    if text not in _STORE_VALUES[name]:
        _refuse(f"{name}={text[:100]}: allowed is one of: {', '.join(_STORE_VALUES[name])}")


def _check_one(config: BrokerConfig, name: str, text: str) -> int:
    if name not in _NAMES:
        _refuse(f"Unknown group config name: {name[:100]}; groups have {', '.join((*_NAMES, *UNSUPPORTED))}")
    definition = catalogue.BROKER[f"group.{name}"]._replace(name=name)
    try:
        value = definition.parse(text)
    except ValueError:
        _refuse(definition.refusal(text))
    assert isinstance(value, int)
    for which, relation in (("min", "greater"), ("max", "less")):
        bound = _bound(config, name, which)
        if value < bound if which == "min" else value > bound:
            limit = f"group.{_bound_name(name, which)}"
            _refuse(f"{name} must be {relation} than or equal to {limit} ({bound}), and is {value}")
    return value


def _check_unsupported(name: str, text: str) -> bool:
    """Check a setting without effect. False for any other setting."""
    definition = UNSUPPORTED.get(name)
    if definition is None:
        return False
    try:
        definition.parse(text)
    except ValueError:
        _refuse(definition.refusal(text))
    return True


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
    entries = [_entry(config, overrides, name) for name in _NAMES if names is None or name in names]
    entries += [_unsupported_entry(overrides, name) for name in UNSUPPORTED if names is None or name in names]
    if config.zookeeper_connect is not None:
        entries += [_store_entry(overrides, name) for name in _STORE_TEXTS if names is None or name in names]
    return entries


def _store_entry(overrides: Mapping[str, str], name: str) -> ConfigEntry:
    default, documentation = _STORE_TEXTS[name]
    synonyms = [Synonym(name, default, ConfigSource.DEFAULT_CONFIG)]
    if name in overrides:
        synonyms.insert(0, Synonym(name, overrides[name], ConfigSource.DYNAMIC_GROUP_CONFIG))
    first = synonyms[0]
    return ConfigEntry(name, first.value, first.source, Type.STRING, False, False, documentation, tuple(synonyms))


def _unsupported_entry(overrides: Mapping[str, str], name: str) -> ConfigEntry:
    definition = UNSUPPORTED[name]
    synonyms = [Synonym(name, definition.default, ConfigSource.DEFAULT_CONFIG)]
    if name in overrides:
        synonyms.insert(0, Synonym(name, overrides[name], ConfigSource.DYNAMIC_GROUP_CONFIG))
    first, note = synonyms[0], f"{definition.note.capitalize()}."
    return ConfigEntry(name, first.value, first.source, definition.type, False, False, note, tuple(synonyms))


def _entry(config: BrokerConfig, overrides: Mapping[str, str], name: str) -> ConfigEntry:
    definition = catalogue.BROKER[f"group.{name}"]
    own = [Synonym(name, overrides[name], ConfigSource.DYNAMIC_GROUP_CONFIG)] if name in overrides else []
    synonyms = (*own, *broker_synonyms(config, definition))
    first = synonyms[0]
    return ConfigEntry(
        name, first.value, first.source, definition.type, False, False, definition.documentation, synonyms
    )
