"""The options of a write with the format `headgate`: names, defaults, meanings; names in any case of letters."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from headgate.spark.sink.marker import SinkRefused


class WriteOption(NamedTuple):
    """An option: its name as documented, the default as text, and its meaning."""

    name: str
    default: str
    meaning: str


_SECURITY: Final = "the client of headgate speaks PLAINTEXT only; use the format `kafka` for TLS and SASL"
_ALWAYS_SAFE: Final = "the sink waits for all in-sync replicas, and brokers drop repeated batches"
_OPTIONS: Final = (
    WriteOption("kafka.bootstrap.servers", "", "host:port,..."),
    WriteOption("topic", "", "the target of all rows; without it the column topic"),
    WriteOption("name", "the query's name", "stream only: the sink's name in the cluster, the same at each start"),
    WriteOption("queryName", "", "stream only: the sink's name, if there is no option name"),
    WriteOption("checkpointLocation", "", "stream only: the folder of the query's checkpoint"),
    WriteOption("group", "the sink's name", "stream only: the group that has the query's positions"),
    WriteOption("once", "", "batch only: an id; a repeated write with the id of the last one writes nothing"),
    WriteOption("kafka.compression.type", "none", "none, gzip, snappy, lz4 or zstd"),
    WriteOption("kafka.transaction.timeout.ms", "600000", "the longest time of a batch"),
    WriteOption("kafka.batch.size", "900000", "the largest batch of Kafka in bytes, before compression"),
    WriteOption("kafka.delivery.timeout.ms", "120000", "the longest wait for a broker"),
    WriteOption("kafka.acks", "all", "all: nothing else is exactly once"),
    WriteOption("kafka.enable.idempotence", "true", "true: nothing else is exactly once"),
    WriteOption("includeHeaders", "true", "the column headers is written if there is one"),
)
WRITE_OPTIONS: Final[Mapping[str, WriteOption]] = {one.name.lower(): one for one in _OPTIONS}
"""Honoured options by lower-case name."""

_FIXED: Final = {"kafka.acks": {"all", "-1"}, "kafka.enable.idempotence": {"true"}}
_REFUSED: Final = {"kafka.transactional.id": "the option name makes it", "path": "a topic is named by the option topic"}
_REFUSED_PREFIXES: Final = ("kafka.ssl.", "kafka.sasl.", "kafka.security.")


def parse(options: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of a `Sink`. Raises SinkRefused for an unknown, refused or wrong option."""
    values = {name.lower(): value for name, value in options.items()}
    for name in options:
        _check(name, values[name.lower()])
    if not values.get("kafka.bootstrap.servers"):
        raise SinkRefused("kafka.bootstrap.servers must be given: host:port,...")
    return {
        "bootstrap": values["kafka.bootstrap.servers"],
        "topic": values.get("topic"),
        "name": values.get("name") or values.get("queryname"),
        "checkpoint": values.get("checkpointlocation"),
        "group": values.get("group"),
        "compression": values.get("kafka.compression.type", "none"),
        "transaction_timeout_ms": _number(values, "kafka.transaction.timeout.ms"),
        "max_batch_bytes": _number(values, "kafka.batch.size"),
        "delivery_timeout_s": _number(values, "kafka.delivery.timeout.ms") / 1000,
    }


def _check(name: str, value: str) -> None:
    key = name.lower()
    if key in _REFUSED:
        raise SinkRefused(f"the option {name} is refused: {_REFUSED[key]}")
    if key.startswith(_REFUSED_PREFIXES) and (key, value.upper()) != ("kafka.security.protocol", "PLAINTEXT"):
        raise SinkRefused(f"the option {name} is refused: {_SECURITY}")
    if key in _FIXED and value.lower() not in _FIXED[key]:
        raise SinkRefused(f"the option {name}={value} is refused: {_ALWAYS_SAFE}")
    if key not in WRITE_OPTIONS and not key.startswith(_REFUSED_PREFIXES):
        nearest = get_close_matches(key, WRITE_OPTIONS, n=1)
        hint = f"; did you mean {WRITE_OPTIONS[nearest[0]].name}?" if nearest else ""
        raise SinkRefused(f"the option {name} is unknown for a write{hint}")


def _number(values: Mapping[str, str], name: str) -> int:
    text = values.get(name, WRITE_OPTIONS[name].default).strip()
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 31):
        raise SinkRefused(f"{name}={text!r} is no number from 1 to {(1 << 31) - 1}")
    return int(text)
