"""Schemas by id: from a folder with a file `<id>.avsc` for each, or from a schema registry over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib import error, parse, request

from headgate.spark.load.output.planning import LoadRefused

_TIMEOUT_S = 30
_MOST_BYTES = 16 << 20


def read_schemas(where: str, topics: Iterable[str]) -> dict[int, str]:
    """The Avro schemas of the topics' values by id. Raises LoadRefused."""
    found = _from_registry(where.rstrip("/"), topics) if where.startswith(("http://", "https://")) else _folder(where)
    if not found:
        raise LoadRefused(f"{where} has no Avro schema for these topics")
    return found


def _folder(where: str) -> dict[int, str]:
    path = Path(where)
    if not path.is_dir():
        raise LoadRefused(
            f"{where} is neither a folder with files <id>.avsc nor the address of a registry (http://...)"
        )
    return {int(file.stem): file.read_text() for file in sorted(path.glob("*.avsc")) if file.stem.isdecimal()}


def _from_registry(address: str, topics: Iterable[str]) -> dict[int, str]:
    found = {}
    for topic in topics:
        subject = f"{address}/subjects/{parse.quote(f'{topic}-value', safe='')}/versions"
        for version in _ask(subject):
            row = _ask(f"{subject}/{int(version)}")
            if row.get("schemaType", "AVRO") != "AVRO":
                raise LoadRefused(f"{subject}/{version} is of type {row['schemaType']}, not Avro")
            if row.get("references"):
                raise LoadRefused(f"{subject}/{version} refers to other schemas; give a folder with whole schemas")
            found[int(row["id"])] = str(row["schema"])
    return found


def _ask(address: str) -> Any:
    try:
        with request.urlopen(address, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - the caller checks for http
            return json.loads(answer.read(_MOST_BYTES))
    except (error.URLError, OSError, ValueError) as failure:
        reason = getattr(failure, "reason", failure)
        raise LoadRefused(f"the schema registry does not answer {address}: {reason}") from None
