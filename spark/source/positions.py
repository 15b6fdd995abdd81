"""Where reading starts and ends: the values of `startingOffsets`, `endingOffsets` and their kin, and their JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.output import UsageError

EARLIEST, LATEST = -2, -1
"""Offsets of the JSON that stand for the log start and the end."""

_INT32, _INT64 = 1 << 31, 1 << 63
_NOT_A_TOPIC: Final = "#"
"""The beginning of keys beside topics; no topic's name can contain it."""

Offsets: TypeAlias = Mapping[TopicPartition, int]


class Edge(Enum):
    """The log start or the end of each partition."""

    EARLIEST = "earliest"
    LATEST = "latest"


class AtOffsets(NamedTuple):
    """An offset for each partition; -2 is the log start, -1 the end."""

    offsets: Offsets


class AtTimes(NamedTuple):
    """A time in ms for each partition."""

    times_ms: Offsets


class AtTime(NamedTuple):
    """A time in ms for all partitions."""

    time_ms: int


Position: TypeAlias = Edge | AtOffsets | AtTimes | AtTime


def parse_offsets(name: str, text: str) -> dict[TopicPartition, int]:
    """The numbers of `{"topic":{"0":23}}` by partition. Raises UsageError, which names the option."""
    try:
        return {
            TopicPartition(topic, _number(partition)): _int64(offset)
            for topic, row in json.loads(text).items()
            for partition, offset in row.items()
        }
    except (ValueError, AttributeError, RecursionError):
        raise UsageError(f'{name}: expected JSON as {{"topicA":{{"0":23,"1":-1}}}}, got {_shown(text)}') from None


def parse_partitions(name: str, text: str) -> tuple[TopicPartition, ...]:
    """The partitions of `{"topic":[0,1]}`. Raises UsageError, which names the option."""
    try:
        partitions = tuple(
            sorted(
                {
                    TopicPartition(topic, _partition(number))
                    for topic, numbers in json.loads(text).items()
                    for number in _list(numbers)
                }
            )
        )
    except (ValueError, AttributeError, RecursionError):
        raise UsageError(f'{name}: expected JSON as {{"topicA":[0,1]}}, got {_shown(text)}') from None
    if not partitions:
        raise UsageError(f"{name}: no partition is named")
    return partitions


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """The offset of a stream as Spark's checkpoint keeps it, as the `kafka` format writes it; always in one order."""
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        topics.setdefault(partition.topic, {})[str(partition.number)] = offset
    return topics


def from_json(value: object) -> dict[TopicPartition, int]:
    """The offsets of a stream, also of one that the `kafka` format wrote. Raises UsageError if it is none."""
    if not isinstance(value, dict):
        raise UsageError(f"the checkpoint has {_shown(str(value))} in place of offsets")
    topics = {name: row for name, row in value.items() if not name.startswith(_NOT_A_TOPIC)}
    return parse_offsets("the checkpoint", json.dumps(topics))


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 10:
        raise ValueError(text)
    return _partition(int(text))


def _partition(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _INT32:
        raise ValueError(value)
    return value


def _int64(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -_INT64 <= value < _INT64:
        raise ValueError(value)
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(value)  # noqa: TRY004 - one error for every wrong shape
    return value


def _shown(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
