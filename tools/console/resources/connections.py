"""The open connections of Headgate's brokers: each row of `/v1/connections.json`, with rates of its counters.

A rate is the difference of two answers of a broker.
"""

from __future__ import annotations

from typing import Final

from headgate.tools.console.connection_sampler import SampledDocument
from headgate.tools.output import Row

_COUNTERS: Final = {
    "in_bytes": "in_bytes_per_second",
    "out_bytes": "out_bytes_per_second",
    "requests": "requests_per_second",
}
_SAME_MS: Final = 1_000
"""The wall clock's time of one begin differs by less between two answers."""


def connection_rows(sampled: SampledDocument) -> list[Row]:
    """The connections of a broker; rates are null for a connection that the answer before did not have. Pure."""
    document, before = sampled
    earlier = {} if before is None else {(row["address"], row["port"]): row for row in before["connections"]}
    passed_s = 0.0 if before is None else (document["measured_ms"] - before["measured_ms"]) / 1000
    return [
        {"broker": document["node_id"], **row, **_rates(row, earlier.get((row["address"], row["port"])), passed_s)}
        for row in document["connections"]
    ]


def _rates(row: Row, before: Row | None, passed_s: float) -> dict[str, float | None]:
    """`before`: the last connection from this address and port, which may have been another one."""
    if before is None or passed_s <= 0 or abs(row["opened_ms"] - before["opened_ms"]) > _SAME_MS:
        return dict.fromkeys(_COUNTERS.values())
    return {rate: round((row[counter] - before[counter]) / passed_s, 1) for counter, rate in _COUNTERS.items()}
