"""The bytes of an Avro value whose fields are all null.

`from_avro` makes such a row also of bytes that it cannot decode, so only these bytes distinguish the two.
"""

from __future__ import annotations

import json
from typing import Any

from headgate.spark.load.output.planning import LoadRefused


def parse(schema: str, where: str) -> Any:
    """An Avro schema as JSON. Raises LoadRefused."""
    try:
        found = json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise LoadRefused(f"{where} is no Avro schema in JSON: {error}") from None
    if not isinstance(found, dict) or found.get("type") != "record":
        raise LoadRefused(f"{where}: the schema of a value is a record, as in {{'type': 'record', ...}}")
    return found


def null_bytes(schema: Any) -> bytes | None:
    """The one encoding of a record of nulls; None if a field cannot be null."""
    encoded = bytearray()
    for field in schema.get("fields", []):
        kind = field["type"]
        if kind == "null":
            continue
        if not isinstance(kind, list) or "null" not in kind:
            return None
        encoded.append(kind.index("null") << 1)  # a zigzag varint: unions have fewer than 64 branches
    return bytes(encoded)
