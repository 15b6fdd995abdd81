"""The records of the topic `__headgate_census`, which keep the rows of the census.

A broker writes a record for each client that it has counted, with the counts since the first time. Keys and values are
JSON, so that any consumer can show them:

    key    {"node_id": 1, "principal": "User:billing", "client_id": "billing-1", "software_name": "librdkafka",
            "software_version": "2.6.0", "address": "192.0.2.17", "listener": "SASL_SSL"}
    value  {"version": 1, "uses": [[1, 16, 310, 1795859947000, 1795863547000]]}

A use is: API key, version, requests, first and last time in ms. A record without a value takes the row away.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from headgate.protocol.census.rows import CensusClient, CensusRow, VersionUse, merged

_VALUE_VERSION: Final = 1


class InvalidCensusRecord(ValueError):
    """A record that is none of the census; the text says why."""


def encode_key(node_id: int, client: CensusClient) -> bytes:
    """The key of a broker's record about a client."""
    return json.dumps({"node_id": node_id, **client._asdict()}).encode()


def encode_value(uses: Iterable[VersionUse]) -> bytes:
    """The value of a record."""
    return json.dumps({"version": _VALUE_VERSION, "uses": list(uses)}, separators=(",", ":")).encode()


def decode_key(key: bytes) -> tuple[int, CensusClient]:
    """The broker and the client of a record. Raises InvalidCensusRecord."""
    fields = _decoded(key)
    node_id = fields.pop("node_id", None)
    try:
        client = CensusClient(**fields)
    except TypeError as error:
        raise InvalidCensusRecord(f"the key is no client: {error}") from None
    texts = (client.principal, client.address, client.listener)
    optional = (client.client_id, client.software_name, client.software_version)
    if not isinstance(node_id, int) or not all(isinstance(text, str) for text in texts):
        raise InvalidCensusRecord("the key lacks the broker, or a part of the client")
    if not all(text is None or isinstance(text, str) for text in optional):
        raise InvalidCensusRecord("a part of the client is no text")
    return node_id, client


def decode_value(value: bytes) -> list[VersionUse]:
    """The uses of a record. Raises InvalidCensusRecord."""
    fields = _decoded(value)
    if fields.get("version") != _VALUE_VERSION:
        raise InvalidCensusRecord(f"the value has version {fields.get('version')!r}, and not {_VALUE_VERSION}")
    uses = fields.get("uses")
    if not isinstance(uses, list) or not all(map(_is_use, uses)):
        raise InvalidCensusRecord("the value has no uses of five numbers each")
    return [VersionUse(*use) for use in uses]


def _is_use(use: object) -> bool:
    return isinstance(use, list) and len(use) == len(VersionUse._fields) and all(type(one) is int for one in use)


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidCensusRecord(f"no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise InvalidCensusRecord("no JSON object")
    return fields


class CensusRecords:
    """The last record of each key, as a reader of the topic meets them one by one."""

    def __init__(self, node_id: int | None = None) -> None:
        """`node_id`: of this broker's records alone; None: of all."""
        self._rows: dict[tuple[int, CensusClient], list[VersionUse]] = {}
        self._node_id = node_id
        self.skipped = 0
        """Records that are none of the census."""

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take the next record."""
        try:
            node_id, client = decode_key(key or b"")
            if self._node_id is not None and node_id != self._node_id:
                return
            self._rows.pop((node_id, client), None)
            if value is not None:
                self._rows[node_id, client] = decode_value(value)
        except InvalidCensusRecord:
            self.skipped += 1

    def rows(self) -> list[CensusRow]:
        """A row for each client, with what all brokers have counted; the last seen client comes first."""
        by_client: dict[CensusClient, dict[int, Sequence[VersionUse]]] = {}
        for (node_id, client), uses in self._rows.items():
            by_client.setdefault(client, {})[node_id] = uses
        rows = [CensusRow(sorted(parts), client, merged(parts)) for client, parts in by_client.items()]
        return sorted(rows, key=lambda row: (-row.last_ms, row.client.principal, row.client.client_id or ""))
