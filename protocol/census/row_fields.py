"""A row of the census as JSON: of `/v1/census.json`, and of `headgate census --json`."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from headgate.protocol.census.rows import CensusRow
from headgate.protocol.census.verdicts import KafkaVerdict, judge, name_of, verdict_fields


def verdict_of(row: CensusRow, release: str) -> KafkaVerdict:
    """What the client of a row would meet on a release of Kafka."""
    return judge(((use.api_key, use.version) for use in row.uses), release)


def row_fields(row: CensusRow, release: str) -> dict[str, Any]:
    """A row, with the verdict for a release of Kafka."""
    return {
        **row.client._asdict(),
        "node_ids": list(row.node_ids),
        "first_ms": row.first_ms,
        "last_ms": row.last_ms,
        "requests": row.requests,
        "apis": [
            {
                "api": name_of(api_key),
                "versions": [
                    {
                        "version": use.version,
                        "requests": use.requests,
                        "first_ms": use.first_ms,
                        "last_ms": use.last_ms,
                    }
                    for use in of_api
                ],
            }
            for api_key, of_api in groupby(sorted(row.uses), key=lambda use: use.api_key)
        ],
        "kafka": verdict_fields(verdict_of(row, release)),
    }
