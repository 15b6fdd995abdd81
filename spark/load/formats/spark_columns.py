"""Decoding by Spark's own functions: `from_json` and `from_avro` in PERMISSIVE mode, and what they could not decode."""

from __future__ import annotations

from functools import partial
from typing import Any

from headgate.spark.load.formats import avro_nulls
from headgate.spark.load.formats.debezium import decode_event, key_without_envelope
from headgate.spark.load.formats.decoding import AVRO, BYTES, DEBEZIUM, ERROR, JSON, NO_KEY, PREFIX_BYTES, RAW, Decoding
from headgate.spark.load.output.planning import LoadRefused

_CORRUPT = "_corrupt_record"


def decode(frame: Any, decoding: Decoding, *, needs_key: bool = False) -> Any:
    """The frame with `value` as a struct, and the columns of errors and of bytes. Raises LoadRefused.

    `needs_key`: a record without a key is an error too.
    """
    from pyspark.sql import functions as f

    value = f.col("value")
    payload = f.substring(value, PREFIX_BYTES + 1, 1 << 30) if decoding.is_confluent else value
    ways = {RAW: _raw, JSON: _json, AVRO: _avro, DEBEZIUM: _debezium}
    decoded, error = ways[decoding.format](frame.sparkSession, decoding, payload)
    if decoding.is_confluent:
        is_cut = (f.length(value) < PREFIX_BYTES) | (f.hex(f.substring(value, 1, 1)) != "00")
        error = f.when(is_cut, f.lit("the value lacks the five bytes before Confluent's formats")).otherwise(error)
    error = f.when(value.isNotNull(), error)
    if needs_key:
        is_record = f.col("offset").isNotNull()
        error = f.when(is_record & f.col("key").isNull(), f.lit(NO_KEY)).otherwise(error)
    key = key_without_envelope(f.col("key")) if decoding.format == DEBEZIUM else f.col("key")
    inner = frame.withColumn("_decoded", decoded).withColumn(ERROR, error)
    is_right = f.col(ERROR).isNull()
    rest = [name for name in frame.columns if name not in ("key", "value")]
    return inner.select(
        key.alias("key"),
        f.when(is_right & value.isNotNull(), f.col("_decoded")).alias("value"),
        *rest,
        ERROR,
        f.when(~is_right, value).alias(BYTES),
    )


def _raw(_: Any, __: Decoding, payload: Any) -> tuple[Any, Any]:
    from pyspark.sql import functions as f

    return payload, f.lit(None).cast("string")


def _debezium(session: Any, decoding: Decoding, payload: Any) -> tuple[Any, Any]:
    return decode_event(payload, partial(_json, session, decoding) if decoding.schema else None)


def _json(session: Any, decoding: Decoding, payload: Any) -> tuple[Any, Any]:
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructType

    try:
        schema = session.createDataFrame([], decoding.schema).schema if decoding.schema.strip() else StructType()
    except (PySparkException, ValueError) as problem:
        raise LoadRefused(f"the schema is no DDL of Spark, as in 'id BIGINT, name STRING': {problem}") from None
    if not schema.fields or _CORRUPT in schema.names:
        raise LoadRefused(f"the schema needs a field, and none with the name {_CORRUPT}")
    text = payload.cast("string")
    both = StructType([*schema.fields]).add(_CORRUPT, StringType())
    parsed = f.from_json(text, both, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})
    decoded = f.when(parsed.isNotNull(), f.struct(*(parsed[name].alias(name) for name in schema.names)))
    error = f.when(~f.is_valid_utf8(text), f.lit("the value is no UTF-8")).when(
        parsed.isNull() | parsed[_CORRUPT].isNotNull(), f.lit("the value is no JSON object of the schema")
    )
    return decoded, error


def _avro(_: Any, decoding: Decoding, payload: Any) -> tuple[Any, Any]:
    from pyspark.sql import functions as f

    if not decoding.is_confluent:
        return _avro_of(payload, decoding.schema, decoding.schema)
    number = f.conv(f.hex(f.substring(f.col("value"), 2, 4)), 16, 10).cast("long")
    decoded = error = None
    for schema_id, schema in sorted(decoding.schemas.items()):
        value, wrong = _avro_of(payload, schema, decoding.schema)
        is_this = number == schema_id
        decoded = f.when(is_this, value) if decoded is None else decoded.when(is_this, value)
        error = f.when(is_this, wrong) if error is None else error.when(is_this, wrong)
    assert error is not None, "a folder or a registry has a schema"
    return decoded, error.otherwise(f.concat(f.lit("there is no schema with id "), number.cast("string")))


def _avro_of(payload: Any, writer: str, reader: str) -> tuple[Any, Any]:
    """Decoded and error for values of one writer's schema, decoded as the reader's schema has it."""
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro

    options = {"mode": "PERMISSIVE"}
    decoded = from_avro(payload, writer, {**options, "avroSchema": reader})
    as_written = decoded if writer == reader else from_avro(payload, writer, options)
    schema = avro_nulls.parse(writer, "a writer's schema")
    is_null = f.lit(True)
    for field in schema["fields"]:
        is_null &= as_written[field["name"]].isNull()
    nulls = avro_nulls.null_bytes(schema)
    if nulls is not None:
        is_null &= payload != f.lit(nulls)
    return decoded, f.when(as_written.isNull() | is_null, f.lit("the value is no Avro record of the schema"))
