"""A row as JSON."""

from __future__ import annotations

import json

from headgate.protocol.census.row_fields import row_fields
from headgate.protocol.census.rows import CensusClient, CensusRow, VersionUse

CLIENT = CensusClient("User:a", "app", None, None, "192.0.2.1", "SSL")


def test_a_row_has_versions_by_api_and_a_verdict() -> None:
    uses = [VersionUse(1, 4, 7, 300, 900), VersionUse(0, 3, 5, 100, 300), VersionUse(1, 2, 10, 200, 800)]
    fields = row_fields(CensusRow((1, 2), CLIENT, uses), "4.1")
    verdict = fields.pop("kafka")
    assert (verdict["release"], verdict["breaks"], len(verdict["refused"])) == ("4.1", True, 1)
    assert fields == {
        **CLIENT._asdict(),
        "node_ids": [1, 2],
        "first_ms": 100,
        "last_ms": 900,
        "requests": 22,
        "apis": [
            {"api": "Produce", "versions": [{"version": 3, "requests": 5, "first_ms": 100, "last_ms": 300}]},
            {
                "api": "Fetch",
                "versions": [
                    {"version": 2, "requests": 10, "first_ms": 200, "last_ms": 800},
                    {"version": 4, "requests": 7, "first_ms": 300, "last_ms": 900},
                ],
            },
        ],
    }
    assert json.loads(json.dumps(fields)) == fields
