"""`/v1/census.json`: the clients of this broker since its first census, the one that was seen last first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.gateway.census.census import Census
from headgate.gateway.http import json_body
from headgate.gateway.http.resources import HttpAnswer
from headgate.protocol.census import kafka_versions
from headgate.protocol.census.row_fields import row_fields


def answer(census: Census | None, node_id: int, now_ms: int) -> HttpAnswer:
    """The answer with all rows; without a census there are none."""
    fields = {
        "node_id": node_id,
        "measured_ms": now_ms,
        "is_on": census is not None,
        "dropped": 0 if census is None else census.table.dropped,
    }
    return json_body.answer_with_rows(fields, "clients", () if census is None else _rows(census, node_id))


def _rows(census: Census, node_id: int) -> Iterator[dict[str, Any] | None]:
    for _ in census.fold_all():
        yield None
    release = kafka_versions.newest()
    for number, row in enumerate(census.rows(node_id), 1):
        yield row_fields(row, release)
        if number % 10 == 0:
            yield None
