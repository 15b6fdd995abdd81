"""The options of one read: parsed, checked against each other, refused where they cannot be honoured."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headgate.protocol.security.client_security import ClientSecurity, InvalidClientSecurity
from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.option_table import READ_OPTIONS, READ_REFUSED, WITHOUT_EFFECT
from headgate.spark.reading.log_reader import IsolationLevel
from headgate.spark.security_options import SECURITY_PREFIXES, security_of
from headgate.spark.source.positions import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    Edge,
    Position,
    parse_offsets,
    parse_partitions,
)
from headgate.tools.output import UsageError

_INT64_MAX: Final = (1 << 63) - 1
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DELAY: Final = re.compile(r"\s*(\d{1,12})\s*([a-z]*)\s*")
_BATCH_ONLY: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")


@dataclass(frozen=True)
class Subscription:
    """The topics or partitions of a read; one of the three is given."""

    topics: Sequence[str] = ()
    pattern: str | None = None
    partitions: Sequence[TopicPartition] = ()


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read, checked. Times in ms, sizes in bytes; None: no limit, or the default of the mode."""

    subscription: Subscription
    bootstrap: str | None
    log_directories: Sequence[str]
    isolation: IsolationLevel
    start: Position | None
    end: Position
    fails_without_time: bool
    fails_on_data_loss: bool
    has_headers: bool
    takes_filters: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    attempts: int
    retry_interval_ms: int
    driver_timeout_ms: int
    task_timeout_ms: int
    partition_bytes: int
    max_wait_ms: int
    security: ClientSecurity


def parse(options: Mapping[str, str]) -> ReadOptions:
    """The options of a read in any case of letters. Raises UsageError for an unknown, refused or wrong one."""
    values = {name.lower(): value for name, value in options.items()}
    for name in options:
        _check_name(name)
    bootstrap, directories = values.get("kafka.bootstrap.servers"), _list(values.get("logdirs", ""))
    if not bootstrap and not directories:
        raise UsageError("kafka.bootstrap.servers must be given: host:port,...; or logDirs, to read without a broker")
    smallest, largest = _number(values, "minOffsetsPerTrigger"), _number(values, "maxOffsetsPerTrigger")
    if smallest and largest and smallest > largest:
        raise UsageError(f"minOffsetsPerTrigger {smallest} is higher than maxOffsetsPerTrigger {largest}")
    sizes = [_number(values, name) for name in ("kafka.max.partition.fetch.bytes", "kafka.fetch.max.bytes")]
    isolation = _one_of(values, "kafka.isolation.level", ("read_committed", "read_uncommitted"), "read_uncommitted")
    return ReadOptions(
        subscription=_subscription(values),
        bootstrap=bootstrap,
        log_directories=directories,
        isolation=IsolationLevel(isolation),
        start=_position(values, "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets"),
        end=_position(values, "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets") or Edge.LATEST,
        fails_without_time=_one_of(values, "startingOffsetsByTimestampStrategy", ("error", "latest")) != "latest",
        fails_on_data_loss=_flag(values, "failOnDataLoss", default=True),
        has_headers=_flag(values, "includeHeaders", default=False),
        takes_filters=_flag(values, "pushFilters", default=False),
        min_partitions=_number(values, "minPartitions"),
        max_records_per_partition=_number(values, "maxRecordsPerPartition"),
        max_offsets_per_trigger=largest,
        min_offsets_per_trigger=smallest,
        max_trigger_delay_ms=_delay_ms(values.get("maxtriggerdelay", "15m")),
        attempts=_number(values, "fetchOffset.numRetries") or 3,
        retry_interval_ms=_number(values, "fetchOffset.retryIntervalMs") or 1_000,
        driver_timeout_ms=_number(values, "kafka.request.timeout.ms") or 30_000,
        task_timeout_ms=_number(values, "kafkaConsumer.pollTimeoutMs") or 120_000,
        partition_bytes=min((size for size in sizes if size), default=8 << 20),
        max_wait_ms=_number(values, "kafka.fetch.max.wait.ms") or 500,
        security=_security(values),
    )


def _security(values: Mapping[str, str]) -> ClientSecurity:
    try:
        return security_of(values)
    except InvalidClientSecurity as error:
        raise UsageError(str(error)) from None


