"""Schemas by id: from a folder with a file `<id>.avsc` for each, or from a schema registry over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from urllib import parse

from headgate.spark.load.output.planning import LoadRefused
from headgate.tools.schema_registry import AVRO, SchemaError, SchemaFolder, SchemaRegistry, open_source


def read_schemas(where: str, topics: Iterable[str]) -> dict[int, str]:
    """The Avro schemas of the topics' values by id. Raises LoadRefused."""
    try:
        source = open_source(where)
        found = source.all_by_id() if isinstance(source, SchemaFolder) else {}
        if isinstance(source, SchemaRegistry):
            found = _from_registry(source, where.rstrip("/"), topics)
    except SchemaError as error:
        raise LoadRefused(str(error)) from None
    if not found:
        raise LoadRefused(f"{where} has no Avro schema for these topics")
    return found


def _from_registry(registry: SchemaRegistry, address: str, topics: Iterable[str]) -> dict[int, str]:
    found = {}
    for topic in topics:
        subject = f"subjects/{parse.quote(f'{topic}-value', safe='')}/versions"
        for version in registry.ask(subject):
            row = registry.ask(f"{subject}/{int(version)}")
            if row.get("schemaType", AVRO) != AVRO:
                raise LoadRefused(f"{address}/{subject}/{version} is of type {row['schemaType']}, not Avro")
            if row.get("references"):
                raise LoadRefused(
                    f"{address}/{subject}/{version} refers to other schemas; give a folder with whole schemas"
                )
            found[int(row["id"])] = str(row["schema"])
    return found
