"""The decoding that a user asks for, with its schemas read from files and registries."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from headgate.spark.load.formats import avro_nulls
from headgate.spark.load.formats.decoding import AVRO, DEBEZIUM, JSON, PROTOBUF, RAW, Decoding
from headgate.spark.load.formats.registry import read_schemas
from headgate.tools.output import UsageError

_NEEDS = {
    JSON: "--schema file, with Spark's DDL as in 'id BIGINT, name STRING'",
    AVRO: "--schema file.avsc, or --schemas folder|http://registry for values with Confluent's prefix",
    PROTOBUF: "--schema file, of protoc --include_imports --descriptor_set_out=file, and --message package.Name",
}


def choose(
    name: str,
    topics: Sequence[str],
    *,
    schema: str | None = None,
    schemas: str | None = None,
    message: str | None = None,
    is_confluent: bool = False,
    reject_limit: int = 0,
) -> Decoding:
    """The decoding for the options of a command. `schema`: a file. Raises UsageError, LoadRefused."""
    given = {"--schema": schema, "--schemas": schemas, "--message": message, "--confluent": is_confluent}
    allowed = {
        RAW: set(),
        JSON: {"--schema", "--confluent"},
        AVRO: {"--schema", "--schemas"},
        PROTOBUF: {"--schema", "--message", "--confluent"},
        DEBEZIUM: {"--schema"},
    }[name]
    surplus = [option for option, value in given.items() if value and option not in allowed]
    if surplus:
        raise UsageError(
            f"--format {name} takes no {', '.join(surplus)}; it takes {', '.join(sorted(allowed)) or 'none'}"
        )
    if name == RAW:
        return Decoding()
    if name == DEBEZIUM and not schema:
        return Decoding(name, reject_limit=reject_limit)
    if not (schema or schemas) or (name == PROTOBUF and not message):
        raise UsageError(f"--format {name} needs {_NEEDS[name]}")
    if name == AVRO:
        return _avro(topics, schema, schemas, reject_limit)
    content = _read(schema or "")
    if name == PROTOBUF:
        from headgate.spark.load.formats.protobuf_values import python_decoder

        decoding = Decoding(name, base64.b64encode(content).decode(), is_confluent, {}, message or "", reject_limit)
        python_decoder(decoding)  # raises LoadRefused if the file is no descriptor set of this message
        return decoding
    return Decoding(name, content.decode(errors="replace").strip(), is_confluent, reject_limit=reject_limit)


def _avro(topics: Sequence[str], schema: str | None, schemas: str | None, reject_limit: int) -> Decoding:
    """With schemas by id, the reader's schema is the given one, or the one with the highest id."""
    by_id = read_schemas(schemas, topics) if schemas else {}
    for number, text in by_id.items():
        avro_nulls.parse(text, f"schema {number}")
    reader = _read(schema).decode(errors="replace") if schema else by_id[max(by_id)]
    avro_nulls.parse(reader, schema or "the newest schema")
    return Decoding(AVRO, reader, bool(schemas), by_id, reject_limit=reject_limit)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"--schema {path}: {error.strerror}") from None