def check_batch(options: ReadOptions) -> None:
    """Raise UsageError for what a batch cannot honour: a start at the end, an end at the start."""
    if options.start is Edge.LATEST or _has(options.start, LATEST):
        raise UsageError("startingOffsets: a batch cannot start at latest (-1); give earliest (-2), offsets or a time")
    if options.end is Edge.EARLIEST or _has(options.end, EARLIEST):
        raise UsageError("endingOffsets: a batch cannot end at earliest (-2); give latest (-1), offsets or a time")


def check_stream(options: Mapping[str, str]) -> None:
    """Raise UsageError for an option of batches: a stream has no end."""
    names = {name.lower() for name in options}
    for name in _BATCH_ONLY:
        if name.lower() in names:
            raise UsageError(f"{name} is not valid in a stream, which has no end; use a batch, or leave it out")


def _check_name(name: str) -> None:
    """Refuse an option that changes rows in an unknown way. No error shows the value, which may be a secret."""
    low = name.lower()
    reason = READ_REFUSED.get(low)
    if reason:
        raise UsageError(f"option {name} is refused: {reason}")
    if low not in READ_OPTIONS and low not in WITHOUT_EFFECT and not low.startswith(SECURITY_PREFIXES):
        raise UsageError(f"unknown option {name}: {_nearest(low)}")


def _nearest(low: str) -> str:
    from difflib import get_close_matches

    names = {key: option.name for key, option in READ_OPTIONS.items()}
    names |= {name: name for name in (*WITHOUT_EFFECT, *READ_REFUSED) if name.startswith("kafka.")}
    found = get_close_matches(low, names, n=1, cutoff=0.5)
    return f"the nearest name is {names[found[0]]}" if found else "`headgate spark options` lists all"


def _subscription(values: Mapping[str, str]) -> Subscription:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in values]
    if len(given) != 1:
        many = "none is given" if not given else f"{' and '.join(given)} are given"
        raise UsageError(f"give one of subscribe, subscribePattern and assign; {many}")
    text = values[given[0].lower()].strip()
    if given == ["assign"]:
        return Subscription(partitions=parse_partitions("assign", text))
    if given == ["subscribePattern"]:
        if not text:
            raise UsageError("subscribePattern is empty; give a regular expression")
        try:
            re.compile(text)
        except re.error as error:
            raise UsageError(f"subscribePattern {text!r} is no regular expression of Python: {error}") from None
        return Subscription(pattern=text)
    topics = tuple(dict.fromkeys(_list(text)))
    if not topics:
        raise UsageError("subscribe names no topic")
    return Subscription(topics=topics)


def _position(values: Mapping[str, str], time: str, times: str, offsets: str) -> Position | None:
    """The position of three options; a time for all goes before times, times before offsets, as in `kafka`."""
    if (text := values.get(time.lower())) is not None:
        return AtTime(_integer(time, text, 0))
    if (text := values.get(times.lower())) is not None:
        return AtTimes(parse_offsets(times, text))
    if (text := values.get(offsets.lower())) is None:
        return None
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Edge(word)
    parsed = parse_offsets(offsets, text)
    for partition, offset in parsed.items():
        if offset < EARLIEST:
            raise UsageError(f"{offsets}: {partition} has {offset}; -2 is the earliest, -1 the latest offset")
    return AtOffsets(parsed)


def _has(position: Position | None, offset: int) -> bool:
    return isinstance(position, AtOffsets) and offset in position.offsets.values()


def _flag(values: Mapping[str, str], name: str, *, default: bool) -> bool:
    return _one_of(values, name, ("true", "false"), "true" if default else "false") == "true"


def _one_of(values: Mapping[str, str], name: str, choices: Sequence[str], default: str = "") -> str:
    value = values.get(name.lower(), default or choices[0]).strip().lower()
    if value not in choices:
        raise UsageError(f"{name} is {value!r}; it can be {' or '.join(choices)}")
    return value


def _number(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name.lower())
    return None if text is None else _integer(name, text, 1)


def _integer(name: str, text: str, smallest: int) -> int:
    word = text.strip()
    if word.isascii() and word.isdecimal() and len(word) < 20 and smallest <= int(word) <= _INT64_MAX:
        return int(word)
    raise UsageError(f"{name} is {text!r}; it must be a number, {smallest} or more")


def _delay_ms(text: str) -> int:
    found = _DELAY.fullmatch(text.lower())
    unit = _UNITS_MS.get(found[2] or "ms") if found else None
    if found is None or unit is None:
        raise UsageError(f"maxTriggerDelay is {text!r}; write it as 15m, 30s or 500ms")
    return int(found[1]) * unit


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
