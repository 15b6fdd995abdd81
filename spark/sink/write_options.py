"""The options of one write with the format `headgate`, parsed; unknown, refused and wrong ones are refused."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from headgate.protocol.security.client_security import ClientSecurity, InvalidClientSecurity
from headgate.spark.option_table import WRITE_OPTIONS, WRITE_REFUSED
from headgate.spark.security_options import SECURITY_PREFIXES, security_of
from headgate.spark.sink.marker import SinkRefused

_ALWAYS_SAFE: Final = "the sink waits for all in-sync replicas, and brokers drop repeated batches"
_FIXED: Final = {"kafka.acks": {"all", "-1"}, "kafka.enable.idempotence": {"true"}}


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
        "security": _security(values),
    }


def _security(values: Mapping[str, str]) -> ClientSecurity:
    try:
        return security_of(values)
    except InvalidClientSecurity as error:
        raise SinkRefused(str(error)) from None


def _check(name: str, value: str) -> None:
    key = name.lower()
    if key in WRITE_REFUSED:
        raise SinkRefused(f"the option {name} is refused: {WRITE_REFUSED[key]}")
    if key in _FIXED and value.lower() not in _FIXED[key]:
        raise SinkRefused(f"the option {name}={value} is refused: {_ALWAYS_SAFE}")
    if key not in WRITE_OPTIONS and not key.startswith(SECURITY_PREFIXES):
        nearest = get_close_matches(key, WRITE_OPTIONS, n=1)
        hint = f"; did you mean {WRITE_OPTIONS[nearest[0]].name}?" if nearest else ""
        raise SinkRefused(f"the option {name} is unknown for a write{hint}")


def _number(values: Mapping[str, str], name: str) -> int:
    text = values.get(name, WRITE_OPTIONS[name].default).strip()
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 31):
        raise SinkRefused(f"{name}={text!r} is no number from 1 to {(1 << 31) - 1}")
    return int(text)
