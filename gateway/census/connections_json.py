"""`/v1/connections.json`: every open connection, row by row.

Counters grow from the beginning of a connection; a reader takes a rate from two answers. Times are in ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headgate.gateway.api.context import Client
from headgate.gateway.http import json_body
from headgate.gateway.http.resources import HttpAnswer
from headgate.gateway.network.connection import Connection
from headgate.gateway.runtime.request_counts import RequestCounts
from headgate.protocol import registry
from headgate.protocol.census.kafka_versions import newest
from headgate.protocol.census.verdicts import judge, verdict_fields

if TYPE_CHECKING:
    from headgate.gateway.census.census import ConnectionDriver

MAX_ROWS: Final = 10_000
"""A row takes a tenth of a millisecond of the loop; connections beyond these are counted in `omitted`."""


class Now(NamedTuple):
    """One moment on both clocks."""

    wall_ms: int
    monotonic_ms: float

    def wall_of(self, monotonic_ms: float) -> int:
        """The wall clock's time at a time of the monotonic clock."""
        return round(self.wall_ms - (self.monotonic_ms - monotonic_ms))


def answer(drivers: Iterable[ConnectionDriver], counts: RequestCounts, node_id: int, now: Now) -> HttpAnswer:
    """The answer with all connections, in the order of their begin."""
    connections = [driver.connection for driver in drivers]
    shown = connections[:MAX_ROWS]
    fields = {"node_id": node_id, "measured_ms": now.wall_ms, "omitted": len(connections) - len(shown)}
    rows = _open_rows(shown, lambda connection: connection_fields(connection, counts, now))
    return json_body.answer_with_rows(fields, "connections", rows)


def _open_rows(
    connections: Iterable[Connection], describe: Callable[[Connection], Mapping[str, Any]]
) -> Iterator[Mapping[str, Any] | None]:
    """The rows of the connections that are still open; a slice ends after each tenth."""
    for number, connection in enumerate(connections):
        if not connection.closing:
            yield describe(connection)
        if number % 10 == 9:
            yield None


def connection_fields(connection: Connection, counts: RequestCounts, now: Now) -> dict[str, Any]:
    """One connection."""
    client = connection.client
    return {
        "principal": client.principal,
        "client_id": client.client_id,
        "software_name": _known(client.software_name),
        "software_version": _known(client.software_version),
        "address": client.remote_host,
        "port": client.remote_port,
        "listener": client.listener,
        "is_broker": client.is_broker,
        "is_logged_in": not connection.needs_login,
        "opened_ms": now.wall_of(connection.opened_ms),
        "active_ms": now.wall_of(connection.active_ms),
        "in_bytes": connection.bytes_in,
        "out_bytes": connection.bytes_out,
        "requests": sum(client.requests),
        "apis": api_fields(client, counts),
        "topics_written": list(client.topics_written),
        "topics_read": list(client.topics_read),
        "is_throttled": connection.is_throttled,
        "throttles": client.throttles,
        "throttled_ms": client.throttled_ms,
        "last_error": _error_fields(client, now),
        "kafka": verdict_fields(judge(((count.api_key, count.version) for count in counts.of(client)), newest())),
    }


def api_fields(client: Client, counts: RequestCounts) -> list[dict[str, Any]]:
    """The versions of each API that a client has used, in the order of API keys."""
    return [
        {
            "api": registry.APIS[api_key].name,
            "versions": [{"version": count.version, "requests": count.requests} for count in of_api],
        }
        for api_key, of_api in groupby(sorted(counts.of(client)), key=lambda count: count.api_key)
    ]


def _known(text: str) -> str | None:
    """The name or the version of a client's software; None if the client has not sent it."""
    return None if text == "unknown" else text


def _error_fields(client: Client, now: Now) -> dict[str, Any] | None:
    error = client.last_error
    if error is None:
        return None
    return {
        "error": error.error.name,
        "api": error.api,
        "topic": error.topic or None,
        "at_ms": now.wall_of(error.at_ms),
    }
