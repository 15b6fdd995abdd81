"""Rows of connections: rates are differences of two answers."""

from __future__ import annotations

from typing import Any

from headgate.tools.console.connection_sampler import SampledDocument
from headgate.tools.console.resources.connections import connection_rows


def connection(port: int = 1, **values: Any) -> dict[str, Any]:
    counters = {"in_bytes": 0, "out_bytes": 0, "requests": 0}
    return {"address": "10.0.0.1", "port": port, "opened_ms": 5_000, "client_id": "app", **counters, **values}


def document(measured_ms: int, *connections: dict[str, Any]) -> dict[str, Any]:
    return {"node_id": 3, "measured_ms": measured_ms, "omitted": 0, "connections": [*connections]}


def test_rates_are_differences_of_two_answers() -> None:
    before = document(10_000, connection(in_bytes=100, out_bytes=50, requests=3))
    now = document(12_000, connection(in_bytes=1_100, out_bytes=50, requests=4), connection(port=2, in_bytes=7))
    known, new = connection_rows(SampledDocument(now, before))
    assert (known["broker"], known["client_id"]) == (3, "app")
    assert (known["in_bytes_per_second"], known["out_bytes_per_second"], known["requests_per_second"]) == (500, 0, 0.5)
    assert (new["in_bytes"], new["in_bytes_per_second"]) == (7, None)


def test_a_first_answer_has_no_rates() -> None:
    [row] = connection_rows(SampledDocument(document(1, connection()), None))
    assert row["in_bytes_per_second"] is None


def test_another_connection_of_the_same_port_has_no_rate_yet() -> None:
    """A port is used again."""
    before = document(10_000, connection(in_bytes=9_000))
    [row] = connection_rows(SampledDocument(document(12_000, connection(opened_ms=11_000, in_bytes=1)), before))
    assert row["in_bytes_per_second"] is None
