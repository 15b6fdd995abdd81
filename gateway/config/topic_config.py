"""The configuration of topics: checks of a topic's own configs. `BrokerConfig` combines them with its settings.

Refusals begin with the sentences of Apache Kafka 4.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from headgate.gateway.config import catalogue, topic_table
from headgate.gateway.config.definition import MAX_VALUE_BYTES, Definition, Type, Value
from headgate.protocol.errors import ErrorCode, KafkaError

_DIFFERENCE = Definition(
    topic_table.TIMESTAMP_DIFFERENCE, Type.LONG, None, "0..", "Both bounds of a record's time (Kafka to 3.9)."
)
_LAGS = ("min.compaction.lag.ms", "max.compaction.lag.ms")
_BOUNDS = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")


def check(configs: Mapping[str, str | None]) -> None:
    """Check a topic's configs. Raises KafkaError(INVALID_CONFIG): unknown name, illegal value, or contradiction."""
    for name, text in configs.items():
        if text is None:
            _refuse(f"Null value not supported for topic configs: {name}; give a value, or omit the name")
        _check_one(name, text)
    lag = [(name, int(text)) for name in _LAGS if (text := configs.get(name))]
    if len(lag) == len(_LAGS) and lag[0][1] > lag[1][1]:
        _refuse(f"conflict topic config setting {lag[0][0]} ({lag[0][1]}) > {lag[1][0]} ({lag[1][1]})")


def _check_one(name: str, text: str) -> None:
    if len(text.encode()) > MAX_VALUE_BYTES:
        _refuse(f"{name[:100]}: the value is longer than {MAX_VALUE_BYTES} bytes")
    if name in topic_table.REFUSED:
        harmless, refusal = topic_table.REFUSED[name]
        if text.strip() not in harmless:
            _refuse(refusal)
        return
    definition = catalogue.TOPIC.get(name) or other_definition(name)
    if definition is None:
        _refuse(f"Unknown topic config name: {name}; {catalogue.nearest_topic_setting(name)}")
    try:
        value = definition.parse(text)
    except ValueError:
        _refuse(definition.refusal(text))
    if name in topic_table.REPLICA_LISTS and not _is_replica_list(value):
        form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        _refuse(
            f"Invalid value [{text[:100]}] for configuration {name}: {name} must be the literal '*' or a list of"
            f" replicas in the following format: {form}"
        )


def _is_replica_list(value: Value) -> bool:
    return isinstance(value, tuple) and (value == ("*",) or all(map(_REPLICA.fullmatch, value)))


_REPLICA = re.compile("[0-9]+:[0-9]+")


def other_definition(name: str) -> Definition | None:
    """The older setting for both bounds of a record's time, or a setting without effect; None for any other name."""
    return _DIFFERENCE if name == _DIFFERENCE.name else catalogue.UNSUPPORTED_TOPIC.get(name)


def _refuse(sentence: str) -> NoReturn:
    raise KafkaError(ErrorCode.INVALID_CONFIG, sentence)


def own_name(name: str, overrides: Mapping[str, str]) -> str | None:
    """The name that a topic overrides `name` by: `name`, or the older setting for both timestamp bounds; else None."""
    if name in overrides:
        return name
    return _DIFFERENCE.name if name in _BOUNDS and _DIFFERENCE.name in overrides else None


def settings_by_older_name(overrides: Mapping[str, str]) -> tuple[str, ...]:
    """The settings that a topic sets through the older setting for both timestamp bounds."""
    return _BOUNDS if _DIFFERENCE.name in overrides else ()
