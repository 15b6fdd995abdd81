"""Change events of Debezium in JSON, with or without the envelope of a schema, as rows and deletions.

    {"op": "u", "before": {...}, "after": {"id": 1, "name": "x"}, "source": {...}, "ts_ms": ...}
    {"schema": {...}, "payload": {"op": "u", ...}}

    c, r, u     the row is `after`
    d           the row is gone: a null value, as a tombstone is
    others      truncation, messages: no change of one row, rejected

Without a schema a row is the text of `after`; with one, a struct. A key is the text of its payload without the
envelope, so a converter's setting may change meanwhile; a key that is no JSON stays as it is.

Source: Debezium's documentation, "Change events" of its connectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ROW_OPERATIONS = ("c", "r", "u")
DELETE = "d"
_CORRUPT = "_corrupt_record"
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}

DecodeRow = Callable[[Any], tuple[Any, Any]]


def decode_event(payload: Any, decode_row: DecodeRow | None) -> tuple[Any, Any]:
    """The row after the change, null for a deletion, and the error. `decode_row`: of the text in `after`."""
    from pyspark.sql import functions as f

    text = payload.cast("string")
    outer = f.from_json(text, f"payload STRING, op STRING, after STRING, {_CORRUPT} STRING", _OPTIONS)
    inner = f.from_json(outer["payload"], "op STRING, after STRING", {"mode": "PERMISSIVE"})
    is_wrapped = outer["op"].isNull() & outer["payload"].isNotNull()
    operation = f.when(is_wrapped, inner["op"]).otherwise(outer["op"])
    after = f.when(is_wrapped, inner["after"]).otherwise(outer["after"])
    row, row_error = decode_row(after) if decode_row is not None else (after, f.lit(None).cast("string"))
    is_row = operation.isin(*ROW_OPERATIONS)
    error = (
        f.when(~f.is_valid_utf8(text), f.lit("the value is no UTF-8"))
        .when(outer.isNull() | outer[_CORRUPT].isNotNull(), f.lit("the value is no JSON object"))
        .when(operation.isNull(), f.lit("the value is no change event of Debezium: it has no op"))
        .when(operation == DELETE, f.lit(None))
        .when(~is_row, f.concat(f.lit("the op "), operation, f.lit(" is no change of one row")))
        .when(after.isNull(), f.concat(f.lit("the op "), operation, f.lit(" has no after")))
        .otherwise(row_error)
    )
    return f.when(is_row, row), error


def key_without_envelope(key: Any) -> Any:
    """The bytes of a key's payload, in one form of JSON."""
    from pyspark.sql import functions as f

    text = key.cast("string")
    has_schema = f.get_json_object(text, "$.schema").isNotNull()
    payload = f.when(has_schema, f.get_json_object(text, "$.payload"))
    plain = f.when(f.is_valid_utf8(text) & text.startswith("{"), f.get_json_object(text, "$"))
    return f.coalesce(f.when(text.startswith("{"), payload).cast("binary"), plain.cast("binary"), key)
